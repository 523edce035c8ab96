//! What assembly can read while it is assembled.
//!
//! It is searched as the assembler gets it, so nothing is left of the macros and the strings that it was put together
//! from.

/// Directives that read files, that tell the linker to, or that can put such a directive together.
const DIRECTIVES: &[&str] =
    &[".incbin", ".include", ".linker_option", ".macro", ".irp", ".irpc", ".altmacro", ".mri"];

/// What in it can read a file, if anything can.
pub(super) fn reads_files(assembly: &str) -> Option<&'static str> {
    let lines = assembly.lines().map(str::trim);
    lines.filter(|line| !line.starts_with('#') && !is_data(line)).find_map(|line| {
        // A string goes on in the next line, or what stands in one is another thing than it looks.
        if !line.matches('"').count().is_multiple_of(2) || line.contains('\\') {
            return Some("an escape or an open string");
        }
        let line = line.to_ascii_lowercase();
        DIRECTIVES.iter().copied().find(|directive| holds_word(&line, directive))
    })
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
