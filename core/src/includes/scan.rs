//! Directives and questions, found among the tokens.

use alloc::{
    borrow::Cow,
    string::{String, ToString},
};
use core::ops::Range;

use super::{
    Ask, Body, Call, Computed, Definition, Operand, Problem, Scan, Standard, Trouble, Untold,
    lexer::{Kind, Lexer, QUESTION, Token, is_part_of_name},
};

/// What a macro that asks for its parameter has in its name.
const SHORTEST_END: &[u8] = b"has_include";

pub(super) fn scan(text: &[u8]) -> Scan {
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
                    self.use_of(&token, &mut Asked::default());
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

    /// Notes what older and newer standards read otherwise.
    fn standards(&mut self) {
        let text = self.lexer.text();
        let trigraph =
            text.contains(&b'?').then(|| text.windows(3).position(|part| matches!(part, b"??=" | b"??/")));
        let trigraph = trigraph.flatten();
        let unlike = self.lexer.unlike;
        let first = |places: &[Option<usize>]| places.iter().copied().flatten().min();
        let unlike = [
            (Standard::Cxx03, first(&[trigraph, unlike.separator, unlike.raw_string])),
            (Standard::Cxx11, first(&[trigraph, unlike.separator, unlike.exponent])),
            (Standard::Cxx14, first(&[trigraph, unlike.exponent])),
            (Standard::Cxx23, first(&[blank_splice(text), unlike.escape])),
        ];
        for (standard, at) in unlike {
            if let Some(at) = at {
                let line = self.line(at);
                self.scan.unlike.push((standard, line));
            }
        }
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
        if end > word.range.end {
            return self.scan.untold.push(Untold { range: word.range.start..end, line });
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
        let literal = before.clone().solid_on_line().filter(|token| token.kind == Kind::Literal);
        // Only what the compiler reads as one token is one, for it makes tokens of a definition.
        let header = self.lexer.header_name().filter(|(range, quoted)| {
            let is_name = match &literal {
                Some(literal) => *quoted && literal.range == *range,
                None => {
                    !quoted && self.string(range.start + 1..range.end - 1).is_some_and(|name| is_plain(&name))
                }
            };
            is_name && self.lexer.clone().solid_on_line().is_none()
        });
        let body = match header {
            Some((range, quoted)) => self.header_body(range, quoted),
            None => {
                self.lexer = before;
                let parameter = self.only_parameter();
                self.other_body(spelled.as_deref(), parameter.as_deref())
            }
        };
        if let (Some(name), Some(body)) = (spelled, body) {
            self.scan.definitions.push(Definition { name, body });
        }
    }

    fn header_body(&self, range: Range<usize>, quoted: bool) -> Option<Body> {
        let name = self.string(range.start + 1..range.end - 1)?;
        (quoted || is_plain(&name)).then_some(Body::Header { name, quoted })
    }

    /// The parameter of the macro that is being defined, if it has just one.
    fn only_parameter(&mut self) -> Option<String> {
        let before = self.lexer.clone();
        // A blank before it would make it a part of the body.
        let opens = self.lexer.token().is_some_and(|token| token.kind == Kind::Other(b'('));
        let parameter = self.lexer.solid_on_line().filter(|token| opens && token.kind == Kind::Word);
        let closes = self.lexer.solid_on_line().is_some_and(|token| token.kind == Kind::Other(b')'));
        self.lexer = before;
        self.string(parameter.filter(|_| closes)?.range)
    }

    /// The rest of a definition that is no name of a header. Something if it is just a word.
    fn other_body(&mut self, name: Option<&str>, parameter: Option<&str>) -> Option<Body> {
        let mut asked = Asked::default();
        let mut tokens = 0_usize;
        let mut last = None;
        while let Some(token) = self.lexer.solid_on_line() {
            tokens += 1;
            if token.kind == Kind::Word {
                let word = self.lexer.spelling(token.range.clone());
                if *word == *QUESTION && !asked.is_named() {
                    match name.filter(|name| may_ask(name.as_bytes())) {
                        Some(name) if self.asks_for(parameter) => self.scan.askers.push(name.to_string()),
                        _ => self.problem(Trouble::QuestionInMacro, token.range.start),
                    }
                } else if may_ask(&word) && !asked.is_named() {
                    self.call_with(&token, None);
                }
                last = Some(token.range.clone());
            }
            self.note(&token, &mut asked);
        }
        let only = last.filter(|_| tokens == 1)?;
        self.string(only).map(Body::Macro)
    }

    /// Whether the parameter follows in parentheses.
    fn asks_for(&mut self, parameter: Option<&str>) -> bool {
        let before = self.lexer.clone();
        let is = |token: Option<Token>, kind| token.is_some_and(|token| token.kind == kind);
        let opens = is(self.lexer.solid_on_line(), Kind::Other(b'('));
        let word = self.lexer.solid_on_line().filter(|token| token.kind == Kind::Word);
        let word = word.and_then(|word| self.string(word.range));
        let asks = opens
            && parameter.is_some()
            && word.as_deref() == parameter
            && is(self.lexer.solid_on_line(), Kind::Other(b')'));
        self.lexer = before;
        asks
    }

    /// A use of what may ask whether a header is there.
    fn call(&mut self, word: &Token) {
        let before = self.lexer.clone();
        let opens = self.lexer.solid_on_line().is_some_and(|token| token.kind == Kind::Other(b'('));
        let header = self.lexer.header_name().filter(|_| opens);
        let closes = self.lexer.solid_on_line().is_some_and(|token| token.kind == Kind::Other(b')'));
        self.lexer = before;
        let header = header.filter(|_| closes).and_then(|(range, quoted)| {
            let name = self.string(range.start + 1..range.end - 1)?;
            (quoted || is_plain(&name)).then_some((name, quoted))
        });
        self.call_with(word, header);
    }

    fn call_with(&mut self, word: &Token, header: Option<(String, bool)>) {
        let line = self.line(word.range.start);
        match self.string(word.range.clone()) {
            Some(name) => self.scan.calls.push(Call { name, header, line }),
            None => self.problem(Trouble::NotText, word.range.start),
        }
    }

    /// A token of the text itself or of an expression.
    #[inline]
    fn use_of(&mut self, token: &Token, asked: &mut Asked) {
        if token.kind == Kind::Word && token.range.len() >= SHORTEST_END.len() && !asked.is_named() {
            let word = self.lexer.spelling(token.range.clone());
            if *word == *QUESTION {
                self.question(token);
            } else if may_ask(&word) {
                self.call(token);
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

/// Whether a macro of this name may ask whether its parameter is there. Others are not looked for.
fn may_ask(name: &[u8]) -> bool {
    matches!(name.first(), Some(b'_' | b'h' | b'H'))
        && name.len() >= SHORTEST_END.len()
        && *name != *QUESTION
        && name.windows(SHORTEST_END.len()).any(|part| part.eq_ignore_ascii_case(SHORTEST_END))
}

/// Whether a name in angle brackets stays as it is where it goes through a macro, which makes tokens of it.
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
