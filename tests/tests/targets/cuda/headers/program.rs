//! Programs with headers, laid out in a directory, and what must hold of each.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use warmstart::target::cuda::{
    self, OptionName,
    headers::{Closed, FoundHeaders, HeaderError, Headers},
};

use super::{nvrtc::Nvrtc, opened::opened};

pub(crate) const KERNEL: &str = "\nextern \"C\" __global__ void kernel(int *x) { x[0] = A; }\n";

/// A program in a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) root: PathBuf,
    pub(crate) source: String,
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) given: Vec<(String, String)>,
    pub(crate) definitions: Vec<String>,
    pub(crate) no_source_include: bool,
    /// Whether the compiler may read fewer files than we do.
    pub(crate) is_conditional: bool,
    /// Files that the compiler opens although it is only asked whether they are there.
    pub(crate) asked: BTreeSet<PathBuf>,
    /// Whether it names where it lies.
    pub(crate) is_fixed: bool,
    /// Whether it does not compile.
    pub(crate) fails: bool,
    /// Whether the compiler comes to an include of a macro, and then is given nothing there.
    pub(crate) is_untold: bool,
    /// The part of the error text that says it is refused.
    pub(crate) refused: Option<String>,
}

impl Program {
    /// Lays out what `text` describes, in lines:
    /// `== PATH` begins a file and `== PATH given` a header that is given as a text; `k.cu` is the program.
    /// `!! WHAT ..` says anything else. `$ROOT` is the directory, `^M` a carriage return, and `^D` ends a text.
    pub(crate) fn lay_out(root: &Path, text: &str) -> Self {
        let mut program = Self { root: root.to_path_buf(), ..Self::default() };
        fs::create_dir_all(root.join("src")).unwrap();
        let mut files: Vec<(String, String)> = Vec::new();
        let mut links = Vec::new();
        for line in text.trim_start_matches('\n').split_inclusive('\n') {
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words {
                ["==", name, "given"] => files.push((format!("given:{name}"), String::new())),
                ["==", ..] => files.push((line[3..].trim_end().into(), String::new())),
                ["!!", "asks", ref paths @ ..] => {
                    program.asked = paths.iter().map(|path| root.join(path)).collect();
                }
                ["!!", "conditional"] => program.is_conditional = true,
                ["!!", "untold"] => program.is_untold = true,
                ["!!", "fails"] => program.fails = true,
                ["!!", "refused", ..] => program.refused = Some(words[2..].join(" ")),
                ["!!", "no-source-include"] => program.no_source_include = true,
                ["!!", "define", definition] => program.definitions.push(definition.into()),
                ["!!", "directory", path] => fs::create_dir_all(root.join(path)).unwrap(),
                ["!!", "link", to, from] => links.push((to, from)),
                ["!!", "includes", ref directories @ ..] => {
                    program.includes = directories.iter().map(|directory| root.join(directory)).collect();
                }
                ["!!", ..] => panic!("{line}"),
                _ => files.last_mut().unwrap().1.push_str(line),
            }
        }
        if program.includes.is_empty() {
            program.includes = ["i0", "i1", "i2"].map(|directory| root.join(directory)).into();
        }
        for directory in program.includes.iter().filter(|directory| !directory.ends_with("none")) {
            fs::create_dir_all(directory).unwrap();
        }
        for (path, text) in files {
            let text = text.replace("$ROOT", root.to_str().unwrap()).replace("^M", "\r");
            let text = text.split_once("^D").map_or(text.as_str(), |(text, _)| text);
            program.is_fixed |= text.contains(root.to_str().unwrap());
            match path.strip_prefix("given:") {
                Some(name) => program.given.push((name.into(), text.into())),
                None if path == "k.cu" => program.source = format!("{text}{KERNEL}"),
                None => {
                    fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
                    fs::write(root.join(path), text).unwrap();
                }
            }
        }
        for (to, from) in links {
            fs::create_dir_all(root.join(from).parent().unwrap()).unwrap();
            symlink(to.replace("$ROOT", root.to_str().unwrap()), root.join(from)).unwrap();
        }
        program
    }

    /// The same program, moved to another directory.
    pub(crate) fn moved(&self, root: &Path) -> Self {
        let includes =
            self.includes.iter().map(|directory| root.join(directory.strip_prefix(&self.root).unwrap()));
        Self { root: root.to_path_buf(), includes: includes.collect(), ..self.clone() }
    }

    /// The same program as the target describes it.
    pub(crate) fn described(&self) -> cuda::Program {
        let program = cuda::Program::cxx("k.cu", self.source.as_str())
            .source_dir(self.root.join("src"))
            .option(OptionName::NoSourceInclude, self.no_source_include)
            .option(OptionName::DefineMacro, self.definitions.clone());
        let program = self.given.iter().fold(program, |program, (name, text)| program.header(name, text));
        self.includes.iter().fold(program, cuda::Program::include_dir)
    }

    pub(crate) fn found(&self) -> Result<FoundHeaders, HeaderError> {
        Headers::default().found(&self.described())
    }

    pub(crate) fn closed(&self) -> Result<(Closed, FoundHeaders), HeaderError> {
        Headers::default().closed(&self.described())
    }

    /// Compiles the program with NVRTC alone, and returns the files that it opens.
    pub(crate) fn compile_plainly(&self, nvrtc: &Nvrtc) -> (Result<Vec<u8>, String>, BTreeSet<PathBuf>) {
        let given: Vec<_> =
            self.given.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes())).collect();
        let mut options = self.options();
        options.extend(self.includes.iter().map(|directory| format!("-I{}", directory.display())));
        if self.no_source_include {
            options.push("-no-source-include".into());
        }
        let name = self.root.join("src/k.cu");
        opened(&self.root, || nvrtc.ptx(name.to_str().unwrap(), self.source.as_bytes(), &given, &options))
    }

    /// Compiles the closed texts with NVRTC, and returns the files that it opens.
    pub(crate) fn compile_closed(
        &self,
        nvrtc: &Nvrtc,
        closed: &Closed,
    ) -> (Result<Vec<u8>, String>, BTreeSet<PathBuf>) {
        let mut options = self.options();
        options.push("-no-source-include".into());
        opened(&self.root, || nvrtc.ptx("k.cu", &closed.source, &closed.headers, &options))
    }

    fn options(&self) -> Vec<String> {
        self.definitions.iter().map(|definition| format!("-D{definition}")).collect()
    }

    /// The files that were found.
    pub(crate) fn files(&self, found: &FoundHeaders) -> BTreeSet<PathBuf> {
        let labels = found.headers.iter().filter(|(label, _)| !label.starts_with("given/"));
        labels.map(|(label, _)| fs::canonicalize(self.path_of(label)).unwrap()).collect()
    }

    fn path_of(&self, label: &str) -> PathBuf {
        // Of what stands for a byte, only what the corpus has.
        let odd = [
            ("up", ".."),
            ("here", "."),
            ("20", " "),
            ("27", "'"),
            ("22", "\""),
            ("5C", "\\"),
            ("C3~BC", "ü"),
        ];
        let label = label.split("~v").next().unwrap();
        let label =
            odd.iter().fold(label.to_owned(), |label, (code, text)| label.replace(&format!("~{code}"), text));
        let label = label.replace("~7E", "~");
        let (kind, rest) = label.split_once('/').unwrap();
        match kind.strip_prefix("include") {
            Some(number) => self.includes[number.parse::<usize>().unwrap()].join(rest),
            None if kind == "source" => self.root.join("src").join(rest),
            None => Path::new("/").join(rest),
        }
    }
}
