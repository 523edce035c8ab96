use std::{fs, path::Path};

use warmstart_core::key::Key;

use super::*;

fn program(source: &str) -> Program {
    Program::cxx("k.cu", source)
}

fn refused(program: &Program) -> String {
    let error = Headers::default().found(program).unwrap_err();
    let closed = Headers::default().closed(program).unwrap_err();
    assert_eq!(error.to_string(), closed.to_string());
    error.to_string()
}

#[test]
fn closed_texts_name_what_they_include() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("s")).unwrap();
    fs::write(directory.path().join("s/a b.h"), "#if __has_include(<c.h>)\n#endif\n#include <none.h>\n")
        .unwrap();
    let program = program("#include <s/a b.h>\n#include /*\n*/ \"c\\\n.h\"\n")
        .header("c.h", "#include \"d.h\"\n")
        .header("d.h", "int d;")
        .include_dir(directory.path());
    let (closed, found) = Headers::default().closed(&program).unwrap();
    let source = "#include \"/warmstart/include0/s/a~20b.h\"\n\
                  #include /*\n*/ \"/warmstart/given/c.h\"\\\n\n";
    assert_eq!(String::from_utf8(closed.source).unwrap(), source);
    let header = |name: &str, text: &str| (String::from(name), text.as_bytes().to_vec());
    assert_eq!(
        closed.headers,
        [
            header("/warmstart/include0/s/a~20b.h", "#if  1 \n#endif\n#include <none.h>\n"),
            header("/warmstart/given/c.h", "#include \"/warmstart/given/d.h\"\n"),
            header("/warmstart/given/d.h", "int d;"),
        ]
    );
    assert_eq!(found.headers[2], ("given/d.h".into(), *Key::digest(b"int d;").as_bytes()));
    assert_eq!(found, Headers::default().found(&program).unwrap());
}

#[test]
fn where_each_name_leads_is_in_the_search() {
    let search = |source: &str| {
        let program = program(source).header("a.h", "").header("b.h", "");
        Headers::default().found(&program).unwrap()
    };
    let texts = [
        "#include <a.h>\n#include <b.h>",
        "#include <a.h>\n#include <c.h>\n#include <b.h>",
        "#include <a.h>\n#include <b.h>\n#if __has_include(<a.h>)",
        "#include <a.h>\n#include <b.h>\n#if __has_include(<c.h>)",
        "#include <a.h>\n#include <b.h>\n#define HAS_INCLUDE(x) __has_include(x)\n#if HAS_INCLUDE(<a.h>)",
        "#include <a.h>\n#include <b.h>\n#define HAS_INCLUDE(x) __has_include(x)\n#if HAS_INCLUDE(<c.h>)",
    ];
    let all: Vec<_> = texts.iter().map(|text| search(text).search).collect();
    for (place, one) in all.iter().enumerate() {
        assert!(!all[..place].contains(one), "{place}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("a.h");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let program = program("#include \"a.h\"").source_dir(directory.path());
    assert!(refused(&program).contains("no regular file"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_header_that_cannot_be_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("second")).unwrap();
    fs::write(at("second/a.h"), "").unwrap();
    // A file that not even root can read from its beginning.
    std::os::unix::fs::symlink("/proc/self/mem", at("a.h")).unwrap();
    let program = program("#include <a.h>").include_dir(directory.path()).include_dir(at("second"));
    assert!(refused(&program).contains("check its permissions"));
}

#[test]
fn a_header_with_a_nul_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.h"), "\n//\0").unwrap();
    let program = program("#include \"a.h\"").source_dir(directory.path());
    let error = refused(&program);
    assert!(error.contains("a.h, line 2, has a NUL byte"), "{error}");
}

#[test]
fn a_definition_that_asks_is_refused() {
    let defining = |definition| program("").option(OptionName::DefineMacro, [definition]);
    let program = defining("A=__has_include(<a.h>)");
    assert!(refused(&program).starts_with("the macro definition `A=__has_include(<a.h>)` has"));
    let program = defining("A=1\n#include <a.h>");
    assert!(refused(&program).contains("more than one line"));
}

#[test]
fn too_many_headers_are_refused_and_too_large_ones() {
    let names = (0..10_001).map(|number| format!("{number}"));
    let source: String = names.clone().map(|name| format!("#include <{name}>\n")).collect();
    let many = names.fold(program(&source), |program, name| program.header(name, ""));
    assert!(refused(&many).contains("more than 10000 headers"));
    let large = |source: &str| {
        program(source).header("a", " ".repeat(1 << 19)).header("b", " ".repeat((1 << 19) + 1))
    };
    assert!(refused(&large("#include <a>\n#include <b>")).contains("larger than 1 MiB"));
    assert!(Headers::default().found(&large("#include <b>")).is_ok());
}

#[test]
fn a_header_larger_than_memory_is_refused_and_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = fs::File::create(directory.path().join("a.h")).unwrap();
    if file.set_len(1 << 42).is_err() {
        return;
    }
    let program = program("#include \"a.h\"").source_dir(directory.path());
    assert!(refused(&program).contains("larger than 1 MiB"));
}

#[test]
fn a_text_is_read_once_and_another_is_another() {
    let headers = Headers::default();
    let one = headers.source(&program("#include <a.h>"));
    assert!(Arc::ptr_eq(&one, &headers.source(&program("#include <a.h>"))));
    assert_eq!(headers.source(&program("#include <b.h>")).scan.operands[0].name, "b.h");
    assert!(Arc::ptr_eq(&one, &headers.source(&program("#include <a.h>"))));
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    let headers = Headers::default();
    for number in 0..6 {
        let text = format!("{number}").repeat(MAX_SOURCES as usize / 4);
        drop(headers.source(&program(&text)));
        assert!(headers.sources.lock().bytes <= MAX_SOURCES);
    }
    drop(headers.source(&program(&"x".repeat(MAX_SOURCES as usize))));
    let known = headers.sources.lock();
    let sizes = known.scans.keys().map(|text| text.len() as u64);
    assert_eq!((known.scans.len(), known.bytes), (2, sizes.sum()));
}

#[test]
fn headers_that_did_not_change_are_not_read_again() {
    let headers = Headers::default();
    // A file that is older than the times of files are coarse.
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let program = program("#include <lib.rs>").include_dir(&directory);
    let found = headers.found(&program).unwrap();
    assert_eq!(found.headers[0].0, "include0/lib.rs");
    let again =
        files::value_of(&headers.memo, &directory.join("lib.rs"), |_| unreachable!("it is remembered"));
    assert!(again.is_some());
    assert_eq!(headers.found(&program).unwrap(), found);
}

#[test]
fn a_line_that_a_standard_reads_otherwise_is_refused_under_it() {
    let under = |text: &str, standard: Option<&str>| {
        let program = program(text);
        match standard {
            Some(standard) => program.option(OptionName::Std, standard),
            None => program,
        }
    };
    let of_standard = "line 2, has a line that the chosen standard of C++ may read otherwise";
    for standard in ["c++03", "c++11", "c++14"] {
        assert!(refused(&under("\n1'0", Some(standard))).contains(of_standard), "{standard}");
        let defining = under("", Some(standard)).option(OptionName::DefineMacro, ["A=1'0"]);
        assert!(refused(&defining).contains("may read otherwise"), "{standard}");
        assert!(Headers::default().found(&under("// \\ \n", Some(standard))).is_ok(), "{standard}");
    }
    assert!(refused(&under("\n// \\ \n", Some("c++23"))).contains(of_standard));
    for standard in [None, Some("c++17"), Some("c++20"), Some("c++23")] {
        assert!(Headers::default().found(&under("1'0\nR\"(\n)\"", standard)).is_ok(), "{standard:?}");
    }
    assert!(
        refused(&under("1'0 __DATE__", Some("c++14"))).contains("__DATE__"),
        "the program's own is named first"
    );
}

fn label(name: &str) -> String {
    let mut label = String::from("include0/");
    push_label(&mut label, name);
    label
}

#[test]
fn odd_names_become_plain_ones() {
    assert_eq!(label("a/b-1.cuh"), "include0/a/b-1.cuh");
    assert_eq!(label("../a b.h"), "include0/~up/a~20b.h");
    assert_eq!(label("/x//./y"), "include0/x/~none/~here/y");
    assert_eq!(label("ü\"\\"), "include0/~C3~BC~22~5C");
}

#[test]
fn two_names_stay_two() {
    let names = ["..", "~up", ".", "", "~", "~7E", "a b", "a~20b", "~none", "...", "./", "~here"];
    for (place, one) in names.iter().enumerate() {
        for other in &names[place + 1..] {
            assert_ne!(label(one), label(other), "{one:?} {other:?}");
        }
    }
}
