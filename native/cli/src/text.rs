//! Text that comes from a store: whoever wrote it may have meant the terminal.

use std::{borrow::Cow, fmt::Write as _, io, path::Path};

use serde_json::ser::{CompactFormatter, Formatter};

/// The text with everything written out that a terminal would obey and not show: control characters, and those that
/// turn the direction of the text or cannot be seen.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            char if is_hidden(char) => _ = write!(shown, "\\u{{{:x}}}", u32::from(char)),
            char => shown.push(char),
        }
    }
    Cow::Owned(shown)
}

/// A path likewise; what is not UTF-8 in it is replaced.
pub(crate) fn visible_path(path: &Path) -> String {
    visible(&path.to_string_lossy()).into_owned()
}

/// Bytes as text, if that is what they look like.
pub(crate) fn printable(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_text =
        !text.is_empty() && !text.chars().any(|char| is_hidden(char) && !matches!(char, '\n' | '\t'));
    is_text.then_some(text)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
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

/// JSON on one line, in which what a terminal would obey is escaped, too.
pub(crate) struct VisibleJson;

impl Formatter for VisibleJson {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !fragment.chars().any(is_hidden) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        for char in fragment.chars() {
            let mut buffer = [0; 2];
            if is_hidden(char) {
                for unit in char.encode_utf16(&mut buffer) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                write!(writer, "{char}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mb\u{9b}c\u{202e}d\u{e0041}\n\u{7f}é漢";

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible(HOSTILE), "a\\u{1b}[31mb\\u{9b}c\\u{202e}d\\u{e0041}\\n\\u{7f}é漢");
        assert_eq!(visible("-O2 \\ é"), "-O2 \\ é");
        assert_eq!((printable(HOSTILE.as_bytes()), printable(b"\xff"), printable(b"")), (None, None, None));
        assert_eq!(printable(b"two\nlines"), Some("two\nlines"));
    }

    #[test]
    fn json_keeps_the_text_and_shows_nothing_hidden() {
        let mut json = Vec::new();
        HOSTILE.serialize(&mut serde_json::Serializer::with_formatter(&mut json, VisibleJson)).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(!json.chars().any(is_hidden), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), HOSTILE);
    }
}
