//! `header PACKAGE`: prints the C header of the package in folder `PACKAGE`, as the program `cbindgen` does.

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let package = env::args_os().nth(1).map(PathBuf::from).ok_or("usage: header PACKAGE")?;
    let mut header = Vec::new();
    cbindgen::generate(package)?.write(&mut header);
    print!("{}", without_safety(&String::from_utf8_lossy(&header)));
    Ok(())
}

/// Removes the `# Safety` sections, which only Rust's lints ask for: a C caller expects pointers to match their types.
fn without_safety(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut skips = false;
    for line in header.lines() {
        match line.trim() {
            "* # Safety" => {
                skips = true;
                // The empty line before it.
                kept.pop_if(|line| line.trim() == "*");
            }
            "*/" => skips = false,
            _ => {}
        }
        if !skips {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safety_sections_are_removed_and_nothing_else() {
        let header =
            "/**\n * Does it.\n *\n * # Safety\n * Be careful.\n */\nvoid f(void);\n/**\n * More.\n */\n";
        assert_eq!(without_safety(header), "/**\n * Does it.\n */\nvoid f(void);\n/**\n * More.\n */\n");
    }
}
