//! The memory of a process, as Linux reports it; elsewhere nothing is reported.

use std::{fs, path::Path};

/// The mappings of one file in one process, in bytes but for the number of mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMappings {
    /// The number of mappings.
    pub count: u64,
    /// The part that is in memory.
    pub resident: u64,
    /// The same, each page divided by how many map it.
    pub proportional: u64,
    /// The part that was written to and is not on the medium yet.
    pub dirty: u64,
    /// The part that is no page of the file any more.
    pub anonymous: u64,
}

/// The mappings of a file in this process, or in another of this user.
#[must_use]
pub fn of_file(process: Option<u32>, file: &Path) -> Option<FileMappings> {
    let text = fs::read_to_string(place(process, "smaps")).ok()?;
    // Paths are shown as they were found when the file was opened.
    Some(parse(&text, &file.canonicalize().ok()?.to_string_lossy()))
}

/// The memory of this process, or of another of this user, that is of no file: heap, stacks, and copies of pages.
#[must_use]
pub fn anonymous(process: Option<u32>) -> Option<u64> {
    // The numbers of `status` are out of date by up to 64 pages a processor.
    let sums = fs::read_to_string(place(process, "smaps_rollup")).ok()?;
    sums.lines().find_map(|line| kibibytes(line, "Anonymous:"))
}

fn place(process: Option<u32>, file: &str) -> String {
    process.map_or_else(|| format!("/proc/self/{file}"), |process| format!("/proc/{process}/{file}"))
}

fn parse(text: &str, file: &str) -> FileMappings {
    let mut found = FileMappings::default();
    let mut is_of_file = false;
    for line in text.lines() {
        // A mapping begins with its addresses, and ends with the path; its numbers follow.
        if line.as_bytes().first().is_some_and(|byte| !byte.is_ascii_uppercase()) {
            is_of_file = line.split_whitespace().nth(5).is_some() && line.ends_with(file);
            found.count += u64::from(is_of_file);
        }
        if !is_of_file {
            continue;
        }
        let fields = [
            (&mut found.resident, &["Rss:"][..]),
            (&mut found.proportional, &["Pss:"]),
            (&mut found.dirty, &["Shared_Dirty:", "Private_Dirty:"]),
            (&mut found.anonymous, &["Anonymous:"]),
        ];
        for (sum, names) in fields {
            *sum += names.iter().find_map(|name| kibibytes(line, name)).unwrap_or(0);
        }
    }
    found
}

/// The number of a line such as `Rss:  12 kB`, in bytes.
fn kibibytes(line: &str, name: &str) -> Option<u64> {
    let number = line.strip_prefix(name)?.trim().strip_suffix("kB")?;
    Some(number.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7f0000000000-7f0000100000 r--s 00000000 fe:00 12  /tmp/other.xpwc
Rss:                1024 kB
Pss:                1024 kB
7f0000100000-7f0000200000 rw-s 00000000 fe:00 13  /tmp/weights.xpwc
Size:               1024 kB
Rss:                 512 kB
Pss:                 128 kB
Pss_Dirty:            64 kB
Shared_Dirty:          8 kB
Private_Dirty:         4 kB
Anonymous:             0 kB
VmFlags: rd sh mr mw me ms sd
7f0000200000-7f0000300000 r--s 00100000 fe:00 13  /tmp/weights.xpwc
Rss:                 100 kB
Pss:                  50 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]
Rss:                  12 kB
";

    #[test]
    fn what_is_of_the_file_is_summed_and_nothing_else() {
        let expected = FileMappings {
            count: 2,
            resident: 612 << 10,
            proportional: 178 << 10,
            dirty: 12 << 10,
            anonymous: 0,
        };
        assert_eq!(parse(TEXT, "/tmp/weights.xpwc"), expected);
        assert_eq!(parse(TEXT, "/tmp/none.xpwc"), FileMappings::default());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_is_touched_is_counted() {
        let before = anonymous(None).unwrap();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = anonymous(None).unwrap();
        drop(touched);
        assert!(after.saturating_sub(before) > 60 << 20, "{before} {after}");
    }
}
