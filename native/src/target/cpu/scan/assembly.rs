//! Whether assembly in a C file can read a file.
//!
//! The assembler sees what the preprocessor puts together: neighbouring strings, macros that hold parts of strings,
//! words that are made strings or are pasted. So no directive is looked for but what could begin one.

use super::is_word;

/// Directives that read files, or that give directives other names.
const DIRECTIVES: &[&str] = &["incbin", "include", "mri", "altmacro"];

/// What makes assembly of a string: statements, and attributes that stand in the assembly as they were written.
const ASSEMBLING: &[&str] =
    &["asm", "ASM", "section", "alias", "ifunc", "weakref", "symver", "__REDIRECT", "patchable"];

/// Words that make assembly or that ask the file system, and so must not be pasted.
const ASSEMBLING_WHOLE: &[&str] = &["asm", "__asm", "__asm__"];
const ASKING_WHOLE: &[&str] =
    &["__has_include", "__has_include_next", "__has_embed", "__DATE__", "__TIME__", "__TIMESTAMP__"];

/// What one file could contribute to assembly. The parts can come from several files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Pieces {
    /// Whether it can hand strings to the assembler.
    assembles: bool,
    /// Whether its strings can begin a directive that reads a file, or hide what they hold.
    suspicious: bool,
    /// Whether it pastes words.
    pastes: bool,
    /// Its words that are parts of those that must not be pasted.
    parts: Vec<String>,
}

impl Pieces {
    /// Reads them off `text`, which has no comments and no spliced lines.
    pub(super) fn of(text: &str) -> Self {
        let mut pieces = Self {
            assembles: ASSEMBLING.iter().any(|word| text.contains(word)),
            pastes: text.contains("##") || text.contains("%:%:"),
            ..Self::default()
        };
        for line in text.lines() {
            pieces.line(line);
        }
        pieces
    }

    /// Adds those of another file.
    pub(in super::super) fn add(&mut self, other: &Self) {
        self.assembles |= other.assembles;
        self.suspicious |= other.suspicious;
        self.pastes |= other.pastes;
        self.parts.extend(other.parts.iter().cloned());
    }

    /// Whether all of them together could read a file that no list holds.
    pub(in super::super) fn are_opaque(&self) -> bool {
        let pasted = |words: &[&str]| self.pastes && words.iter().any(|word| self.can_paste(word));
        (self.suspicious && (self.assembles || pasted(ASSEMBLING_WHOLE))) || pasted(ASKING_WHOLE)
    }

    fn line(&mut self, line: &str) {
        let directive = line.trim_start();
        let directive = directive.strip_prefix('#').or_else(|| directive.strip_prefix("%:"));
        let word_of = |rest: &str| rest.trim_start().split(|c| !is_word(c)).next().map(String::from);
        let directive = directive.and_then(word_of);
        let defines = directive.as_deref() == Some("define");
        // Strings of other directives are not put into the code, and words of these are names.
        let has_strings = directive.is_none() || defines;
        let has_words = !matches!(directive.as_deref(), Some("include" | "include_next" | "import"));
        let mut rest = line;
        let mut first = true;
        while let Some(c) = rest.chars().next() {
            if c == '"' {
                let (content, after) = string(&rest[1..]);
                self.suspicious |= has_strings && is_suspicious(content);
                rest = after;
            } else if c == '\'' {
                rest = character(&rest[1..]);
            } else if is_word(c) {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let word = &rest[..length];
                if has_words {
                    self.word(word);
                }
                rest = &rest[length..];
            } else {
                let is_hash = c == '#' || rest.starts_with("%:");
                let skipped = if rest.starts_with("%:%:") {
                    4
                } else if rest.starts_with("##") || rest.starts_with("%:") {
                    2
                } else {
                    c.len_utf8()
                };
                // Not the directive's own, and no pasting: it makes a string of a word.
                self.suspicious |= defines && is_hash && !first && matches!(&rest[..skipped], "#" | "%:");
                first &= !is_hash;
                rest = &rest[skipped..];
            }
        }
    }

    fn word(&mut self, word: &str) {
        let lower = word.to_ascii_lowercase();
        self.pastes |= ["concat", "paste", "glue"].iter().any(|name| lower.contains(name));
        self.suspicious |= matches!(word, "__STRING" | "__ASMNAME" | "__ASMNAME2" | "__REDIRECT");
        let is_part = |whole: &&str| whole.len() > word.len() && whole.contains(word);
        if ASSEMBLING_WHOLE.iter().chain(ASKING_WHOLE).any(is_part)
            && !self.parts.iter().any(|part| part == word)
        {
            self.parts.push(word.into());
        }
    }

    /// Whether the parts, one after the other, can give `whole`.
    fn can_paste(&self, whole: &str) -> bool {
        let mut reached = vec![false; whole.len() + 1];
        reached[0] = true;
        for place in 0..whole.len() {
            if reached[place] {
                for part in self.parts.iter().filter(|part| whole[place..].starts_with(part.as_str())) {
                    reached[place + part.len()] |= part.len() < whole.len();
                }
            }
        }
        reached[whole.len()]
    }
}

/// What stands in the string whose quote was read, and what follows it.
fn string(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (place, c) in text.char_indices() {
        match c {
            '"' if !escaped => return (&text[..place], &text[place + 1..]),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    (text, "")
}

/// What follows the character whose quote was read.
fn character(text: &str) -> &str {
    let mut escaped = false;
    for (place, c) in text.char_indices() {
        match c {
            '\'' if !escaped => return &text[place + 1..],
            _ => escaped = c == '\\' && !escaped,
        }
    }
    ""
}

/// Whether a string, as it is spelt, could hold or begin one of [`DIRECTIVES`], or hides what it holds.
fn is_suspicious(content: &str) -> bool {
    let mut plain = String::with_capacity(content.len());
    let mut characters = content.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            plain.push(c.to_ascii_lowercase());
            continue;
        }
        match characters.next() {
            Some('n' | 't' | 'r' | 'f' | 'v' | 'a' | 'b' | 'e') => plain.push(' '),
            Some(quote @ ('"' | '\'' | '?')) => plain.push(quote),
            // Numbers and names of characters, and a backslash, which the assembler's macros begin their parameters with.
            _ => return true,
        }
    }
    plain.match_indices('.').any(|(place, _)| begins_directive(&plain[place + 1..]))
}

fn begins_directive(text: &str) -> bool {
    let length = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (word, after) = text.split_at(length);
    // An operand, or the next string, may complete the word.
    let goes_on = after.is_empty() || after.starts_with(['%', '{', '|', '}', '&']);
    DIRECTIVES.iter().any(|directive| word.starts_with(directive) || (goes_on && directive.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opaque(texts: &[&str]) -> bool {
        let mut all = Pieces::default();
        texts.iter().for_each(|text| all.add(&Pieces::of(text)));
        all.are_opaque()
    }

    #[test]
    fn a_directive_that_is_put_together_is_seen() {
        for text in [
            "asm(\".inc\" \"bin \\\"/x\\\"\");",
            "__asm__(\".INCBIN \\\"/x\\\"\");",
            "asm(\".\" \"incbin \\\"/x\\\"\");",
            "asm(\"\\x2eincbin \\\"/x\\\"\");",
            "asm(\"\\56incbin \\\"/x\\\"\");",
            "asm(\"\\u002eincbin \\\"/x\\\"\");",
            "#define S(x) #x\nasm(S(.incb) \"in \\\"/x\\\"\");",
            "%:define S(x) %:x\nasm(S(.incb) \"in \\\"/x\\\"\");",
            "asm(__STRING(.incb) \"in \\\"/x\\\"\");",
            "asm(\".macro m x\\n.inc\\\\x \\\"/x\\\"\\n.endm\\nm bin\");",
            "asm(\".%c0 \\\"/x\\\"\" :: \"i\"(incbin));",
            "asm(\".{inc|x}bin \\\"/x\\\"\");",
            "asm(\".mri 1\\n incbin \\\"/x\\\"\");",
            "#define C(a, b) a##b\nC(as, m)(\".inc\" \"bin \\\"/x\\\"\");",
            "__CONCAT(__a, sm__)(\".inc\" \"bin \\\"/x\\\"\");",
            "__attribute__((section(\"a\\n.inc\" \"bin \\\"/x\\\"\\n#\"))) int i;",
        ] {
            assert!(opaque(&[text]), "{text}");
        }
        assert!(opaque(&["#define D \".inc\"", "asm(D \"bin \\\"/x\\\"\");"]), "in two files");
    }

    #[test]
    fn a_question_that_is_pasted_is_seen() {
        assert!(opaque(&["#define C(a, b) a##b\n#define ASK C(__has_, include)"]));
        assert!(opaque(&["#define C(a, b) a %:%: b", "#define ASK C(__has, C(_, include))"]));
        assert!(opaque(&["#define C(a, b) a##b\n#if C(__has_, include)(\"a.h\")\n#endif"]));
        assert!(!opaque(&["#define C(a, b) a##b\n#include \"a.h\"\nC(has, include)"]));
    }

    #[test]
    fn what_can_read_no_file_is_not_opaque() {
        for text in [
            "asm volatile(\"\" ::: \"memory\");",
            "asm(\"vaddps %0, %1\\n\\tret\" : \"+x\"(a)); char *s = \"1.5 s. \";",
            "asm(\".text\\n.p2align 4\\n.type f, @function\");",
            "#include \"table.inc\"\n#if __has_include(\"x.inc\")\n#endif\nasm(\"nop\");",
            "char *s = \".incbin.\\\\\"; // no assembly\n",
            "#define C(a, b) a##b\nint C(x, y); char c = '\"'; char *s = \"done.\";",
            "#define S(x) #x\n_Pragma(S(unroll))\n",
        ] {
            assert!(!opaque(&[text]), "{text}");
        }
    }
}
