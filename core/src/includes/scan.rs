//! Directives and questions, found among the tokens.

use alloc::{
    borrow::Cow,
    string::{String, ToString},
};
use core::ops::Range;

use super::{
    Ask, Body, Computed, Definition, Operand, Problem, Scan, Trouble,
    lexer::{Kind, Lexer, Token},
};

const QUESTION: &[u8] = b"__has_include";

/// Whatever is pasted from two words has one of these at its beginning or its end.
const SHORTEST_BEGINNING: &[u8] = b"__h";
const SHORTEST_END: &[u8] = b"has_include";

pub(super) fn scan(text: &[u8]) -> Scan {
    let mut scanner = Scanner { lexer: Lexer::new(text), scan: Scan::default() };
    scanner.text();
    if let Some(at) = scanner.lexer.doubtful {
        scanner.problem(Trouble::SplicedRawString, at);
    }
    if let Some(at) = text.iter().position(|byte| *byte == 0) {
        scanner.problem(Trouble::Nul, at);
    }
    scanner.scan
}

struct Scanner<'a> {
    lexer: Lexer<'a>,
    scan: Scan,
}

impl Scanner<'_> {
    fn text(&mut self) {
        let mut begins_line = true;
        let mut asked = Asked::default();
        while let Some(token) = self.lexer.token() {
            match token.kind {
                Kind::Newline => begins_line = true,
                Kind::Blank => {}
                Kind::Hash if begins_line => {
                    self.directive();
                    asked = Asked::default();
                }
                _ => {
                    begins_line = false;
                    self.use_of(&token, &mut asked);
                }
            }
        }
    }

    /// Reads the rest of a line that began with `#`. Its newline stays.
    fn directive(&mut self) {
        let Some(word) = self.lexer.solid_on_line() else { return };
        match &*self.lexer.spelling(word.range) {
            b"include" => self.include(false),
            b"include_next" => self.include(true),
            b"define" => self.define(),
            b"pragma" => {
                let word = self.lexer.solid_on_line();
                self.scan.once |= word.is_some_and(|word| *self.lexer.spelling(word.range) == *b"once");
            }
            b"ifdef" | b"ifndef" | b"elifdef" | b"elifndef" | b"undef" | b"error" | b"warning" => {}
            _ => {
                let mut asked = Asked::default();
                while let Some(token) = self.lexer.solid_on_line() {
                    self.use_of(&token, &mut asked);
                }
            }
        }
        while self.lexer.solid_on_line().is_some() {}
    }

    fn include(&mut self, next: bool) {
        if let Some((range, quoted)) = self.lexer.header_name() {
            let ask = if next { Ask::Next } else { Ask::Include };
            return self.operand(ask, range.clone(), quoted, range);
        }
        // Of what is neither a name nor a word, the compiler says so itself, if it reads the line at all.
        let Some(word) = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word) else { return };
        let line = self.lexer.line(word.range.start);
        if self.lexer.solid_on_line().is_some() {
            return self.scan.problems.push(Problem { what: Trouble::ComputedName, line });
        }
        match self.string(word.range.clone()) {
            Some(name) => self.scan.computed.push(Computed { name, next, line }),
            None => self.problem(Trouble::NotText, word.range.start),
        }
    }

    fn define(&mut self) {
        let Some(name) = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word) else { return };
        let spelled = self.string(name.range.clone());
        if let Some(name) = &spelled {
            self.scan.macros.push_str(name);
            self.scan.macros.push('\n');
        }
        self.fragment(&name);
        let before = self.lexer.clone();
        let body = match self.lexer.header_name() {
            Some((range, quoted)) if self.lexer.solid_on_line().is_none() => self.header_body(range, quoted),
            _ => {
                self.lexer = before;
                self.other_body()
            }
        };
        if let (Some(name), Some(body)) = (spelled, body) {
            self.scan.definitions.push(Definition { name, body });
        }
    }

    fn header_body(&self, range: Range<usize>, quoted: bool) -> Option<Body> {
        let name = self.string(range.start + 1..range.end - 1)?;
        // In angle brackets the name is put together from tokens, and blanks go their own ways.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(&byte);
        if quoted || name.bytes().all(is_plain) && !name.starts_with('/') && !name.contains("//") {
            return Some(Body::Header { name, quoted });
        }
        None
    }

    /// The rest of a definition that is no name of a header. Something if it is just a word.
    fn other_body(&mut self) -> Option<Body> {
        let mut asked = Asked::default();
        let mut tokens = 0_usize;
        let mut last = None;
        while let Some(token) = self.lexer.solid_on_line() {
            tokens += 1;
            if token.kind == Kind::Word {
                let word = self.lexer.spelling(token.range.clone());
                if *word == *QUESTION && !asked.is_named() {
                    self.problem(Trouble::QuestionInMacro, token.range.start);
                }
                last = Some(token.range.clone());
            }
            self.note(&token, &mut asked);
        }
        let only = last.filter(|_| tokens == 1)?;
        self.string(only).map(Body::Macro)
    }

    /// A token of the text itself or of an expression.
    #[inline]
    fn use_of(&mut self, token: &Token, asked: &mut Asked) {
        if token.kind == Kind::Word
            && token.range.len() >= QUESTION.len()
            && *self.lexer.spelling(token.range.clone()) == *QUESTION
            && !asked.is_named()
        {
            self.question(token);
        }
        self.note(token, asked);
    }

    /// Notes what decides about other tokens.
    #[inline]
    fn note(&mut self, token: &Token, asked: &mut Asked) {
        match token.kind {
            Kind::Word => {
                self.fragment(token);
                let word = self.lexer.spelling(token.range.clone());
                *asked = if *word == *b"defined" { Asked::Defined } else { Asked::Nothing };
                self.scan.once |= *word == *b"_Pragma";
            }
            Kind::Other(b'(') if *asked == Asked::Defined => *asked = Asked::Open,
            Kind::Hash => {
                // Two in a row paste.
                self.scan.pastes |= *asked == Asked::Hash;
                *asked = Asked::Hash;
            }
            _ => *asked = Asked::Nothing,
        }
    }

    fn question(&mut self, word: &Token) {
        let start = word.range.start;
        let open = self.lexer.solid_on_line();
        if open.is_some_and(|token| token.kind == Kind::Other(b'('))
            && let Some((name, quoted)) = self.lexer.header_name()
            && let Some(close) = self.lexer.solid_on_line()
            && close.kind == Kind::Other(b')')
        {
            return self.operand(Ask::Exists, name, quoted, start..close.range.end);
        }
        self.problem(Trouble::ComputedQuestion, start);
    }

    fn operand(&mut self, ask: Ask, name: Range<usize>, quoted: bool, range: Range<usize>) {
        match self.string(name.start + 1..name.end - 1) {
            Some(name) => self.scan.operands.push(Operand { ask, name, quoted, range }),
            None => self.problem(Trouble::NotText, name.start),
        }
    }

    fn fragment(&mut self, token: &Token) {
        if self.scan.fragment.is_some() || token.range.len() < SHORTEST_BEGINNING.len() {
            return;
        }
        let word = self.lexer.spelling(token.range.clone());
        let begins = word.starts_with(SHORTEST_BEGINNING) && QUESTION.starts_with(&word);
        let ends = word.ends_with(SHORTEST_END) && QUESTION.ends_with(&word);
        if (begins || ends) && *word != *QUESTION {
            self.scan.fragment = Some(self.lexer.line(token.range.start));
        }
    }

    fn string(&self, range: Range<usize>) -> Option<String> {
        match self.lexer.spelling(range) {
            Cow::Borrowed(bytes) => core::str::from_utf8(bytes).ok().map(ToString::to_string),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok(),
        }
    }

    fn problem(&mut self, what: Trouble, at: usize) {
        let line = self.lexer.line(at);
        self.scan.problems.push(Problem { what, line });
    }
}

/// What the last token was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Nothing,
    /// `defined`
    Defined,
    /// `defined (`
    Open,
    Hash,
}

impl Asked {
    /// Whether the next word is only asked about, and not used.
    fn is_named(self) -> bool {
        matches!(self, Self::Defined | Self::Open)
    }
}
