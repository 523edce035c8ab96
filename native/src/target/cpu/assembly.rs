//! Finds directives in assembly that would read files when it is assembled.
//!
//! The text is searched as the assembler gets it, after macros and strings were expanded. clang, which assembles while it
//! compiles, is told not to (`-fno-integrated-as`).

/// Directives that read files, that make the linker read files, or that can assemble such a directive from parts.
const DIRECTIVES: &[&str] =
    &[".incbin", ".include", ".linker_option", ".macro", ".irp", ".irpc", ".altmacro", ".mri"];

/// Returns the directive or spelling in the text that can read a file, if there is one.
pub(super) fn reads_files(assembly: &str) -> Option<&'static str> {
    let lines = assembly.lines().map(str::trim);
    lines.filter(|line| !is_comment(line) && !is_data(line)).find_map(|line| {
        // A string goes on in the next line, or what stands in one is another thing than it looks.
        if !line.matches('"').count().is_multiple_of(2) || line.contains('\\') {
            return Some("an escape or an open string");
        }
        // Behind its end in a later line, which looks like a comment, anything may stand.
        if line.contains("/*") || line.contains("*/") || line.contains('\r') {
            return Some("a comment of several lines");
        }
        let line = line.to_ascii_lowercase();
        DIRECTIVES.iter().copied().find(|directive| holds_word(&line, directive))
    })
}

/// Whether a line is a comment, or one of the preprocessor's that says where the next one is from. Such a line of another form
/// goes on behind a semicolon.
fn is_comment(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('#').filter(|_| !line.contains('\r')) else { return false };
    let marker = rest.trim_start();
    if !marker.starts_with(|c: char| c.is_ascii_digit()) {
        return true;
    }
    let Some((number, rest)) = marker.split_once(" \"") else { return false };
    let Some((name, flags)) = rest.split_once('"') else { return false };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(number) && !name.contains('\\') && flags.split(' ').all(is_number)
}

/// Whether a line is nothing but a directive for one string, and so for data.
fn is_data(line: &str) -> bool {
    let plain = line.replace("\\\\", "").replace("\\\"", "");
    let is_string = |rest: &str| {
        let string = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
        string.is_some_and(|(_, after)| after.is_empty())
    };
    [".ascii", ".asciz", ".string"]
        .iter()
        .filter_map(|directive| plain.strip_prefix(directive))
        .any(is_string)
}

fn holds_word(line: &str, word: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
    line.match_indices(word).any(|(place, _)| {
        !line[..place].ends_with(goes_on) && !line[place + word.len()..].starts_with(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_that_reads_a_file_is_found() {
        for text in [
            "\t.incbin \"/x\"",
            "d:.INCBIN\t\"/x\"",
            ".ascii \"a\"; .incbin \"/x\"",
            ".ascii \"a\\\\\"; .incbin \"/x\"",
            "nop\n .include \"/x\"",
            ".macro m x\n.inc\\x \"/x\"\n.endm\nm bin",
            ".irpc c,b\n.in\\c \"/x\"\n.endr",
            ".altmacro",
            ".mri 1\n incbin \"/x\"",
            "\".inc\\bin\" \"/x\"",
            ".ascii \"a\n.ascii \"; .macro m x; #\"",
            ".linker_option \"-lx\"",
            "/*\n# */ .incbin \"/x\"",
            "# 1 \"x\" ; .incbin \"/x\"",
            "# 1 ; .incbin \"/x\"",
            "# a\r .incbin \"/x\"",
        ] {
            assert!(reads_files(text).is_some(), "{text}");
        }
    }

    #[test]
    fn assembly_that_reads_no_file_is_passed() {
        for text in [
            "# 3 \"<stdin>\" 1\n#APP\n\tnop\n#NO_APP",
            "\t.string\t\".incbin \\\"x\\\" \\\\\"\n\t.size f, .-f",
            "\t.file 1 \"./warmstart.include0/a.h\"\n\t.ident \"GCC: 12.2.0\"",
            "\tjmp a.include\n\t.irpx 1\n\t.section .rodata.str1.1,\"aMS\",@progbits,1",
            "\t# printf(\"a); from -fverbose-asm",
        ] {
            assert_eq!(reads_files(text), None, "{text}");
        }
    }
}
