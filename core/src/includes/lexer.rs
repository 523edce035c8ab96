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
    /// Where a line stands that ends elsewhere if it is skipped, because digits and names are not read as such there.
    pub(super) uneven: Option<usize>,
    /// Where a raw string would begin that is none to some compilers.
    pub(super) glued: Option<usize>,
    /// Where the first token stands that standards before C++17 read otherwise.
    pub(super) unlike_older: Option<usize>,
    /// Where a raw string stands behind what may be the end of an escape of C++23.
    pub(super) unlike_newer: Option<usize>,
    /// Behind the last literal, where an identifier would be its suffix.
    literal_end: Option<usize>,
    /// Up to here lines are known to be even.
    even_to: usize,
    /// Up to here, lines end where they do only thanks to the name of a header on them.
    named_to: usize,
    /// Whether it reads as a compiler does what it skips: no digits are separated, no headers named.
    skips: bool,
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
/// What stands for itself, and begins nothing longer.
const ALONE: u8 = 8;
/// What is a letter in some places only.
const ODD: u8 = 32;
/// What may begin a number.
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
        let mut lexer = Self::at(text, 0);
        lexer.skip_splices();
        lexer
    }

    fn at(text: &'a [u8], at: usize) -> Self {
        Self {
            text,
            at,
            end: 0,
            doubtful: None,
            uneven: None,
            glued: None,
            unlike_older: None,
            unlike_newer: None,
            literal_end: None,
            even_to: 0,
            named_to: 0,
            skips: false,
        }
    }

    /// The same for the name of a header, which is tokens where its line is skipped.
    pub(super) fn see_even_name(&mut self, before: &Self, name: &Range<usize>) {
        let inside = &self.text[name.start + 1..name.end - 1];
        let is_special = |byte: &u8| matches!(byte, b'\'' | b'"' | b'\\');
        if inside.iter().any(is_special) || inside.windows(2).any(|two| two == b"/*" || two == b"//") {
            if before.at < self.even_to {
                // The line was read without a thought of this name.
                self.uneven = self.uneven.or(Some(before.at));
            }
            self.see_even(before);
            self.named_to = self.even_to;
        }
    }

    /// Where the newline stands that ends this line, whatever comments and strings go over others before.
    fn end_of_line(mut self) -> usize {
        loop {
            let start = self.at;
            if self.token().is_none_or(|token| token.kind == Kind::Newline) {
                return start;
            }
        }
    }

    /// Sees whether the line ends in the same place if it is skipped. `before` stands before what is then read otherwise.
    fn see_even(&mut self, before: &Self) {
        if self.skips || self.uneven.is_some() || before.at < self.even_to {
            return;
        }
        let read = |lexer: &Self, skips| {
            // Nothing is compared within.
            Self { skips, even_to: usize::MAX, ..lexer.clone() }.end_of_line()
        };
        let end = read(self, false);
        if read(before, true) == end {
            self.even_to = end;
        } else {
            self.uneven = Some(before.at);
        }
    }

    /// The next token. Nothing at the end of the text.
    #[inline]
    pub(super) fn token(&mut self) -> Option<Token> {
        let start = self.at;
        let before = is(self.peek()?, DIGIT | DOT).then(|| self.clone());
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
        match kind {
            Kind::Literal => self.literal_end = Some(self.at),
            Kind::Number => {
                if let Some(before) = before {
                    self.see_number(&before);
                }
            }
            _ => {}
        }
        Some(Token { kind, range: start..self.end })
    }

    fn see_number(&mut self, before: &Self) {
        let number = &self.text[before.at..self.end];
        if number.contains(&b'\'') {
            self.unlike_older = self.unlike_older.or(Some(before.at));
            if before.at < self.named_to {
                // With another name in its place, the line may end elsewhere.
                self.uneven = self.uneven.or(Some(before.at));
            }
            self.see_even(before);
        }
        if self.peek() == Some(b'\'') && !self.skips {
            self.uneven = self.uneven.or(Some(before.at));
        }
        if self.peek() == Some(b'"') && number.iter().any(|byte| matches!(byte, b'p' | b'P')) {
            self.unlike_older = self.unlike_older.or(Some(before.at));
        }
    }

    /// Skips tokens that can be nothing but themselves, which most of a text is made of. Whether one of them was not
    /// blank.
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
                // It may be the prefix of a literal, or go on behind a splice.
                let is_exponent = matches!(self.text[end - 1], b'e' | b'E' | b'p' | b'P');
                let is_number = is_exponent && matches!(self.text[end], b'+' | b'-');
                if is_part_of_name(&self.text[at..end]) {
                    break;
                }
                if is_number || is(self.text[end], ODD) || matches!(self.text[end], b'"' | b'\'' | b'\\') {
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

    /// The byte before `end` that is not part of a splice.
    fn last_before(&self, mut end: usize) -> Option<u8> {
        loop {
            let before = &self.text[..end];
            let Some(line) = before.strip_suffix(b"\n") else { return before.last().copied() };
            let returns = line.iter().rev().take_while(|byte| **byte == b'\r').count();
            let Some(line) = line[..line.len() - returns].strip_suffix(b"\\") else { return Some(b'\n') };
            end = line.len();
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
                if self.skips {
                    return;
                }
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
        // Nor do some take all of these for letters, and see a question behind one.
        if self.text[start..self.end].iter().any(|byte| is(*byte, ODD))
            && self.spelling(start..self.end).ends_with(b"__has_include")
        {
            self.glued = self.glued.or(Some(start));
        }
        let Some(quote @ (b'"' | b'\'' | b'+' | b'-')) = self.peek() else { return Kind::Word };
        let prefix = self.spelling(start..self.end);
        // Some compilers look for raw strings before they look for words.
        let tail = prefix.iter().rposition(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
        let tail = &prefix[tail.map_or(0, |place| place + 1)..];
        let last = self.last_before(start);
        let is_escape = last == Some(b'\\');
        let is_glued = tail.len() < prefix.len() || self.literal_end == Some(start) || is_escape;
        if quote == b'"' && is_glued && matches!(tail, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") {
            self.glued = self.glued.or(Some(start));
        }
        // To those a number may begin there, which goes on behind a sign.
        let is_number = tail.first().is_some_and(u8::is_ascii_digit) && tail.len() < prefix.len();
        if is_number && matches!(quote, b'+' | b'-') {
            self.glued = self.glued.or(Some(start));
        }
        if last == Some(b'}') && quote == b'"' && prefix.ends_with(b"R") {
            self.unlike_newer = self.unlike_newer.or(Some(start));
        }
        if quote == b'"' && matches!(&*prefix, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") && self.raw_string() {
            return Kind::Literal;
        }
        let is_prefix = matches!(quote, b'"' | b'\'') && matches!(&*prefix, b"L" | b"u" | b"U" | b"u8")
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
            let mut lexer = Lexer::at(self.text, end(*place));
            lexer.take();
            delimiter.iter().chain(b"\"").all(|byte| lexer.take() == Some(*byte))
        });
        if spliced != close {
            self.doubtful = self.doubtful.or(Some(start));
        }
        self.unlike_older = self.unlike_older.or(Some(start));
        self.at = close.map_or(self.text.len(), |place| end(place) + 1 + delimiter.len() + 1);
        self.end = self.at;
        self.skip_splices();
        true
    }
}
/// What the compiler asks the disk or the clock for.
pub(super) const QUESTION: &[u8] = b"__has_include";
const NAMES: [&[u8]; 3] = [QUESTION, b"__DATE__", b"__TIME__"];

/// Whether a word is so long a part of one of these names that it stands in few texts for another reason. Of however many
/// words one is pasted, at least one is: all others would be shorter.
pub(super) fn is_part_of_name(word: &[u8]) -> bool {
    const TELLING: usize = 4;

    (TELLING..QUESTION.len()).contains(&word.len())
        && NAMES
            .iter()
            .any(|name| name.len() > word.len() && name.windows(word.len()).any(|part| part == word))
}
