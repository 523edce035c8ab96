//! What a source says of what a compiler would do with it, by a look at its bytes.

use alloc::{string::String, vec::Vec};

/// Bytes that are looked at together.
const CHUNK: usize = 64;

/// Whether there is a NUL byte, at which a C string would end.
pub(crate) fn has_nul(bytes: &[u8]) -> bool {
    bytes.chunks(CHUNK).any(|chunk| has(chunk, |byte| byte == 0))
}

/// What of an expression may make the compiler read more than the expression: a directive of its own, a question for a
/// header, or the time.
pub(crate) fn beyond(expression: &[u8]) -> Option<&'static str> {
    if expression.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Some("more than one line");
    }
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    for word in expression.split(|byte| !is_of_word(byte)).filter(|word| !word.is_empty()) {
        // Or what one of them may be pasted from, and macros that ask.
        let asks = word.to_ascii_lowercase().windows(11).any(|part| part == b"has_include");
        if asks || b"__has_include".starts_with(word) {
            return Some("__has_include, or the beginning of it");
        }
        if b"__DATE__".starts_with(word) || b"__TIME__".starts_with(word) {
            return Some("__DATE__ or __TIME__, or the beginning of one");
        }
    }
    None
}

/// Whether a text of CUDA C++ may make the compiler look for a file: it has a directive that includes one, or
/// that asks for one. What it says yes to may also be a comment or in a branch that is never taken.
pub(crate) fn may_include(text: &str) -> bool {
    let bytes = text.as_bytes();
    if has_other_spellings(text) {
        return true;
    }
    // Lines may overlap where comments go over their ends. What is looked at is bounded all the same.
    let mut left = 4 * bytes.len();
    for (chunk, from) in bytes.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
        // The first look is the only one at most of the text, and a "%" is most often no digraph.
        if !has(chunk, |byte| byte == b'#' || byte == b'%')
            || !(has(chunk, |byte| byte == b'#') || has_digraph(chunk, &bytes[from + 1..]))
        {
            continue;
        }
        for (byte, at) in chunk.iter().zip(from + 1..) {
            let after = match (byte, bytes.get(at)) {
                (b'#', _) => at,
                (b'%', Some(b':')) => at + 1,
                // A digraph that a spliced line divides is not worth finding out about.
                (b'%', Some(b'\\')) => return true,
                _ => continue,
            };
            if is_harmless(&bytes[after..]) {
                continue;
            }
            let Some(line) = line(&bytes[after..], &mut left) else { return true };
            if is_of_files(&line) {
                return true;
            }
        }
    }
    false
}

/// Whether a directive may be written in a way that only some standards of C++ know, or a question be pasted together.
fn has_other_spellings(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_any = |like: u8| bytes.chunks(CHUNK).any(|chunk| has(chunk, |byte| byte == like));
    if has_any(b'?') && (text.contains("??=") || text.contains("??/")) {
        return true;
    }
    // Blanks, or more than one carriage return, between a backslash and the end of its line.
    let is_odd_splice = |rest: &[u8]| {
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\x0B' | b'\x0C' | b'\r'));
        let blanks = blanks.count();
        rest.get(blanks) == Some(&b'\n') && !matches!(&rest[..blanks], b"" | b"\r")
    };
    if has_any(b'\\') {
        let backslashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\\');
        if backslashes.into_iter().any(|(at, _)| is_odd_splice(&bytes[at + 1..])) {
            return true;
        }
    }
    // Of however many words it is pasted, the first is one that the whole begins with.
    let pastes = has_any(b'#') && (text.contains("##") || text.contains("%:%:"));
    pastes
        && text
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .any(|word| !word.is_empty() && "__has_includ".starts_with(word))
}

/// Whether any byte is like this. There is no early end, so that all are looked at by vectors.
fn has(chunk: &[u8], is_like: impl Fn(u8) -> bool) -> bool {
    chunk.iter().fold(false, |any, byte| any | is_like(*byte))
}

/// Whether `%:` stands there, or a `%` before a backslash, with the bytes that follow each.
fn has_digraph(chunk: &[u8], following: &[u8]) -> bool {
    let pairs = chunk.iter().zip(following);
    pairs.fold(false, |any, (byte, next)| any | ((*byte == b'%') & ((*next == b':') | (*next == b'\\'))))
}

/// Whether a directive, from behind its "#", is one of those that never ask for a file, as a quick look
/// tells.
fn is_harmless(bytes: &[u8]) -> bool {
    const DIRECTIVES: [&[u8]; 6] = [b"pragma", b"endif", b"else", b"ifdef", b"ifndef", b"undef"];
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let directive = &bytes[blanks..];
    let is_end = |next: Option<&u8>| next.is_none_or(|next| matches!(next, b' ' | b'\t' | b'\n' | b'\r'));
    DIRECTIVES.iter().any(|word| directive.starts_with(word) && is_end(directive.get(word.len())))
}

/// The rest of a line, with what follows where a backslash or a comment goes over its end. No backslash
/// before an end of line is in it. Nothing if no more bytes are left to be looked at.
fn line(bytes: &[u8], left: &mut usize) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut is_comment = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        *left = left.checked_sub(1)?;
        let rest = &bytes[at..];
        if rest.starts_with(b"\\\n") {
            at += 2;
            continue;
        }
        if rest.starts_with(b"\\\r\n") {
            at += 3;
            continue;
        }
        if byte == b'\n' && !is_comment {
            break;
        }
        line.push(byte);
        if line.ends_with(b"/*") {
            is_comment = true;
        } else if line.ends_with(b"*/") {
            is_comment = false;
        }
        at += 1;
    }
    Some(line)
}

/// Whether a directive includes a file or asks for one.
fn is_of_files(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let directive = line.trim_start();
    // What stands behind a comment is not looked for.
    let is_hidden = directive.starts_with("/*");
    let includes = ["include", "import", "embed"].iter().any(|word| directive.starts_with(word));
    is_hidden || includes || line.contains("__has_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_one_line_that_asks_for_nothing() {
        for expression in [
            "f<1>\n#include \"/a.h\"",
            "f<1>\r",
            "f<__has_include(\"/a.h\")>",
            "f<_HAS_INCLUDE(\"/a.h\")>",
            "f<__TIME__[7]>",
            "f<P(__DA, TE__)>",
            "f<P(__, DATE, __)>",
        ] {
            assert!(beyond(expression.as_bytes()).is_some(), "{expression}");
        }
        for expression in ["matmul<16, float>", "&a::b_<__half2>", "f<_Float16, __nv_bfloat16, 'D'>"] {
            assert_eq!(beyond(expression.as_bytes()), None, "{expression}");
        }
    }

    #[test]
    fn a_nul_byte_is_found_wherever_it_is() {
        for len in [1, 63, 64, 65, 200] {
            for at in 0..len {
                let mut bytes = alloc::vec![b'a'; len];
                assert!(!has_nul(&bytes));
                bytes[at] = 0;
                assert!(has_nul(&bytes));
            }
        }
        assert!(!has_nul(b""));
    }

    #[test]
    fn a_directive_that_reaches_files_is_found_however_it_is_written() {
        for text in [
            "#include \"a.h\"",
            "int a;\n  #  include <a.h>\n",
            "%:include <a.h>",
            "%\\\n:include <a.h>",
            "#\\\ninclude <a.h>",
            "#in\\\nclude <a.h>",
            "#in\\\r\nclude <a.h>",
            "#/* a */include <a.h>",
            "#/* a\n */ include <a.h>",
            "# \\\n /* */ include <a.h>",
            "#\tinclude A",
            "#\x0cinclude A",
            "#\x0binclude A",
            "#include_next <a.h>",
            "#if __has_include(<a.h>)\n#endif",
            "#if /* \n */ __has_include(<a.h>)\n#endif",
            "#if 1 && \\\n __has_inc\\\nlude(<a.h>)\n#endif",
            "#define HAS __has_include(<a.h>)\n#if HAS\n#endif",
            "#elif __has_include_next(<a.h>)",
            "#import <a.h>",
            "#embed <a>",
            "#define N 4\n#pragma once\n%: include <a.h>",
            "#pragma once\n#include <a.h>",
            "??=include <a.h>",
            "// ??/\n#include <a.h>",
            "#inc\\\r\r\nlude <a.h>",
            "#inc\\ \t\nlude <a.h>",
            "#define P(a, b, c) a##b##c\n#if P(__, has_, include)(\"a.h\")\n#endif",
        ] {
            assert!(may_include(text), "{text:?}");
            let far = ["x".repeat(100), text.into()].join("\n");
            assert!(may_include(&far), "{text:?}");
        }
    }

    #[test]
    fn lines_that_overlap_are_looked_at_a_few_times_only() {
        let len = if cfg!(miri) { 100 } else { 100_000 };
        assert!(may_include(&"#a /*\n".repeat(len)));
    }

    #[test]
    fn other_directives_reach_none() {
        for text in [
            "",
            "int include;",
            "int a = 5 % 3; // include\nint b = a %3;",
            "#define N 4\n#if N > 3\n#endif\n#pragma unroll\n",
            "#define A \\\n  include",
            "#define A /* include\n __has */ 1",
            "#undef include",
            "#define STRING(x) #x",
            "#line 3 \"a.h\"",
            "#error include",
            "#define A /* a */ 1\nint __has_a;",
            "#define P(a, b) a##b\nint P(x, _y) = '\\\\'; // what?? \\ x\n",
        ] {
            assert!(!may_include(text), "{text:?}");
        }
    }
}
