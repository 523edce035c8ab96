//! What is found in a text, and what is not.

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
            Ask::Macro => "?? ",
        };
        format!("{ask}{open}{}{close}", operand.name)
    };
    Scan::of(text.as_bytes()).operands.into_iter().map(shown).collect()
}

fn troubles(text: &str) -> Vec<(Trouble, usize)> {
    Scan::of(text.as_bytes()).problems
}

#[test]
fn directives_and_questions_are_found_with_their_places() {
    let text = "#include <a.h>\n # include_next/**/\"b.h\"\n%:include <c//d.h>\n\
                #if __has_include ( <e.h> ) and defined(X)\n#include \"f.h\" x";
    assert_eq!(names(text), ["<a.h>", "next \"b.h\"", "<c//d.h>", "? <e.h>", "\"f.h\""]);
    let places: Vec<&str> =
        Scan::of(text.as_bytes()).operands.into_iter().map(|operand| &text[operand.range]).collect();
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
        "asm(LR\"(\n#include <a.h>\n)\")",
        "\r\nR\"--(\n#include <a.h>\n)--\"",
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
        assert_eq!(Scan::of(text.as_bytes()).untold, [], "{text}");
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
        "// x\\ \n#include <a.h>",
        "/* x *\\\n/ #include <a.h>",
        "x\r\n\x0C#\x0Binclude <a.h>",
        "\\\n#in\\\r\nclude <a\\\n.h>",
        "\\\n\\\n#in\\\n\\\r\n\\\nclude <a\\\n\\\n.h>",
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
    use Trouble::{OddWord, RawString, Uneven};

    for (text, trouble) in [
        ("1'0 /*\n#include <a.h>\n*/", Uneven),
        ("#include <\"b> 33'a\\\n\"'\"c\n#include <a.h>", Uneven),
        ("1'0'/*\n#include <a.h>\n*/", Uneven),
        ("0'\"'>R\"(\n#include <a.h>", Uneven),
        ("#include <a'b> /*'\n#include <a.h>", Uneven),
        ("#include <a/*>\nR\"(\n*/\n#include <a.h>\n//)\"", Uneven),
        ("#include \"a\\\" /*\"\n#include <a.h>", Uneven),
        ("#if __has_include(<R\"(>)\n)\"", Uneven),
        ("#if __has_include(<c//d>) || __has_include(<R\"(>)\n)\"", Uneven),
        ("#if __has_include(\"it's\") || __has_include(<R\"(>)\n)\"", Uneven),
        ("\"x\"R\"(\n#include <a.h>\n)\"", RawString),
        ("\"x\"\\\nLR\"(\n#include <a.h>\n)\"", RawString),
        ("R\"(x)\"R\"(\n#include <a.h>\n)\"", RawString),
        ("$1p+R\"(\n#include <a.h>", RawString),
        ("\\uR\"(\n#include <a.h>", RawString),
        ("$__has_include(<R\"(\n#include <a.h>", RawString),
        ("x$__has_include(<R\"(\n#include <a.h>", RawString),
        ("$__has_include(<a.h>)", OddWord),
        ("#define D $__has_include(<a.h>)", OddWord),
        ("#define M $1e+a'b' /*'\n#include <a.h>\n//*/", OddWord),
        ("#define M $1'a' /*'\n#include <a.h>\n//*/", OddWord),
        ("#define T XSTR($__TI\\\nME__)", OddWord),
        ("1$'a'", OddWord),
        ("\\u{e9}R\"(\n)\"", RawString),
        ("+R\"(\n)\"", RawString),
        ("LR\\\n\"(\n#include <a.h>\n)\"", RawString),
        ("1 R\"-(\n#include <a.h>", RawString),
        ("R\"0123456789abcdefg(\n#include <a.h>\n)0123456789abcdefg\"", RawString),
        ("R\" (\n#include <a.h>\n) \"", RawString),
        ("R\"x\\\ny(\n#include <a.h>\n)\"", RawString),
        ("R\"x()\\\n\" )x\"", RawString),
        ("R\"x()\\\nx\" )x\"", RawString),
        ("1'0 + 1 \\\n /*\n*/", Uneven),
        ("1'0 /* a */ /*/\n#include <a.h>\n*/", Uneven),
        ("$R\"(\n/*\n)\"\n#include <a.h>", OddWord),
        ("\u{e9}u8R\"(\n/*\n)\"\n#include <a.h>", OddWord),
    ] {
        let troubles: Vec<Trouble> = troubles(text).iter().map(|(trouble, _)| *trouble).collect();
        assert!(troubles.contains(&trouble), "{text}: {troubles:?}");
    }
    for text in [
        "/* a */ int x = 1'000'000; // it's even\n",
        "x(1'0, 'a', \"b\"); 2'0\n/* and */",
        "x(1'0, 'a', \"b\"); /* and */ 2'0",
        "int n = 1'000; /* items */\n",
        "// na\u{ef}ve $1\n\"na\u{ef}ve $1\" $ \u{e9}",
        "#include <it/s.h> // don't /*\n#include \"it's.h\" // \"don't\"\n",
        "#define A \"x\" R\"(\n)\" \"y\"\n",
    ] {
        assert_eq!(troubles(text), [], "{text}");
    }
    let standards = |text: &str| {
        let scan = Scan::of(text.as_bytes());
        (scan.unlike_older, scan.unlike_newer)
    };
    assert_eq!(standards("\n??=include <a.h>"), (Some(2), None));
    assert_eq!(standards("// ??/\n#include <a.h>"), (Some(1), None));
    assert_eq!(standards("R\"(\n#include <a.h>\n)\""), (Some(1), None));
    assert_eq!(standards("\n1'0"), (Some(2), None));
    assert_eq!(standards("0x1p+R\"(\n)\""), (Some(1), None));
    assert_eq!(standards("// \\ \n#inc\\\t\r\nlude <a.h>"), (None, Some(1)));
    assert_eq!(standards("// what?? \\x\n'\\n'"), (None, None));
}

#[test]
fn a_long_line_of_separated_digits_is_read_once() {
    let numbers = if cfg!(miri) { 10 } else { 200_000 };
    // Minutes, if each number reads the rest of its line.
    assert_eq!(troubles(&"1'000,".repeat(numbers)), []);
}

#[test]
fn a_definition_is_read_as_tokens_and_not_as_names() {
    for text in [
        "#define A \"a\\\" /*\"\n#include <a.h>",
        "#define A < R\"(>\n#include <b.h>\n)\"\n#include <a.h>",
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
        ("\n#include NAME // b\n", "NAME", 2),
    ] {
        let scan = Scan::of(text.as_bytes());
        let [(range, at)] = &scan.untold[..] else { panic!("{text}: {scan:?}") };
        assert_eq!((&text[range.clone()], *at), (name, line));
        assert_eq!((scan.problems, scan.operands), (vec![], vec![]));
    }
}

#[test]
fn what_only_the_preprocessor_can_tell_is_a_problem() {
    use Trouble::{Clock, ComputedQuestion, Nul, QuestionInMacro};

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
        ("#define HAS_INCLUDE(x) __has_include x", QuestionInMacro, 1),
        ("#define HAS_INCLUDE(x) __has_include(x", QuestionInMacro, 1),
        ("#define ASKS(x) HAS_INCLUDE(x)", QuestionInMacro, 1),
        ("#define ASKS OUR_HAS_INCLUDE\n#define ALSO _HAS_INCLUDE", QuestionInMacro, 2),
        ("#if HAS_INCLUDE(NAME)", ComputedQuestion, 1),
        ("#if HAS_INCLUDE(<a.h> b)", ComputedQuestion, 1),
        ("#if HAS_INCLUDE(<a //b>)", ComputedQuestion, 1),
        ("#if HAS_INCLUDE(</etc/hostname>)", ComputedQuestion, 1),
        ("#if APPLY(_HAS_INCLUDE)(<a.h>)", ComputedQuestion, 1),
        ("\nHAS_INCLUDE(<a.h>)", ComputedQuestion, 2),
        ("\n\na\0", Nul, 3),
        ("#define BUILT __DATE__", Clock, 1),
        ("\nconst char *built = __TIM\\\nE__;", Clock, 2),
    ] {
        assert_eq!(troubles(text), [(trouble, line)], "{text}");
    }
    let invalid = Scan::of(b"#include \"\xFF.h\"");
    assert_eq!(invalid.problems, [(Trouble::NotText, 1)]);
}

#[test]
fn a_macro_that_asks_is_a_question_where_it_names_a_header() {
    let text = "#define _X_HAS_INCLUDE(_Y) (__has_include(_Y))\n#define has_include_b(x) 0\n\
                #if _X_HAS_INCLUDE(<a.h>) || HAS_INCLUDE( \"s/b.h\" ) || defined(HAS_INCLUDE)\n\
                has_include_b(c)\n#ifdef HAS_INCLUDE";
    assert_eq!((names(text), troubles(text)), (vec!["?? <a.h>".into(), "?? \"s/b.h\"".into()], vec![]));
    let places: Vec<&str> =
        Scan::of(text.as_bytes()).operands.into_iter().map(|operand| &text[operand.range]).collect();
    assert_eq!(places, ["<a.h>", "\"s/b.h\""]);
    assert_eq!(Scan::of_definition("X(y)=__has_include(y)").problems[0].0, Trouble::QuestionInMacro);
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
        assert!(Scan::of(text.as_bytes()).fragment.is_some(), "{text}");
    }
    // As the headers of CUDA and of CCCL paste their names.
    for text in ["CAT(_, VERSION)", "__annotate__(__##a##__)", "CAT(CAT(_V_, VERSION), _SM)"] {
        assert_eq!(Scan::of(text.as_bytes()).fragment, None, "{text}");
    }
    for text in ["CAT(__has_x, y)", "__has_include_next(<a.h>)", "_h has_includes", "\"__has_\""] {
        assert_eq!(Scan::of(text.as_bytes()).fragment, None, "{text}");
    }
    assert!(Scan::of(b"#define CAT(a, b) a##b").pastes);
    assert!(Scan::of(b"#define CAT(a, b) a %:%: b").pastes);
    assert!(!Scan::of(b"#define STR(a) #a").pastes);
}

#[test]
fn reading_only_once_is_noted() {
    for text in ["#pragma once", " # pragma /**/ once", "_Pragma(\"once\")", "#define ONCE _Pragma(\"once\")"]
    {
        assert!(Scan::of(text.as_bytes()).once, "{text}");
    }
    assert!(!Scan::of(b"// #pragma once\n#pragma unroll\nint once;").once);
}
