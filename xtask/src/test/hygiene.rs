//! What no compiler sees: the size of tracked files, and the promises of the core's first lines.

use std::{fs, path::Path};

use crate::process::{Failure, Invocation, workspace_root};

/// The largest file that the repository tracks, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The lines without which the core is not what it says it is.
const CORE_PROMISES: [&str; 2] = ["#![no_std]", "#![forbid(unsafe_code)]"];

/// Everything that is wrong, a line each.
pub(super) fn inspect() -> Result<Vec<String>, Failure> {
    let root = workspace_root();
    let mut wrong = missing_promises(&read(&root.join("core/src/lib.rs"))?);
    if root.join(".git").exists() {
        wrong.extend(large_files(&root, &tracked_files()?));
    } else {
        println!("not a git checkout: the sizes of tracked files are not looked at");
    }
    Ok(wrong)
}

fn missing_promises(core: &str) -> Vec<String> {
    let missing = CORE_PROMISES.iter().filter(|promise| !core.lines().any(|line| line == **promise));
    missing.map(|promise| format!("core/src/lib.rs does not say {promise}")).collect()
}

fn large_files(root: &Path, tracked: &[String]) -> Vec<String> {
    // One that is tracked and not there was just removed, which is fine.
    let sizes =
        tracked.iter().filter_map(|path| Some((path, fs::symlink_metadata(root.join(path)).ok()?.len())));
    sizes
        .filter(|(_, size)| *size > MAX_FILE)
        .map(|(path, size)| format!("{path} is {size} bytes long; at most {MAX_FILE} are tracked"))
        .collect()
}

fn tracked_files() -> Result<Vec<String>, Failure> {
    // The checkout may belong to another user than the one who runs the tests, as in a container.
    let listed = Invocation::new("git -c safe.directory=* ls-files -z").output()?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_made_only_sometimes_is_none() {
        assert_eq!(missing_promises("#![no_std]\n#![forbid(unsafe_code)]\n"), [""; 0]);
        let weaker = "#![cfg_attr(not(test), no_std)]\n//! #![no_std]\n#![deny(unsafe_code)]\n";
        assert_eq!(missing_promises(weaker).len(), 2);
    }

    #[test]
    fn a_file_above_the_limit_is_named() {
        let root = workspace_root().join("target/hygiene-test");
        fs::create_dir_all(&root).unwrap();
        fs::File::create(root.join("fits")).unwrap().set_len(MAX_FILE).unwrap();
        fs::File::create(root.join("large")).unwrap().set_len(MAX_FILE + 1).unwrap();
        let wrong = large_files(&root, &["fits".to_owned(), "large".to_owned(), "gone".to_owned()]);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(wrong, ["large is 1048577 bytes long; at most 1048576 are tracked"]);
    }
}
