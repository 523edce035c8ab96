//! The scan for directives and questions that name headers.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::ops::Range;

use thiserror::Error;

use super::lexer::{Kind, Lexer, QUESTION, Token, is_part_of_name};

/// The end of the name of a macro that asks whether its parameter exists, as `#define _HAS_INCLUDE(x) __has_include(x)` does.
const ASKING_END: &[u8] = b"HAS_INCLUDE";

/// The headers that a text includes or asks for, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// The headers that are included or asked for by name.
    pub operands: Vec<Operand>,
    /// Includes whose names only the preprocessor can compute, from one macro or several words: the range of these in bytes,
    /// and the line, counted from 1.
    pub untold: Vec<(Range<usize>, usize)>,
    /// Parts that cannot be decided without preprocessing, and their lines, counted from 1.
    pub problems: Vec<(Trouble, usize)>,
    /// The first line that a standard before C++17 may read otherwise: those have trigraphs, and lack raw strings, digit
    /// separators or binary exponents.
    pub unlike_older: Option<usize>,
    /// The first line that C++23 may read otherwise: it allows blanks between a backslash and the end of the line.
    pub unlike_newer: Option<usize>,
    /// Whether the text may ask to be included only once.
    pub once: bool,
    /// Whether a macro of the text pastes tokens together.
    pub pastes: bool,
    /// The line of a word from which `__has_include`, `__DATE__` or `__TIME__` could be pasted.
    pub fragment: Option<usize>,
}

/// A directive or a question that names a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operand {
    /// The kind of question.
    pub ask: Ask,
    /// The name, without quotes or brackets and without spliced lines.
    pub name: String,
    /// Whether the name stands in quotes.
    pub quoted: bool,
    /// The range of bytes to replace: the name with its quotes or brackets, or all of `__has_include(..)`.
    pub range: Range<usize>,
}

/// A question about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `#include`
    Include,
    /// `#include_next`
    Next,
    /// `__has_include(..)`
    Exists,
    /// `NAME_HAS_INCLUDE(..)` in a directive, a macro that asks whether its parameter exists.
    Macro,
}

/// Why a text cannot be read without preprocessing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Trouble {
    /// An `#include` whose name is a macro.
    #[error("an #include whose name only the preprocessor can compute; write the name itself")]
    ComputedName,
    /// `__has_include` that does not name a header.
    #[error(
        "a __has_include that does not name a header in quotes or angle brackets, or a macro that may stand for one and \
         is not given a plain name in a directive; write __has_include and the name itself"
    )]
    ComputedQuestion,
    /// `__has_include` in the definition of a macro.
    #[error(
        "a __has_include in the definition of a macro; ask in the #if itself, or define a macro of one parameter as in \
         #define _HAS_INCLUDE(x) __has_include(x)"
    )]
    QuestionInMacro,
    /// A name that is not UTF-8.
    #[error("the name of a header that is not UTF-8; rename the header")]
    NotText,
    /// A NUL byte.
    #[error("a NUL byte, where the compiler would stop reading; remove it")]
    Nul,
    /// A raw string that not all compilers read alike.
    #[error(
        "a raw string that not all compilers read alike; put a blank before it, and end none of its lines with a \
         backslash"
    )]
    RawString,
    /// A word or a number with a byte that not every compiler takes for a letter.
    #[error(
        "a word with a `$` or a letter beyond ASCII, which not all compilers read alike; write it in ASCII"
    )]
    OddWord,
    /// A macro for the date or the time of the compilation.
    #[error(
        "__DATE__ or __TIME__, which in a stored binary would be those of its build; remove it, or define a macro with \
         the value that you want"
    )]
    Clock,
    /// A line that would end elsewhere if its branch is skipped.
    #[error(
        "a digit separator or an unusual name of a header, followed by an open comment, a raw string or a backslash, \
         which could hide the next lines if the line is skipped; write them on separate lines"
    )]
    Uneven,
    /// A line that the chosen standard of C++ may read otherwise than the scan does.
    #[error(
        "a line that the chosen standard of C++ may read otherwise than others do (a trigraph, a raw string, a digit \
         separator, or blanks behind a backslash at the end of a line); write it otherwise, or choose c++17 or c++20"
    )]
    OtherStandard,
}

impl Scan {
    /// Scans a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut scanner = Scanner { lexer: Lexer::new(text), scan: Scan::default(), line: (0, 1) };
        scanner.text();
        let troubles = [
            (scanner.lexer.odd_raw, Trouble::RawString),
            (scanner.lexer.odd_word, Trouble::OddWord),
            (scanner.lexer.uneven, Trouble::Uneven),
            (text.iter().position(|byte| *byte == 0), Trouble::Nul),
        ];
        for (at, trouble) in troubles {
            if let Some(at) = at {
                scanner.problem(trouble, at);
            }
        }
        scanner.standards();
        scanner.scan
    }

    /// Returns whether nothing in the text can make the compiler look for a file.
    #[must_use]
    pub const fn reaches_nothing(&self) -> bool {
        let may_paste = self.pastes && self.fragment.is_some();
        self.operands.is_empty() && self.untold.is_empty() && !may_paste
    }

    /// Scans a definition in the form of the option `-D`: `NAME` or `NAME=VALUE`.
    #[must_use]
    pub fn of_definition(definition: &str) -> Self {
        let (name, value) = definition.split_once('=').unwrap_or((definition, "1"));
        Self::of(alloc::format!("#define {name} {value}").as_bytes())
    }
}

struct Scanner<'a> {
    lexer: Lexer<'a>,
    scan: Scan,
    /// A byte, and its line.
    line: (usize, usize),
}

impl Scanner<'_> {
    fn text(&mut self) {
        let mut begins_line = true;
        loop {
            begins_line &= !self.lexer.skip_dull();
            let Some(token) = self.lexer.token() else { break };
            match token.kind {
                Kind::Newline => begins_line = true,
                // NVRTC ends a line that it did not understand here. A superfluous include does no harm.
                Kind::Blank => begins_line |= self.lexer.text()[token.range].contains(&b'\n'),
                Kind::Hash if begins_line => self.directive(),
                _ => {
                    begins_line = false;
                    self.use_of(&token, &mut Asked::default(), false);
                }
            }
        }
    }

    /// Reads the rest of a line that began with `#`. Its newline stays.
    fn directive(&mut self) {
        let Some(word) = self.lexer.solid_on_line() else { return };
        match &*self.lexer.spelling(word.range) {
            b"include" => self.include(Ask::Include),
            b"include_next" => self.include(Ask::Next),
            b"define" => self.define(),
            b"pragma" => {
                let word = self.lexer.solid_on_line();
                self.scan.once |= word.is_some_and(|word| *self.lexer.spelling(word.range) == *b"once");
            }
            b"ifdef" | b"ifndef" | b"elifdef" | b"elifndef" | b"undef" | b"error" | b"warning" => {}
            _ => {
                let mut asked = Asked::default();
                while let Some(token) = self.lexer.solid_on_line() {
                    self.use_of(&token, &mut asked, true);
                }
            }
        }
        while self.lexer.solid_on_line().is_some() {}
    }

    /// Records the first lines that older and newer standards may read otherwise.
    fn standards(&mut self) {
        let text = self.lexer.text();
        let trigraphs = text.contains(&b'?').then(|| text.windows(3));
        let trigraph = trigraphs.and_then(|mut parts| parts.position(|part| matches!(part, b"??=" | b"??/")));
        let older = trigraph.into_iter().chain(self.lexer.unlike_older).min();
        self.scan.unlike_older = older.map(|at| self.line(at));
        self.scan.unlike_newer = blank_splice(text).map(|at| self.line(at));
    }

    fn include(&mut self, ask: Ask) {
        if let Some((range, quoted)) = self.lexer.header_name() {
            self.lexer.see_name(&range);
            return self.operand(ask, range.clone(), quoted, range);
        }
        // The compiler itself reports an include of anything but a name or a word, if it reads the line at all.
        let Some(word) = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word) else { return };
        let line = self.line(word.range.start);
        let mut end = word.range.end;
        while let Some(token) = self.lexer.solid_on_line() {
            end = token.range.end;
        }
        self.scan.untold.push((word.range.start..end, line));
    }

    /// Reads the definition of a macro.
    fn define(&mut self) {
        let Some(name) = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word) else { return };
        self.fragment(&name);
        let mut tokens = Vec::new();
        while let Some(token) = self.lexer.solid_on_line() {
            tokens.push(token);
        }
        let spelled: Vec<Cow<'_, [u8]>> =
            tokens.iter().map(|token| self.lexer.spelling(token.range.clone())).collect();
        // After a blank, a parenthesis belongs to the body of the macro.
        let is_function = tokens.first().is_some_and(|token| token.range.start == name.range.end);
        let parameter = match &spelled[..] {
            [open, parameter, close, ..] if is_function && **open == *b"(" && **close == *b")" => {
                Some(parameter)
            }
            _ => None,
        };
        let may_ask = may_ask(&self.lexer.spelling(name.range));
        let mut asked = Asked::default();
        for (place, token) in tokens.iter().enumerate() {
            let is_question = *spelled[place] == *QUESTION;
            if !asked.is_named()
                && (is_question || token.kind == Kind::Word && self::may_ask(&spelled[place]))
            {
                let asks_for_parameter = || match (parameter, spelled.get(place + 1..place + 4)) {
                    (Some(parameter), Some([open, asked, close])) => {
                        **open == *b"(" && asked == parameter && **close == *b")"
                    }
                    _ => false,
                };
                if !(is_question && may_ask && asks_for_parameter()) {
                    self.problem(Trouble::QuestionInMacro, token.range.start);
                }
            }
            self.note(token, &mut asked);
        }
    }

    /// Reads a use of a name that may be a macro that asks whether a header exists.
    fn question_of_macro(&mut self, word: &Token, in_directive: bool) {
        let before = self.lexer.clone();
        if in_directive
            && self.lexer.solid_on_line().is_some_and(|token| token.kind == Kind::Other(b'('))
            && let Some((name, quoted)) = self.lexer.header_name()
            && self.string(name.start + 1..name.end - 1).is_some_and(|name| is_plain(&name))
            && self.lexer.solid_on_line().is_some_and(|token| token.kind == Kind::Other(b')'))
        {
            return self.operand(Ask::Macro, name.clone(), quoted, name);
        }
        self.lexer = before;
        self.problem(Trouble::ComputedQuestion, word.range.start);
    }

    /// Reads a token outside of names of headers.
    #[inline]
    fn use_of(&mut self, token: &Token, asked: &mut Asked, in_directive: bool) {
        if token.kind == Kind::Word && token.range.len() >= ASKING_END.len() && !asked.is_named() {
            let word = self.lexer.spelling(token.range.clone());
            if *word == *QUESTION {
                self.question(token);
            } else if may_ask(&word) {
                self.question_of_macro(token, in_directive);
            }
        }
        self.note(token, asked);
    }

    /// Records the facts of a token that decide about other tokens.
    #[inline]
    fn note(&mut self, token: &Token, asked: &mut Asked) {
        match token.kind {
            Kind::Word => {
                self.fragment(token);
                let word = self.lexer.spelling(token.range.clone());
                if matches!(&*word, b"__DATE__" | b"__TIME__") && !asked.is_named() {
                    self.problem(Trouble::Clock, token.range.start);
                }
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
            self.lexer.see_name(&name);
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
        if self.scan.fragment.is_some() || token.range.len() > QUESTION.len() {
            return;
        }
        let word = self.lexer.spelling(token.range.clone());
        if is_part_of_name(&word) {
            self.scan.fragment = Some(self.line(token.range.start));
        }
    }

    fn string(&self, range: Range<usize>) -> Option<String> {
        String::from_utf8(self.lexer.spelling(range).into_owned()).ok()
    }

    /// Returns the line of a byte, counted from 1. Counts on from the last byte asked for, which is mostly an earlier one.
    fn line(&mut self, at: usize) -> usize {
        let (from, line) = if self.line.0 <= at { self.line } else { (0, 1) };
        let newlines = self.lexer.text()[from..at].iter().filter(|byte| **byte == b'\n').count();
        self.line = (at, line + newlines);
        self.line.1
    }

    fn problem(&mut self, what: Trouble, at: usize) {
        let line = self.line(at);
        self.scan.problems.push((what, line));
    }
}

/// Finds a backslash that only blanks separate from the end of its line.
fn blank_splice(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == b'\\').map(|length| from + length) {
        from = at + 1;
        let blanks = text[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0B' | b'\x0C'));
        let blanks = blanks.count();
        if blanks > 0 && matches!(text.get(from + blanks), None | Some(b'\n' | b'\r')) {
            return Some(at);
        }
    }
    None
}

/// Returns whether a macro of this name may ask whether its parameter exists. Other macros may not use `__has_include`.
fn may_ask(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'_' | b'H')) && name.ends_with(ASKING_END)
}

/// Returns whether a header's name stays the same when a macro makes tokens of it.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(&byte);
    name.bytes().all(is_plain) && !name.starts_with('/') && !name.contains("//")
}

/// The kind of the previous token, as far as it matters for the next one.
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
    /// Returns whether the next word is the operand of `defined`, and not used.
    fn is_named(self) -> bool {
        matches!(self, Self::Defined | Self::Open)
    }
}

#[cfg(test)]
mod tests;
