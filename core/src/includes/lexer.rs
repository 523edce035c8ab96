//! The tokens of a CUDA C++ text, with the bytes that each stands on.

use alloc::{borrow::Cow, vec::Vec};
use core::ops::Range;

/// How long the delimiter of a raw string may be.
const MAX_DELIMITER: usize = 16;

/// Reads tokens, and skips spliced lines wherever they stand.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    /// The next byte that is not part of a splice.
    at: usize,
    /// Behind the last byte that was taken.
    end: usize,
    /// Where a raw string began whose end compilers may see elsewhere.
    pub(super) doubtful: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Newline,
    /// White space or a comment.
    Blank,
    Word,
    Number,
    /// A string or a character, with its prefix.
    Literal,
    /// `#`, and its other spelling `%:`.
    Hash,
    /// Any other byte.
    Other(u8),
}

/// What a byte can begin or continue.
const WORD: u8 = 1;
const DIGIT: u8 = 2;
const BLANK: u8 = 4;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => WORD,
            b'0'..=b'9' => DIGIT,
            b' ' | b'\t' | b'\r' | b'\x0B' | b'\x0C' => BLANK,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

fn is(byte: u8, classes: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let mut lexer = Self { text, at: 0, end: 0, doubtful: None };
        lexer.skip_splices();
        lexer
    }

    /// The next token. Nothing at the end of the text.
    #[inline]
    pub(super) fn token(&mut self) -> Option<Token> {
        let start = self.at;
        let byte = self.take()?;
        let kind = match byte {
            b'\n' => Kind::Newline,
            b'/' if self.peek() == Some(b'/') => {
                self.line_comment();
                Kind::Blank
            }
            b'/' if self.peek() == Some(b'*') => {
                self.take();
                self.block_comment();
                Kind::Blank
            }
            b'"' | b'\'' => {
                self.literal(byte);
                Kind::Literal
            }
            b'#' => Kind::Hash,
            b'%' if self.peek() == Some(b':') => {
                self.take();
                Kind::Hash
            }
            b'.' if self.peek().is_some_and(|byte| is(byte, DIGIT)) => {
                self.number();
                Kind::Number
            }
            _ if is(byte, WORD) => self.word(start),
            _ if is(byte, DIGIT) => {
                self.number();
                Kind::Number
            }
            _ if is(byte, BLANK) => {
                while self.peek().is_some_and(|byte| is(byte, BLANK)) {
                    self.take();
                }
                Kind::Blank
            }
            _ => Kind::Other(byte),
        };
        Some(Token { kind, range: start..self.end })
    }

    /// The next token that is not blank.
    pub(super) fn solid(&mut self) -> Option<Token> {
        loop {
            let token = self.token()?;
            if token.kind != Kind::Blank {
                return Some(token);
            }
        }
    }

    /// The next token that is not blank, if it is on this line. A newline stays where it is.
    pub(super) fn solid_on_line(&mut self) -> Option<Token> {
        let before = self.clone();
        let token = self.solid()?;
        if token.kind == Kind::Newline {
            *self = before;
            return None;
        }
        Some(token)
    }

    /// Skips blanks, and reads the name of a header if one is next: where it stands, and whether in quotes.
    pub(super) fn header_name(&mut self) -> Option<(Range<usize>, bool)> {
        let before = self.clone();
        loop {
            let start = self.at;
            let close = match self.peek() {
                Some(b'"') => b'"',
                Some(b'<') => b'>',
                Some(b'/') | Some(b' ' | b'\t' | b'\r' | b'\x0B' | b'\x0C') => {
                    if self.token().is_some_and(|token| token.kind == Kind::Blank) {
                        continue;
                    }
                    break;
                }
                _ => break,
            };
            self.take();
            while let Some(byte) = self.peek().filter(|byte| *byte != b'\n') {
                self.take();
                if byte == close {
                    return Some((start..self.end, close == b'"'));
                }
            }
            break;
        }
        *self = before;
        None
    }

    /// The bytes of a range, without splices.
    pub(super) fn spelling(&self, range: Range<usize>) -> Cow<'a, [u8]> {
        let bytes = &self.text[range];
        if !bytes.contains(&b'\\') {
            return Cow::Borrowed(bytes);
        }
        let mut lexer = Lexer::new(bytes);
        let mut spelling = Vec::with_capacity(bytes.len());
        while let Some(byte) = lexer.take() {
            spelling.push(byte);
        }
        Cow::Owned(spelling)
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.text[..at].iter().filter(|byte| **byte == b'\n').count()
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.end = self.at;
        if self.peek() == Some(b'\\') {
            self.skip_splices();
        }
        Some(byte)
    }

    fn skip_splices(&mut self) {
        while let Some(rest) = self.text.get(self.at..) {
            self.at += if rest.starts_with(b"\\\n") {
                2
            } else if rest.starts_with(b"\\\r\n") {
                3
            } else {
                break;
            };
        }
    }

    fn line_comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.take();
        }
    }

    fn block_comment(&mut self) {
        while let Some(byte) = self.take() {
            if byte == b'*' && self.peek() == Some(b'/') {
                self.take();
                return;
            }
        }
    }

    /// A string or a character, behind its first quote. One that is not closed ends with its line.
    fn literal(&mut self, quote: u8) {
        while let Some(byte) = self.peek().filter(|byte| *byte != b'\n') {
            self.take();
            if byte == b'\\' {
                if self.peek().is_some_and(|byte| byte != b'\n') {
                    self.take();
                }
            } else if byte == quote {
                return;
            }
        }
    }

    fn number(&mut self) {
        let mut last = 0;
        while let Some(byte) = self.peek() {
            let is_sign = matches!(byte, b'+' | b'-') && matches!(last, b'e' | b'E' | b'p' | b'P');
            if byte == b'\'' {
                // Separates digits if one is behind it.
                let mut ahead = self.clone();
                ahead.take();
                if !ahead.peek().is_some_and(|byte| is(byte, WORD | DIGIT)) {
                    return;
                }
            } else if !(is(byte, WORD | DIGIT) || byte == b'.' || is_sign) {
                return;
            }
            last = byte;
            self.take();
        }
    }

    fn word(&mut self, start: usize) -> Kind {
        while self.peek().is_some_and(|byte| is(byte, WORD | DIGIT)) {
            self.take();
        }
        let Some(quote @ (b'"' | b'\'')) = self.peek() else { return Kind::Word };
        let prefix = self.spelling(start..self.end);
        if quote == b'"' && matches!(&*prefix, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") && self.raw_string() {
            return Kind::Literal;
        }
        let is_prefix = matches!(&*prefix, b"L" | b"u" | b"U" | b"u8")
            || quote == b'"' && matches!(&*prefix, b"R" | b"LR" | b"uR" | b"UR" | b"u8R");
        if !is_prefix {
            return Kind::Word;
        }
        self.take();
        self.literal(quote);
        Kind::Literal
    }

    /// A raw string, before its first quote. Splices are not spliced in it. Whether it is one.
    fn raw_string(&mut self) -> bool {
        let start = self.at;
        let inside = &self.text[start + 1..];
        let delimiter = inside.iter().take(MAX_DELIMITER + 1).position(|byte| *byte == b'(');
        let is_no_delimiter =
            |byte: &u8| matches!(byte, b' ' | b')' | b'\\' | b'\t' | b'\x0B' | b'\x0C' | b'\n' | b'"');
        let Some(delimiter) = delimiter.map(|length| &inside[..length]) else { return false };
        if delimiter.iter().any(is_no_delimiter) {
            return false;
        }
        let from = start + 1 + delimiter.len() + 1;
        let end = |places: usize| from + places;
        let rest = &self.text[from..];
        let is_end = |place: &usize| {
            let behind = &rest[*place + 1..];
            behind.starts_with(delimiter) && behind.get(delimiter.len()) == Some(&b'"')
        };
        let mut closings = rest.iter().enumerate().filter(|(_, byte)| **byte == b')').map(|(place, _)| place);
        let close = closings.clone().find(is_end);
        // NVRTC takes a splice in what closes the string for none.
        let spliced = closings.find(|place| {
            let mut lexer = Lexer { text: self.text, at: end(*place), end: 0, doubtful: None };
            lexer.take();
            delimiter.iter().chain(b"\"").all(|byte| lexer.take() == Some(*byte))
        });
        if spliced != close {
            self.doubtful = self.doubtful.or(Some(start));
        }
        self.at = close.map_or(self.text.len(), |place| end(place) + 1 + delimiter.len() + 1);
        self.end = self.at;
        self.skip_splices();
        true
    }
}
