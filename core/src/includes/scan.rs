//! Directives and questions, found among the tokens.

use alloc::{
    borrow::Cow,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, ops::Range};

use super::lexer::{Kind, Lexer, QUESTION, Token, is_part_of_name};

/// How the name of a macro ends that asks for its parameter, as in `#define _HAS_INCLUDE(x) __has_include(x)`.
const ASKING_END: &[u8] = b"HAS_INCLUDE";

/// What one text asks for, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// Headers that are included or asked for by their names.
    pub operands: Vec<Operand>,
    /// Includes whose names the preprocessor makes.
    pub untold: Vec<Untold>,
    /// What cannot be told without preprocessing.
    pub problems: Vec<Problem>,
    /// The line from which on a standard before C++17 may read the text otherwise: it has trigraphs, and lacks raw strings,
    /// separators of digits or exponents of two.
    pub unlike_older: Option<usize>,
    /// The line from which on C++23 may: it has escapes in braces, and blanks between a backslash and the end of its line.
    pub unlike_newer: Option<usize>,
    /// Whether it may ask to be read only once.
    pub once: bool,
    /// Whether it pastes tokens together.
    pub pastes: bool,
    /// The line of a word that `__has_include`, `__DATE__` or `__TIME__` could be pasted from.
    pub fragment: Option<usize>,
}

/// A directive or a question that names a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operand {
    /// What is asked.
    pub ask: Ask,
    /// The name, without what stands around it and without spliced lines.
    pub name: String,
    /// Whether it stands in quotes.
    pub quoted: bool,
    /// The bytes to replace: the name with what stands around it, or all of `__has_include(..)`.
    pub range: Range<usize>,
}

/// What is asked about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `#include`
    Include,
    /// `#include_next`
    Next,
    /// `__has_include(..)`
    Exists,
    /// `NAME_HAS_INCLUDE(..)` in a directive, a macro that asks whether its parameter is there.
    Macro,
}

/// An include whose name only the preprocessor can make: of one macro or of several words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untold {
    /// The bytes from which it makes the name.
    pub range: Range<usize>,
    /// The line, counted from 1.
    pub line: usize,
}

/// What cannot be told without preprocessing the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What it is.
    pub what: Trouble,
    /// The line, counted from 1.
    pub line: usize,
}

/// Why a text cannot be read without preprocessing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// An include of a macro.
    ComputedName,
    /// `__has_include` that does not name a header.
    ComputedQuestion,
    /// `__has_include` in the definition of a macro.
    QuestionInMacro,
    /// A name that is not UTF-8.
    NotText,
    /// A NUL.
    Nul,
    /// A raw string that may end where two lines are spliced.
    SplicedRawString,
    /// A raw string behind a letter or a literal, without a blank between.
    GluedRawString,
    /// The day or the time at which it is compiled.
    Clock,
    /// A line that would end elsewhere in a branch that is skipped.
    Uneven,
    /// A line that the chosen standard of C++ reads otherwise than others do.
    OtherStandard,
}

impl Scan {
    /// Reads `text`.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut scanner = Scanner { lexer: Lexer::new(text), scan: Scan::default(), line: (0, 1) };
        scanner.text();
        let troubles = [
            (scanner.lexer.doubtful, Trouble::SplicedRawString),
            (scanner.lexer.glued, Trouble::GluedRawString),
            (scanner.lexer.uneven, Trouble::Uneven),
        ];
        for (at, trouble) in troubles {
            if let Some(at) = at {
                scanner.problem(trouble, at);
            }
        }
        scanner.standards();
        if let Some(at) = text.iter().position(|byte| *byte == 0) {
            scanner.problem(Trouble::Nul, at);
        }
        scanner.scan
    }

    /// Whether nothing in it can make the compiler look for a file.
    #[must_use]
    pub const fn reaches_nothing(&self) -> bool {
        let may_paste = self.pastes && self.fragment.is_some();
        self.operands.is_empty() && self.untold.is_empty() && !may_paste
    }

    /// Why it cannot be told without preprocessing what the text includes under a standard of C++, as `--std` names it, and
    /// the line of that.
    #[must_use]
    pub fn trouble(&self, standard: Option<&str>) -> Option<(Trouble, usize)> {
        if let Some(problem) = self.problems.first() {
            return Some((problem.what, problem.line));
        }
        let line = match standard? {
            "c++17" | "c++20" => None,
            "c++23" => self.unlike_newer,
            _ => self.unlike_older,
        };
        Some((Trouble::OtherStandard, line?))
    }

    /// Reads a definition as the option `-D` has it: `NAME` or `NAME=VALUE`.
    #[must_use]
    pub fn of_definition(definition: &str) -> Self {
        let (name, value) = definition.split_once('=').unwrap_or((definition, "1"));
        Self::of(alloc::format!("#define {name} {value}").as_bytes())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ComputedName => {
                "an #include whose name only the preprocessor can make; write the name itself"
            }
            Self::ComputedQuestion => {
                "a __has_include that does not name a header in quotes or angle brackets, or a macro that may stand for \
                 one and is not given a plain name in a directive; write __has_include and the name itself"
            }
            Self::QuestionInMacro => {
                "a __has_include in the definition of a macro; ask in the #if itself, or define a macro of one parameter \
                 as in #define _HAS_INCLUDE(x) __has_include(x)"
            }
            Self::NotText => "the name of a header that is not UTF-8; rename the header",
            Self::Nul => "a NUL byte, where the compiler would stop reading; remove it",
            Self::SplicedRawString => {
                "a raw string with a backslash at the end of a line where the string may end; write the line otherwise"
            }
            Self::GluedRawString => {
                "a raw string or a __has_include right behind a string, a backslash, a dollar sign or a letter that is \
                 not ASCII; put a blank between them"
            }
            Self::Clock => {
                "__DATE__ or __TIME__, and a binary that is kept would have another day's; remove it, or define a \
                 macro as what you want there"
            }
            Self::Uneven => {
                "a separator of digits or a name of a header with a quote, a backslash or a comment behind it or in it, \
                 which would hide the next lines where the line is skipped; write them on lines of their own"
            }
            Self::OtherStandard => {
                "a line that the standard of C++ that is asked for may read otherwise than others do (a trigraph, a raw \
                 string, a separator of digits, or blanks behind a backslash at the end of a line); write it otherwise, \
                 or ask for c++17 or c++20"
            }
        })
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
                // To NVRTC such a line ends there if it did not understand it. An include too many does no harm.
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
                    self.use_of(&token, &mut asked, true);
                }
            }
        }
        while self.lexer.solid_on_line().is_some() {}
    }

    /// Notes what older and newer standards read otherwise.
    fn standards(&mut self) {
        let text = self.lexer.text();
        let trigraphs = text.contains(&b'?').then(|| text.windows(3));
        let trigraph = trigraphs.and_then(|mut parts| parts.position(|part| matches!(part, b"??=" | b"??/")));
        let first = |places: [Option<usize>; 2]| places.into_iter().flatten().min();
        let older = first([trigraph, self.lexer.unlike_older]);
        let newer = first([blank_splice(text), self.lexer.unlike_newer]);
        self.scan.unlike_older = older.map(|at| self.line(at));
        self.scan.unlike_newer = newer.map(|at| self.line(at));
    }

    fn include(&mut self, next: bool) {
        let before = self.lexer.clone();
        if let Some((range, quoted)) = self.lexer.header_name() {
            self.lexer.see_even_name(&before, &range);
            let ask = if next { Ask::Next } else { Ask::Include };
            return self.operand(ask, range.clone(), quoted, range);
        }
        // Of what is neither a name nor a word, the compiler says so itself, if it reads the line at all.
        let Some(word) = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word) else { return };
        let line = self.line(word.range.start);
        let mut end = word.range.end;
        while let Some(token) = self.lexer.solid_on_line() {
            end = token.range.end;
        }
        self.scan.untold.push(Untold { range: word.range.start..end, line });
    }

    /// Reads a definition as the tokens that the compiler makes of it.
    fn define(&mut self) {
        let Some(name) = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word) else { return };
        self.fragment(&name);
        let mut tokens = Vec::new();
        while let Some(token) = self.lexer.solid_on_line() {
            tokens.push(token);
        }
        let spelled: Vec<Cow<'_, [u8]>> =
            tokens.iter().map(|token| self.lexer.spelling(token.range.clone())).collect();
        // With a blank before it, a parenthesis is a part of what the macro stands for.
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

    /// A use of what may be a macro that asks whether a header is there.
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

    /// A token of the text itself or of an expression.
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

    /// Notes what decides about other tokens.
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
        let before = self.lexer.clone();
        let open = self.lexer.solid_on_line();
        if open.is_some_and(|token| token.kind == Kind::Other(b'('))
            && let Some((name, quoted)) = self.lexer.header_name()
            && let Some(close) = self.lexer.solid_on_line()
            && close.kind == Kind::Other(b')')
        {
            self.lexer.see_even_name(&before, &name);
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
        match self.lexer.spelling(range) {
            Cow::Borrowed(bytes) => core::str::from_utf8(bytes).ok().map(ToString::to_string),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok(),
        }
    }

    /// The line of a byte, counted from 1. Counted on from the last that was asked for, which mostly stood before it.
    fn line(&mut self, at: usize) -> usize {
        let (from, line) = if self.line.0 <= at { self.line } else { (0, 1) };
        let newlines = self.lexer.text()[from..at].iter().filter(|byte| **byte == b'\n').count();
        self.line = (at, line + newlines);
        self.line.1
    }

    fn problem(&mut self, what: Trouble, at: usize) {
        let line = self.line(at);
        self.scan.problems.push(Problem { what, line });
    }
}

/// Where a backslash stands that has only blanks between it and the end of its line.
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

/// Whether a macro of this name may ask whether its parameter is there. Others may not ask at all.
fn may_ask(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'_' | b'H')) && name.ends_with(ASKING_END)
}

/// Whether a name of a header is the same where a macro makes tokens of it.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+-".contains(&byte);
    name.bytes().all(is_plain) && !name.starts_with('/') && !name.contains("//")
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

#[cfg(test)]
mod tests;
