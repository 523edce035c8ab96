//! Finds the files that the text of a C source asks for, without preprocessing it.
//!
//! Branches that the preprocessor would skip, comments and strings are scanned like all other text: a superfluous look-up costs
//! a check, but a missing one could cause a wrong hit.

/// The headers that one file asks for, and the reasons why it may not be cacheable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// The names that the file includes or asks for.
    pub(super) names: Vec<Name>,
    /// Whether it includes a file whose name is not spelt out.
    pub(super) computed: bool,
    /// Whether the object depends on something that no dependency list contains.
    pub(super) opaque: bool,
    /// Whether it pastes words, and whether it contains the beginning of a word that makes it opaque.
    pub(super) pastes: bool,
    pub(super) pasted: bool,
}

/// The name of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    /// Whether the name is in quotes.
    pub(super) quoted: bool,
    /// Whether the search continues after the first file found, or only asks whether there is one.
    pub(super) everywhere: bool,
}

/// The operator that asks for a header, also with the suffix `_next`.
const QUESTION: &str = "__has_include";

/// Words that make an object depend on more than any dependency list contains.
const OPAQUE_WORDS: &[&str] = &["__has_embed", "__DATE__", "__TIME__", "__TIMESTAMP__"];

/// Other text that makes a file opaque: pragmas that rename headers, trigraphs, characters that only some compilers take for
/// the end of a line, and the names of warnings whose suppression would hide that the object contains the time.
const OPAQUE_PARTS: &[&str] = &["include_alias", "??=", "??/", "\0", "\r", "date-time", "-Weverything"];

/// Pragmas that read files, or that make the compiler read other files than it would.
const OPAQUE_PRAGMAS: &[&str] = &["dependency", "pch_preprocess", "module", "comment"];

/// Spellings that paste words: the operator, and the names that macros of system headers give it.
const PASTING: &[&str] = &["##", "%:%:", "concat", "paste", "glue"];

impl Scan {
    /// Scans a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let text = spliced(&String::from_utf8_lossy(text).replace("\r\n", "\n"));
        let lower = text.to_ascii_lowercase();
        let holds = |part: &&str| text.contains(part);
        let is_begun = |word: &str| {
            let begins = |whole: &&str| whole.len() > word.len() && whole.starts_with(word);
            !word.is_empty() && [QUESTION].iter().chain(OPAQUE_WORDS).any(begins)
        };
        let mut scan = Self {
            opaque: OPAQUE_WORDS.iter().chain(OPAQUE_PARTS).any(holds),
            pastes: PASTING.iter().any(|part| lower.contains(part)),
            pasted: text.split(|c| !is_word(c)).any(is_begun),
            ..Self::default()
        };
        for line in text.trim_start_matches('\u{FEFF}').lines() {
            // A directive may follow a comment.
            line.split("*/").for_each(|part| scan.directive(part));
            scan.questions(line);
            // This also matches `_Pragma`.
            scan.opaque |= line.contains("ragma") && OPAQUE_PRAGMAS.iter().any(|word| line.contains(word));
        }
        scan
    }

    /// Scans a flag, because its definitions can contain anything that a file can.
    pub(super) fn of_flag(flag: &str) -> Self {
        Self::of(flag.replacen("-D", "#define ", 1).replacen('=', " ", 1).as_bytes())
    }

    fn directive(&mut self, line: &str) {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix('#').or_else(|| line.strip_prefix("%:")) else { return };
        let rest = rest.trim_start();
        let (word, operand) = rest.split_at(rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()));
        let operand = operand.trim_start();
        match word {
            "include" | "import" | "include_next" => match literal(operand) {
                Some((text, quoted)) => {
                    self.names.push(Name { text: text.into(), quoted, everywhere: word == "include_next" });
                }
                // A word or a comment. Anything else is a line of a comment, not a directive.
                None if operand.starts_with(|c| is_word(c) || "/\\$".contains(c) || !c.is_ascii()) => {
                    self.computed = true;
                }
                None => {}
            },
            "embed" => self.opaque = true,
            // The word may follow a comment.
            "" => self.computed |= operand.starts_with("/*"),
            _ => {}
        }
    }

    /// Finds the uses of [`QUESTION`], which may be part of any expression.
    fn questions(&mut self, line: &str) {
        for (place, _) in line.match_indices(QUESTION) {
            let (before, after) = (&line[..place], &line[place + QUESTION.len()..]);
            let after = after.strip_prefix("_next").unwrap_or(after);
            if before.ends_with(is_word) || after.starts_with(is_word) {
                continue;
            }
            let operand = after.trim_start().strip_prefix('(').map(str::trim_start);
            match operand.and_then(literal) {
                Some((text, quoted)) => {
                    self.names.push(Name { text: text.into(), quoted, everywhere: true });
                }
                None => self.opaque |= !is_only_named(before),
            }
        }
    }
}

/// Joins lines that end in a backslash. Blanks may follow the backslash.
fn spliced(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut joined = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let after = part.trim_start_matches([' ', '\t', '\x0B', '\x0C']);
        match after.strip_prefix('\n') {
            Some(next) => joined.push_str(next),
            None => joined.extend(["\\", part]),
        }
    }
    joined
}

/// Returns whether the word after `before` is only tested or defined, and not used.
fn is_only_named(before: &str) -> bool {
    let before = before.trim();
    if let Some(before) = before.strip_suffix('(').unwrap_or(before).trim_end().strip_suffix("defined") {
        return !before.ends_with(is_word);
    }
    let directive = before.strip_prefix('#').or_else(|| before.strip_prefix("%:")).map(str::trim_start);
    matches!(directive, Some("ifdef" | "ifndef" | "elifdef" | "elifndef" | "define" | "undef"))
}

/// Returns the name at the start of `text`, and whether it is in quotes.
fn literal(text: &str) -> Option<(&str, bool)> {
    let (end, quoted) = match text.chars().next()? {
        '"' => ('"', true),
        '<' => ('>', false),
        _ => return None,
    };
    text[1..].split_once(end).map(|(name, _)| (name, quoted))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let scan = Scan::of(text.as_bytes());
        assert_eq!((scan.computed, scan.opaque), (false, false), "{text}");
        let shown = |name: &Name| {
            let text = if name.quoted { format!("\"{}\"", name.text) } else { format!("<{}>", name.text) };
            if name.everywhere { text + " everywhere" } else { text }
        };
        scan.names.iter().map(shown).collect()
    }

    #[test]
    fn includes_are_found_however_they_are_written() {
        assert_eq!(names("#include <a.h>\n  #  include \"b.h\" // c\n"), ["<a.h>", "\"b.h\""]);
        assert_eq!(names("%:include <a.h>\n#inc\\\nlude <b\\ \n.h>\n"), ["<a.h>", "<b.h>"]);
        assert_eq!(names("\u{FEFF}#inc\\\t\r\nlude <a.h>\r\n"), ["<a.h>"]);
        assert_eq!(names("#include_next <a.h>\n#import <b.h>"), ["<a.h> everywhere", "<b.h>"]);
        assert_eq!(names("/* a\n*/ #include <a.h>\n/* */%:include <b.h>\n"), ["<a.h>", "<b.h>"]);
        assert_eq!(names("/* where\n  #include's protect */\n"), [""; 0]);
        assert_eq!(names("// #include <a.h>\n/* #include <b.h> */\n#if 1 /*\n*/"), [""; 0]);
        assert_eq!(
            names("#error don't \"\n#include <b.h>\nchar c = '\"';\n#include <c.h>"),
            ["<b.h>", "<c.h>"]
        );
        assert_eq!(
            names("char *s = R\"(\n/*\n)\"; int i = 1'0;\n#include <a//b.h>\n#include <c.h>\n"),
            ["<a//b.h>", "<c.h>"]
        );
    }

    #[test]
    fn questions_with_a_literal_name_are_found() {
        assert_eq!(
            names("#if defined(__has_include) && __has_include ( <a.h> ) || __has_include_next(\"b.h\")\n"),
            ["<a.h> everywhere", "\"b.h\" everywhere"]
        );
        assert_eq!(names("#ifndef __has_include\n#define __has_include(x) 0\n#endif\n"), [""; 0]);
        assert_eq!(names("int my__has_include, __has_include_me;\n"), [""; 0]);
    }

    #[test]
    fn a_name_that_is_a_macro_is_said_to_be_one() {
        for text in [
            "#include HEADER\n",
            "#include/**/<a.h>",
            "# /**/ include <a.h>",
            "#/*\n*/include <a.h>",
            "#include \\u0041",
        ] {
            assert!(Scan::of(text.as_bytes()).computed, "{text}");
        }
        assert!(Scan::of(b"#if __has_include(HEADER)\n").opaque);
        assert!(Scan::of(b"#if __has_include/**/(<a.h>)\n").opaque);
        assert!(Scan::of(b"#define ASK(x) __has_include(x)\n").opaque);
        assert!(Scan::of(b"#define redefine __has_include\n").opaque);
        assert!(Scan::of(b"#define undef __has_include\n").opaque);
        assert!(Scan::of_flag("-DASK=__has_include").opaque);
        assert!(Scan::of_flag("-DASK(x)=__has_include(x)").opaque);
        assert!(!Scan::of_flag("-D__has_include(x)=0").opaque);
    }

    #[test]
    fn what_no_dependency_list_holds_is_found() {
        for text in [
            "#embed \"x\"",
            "# embed <x>",
            "#if __has_embed(<x>)",
            "char *t = __TIME__;",
            "char *t = __TIME\\\nSTAMP__;",
            "??=include <x>",
            "// a??/\nb",
            "a\rb",
            "a\0b",
            "#pragma GCC dependency \"x\"",
            "_Pragma(\"GCC dependency \\\"x\\\"\")",
            "_Pragma(\"GCC diagnostic ignored \\\"-Wdate-time\\\"\")",
            "#pragma clang diagnostic ignored \"-Weverything\"",
            "#pragma clang module import x",
        ] {
            assert!(Scan::of(text.as_bytes()).opaque, "{text}");
        }
    }

    #[test]
    fn a_word_that_is_pasted_is_seen() {
        let scan = |text: &str| {
            let scan = Scan::of(text.as_bytes());
            (scan.pastes, scan.pasted)
        };
        for text in [
            "#define C(a, b) a##b\n#define ASK C(__has_, include)",
            "#define C(a, b) a %:%: b\nC(__has, C(_, include))",
            "__CONCAT(__TI, ME__)",
        ] {
            assert_eq!(scan(text), (true, true), "{text}");
        }
        assert_eq!(scan("#define C(a, b) a##b\nC(has, include)"), (true, false));
        assert_eq!(scan("C(__DA, TE__)"), (false, true));
    }

    #[test]
    fn no_text_makes_the_scan_panic() {
        for text in [
            "/*",
            "\"\\",
            "\\ \n",
            "#",
            "%:",
            "#include",
            "#include \"",
            "__has_include",
            "__has_include(",
            "é#é",
        ] {
            for end in 0..=text.len() {
                Scan::of(&text.as_bytes()[..end]);
            }
        }
    }
}
