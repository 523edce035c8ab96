//! Arguments of ptxas that would reach files.

use alloc::format;

use super::refusal::Refusal;

/// What begins the arguments that name a file.
const FILES: [&str; 3] = ["-o", "--output-file", "--options-file"];

/// Checks one text of arguments: blanks and commas separate them.
pub(crate) fn check(option: &'static str, text: &str) -> Result<(), Refusal> {
    let words = text.split(|c: char| c.is_ascii_whitespace() || c == ',');
    words.filter(|word| !word.is_empty()).try_for_each(|word| check_word(option, word))
}

fn check_word(option: &'static str, word: &str) -> Result<(), Refusal> {
    let refused = |why: &str| Err(Refusal::unsupported(option, format!("{word:?} {why}")));
    if !word.starts_with('-') {
        return refused("would be read as a file; write a value behind its option and \"=\"");
    }
    if FILES.iter().any(|file| word.starts_with(file)) {
        return refused("reads or writes a file that the key does not know; leave it out");
    }
    if word.contains(['/', '\\', '@', '"', '\'']) {
        return refused("could name a file that the key does not know; leave it out");
    }
    Ok(())
}
