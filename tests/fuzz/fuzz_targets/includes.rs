//! Scans arbitrary bytes as CUDA C++ for includes, and rewrites the names of the headers.
#![no_main]

use std::ops::Range;

use libfuzzer_sys::fuzz_target;
use warmstart_core::includes::{Ask, Operand, Scan, Trouble, rewrite};

fuzz_target!(|text: &[u8]| {
    let scan = Scan::of(text);

    // The places are in the text, in order and apart.
    let mut end = 0;
    for Operand { ask, name, quoted, range, .. } in &scan.operands {
        assert!(end <= range.start && range.start < range.end && range.end <= text.len());
        end = range.end;
        assert!(!name.contains('\n'));
        assert!(!name.contains(if *quoted { '"' } else { '>' }));
        let operand = &text[range.clone()];
        match ask {
            Ask::Exists => assert!(operand.starts_with(b"_") && operand.ends_with(b")")),
            Ask::Include | Ask::Next | Ask::Macro => {
                assert!(operand.starts_with(if *quoted { b"\"" } else { b"<" }));
                assert!(operand.ends_with(if *quoted { b"\"" } else { b">" }));
            }
        }
    }
    let newlines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    for line in scan.problems.iter().map(|(_, line)| *line).chain(scan.fragment) {
        assert!(1 <= line && line <= newlines(text) + 1);
    }

    let edits = |what: &dyn Fn(&Operand) -> Vec<u8>| -> Vec<(Range<usize>, Vec<u8>)> {
        scan.operands.iter().map(|operand| (operand.range.clone(), what(operand))).collect()
    };
    let same = rewrite(text, &edits(&|operand| text[operand.range.clone()].to_vec()));
    assert_eq!(same, text);

    // Others in their places, found again there; all else is read as before.
    let name = |operand: &Operand| format!("x/{}-", operand.range.start);
    let other = rewrite(
        text,
        &edits(&|operand| match operand.ask {
            Ask::Exists => format!("__has_include(\"{}\")", name(operand)).into_bytes(),
            Ask::Include | Ask::Next | Ask::Macro => format!("\"{}\"", name(operand)).into_bytes(),
        }),
    );
    assert_eq!(newlines(&other), newlines(text));
    let found = Scan::of(&other);
    assert_eq!(found.operands.len(), scan.operands.len());
    for (found, operand) in found.operands.iter().zip(&scan.operands) {
        assert_eq!((found.ask, found.quoted, &found.name), (operand.ask, true, &name(operand)));
    }
    // The characters that ended a name are gone: a NUL, or a quote that made its line uneven. Only the first uneven line is reported.
    let others = |scan: &Scan| -> Vec<_> {
        let is_of_name = |trouble| matches!(trouble, Trouble::Nul | Trouble::Uneven);
        scan.problems.iter().filter(|(what, _)| !is_of_name(*what)).copied().collect()
    };
    assert_eq!(others(&found), others(&scan));
    let is_uneven = |scan: &Scan| scan.problems.iter().any(|(what, _)| *what == Trouble::Uneven);
    assert!(is_uneven(&scan) || !is_uneven(&found));
    assert_eq!((found.once, found.pastes, found.fragment), (scan.once, scan.pastes, scan.fragment));

    // Answered, a question is none any more.
    let answered = rewrite(
        text,
        &edits(&|operand| match operand.ask {
            Ask::Exists => b" 1 ".to_vec(),
            Ask::Include | Ask::Next | Ask::Macro => text[operand.range.clone()].to_vec(),
        }),
    );
    assert_eq!(newlines(&answered), newlines(text));
    let left = Scan::of(&answered);
    assert!(left.operands.iter().all(|operand| operand.ask != Ask::Exists));
    let includes = scan.operands.iter().filter(|operand| operand.ask != Ask::Exists).count();
    assert_eq!(left.operands.len(), includes);
});
