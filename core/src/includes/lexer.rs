//! The tokens of a CUDA C++ text, with the range of bytes of each.

use alloc::{borrow::Cow, vec::Vec};
use core::{iter, ops::Range};

/// The longest delimiter of a raw string.
const MAX_DELIMITER: usize = 16;

/// Reads tokens, and skips splices (a backslash and a newline) wherever they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    /// The next byte that is not part of a splice.
    at: usize,
    /// The end of the last byte that was taken.
    end: usize,
    /// The first raw string that not all compilers read alike.
    pub(super) odd_raw: Option<usize>,
    /// The first word or number that is several tokens for a compiler to which not all of its bytes are letters.
    pub(super) odd_word: Option<usize>,
    /// The first place from which a line may end elsewhere if it is skipped, where numbers and names of headers are not read
    /// as such.
    pub(super) uneven: Option<usize>,
    /// The first token that standards before C++17 read otherwise.
    pub(super) unlike_older: Option<usize>,
    /// The end of the line that `see_quotes` checked last.
    even_to: usize,
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
    /// `#` or its other spelling, `%:`.
    Hash,
    /// Any other byte.
    Other(u8),
}

// The classes of a byte: what it can begin or continue.
const WORD: u8 = 1;
const DIGIT: u8 = 2;
const BLANK: u8 = 4;
/// Bytes that are tokens by themselves and begin no longer one.
const ALONE: u8 = 8;
/// Bytes that only some compilers take for letters.
const ODD: u8 = 32;
/// A byte that may begin a number.
const DOT: u8 = 16;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => WORD,
            b'$' | 0x80.. => WORD | ODD,
            b'0'..=b'9' => DIGIT,
            b' ' | b'\t' | b'\r' | b'\x0B' | b'\x0C' => BLANK,
            b'.' => DOT,
            b'/' | b'"' | b'\'' | b'#' | b'%' | b'\\' | b'\n' => 0,
            _ => ALONE,
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
        let mut lexer = Self { text, ..Self::default() };
        lexer.skip_splices();
        lexer
    }

    /// Checks the name of a header, which is read as tokens if its line is skipped.
    pub(super) fn see_name(&mut self, name: &Range<usize>) {
        let inside = self.spelling(name.start + 1..name.end - 1);
        let is_special = |byte: &u8| matches!(byte, b'\'' | b'"' | b'\\');
        if inside.iter().any(is_special) || inside.windows(2).any(|two| two == b"/*" || two == b"//") {
            self.see_quotes(name.start);
        }
    }

    /// Checks that the line ends in the same place wherever literals on it begin and end: behind `from`, nothing begins that
    /// could go beyond the line.
    fn see_quotes(&mut self, from: usize) {
        if from < self.even_to {
            return;
        }
        let line = self.text[from..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        self.even_to = from + line.len();
        let is_spliced = line.iter().rev().find(|byte| **byte != b'\r') == Some(&b'\\');
        // If the last comment on the line closes on it, so does every earlier one.
        let last_comment = line.windows(2).rposition(|two| two == b"/*");
        let is_open = last_comment.is_some_and(|at| !line[at + 2..].windows(2).any(|two| two == b"*/"));
        if is_spliced || is_open || line.windows(2).any(|two| two == b"R\"") {
            self.uneven = self.uneven.or(Some(from));
        }
    }

    /// Returns the next token; `None` at the end of the text.
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
            _ if is(byte, WORD) => self.word(start),
            _ if is(byte, DIGIT) || byte == b'.' && self.peek().is_some_and(|next| is(next, DIGIT)) => {
                self.number(start);
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

    /// Skips plain tokens, of which most of a text is made. Returns whether one of them was not blank.
    pub(super) fn skip_dull(&mut self) -> bool {
        let mut at = self.at;
        let mut is_solid = false;
        while let Some(&byte) = self.text.get(at) {
            if is(byte, BLANK | ALONE) {
                is_solid |= is(byte, ALONE);
                at += 1;
            } else if is(byte, WORD) && !is(byte, ODD) && !matches!(byte, b'_' | b'h' | b'H') {
                let length =
                    self.text[at..].iter().position(|byte| !is(*byte, WORD | DIGIT) || is(*byte, ODD));
                let Some(end) = length.map(|length| at + length) else { break };
                if is_part_of_name(&self.text[at..end]) {
                    break;
                }
                // The word may be the prefix of a literal, or go on after a splice.
                if is(self.text[end], ODD) || matches!(self.text[end], b'"' | b'\'' | b'\\') {
                    break;
                }
                is_solid = true;
                at = end;
            } else {
                break;
            }
        }
        self.at = at;
        self.skip_splices();
        is_solid
    }

    /// Returns the next token that is not blank, if it is on this line. Does not take the newline.
    pub(super) fn solid_on_line(&mut self) -> Option<Token> {
        let before = self.clone();
        let token = iter::from_fn(|| self.token()).find(|token| token.kind != Kind::Blank)?;
        if token.kind == Kind::Newline {
            *self = before;
            return None;
        }
        Some(token)
    }

    /// Skips blanks, and reads the name of a header if one is next. Returns its range, and whether it is in quotes.
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

    /// Returns the bytes of a range, without splices.
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

    pub(super) fn text(&self) -> &'a [u8] {
        self.text
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
            let Some(behind) = rest.strip_prefix(b"\\") else { break };
            let returns = behind.iter().take_while(|byte| **byte == b'\r').count();
            if behind.get(returns) != Some(&b'\n') {
                break;
            }
            self.at += returns + 2;
        }
    }

    fn line_comment(&mut self) {
        let from = self.at;
        let mut end = from;
        loop {
            let newline = self.text[end..].iter().position(|byte| *byte == b'\n');
            let Some(newline) = newline.map(|length| end + length) else {
                end = self.text.len();
                break;
            };
            let returns = self.text[from..newline].iter().rev().take_while(|byte| **byte == b'\r').count();
            end = newline;
            if !self.text[from..newline - returns].ends_with(b"\\") {
                break;
            }
            end += 1;
        }
        (self.at, self.end) = (end, end);
    }

    fn block_comment(&mut self) {
        while let Some(length) = self.text[self.at..].iter().position(|byte| *byte == b'*') {
            self.at += length;
            self.take();
            if self.peek() == Some(b'/') {
                self.take();
                return;
            }
        }
        (self.at, self.end) = (self.text.len(), self.text.len());
    }

    /// Reads a string or a character from behind its first quote. One that is not closed ends with its line.
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

    fn number(&mut self, start: usize) {
        let mut last = 0;
        while let Some(byte) = self.peek() {
            let is_sign = matches!(byte, b'+' | b'-') && matches!(last, b'e' | b'E' | b'p' | b'P');
            if byte == b'\'' {
                // A separator of digits only if a digit or a letter follows.
                let mut ahead = self.clone();
                ahead.take();
                if !ahead.peek().is_some_and(|byte| is(byte, WORD | DIGIT)) {
                    break;
                }
            } else if !(is(byte, WORD | DIGIT) || byte == b'.' || is_sign) {
                break;
            }
            last = byte;
            self.take();
        }
        self.see_letters(start);
        let number = &self.text[start..self.end];
        if number.contains(&b'\'') {
            self.unlike_older = self.unlike_older.or(Some(start));
            self.see_quotes(start);
        }
        if self.peek() == Some(b'\'') {
            self.uneven = self.uneven.or(Some(start));
        }
        if self.peek() == Some(b'"') && number.iter().any(|byte| matches!(byte, b'p' | b'P')) {
            self.unlike_older = self.unlike_older.or(Some(start));
        }
    }

    fn word(&mut self, start: usize) -> Kind {
        while self.peek().is_some_and(|byte| is(byte, WORD | DIGIT)) {
            self.take();
        }
        self.see_letters(start);
        let Some(quote @ (b'"' | b'\'')) = self.peek() else { return Kind::Word };
        let prefix = self.spelling(start..self.end);
        if quote == b'"' && matches!(&*prefix, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") {
            self.raw_string(start);
            return Kind::Literal;
        }
        if !matches!(&*prefix, b"L" | b"u" | b"U" | b"u8") {
            return Kind::Word;
        }
        self.take();
        self.literal(quote);
        Kind::Literal
    }

    /// Checks that the token is one token also to compilers that do not take `$` and bytes beyond ASCII for letters:
    /// `$__TIME__` is two tokens to NVRTC, and so is `$1'0'`.
    fn see_letters(&mut self, start: usize) {
        if !self.text[start..self.end].iter().any(|byte| is(*byte, ODD)) {
            return;
        }
        if self.spelling(start..self.end).iter().any(|byte| !is(*byte, ODD)) {
            self.odd_word = self.odd_word.or(Some(start));
        }
    }

    /// Reads a raw string from before its first quote. It has no splices. One that is not plain is taken to go on to the end of
    /// the text.
    fn raw_string(&mut self, start: usize) {
        self.unlike_older = self.unlike_older.or(Some(start));
        let end = self.plain_raw_string(start);
        if end.is_none() {
            self.odd_raw = self.odd_raw.or(Some(start));
        }
        self.at = end.unwrap_or(self.text.len());
        self.end = self.at;
        self.skip_splices();
    }

    /// Returns where the raw string ends. `None` if some compiler could read it otherwise: it is not separated from the token
    /// before it, its delimiter is unusual, or a line in it ends with a backslash.
    fn plain_raw_string(&self, start: usize) -> Option<usize> {
        let is_apart = match self.text[..start] {
            [] | [.., b' ' | b'\t' | b'(' | b',' | b'=' | b'{'] => true,
            [ref before @ .., b'\n'] => before.iter().rev().find(|byte| **byte != b'\r') != Some(&b'\\'),
            _ => false,
        };
        let quote = start + self.text[start..].iter().position(|byte| *byte == b'"')?;
        let is_plain = self.text[start..quote].iter().all(u8::is_ascii_alphanumeric);
        let inside = &self.text[quote + 1..];
        let open = inside.iter().take(MAX_DELIMITER + 1).position(|byte| *byte == b'(')?;
        let delimiter = &inside[..open];
        let is_odd = |byte: &u8| !byte.is_ascii_graphic() || matches!(byte, b')' | b'\\' | b'"');
        if !is_apart || !is_plain || delimiter.iter().any(is_odd) {
            return None;
        }
        let close = [b")", delimiter, b"\""].concat();
        let len = inside[open..].windows(close.len()).position(|end| end == close)?;
        let is_spliced = inside[open..open + len].windows(2).any(|two| two == b"\\\n" || two == b"\\\r");
        (!is_spliced).then_some(quote + 1 + open + len + close.len())
    }
}

/// The word that makes the compiler look for a file.
pub(super) const QUESTION: &[u8] = b"__has_include";

/// The words that make the compiler ask the disk or the clock.
const NAMES: [&[u8]; 3] = [QUESTION, b"__DATE__", b"__TIME__"];

/// Returns whether a word is a part of one of these names, and long enough to be rare in other texts. However many words one of
/// the names is pasted from, at least one of them is that long.
pub(super) fn is_part_of_name(word: &[u8]) -> bool {
    const TELLING: usize = 4;

    (TELLING..QUESTION.len()).contains(&word.len())
        && NAMES
            .iter()
            .any(|name| name.len() > word.len() && name.windows(word.len()).any(|part| part == word))
}
