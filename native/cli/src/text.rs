//! Text from a store, which may contain escape sequences for the terminal.

use std::{fmt::Write, path::Path};

use serde_json::Value;

/// Escapes all characters that a terminal would obey instead of showing: control characters, and those that change the
/// direction of the text or are invisible.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            char if is_hidden(char) => _ = write!(shown, "\\u{{{:x}}}", u32::from(char)),
            char => shown.push(char),
        }
    }
    shown
}

/// Escapes a path likewise; bytes that are not UTF-8 are replaced. Of a URL that was given for a path, only the scheme is shown: it may
/// hold a password.
pub(crate) fn visible_path(path: &Path) -> String {
    let shown = visible(&path.to_string_lossy());
    match shown.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…, which is no path,"),
        None => shown,
    }
}

/// Returns bytes as text if they are printable, otherwise their first hexadecimal digits.
pub(crate) fn visible_bytes(bytes: &[u8]) -> String {
    const MOST: usize = 32;
    let is_shown = |char| !is_hidden(char) || matches!(char, '\n' | '\t');
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(is_shown) => visible(text),
        _ if bytes.len() > MOST => format!("{}…", hex(&bytes[..MOST])),
        _ => hex(bytes),
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shortens a name to enough digits to tell apart the entries of a store, or the models of a file of packed weights.
pub(crate) fn short(name: &str) -> &str {
    &name[..12]
}

fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Returns JSON on one line, with the characters escaped that a terminal would obey. They only occur in strings.
pub(crate) fn visible_json(value: &Value) -> String {
    let json = value.to_string();
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        if is_hidden(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(char);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mb\u{9b}c\u{202e}d\u{e0041}\n\u{7f}é漢";

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible(HOSTILE), "a\\u{1b}[31mb\\u{9b}c\\u{202e}d\\u{e0041}\\n\\u{7f}é漢");
        assert_eq!(visible("-O2 \\ é"), "-O2 \\ é");
        assert_eq!(
            (visible_bytes(b"a\x1b"), visible_bytes(b"\xff"), visible_bytes(b"")),
            ("611b".into(), "ff".into(), String::new())
        );
        assert_eq!(visible_bytes(b"two\nlines"), "two\\nlines");
        assert_eq!(visible_bytes(&[0xff; 33]), "ff".repeat(32) + "…");
    }

    #[test]
    fn json_keeps_the_text_and_shows_nothing_hidden() {
        let json = visible_json(&HOSTILE.into());
        assert!(!json.chars().any(is_hidden), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), HOSTILE);
    }
}
