//! What a C file asks of the file system, read off its text without preprocessing it.
//!
//! Branches that the preprocessor skips are read like all others: a look-up too many costs a check, one too few could
//! cost a wrong hit.

mod assembly;
mod text;

pub(super) use assembly::Pieces;

/// What one file asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// The names that it includes or asks for, each with whether it stands in quotes.
    pub(super) names: Vec<Name>,
    /// Whether it includes something whose name is a macro.
    pub(super) computed: bool,
    /// What makes the object depend on something that no dependency list holds.
    pub(super) opaque: Option<&'static str>,
    /// What it could contribute to assembly that reads a file.
    pub(super) pieces: Pieces,
}

/// A name of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) quoted: bool,
    /// Whether the search goes on behind the first file that is found, or only asks whether there is one.
    pub(super) everywhere: bool,
}

/// Words after which no dependency list is complete, wherever they stand.
const OPAQUE_WORDS: &[(&str, &str)] = &[
    (".incbin", "it uses .incbin"),
    ("__has_embed", "it uses __has_embed"),
    ("__DATE__", "it uses __DATE__"),
    ("__TIME__", "it uses __TIME__"),
    ("__TIMESTAMP__", "it uses __TIMESTAMP__"),
    ("include_alias", "it uses include_alias"),
];

/// Pragmas that read files, or that make the compiler read other files than it would.
const OPAQUE_PRAGMAS: &[&str] = &["dependency", "pch_preprocess", "module", "comment"];

/// Reads a flag: what it defines can hold what a file can.
pub(super) fn scan_flag(flag: &str) -> Scan {
    match flag.strip_prefix("-D") {
        Some(definition) => scan(format!("#define {}", definition.replacen('=', " ", 1)).as_bytes()),
        None => scan(flag.as_bytes()),
    }
}

/// Reads `text`.
pub(super) fn scan(text: &[u8]) -> Scan {
    let text = text::read(text);
    let code = String::from_utf8_lossy(&text.code);
    let word = OPAQUE_WORDS.iter().find(|(word, _)| code.contains(word)).map(|(_, why)| *why);
    let mut scan = Scan { opaque: text.doubtful.or(word), pieces: Pieces::of(&code), ..Scan::default() };
    let text = code;
    if scan.opaque.is_none() && includes_assembly(&text) {
        scan.opaque = Some("it uses .include");
    }
    for line in text.lines() {
        scan.directive(line);
        scan.questions(line);
        if let Some((_, operand)) = line.split_once("_Pragma") {
            scan.pragma(operand);
        }
    }
    scan
}

impl Scan {
    fn directive(&mut self, line: &str) {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix('#').or_else(|| line.strip_prefix("%:")) else { return };
        let rest = rest.trim_start();
        let word = &rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())];
        let operand = rest[word.len()..].trim_start();
        match word {
            "include" | "import" => self.include(operand, false),
            "include_next" => self.include(operand, true),
            "embed" => self.opaque = Some("it uses #embed"),
            "pragma" => self.pragma(operand),
            _ => {}
        }
    }

    fn pragma(&mut self, operand: &str) {
        if OPAQUE_PRAGMAS.iter().any(|word| operand.contains(word)) {
            self.opaque = Some("it uses a pragma that reads files");
        }
    }

    fn include(&mut self, operand: &str, everywhere: bool) {
        match literal(operand) {
            Some((text, quoted)) => self.names.push(Name { text: text.into(), quoted, everywhere }),
            None => self.computed = true,
        }
    }

    /// `__has_include` and `__has_include_next`, which are asked wherever an expression stands.
    fn questions(&mut self, line: &str) {
        const WORD: &str = "__has_include";

        let mut from = 0;
        while let Some(place) = line[from..].find(WORD).map(|place| from + place) {
            from = place + WORD.len();
            let before = &line[..place];
            let after = &line[from..];
            let after = after.strip_prefix("_next").unwrap_or(after);
            if before.ends_with(is_word) || after.starts_with(is_word) {
                continue;
            }
            let operand = after.trim_start().strip_prefix('(').map(str::trim_start);
            match operand.and_then(literal) {
                Some((text, quoted)) => {
                    self.names.push(Name { text: text.into(), quoted, everywhere: true });
                }
                None if is_only_named(before) => {}
                None => self.opaque = Some("it uses __has_include with a macro"),
            }
        }
    }
}

/// Whether the word after `before` is asked about or defined, not used.
fn is_only_named(before: &str) -> bool {
    let before = before.trim();
    if let Some(before) = before.strip_suffix('(').unwrap_or(before).trim_end().strip_suffix("defined") {
        return !before.ends_with(is_word);
    }
    let directive = before.strip_prefix('#').or_else(|| before.strip_prefix("%:")).map(str::trim_start);
    matches!(directive, Some("ifdef" | "ifndef" | "elifdef" | "elifndef" | "define" | "undef"))
}

/// The name at the beginning of `text`, and whether it stands in quotes.
fn literal(text: &str) -> Option<(&str, bool)> {
    let (end, quoted) = match text.as_bytes().first()? {
        b'"' => ('"', true),
        b'<' => ('>', false),
        _ => return None,
    };
    let name = &text[1..];
    name.find(end).map(|length| (&name[..length], quoted))
}

/// The assembler's `.include "file"`. A member of that name is never followed by a string.
fn includes_assembly(text: &str) -> bool {
    text.match_indices(".include").any(|(place, word)| {
        let after = text[place + word.len()..].trim_start();
        after.starts_with(['"', '\\'])
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let scan = scan(text.as_bytes());
        assert_eq!((scan.computed, scan.opaque), (false, None), "{text}");
        let shown = |name: &Name| {
            let text = if name.quoted { format!("\"{}\"", name.text) } else { format!("<{}>", name.text) };
            if name.everywhere { text + " everywhere" } else { text }
        };
        scan.names.iter().map(shown).collect()
    }

    #[test]
    fn includes_are_found_however_they_are_written() {
        assert_eq!(names("#include <a.h>\n  #  include \"b.h\" // c\n"), ["<a.h>", "\"b.h\""]);
        assert_eq!(names("%:include/**/<a.h>\n#inc\\\nlude <b\\ \n.h>\n"), ["<a.h>", "<b.h>"]);
        assert_eq!(names("#include_next <a.h>\n#import <b.h>"), ["<a.h> everywhere", "<b.h>"]);
        assert_eq!(names("/*\n#include <a.h>\n*/ char *s = \"/*\";\n#include <b.h>\n"), ["<b.h>"]);
        assert_eq!(
            names("#error don't \"\n#include <b.h>\nchar c = '\"';\n#include <c.h>"),
            ["<b.h>", "<c.h>"]
        );
    }

    #[test]
    fn questions_with_a_literal_name_are_found() {
        assert_eq!(
            names("#if defined(__has_include) && __has_include ( <a.h> ) || __has_include_next(\"b.h\")\n"),
            ["<a.h> everywhere", "\"b.h\" everywhere"]
        );
        assert_eq!(names("#ifndef __has_include\n#define __has_include(x) 0\n#endif\n"), [""; 0]);
        assert_eq!(names("int my__has_include, __has_include_me; // __has_include\n"), [""; 0]);
    }

    #[test]
    fn a_name_that_is_a_macro_is_said_to_be_one() {
        assert!(scan(b"#include HEADER\n").computed);
        assert!(scan(b"#if __has_include(HEADER)\n").opaque.is_some());
        assert!(scan(b"#define ASK(x) __has_include(x)\n").opaque.is_some());
        assert!(scan(b"#define redefine __has_include\n").opaque.is_some());
        assert!(scan(b"#define undef __has_include\n").opaque.is_some());
        assert!(scan_flag("-DASK=__has_include").opaque.is_some());
        assert!(scan_flag("-DASK(x)=__has_include(x)").opaque.is_some());
        assert_eq!(scan_flag("-D__has_include(x)=0").opaque, None);
    }

    #[test]
    fn what_no_dependency_list_holds_is_found() {
        for text in [
            "asm(\".incbin \\\"x\\\"\");",
            "asm(\"\\n.include \\\"x\\\"\");",
            "#embed \"x\"",
            "# /**/ embed <x>",
            "#if __has_embed(<x>)",
            "char *t = __TIME__;",
            "char *t = __TIME\\\nSTAMP__;",
            "??=include <x>",
            "#pragma GCC dependency \"x\"",
            "_Pragma(\"GCC dependency \\\"x\\\"\")",
            "#pragma clang module import x",
            "const char *s = R\"x(\" /* )x\";",
        ] {
            assert!(scan(text.as_bytes()).opaque.is_some(), "{text}");
        }
        let scan = scan(b"int f(struct s *s) { return s->a.include + 1; } // .incbin\n");
        assert_eq!((scan.opaque, scan.pieces.are_opaque()), (None, false));
    }

    #[test]
    fn no_text_makes_the_scan_panic() {
        for text in [
            "/*",
            "/",
            "\"\\",
            "'",
            "#",
            "%:",
            "#include",
            "#include \"",
            "__has_include",
            "__has_include(",
            "é#é",
        ] {
            for end in 0..=text.len() {
                scan(&text.as_bytes()[..end]);
            }
        }
    }
}
