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
mod tests {
    use alloc::{format, vec, vec::Vec};

    use super::*;

    /// The names that are included or asked for, with what stands around them.
    fn names(text: &str) -> Vec<String> {
        let shown = |operand: Operand| {
            let [open, close] = if operand.quoted { ["\"", "\""] } else { ["<", ">"] };
            let ask = match operand.ask {
                Ask::Include => "",
                Ask::Next => "next ",
                Ask::Exists => "? ",
            };
            format!("{ask}{open}{}{close}", operand.name)
        };
        scan(text.as_bytes()).operands.into_iter().map(shown).collect()
    }

    fn troubles(text: &str) -> Vec<(Trouble, usize)> {
        scan(text.as_bytes()).problems.iter().map(|problem| (problem.what, problem.line)).collect()
    }

    #[test]
    fn directives_and_questions_are_found_with_their_places() {
        let text = "#include <a.h>\n # include_next/**/\"b.h\"\n%:include <c//d.h>\n\
                    #if __has_include ( <e.h> ) and defined(X)\n#include \"f.h\" x";
        assert_eq!(names(text), ["<a.h>", "next \"b.h\"", "<c//d.h>", "? <e.h>", "\"f.h\""]);
        let places: Vec<&str> =
            scan(text.as_bytes()).operands.into_iter().map(|operand| &text[operand.range]).collect();
        assert_eq!(places, ["<a.h>", "\"b.h\"", "<c//d.h>", "__has_include ( <e.h> )", "\"f.h\""]);
    }

    #[test]
    fn what_stands_in_comments_and_strings_is_none() {
        for text in [
            "// #include <a.h>",
            "// \\\n#include <a.h>",
            "// \\\r\n#include <a.h>",
            "/*\n#include <a.h>\n*/",
            "/*/\n#include <a.h>\n*/",
            "/* *\\\n/ */ x\n/*\n#include <a.h>",
            "x #include <a.h>",
            "\"\\\n#include <a.h>\"",
            "R\"(\n#include <a.h>\n)\"",
            "u8R\"x(\n)\"\n#include <a.h>\n)x\"",
            "LR\\\n\"(\n#include <a.h>\n)\"",
            "1 R\"-(\n#include <a.h>",
            "#define X R\"(\n#include <a.h>\n)\"",
            "#error R\"(\n#include <a.h>\n)\"",
            "\"__has_include(<a.h>)\" // __has_include(<a.h>)",
            "#error __has_include(<a.h>)",
            "#import <a.h>",
            "#include",
            "#include <a.h",
            "#include \"a.h\n\"",
            "#include L\"a.h\"",
            "#include 1",
            "??=include <a.h>",
            "x\r#include <a.h>",
        ] {
            assert_eq!(names(text), Vec::<String>::new(), "{text}");
            assert_eq!(scan(text.as_bytes()).computed, [], "{text}");
            assert_eq!(troubles(text), [], "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_comment_or_a_string_hides_nothing() {
        for text in [
            "'\"'\n#include <a.h>",
            "\"/*\"\n#include <a.h>",
            "'/*\n#include <a.h>",
            "don't /*\n#include <a.h>",
            "\"\\\\\" // \"\n#include <a.h>",
            "\"\\\" /*\"\n#include <a.h>",
            "1'000 /*'*/\n#include <a.h>",
            "0x1'a\"/*\"\n#include <a.h>",
            "1R\"(\n#include <a.h>\n)\"",
            "1e+R\"(\n#include <a.h>\n)\"",
            "xR\"(\n#include <a.h>\n)\"",
            "R\"0123456789abcdefg(\n#include <a.h>\n)0123456789abcdefg\"",
            "R\" (\n#include <a.h>\n) \"",
            "R\"x\\\ny(\n#include <a.h>\n)\"",
            "// x\\ \n#include <a.h>",
            "/* x *\\\n/ #include <a.h>",
            "x\r\n\x0C#\x0Binclude <a.h>",
            "\\\n#in\\\r\nclude <a\\\n.h>",
            "/* *//**/#/*\n*/include/*\n*/<a.h>/*",
            "#if 0\n#include <a.h>",
            "S(@/*\n*/#include <a.h>\n)",
            "S(`/*\n*/ /**/ #include <a.h>\n)",
            "+/*\n*/#include <a.h>",
        ] {
            assert_eq!(names(text), ["<a.h>"], "{text}");
        }
    }

    #[test]
    fn what_some_branch_or_standard_reads_otherwise_is_a_problem() {
        use Trouble::{GluedRawString, Uneven};

        for (text, trouble) in [
            ("1'0 /*\n#include <a.h>\n*/", Uneven),
            ("1'0'/*\n#include <a.h>\n*/", Uneven),
            ("0'\"'>R\"(\n#include <a.h>", Uneven),
            ("#include <a'b> /*'\n#include <a.h>", Uneven),
            ("#include <a/*>\nR\"(\n*/\n#include <a.h>\n//)\"", Uneven),
            ("#include \"a\\\" /*\"\n#include <a.h>", Uneven),
            ("#if __has_include(<R\"(>)\n)\"", Uneven),
            ("#if __has_include(<c//d>) || __has_include(<R\"(>)\n)\"", Uneven),
            ("#if __has_include(\"it's\") || __has_include(<R\"(>)\n)\"", Uneven),
            ("\"x\"R\"(\n#include <a.h>\n)\"", GluedRawString),
            ("\"x\"\\\nLR\"(\n#include <a.h>\n)\"", GluedRawString),
            ("R\"(x)\"R\"(\n#include <a.h>\n)\"", GluedRawString),
            ("$1p+R\"(\n#include <a.h>", GluedRawString),
            ("\\uR\"(\n#include <a.h>", GluedRawString),
            ("$__has_include(<R\"(\n#include <a.h>", GluedRawString),
            ("x$__has_include(<R\"(\n#include <a.h>", GluedRawString),
            ("$R\"(\n/*\n)\"\n#include <a.h>", GluedRawString),
            ("\u{e9}u8R\"(\n/*\n)\"\n#include <a.h>", GluedRawString),
        ] {
            let troubles: Vec<Trouble> = troubles(text).iter().map(|(trouble, _)| *trouble).collect();
            assert!(troubles.contains(&trouble), "{text}: {troubles:?}");
        }
        for text in [
            "int x = 1'000'000; // it's /* even\n",
            "x(1'0, 'a', \"b\"); /* and */ 2'0\n",
            "#include <it/s.h> // don't /*\n#include \"it's.h\" // \"don't\"\n",
            "#define A \"x\" R\"(\n)\" \"y\"\n",
        ] {
            assert_eq!(troubles(text), [], "{text}");
        }
        let standards = |text: &str| scan(text.as_bytes()).unlike;
        use Standard::{Cxx03, Cxx11, Cxx14, Cxx23};
        assert_eq!(standards("\n??=include <a.h>"), [(Cxx03, 2), (Cxx11, 2), (Cxx14, 2)]);
        assert_eq!(standards("// ??/\n#include <a.h>"), [(Cxx03, 1), (Cxx11, 1), (Cxx14, 1)]);
        assert_eq!(standards("R\"(\n#include <a.h>\n)\""), [(Cxx03, 1)]);
        assert_eq!(standards("1'0"), [(Cxx03, 1), (Cxx11, 1)]);
        assert_eq!(standards("0x1p+R\"(\n)\""), [(Cxx11, 1), (Cxx14, 1)]);
        assert_eq!(standards("// \\ \n#inc\\\t\r\nlude <a.h>"), [(Cxx23, 1)]);
        assert_eq!(standards("\\u{e9}R\"(\n)\""), [(Cxx03, 1), (Cxx23, 1)]);
        assert_eq!(standards("// what?? \\x\n'\\n'"), []);
    }

    #[test]
    fn a_definition_is_read_as_tokens_and_not_as_names() {
        for text in [
            "#define A \"a\\\" /*\"\n#include <a.h>",
            "#define A <R\"(>\n#include <b.h>\n)\"\n#include <a.h>",
            "#inc\\\r\r\nlude <a.h>",
            "// \\\r\r\n#include <b.h>\n#include <a.h>",
        ] {
            assert_eq!(names(text), ["<a.h>"], "{text}");
        }
    }

    #[test]
    fn a_question_that_is_only_named_is_none() {
        for text in [
            "#ifdef __has_include\n#ifndef __has_include\n#undef __has_include",
            "#if defined __has_include || defined(__has_include)",
            "#define HAS defined(__has_include)",
        ] {
            assert_eq!((names(text), troubles(text)), (vec![], vec![]), "{text}");
        }
        assert_eq!(names("#if defined(__has_include) && __has_include(<a.h>)"), ["? <a.h>"]);
        assert_eq!(names("int x = __has_\\\ninclude(\"a.h\");"), ["? \"a.h\""]);
    }

    #[test]
    fn a_name_that_only_the_preprocessor_makes_has_a_place() {
        for (text, name, line) in [
            ("#include NAME(x)", "NAME(x)", 1),
            ("\n#include A /* a */ B // b\nC", "A /* a */ B", 2),
            ("#include_next A \\\n (B)\n", "A \\\n (B)", 1),
        ] {
            let scan = scan(text.as_bytes());
            let [untold] = &scan.untold[..] else { panic!("{text}: {scan:?}") };
            assert_eq!((&text[untold.range.clone()], untold.line), (name, line));
            assert_eq!((scan.problems, scan.computed), (vec![], vec![]));
        }
    }

    #[test]
    fn what_only_the_preprocessor_can_tell_is_a_problem() {
        use Trouble::{Clock, ComputedQuestion, Nul, QuestionInMacro, SplicedRawString};

        for (text, trouble, line) in [
            ("#if __has_include(NAME)", ComputedQuestion, 1),
            ("#if __has_include", ComputedQuestion, 1),
            ("#if __has_include(<a.h>", ComputedQuestion, 1),
            ("CALL(__has_include, <a.h>)", ComputedQuestion, 1),
            ("#define HAS(x) __has_include(x)", QuestionInMacro, 1),
            ("#define HAS_A __has_include(<a.h>)", QuestionInMacro, 1),
            ("#define HAS_INCLUDE(x, y) __has_include(x)", QuestionInMacro, 1),
            ("#define HAS_INCLUDE(x) __has_include(<x>)", QuestionInMacro, 1),
            ("#define HAS_INCLUDE(x) __has_include(y)", QuestionInMacro, 1),
            ("#define HAS_INCLUDE (x) __has_include(x)", QuestionInMacro, 1),
            ("\n\na\0", Nul, 3),
            ("#define BUILT __DATE__", Clock, 1),
            ("\nconst char *built = __TIM\\\nE__;", Clock, 2),
            ("\nR\"x()\\\nx\" )x\"", SplicedRawString, 2),
        ] {
            assert_eq!(troubles(text), [(trouble, line)], "{text}");
        }
        let invalid = scan(b"#include \"\xFF.h\"");
        assert_eq!(invalid.problems[0].what, Trouble::NotText);
        assert_eq!(troubles("R\"x()\\\n\" )x\""), []);
    }

    #[test]
    fn macros_for_names_are_found() {
        let text = "#define A \"a.h\" // a\n#define B <b/c-1.h>\n#define C B\n#define D < d.h >\n#define E \"a\" \"b\"\n\
                    #define F(x) <x>\n#define G\n#define H <//x>\n#define I </x>\n#define \\\nJ \\\n\"j\\\n.h\"\n\
                    #include C // c\n#include_next J";
        let scan = scan(text.as_bytes());
        let header = |name: &str, quoted| Body::Header { name: name.into(), quoted };
        let definition = |name: &str, body| Definition { name: name.into(), body };
        assert_eq!(
            scan.definitions,
            [
                definition("A", header("a.h", true)),
                definition("B", header("b/c-1.h", false)),
                definition("C", Body::Macro("B".into())),
                definition("J", header("j.h", true)),
            ]
        );
        assert_eq!(scan.macros, "A\nB\nC\nD\nE\nF\nG\nH\nI\nJ\n");
        let computed = |name: &str, next, line| Computed { name: name.into(), next, line };
        assert_eq!(scan.computed, [computed("C", false, 14), computed("J", true, 15)]);
        assert_eq!(Scan::of_definition("X").macros, "X\n");
        assert_eq!(Scan::of_definition("X=\"a.h\"").definitions, [definition("X", header("a.h", true))]);
        assert_eq!(scan.definitions_of("A"), 1);
        assert_eq!(scan.definitions_of("a"), 0);
    }

    #[test]
    fn macros_that_ask_are_found_and_what_they_are_given() {
        let text = "#define _X_HAS_INCLUDE(_Y) (__has_include(_Y))\n#define has_include_b(x) 0\n\
                    #if _X_HAS_INCLUDE(<a.h>) || HAS_INCLUDE( \"b.h\" ) || defined(HAS_INCLUDE)\n\
                    HAS_INCLUDE(c) HAS_INCLUDE(<d //e>)\n#define Z HAS_INCLUDE(<a.h>)\n#ifdef HAS_INCLUDE";
        let scan = scan(text.as_bytes());
        assert_eq!(scan.askers, ["_X_HAS_INCLUDE"]);
        let calls: Vec<_> =
            scan.calls.iter().map(|call| (&*call.name, call.header.clone(), call.line)).collect();
        assert_eq!(
            calls,
            [
                ("_X_HAS_INCLUDE", Some(("a.h".into(), false)), 3),
                ("HAS_INCLUDE", Some(("b.h".into(), true)), 3),
                ("HAS_INCLUDE", None, 4),
                ("HAS_INCLUDE", None, 4),
                ("HAS_INCLUDE", None, 5),
            ]
        );
        assert_eq!(scan.problems, []);
    }

    #[test]
    fn what_a_question_is_pasted_from_is_noted() {
        for text in [
            "CAT(__has_, include)",
            "\n#define X __ha",
            "CAT(_, _has_include)",
            "CAT(__, has_include)",
            "CAT(__, ha, s_i, nclude)",
            "CAT(__DA, TE__)",
            "CAT(__TIME, __)",
        ] {
            assert!(scan(text.as_bytes()).fragment.is_some(), "{text}");
        }
        // As the headers of CUDA and of CCCL paste their names.
        for text in ["CAT(_, VERSION)", "__annotate__(__##a##__)", "CAT(CAT(_V_, VERSION), _SM)"] {
            assert_eq!(scan(text.as_bytes()).fragment, None, "{text}");
        }
        for text in ["CAT(__has_x, y)", "__has_include_next(<a.h>)", "_h has_includes", "\"__has_\""] {
            assert_eq!(scan(text.as_bytes()).fragment, None, "{text}");
        }
        assert!(scan(b"#define CAT(a, b) a##b").pastes);
        assert!(scan(b"#define CAT(a, b) a %:%: b").pastes);
        assert!(!scan(b"#define STR(a) #a").pastes);
    }

    #[test]
    fn reading_only_once_is_noted() {
        for text in
            ["#pragma once", " # pragma /**/ once", "_Pragma(\"once\")", "#define ONCE _Pragma(\"once\")"]
        {
            assert!(scan(text.as_bytes()).once, "{text}");
        }
        assert!(!scan(b"// #pragma once\n#pragma unroll\nint once;").once);
    }
}
