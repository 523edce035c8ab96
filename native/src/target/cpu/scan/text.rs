//! A C file as the compiler reads it: without spliced lines and without comments.

/// The text that is left, and why it may not be what the compiler sees.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) code: Vec<u8>,
    /// What the compilers, or their standards, read in different ways.
    pub(super) doubtful: Option<&'static str>,
}

/// Reads `text`.
pub(super) fn read(text: &[u8]) -> Text {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let strange = if holds(text, b"??/") || holds(text, b"??=") {
        Some("it uses trigraphs")
    } else if text.contains(&0) || has_lone_return(text) {
        Some("it holds a NUL or a carriage return")
    } else {
        None
    };
    let mut text = without_comments(&without_splices(text));
    text.doubtful = strange.or(text.doubtful);
    text
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// clang ends a line there, and gcc does not.
fn has_lone_return(text: &[u8]) -> bool {
    text.iter().enumerate().any(|(place, byte)| *byte == b'\r' && text.get(place + 1) != Some(&b'\n'))
}

/// Joins lines that end in a backslash. Blanks may follow the backslash.
fn without_splices(text: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' {
            let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\x0B' | b'\x0C');
            let blanks = after.iter().take_while(is_blank).count();
            if after.get(blanks) == Some(&b'\n') {
                rest = &after[blanks + 1..];
                continue;
            }
        }
        joined.push(byte);
    }
    joined
}

/// Replaces every comment by a blank. Strings stay, because assembly stands in them.
fn without_comments(text: &[u8]) -> Text {
    let mut code: Vec<u8> = Vec::with_capacity(text.len());
    let mut doubtful = None;
    let mut rest = text;
    // The quote that ends the string that is being read. None spans lines; an apostrophe in #error ends with its line.
    let mut string = None;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (string, byte) {
            (None, b'/') if after.starts_with(b"/") || after.starts_with(b"*") => {
                doubtful = doubtful.or_else(|| may_be_no_comment(&code));
                let end = if after.starts_with(b"/") {
                    after.iter().position(|byte| *byte == b'\n')
                } else {
                    after[1..].windows(2).position(|pair| pair == b"*/").map(|end| end + 3)
                };
                rest = &after[end.unwrap_or(after.len())..];
                code.push(b' ');
                continue;
            }
            (None, b'"' | b'\'') => {
                doubtful = doubtful.or_else(|| may_be_no_string(&code, byte));
                string = Some(byte);
            }
            (Some(_), b'\\') => {
                code.push(byte);
                if let Some((&escaped, after)) = after.split_first() {
                    code.push(escaped);
                    rest = after;
                }
                continue;
            }
            (Some(_), b'\n') => string = None,
            (Some(quote), _) if quote == byte => string = None,
            _ => {}
        }
        code.push(byte);
    }
    Text { code, doubtful }
}

/// Whether the quote behind `code` may end with something else than the next quote: it opens a raw string, which gcc
/// takes by default, or it separates digits, as C23 has it.
fn may_be_no_string(code: &[u8], quote: u8) -> Option<&'static str> {
    let start = code.iter().rposition(|byte| !is_word(*byte)).map_or(0, |place| place + 1);
    let word = &code[start..];
    if quote == b'"' && matches!(word, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") {
        return Some("it uses raw strings");
    }
    (quote == b'\'' && word.first().is_some_and(u8::is_ascii_digit))
        .then_some("it separates digits by an apostrophe")
}

/// Whether the slash behind `code` may be part of a header's name, or of a message that clang reads as it stands.
fn may_be_no_comment(code: &[u8]) -> Option<&'static str> {
    let start = code.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let line = code[start..].trim_ascii_start();
    if !line.starts_with(b"#") && !line.starts_with(b"%:") {
        return None;
    }
    if holds(line, b"warning") || holds(line, b"error") {
        return Some("it has a comment in a message");
    }
    let names_header = holds(line, b"include") || holds(line, b"import") || holds(line, b"embed");
    let opened = line.iter().rposition(|byte| *byte == b'<')?;
    (names_header && !line[opened..].contains(&b'>')).then_some("it has a comment in a header's name")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let Text { code, doubtful } = read(text.as_bytes());
        assert_eq!(doubtful, None, "{text}");
        String::from_utf8(code).unwrap()
    }

    #[test]
    fn lines_are_joined_and_comments_are_blanks() {
        assert_eq!(code("a\\\nb\\ \t\x0C\x0B\nc\\\r\nd"), "abcd");
        assert_eq!(code("a/*\n*/b// c\nd"), "a b \nd");
        assert_eq!(code("\"/*\" '\"' /* \" */ \"\\\"/*\""), "\"/*\" '\"'   \"\\\"/*\"");
        assert_eq!(code("\u{FEFF}#"), "#");
        assert_eq!(code("don't /*\n*/"), "don't /*\n*/");
    }

    #[test]
    fn what_compilers_read_in_different_ways_is_doubtful() {
        for text in [
            "char *s = R\"x(\" /* )x\";",
            "LR\"(a)\"",
            "uR\"(a)\"",
            "UR\"(a)\"",
            "u8R\"(a)\"",
            "/* */R\\\n\"(a)\"",
            "int i = 1'0; char *s = \"'/*\";",
            "#include <a/*b.h>",
            "#if __has_include(<a//b.h>)",
            "#warning a /* b",
            "// a??/\nb",
            "a\rb",
            "a\0b",
        ] {
            assert!(read(text.as_bytes()).doubtful.is_some(), "{text}");
        }
        for text in
            ["ERROR\"(a)\"", "\"R\"", "L'a'", "#include <a/b.h> // c", "#if 1 < 2 /* c */\r\n", "// R\"("]
        {
            assert_eq!(read(text.as_bytes()).doubtful, None, "{text}");
        }
    }
}
