//! Names of headers that say nothing of where the program lies.

use std::fmt::Write as _;

/// Appends `name` to `label`, part by part, as letters that mean nothing to anybody: no quotes, no backslashes, no way
/// upwards. Two names stay two.
pub(super) fn push(label: &mut String, name: &str) {
    for (place, part) in name.trim_start_matches('/').split('/').enumerate() {
        if place > 0 {
            label.push('/');
        }
        match part {
            "" => label.push_str("~none"),
            "." => label.push_str("~here"),
            ".." => label.push_str("~up"),
            _ => part.bytes().for_each(|byte| push_byte(label, byte)),
        }
    }
}

/// A tilde with two upper-case digits stands for a byte, one with lower-case letters for a part.
fn push_byte(label: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"._-+".contains(&byte) {
        label.push(char::from(byte));
    } else {
        // Writing to a string cannot fail.
        let _ = write!(label, "~{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(name: &str) -> String {
        let mut label = String::from("include0/");
        push(&mut label, name);
        label
    }

    #[test]
    fn odd_names_become_plain_ones() {
        assert_eq!(label("a/b-1.cuh"), "include0/a/b-1.cuh");
        assert_eq!(label("../a b.h"), "include0/~up/a~20b.h");
        assert_eq!(label("/x//./y"), "include0/x/~none/~here/y");
        assert_eq!(label("ü\"\\"), "include0/~C3~BC~22~5C");
    }

    #[test]
    fn two_names_stay_two() {
        let names = ["..", "~up", ".", "", "~", "~7E", "a b", "a~20b", "~none", "...", "./", "~here"];
        for (place, one) in names.iter().enumerate() {
            for other in &names[place + 1..] {
                assert_ne!(label(one), label(other), "{one:?} {other:?}");
            }
        }
    }
}
