//! What a compiler tells about itself when it is asked to be verbose.

/// What a compiler tells under `-v`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) search: Vec<String>,
    pub(super) missing: Vec<String>,
    /// Files that configure it.
    pub(super) files: Vec<String>,
    /// Where it looks for such files.
    pub(super) configured_in: Vec<String>,
    /// The programs that it turns out to be, when it is run by a script or another program.
    pub(super) drivers: Vec<String>,
    /// The options that reach it.
    pub(super) options: String,
}

impl Told {
    pub(super) fn parse(text: &str) -> Self {
        let mut told = Self::default();
        let mut searching = false;
        for line in text.lines() {
            if line.starts_with("#include ") && line.ends_with("search starts here:") {
                searching = true;
            } else if line == "End of search list." {
                searching = false;
            } else if searching {
                let directory = line.trim();
                // Headers of frameworks are looked up in another way; they are then found nowhere in the list.
                if !directory.ends_with(" (framework directory)") {
                    told.search.push(String::from(directory));
                }
            } else if let Some(rest) = line.strip_prefix("ignoring nonexistent directory ") {
                told.missing.push(String::from(rest.trim_matches('"')));
            } else if let Some(file) =
                line.strip_prefix("Reading specs from ").or_else(|| line.strip_prefix("Configuration file: "))
            {
                told.files.push(String::from(file));
            } else if let Some(driver) = line.strip_prefix("COLLECT_GCC=") {
                told.drivers.push(String::from(driver));
            } else if let Some(options) = line.strip_prefix("COLLECT_GCC_OPTIONS=") {
                told.options = String::from(options);
            } else if let Some((driver, _)) = line
                .strip_prefix(" \"")
                .and_then(|line| line.split_once("\" -cc1 ").or_else(|| line.split_once("\" \"-cc1\"")))
            {
                told.drivers.push(String::from(driver));
            } else if let Some(directory) = line
                .strip_prefix("InstalledDir: ")
                .or_else(|| line.strip_prefix("System configuration file directory: "))
                .or_else(|| line.strip_prefix("User configuration file directory: "))
            {
                told.configured_in.push(String::from(directory));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_list_is_read_from_what_gcc_tells() {
        let told = Told::parse(
            "Reading specs from /usr/lib/specs\nignoring nonexistent directory \"/usr/local/include/x\"\n\
             #include \"...\" search starts here:\n#include <...> search starts here:\n /usr/lib/gcc/include\n \
             /usr/include\n /Frameworks (framework directory)\nEnd of search list.\n/not/this\n",
        );
        assert_eq!(told.search, ["/usr/lib/gcc/include", "/usr/include"]);
        assert_eq!(told.missing, ["/usr/local/include/x"]);
        assert_eq!(told.files, ["/usr/lib/specs"]);
    }
}
