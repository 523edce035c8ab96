//! The CPU target: headers that change, appear and go away.

use std::{fs, process::Command};

use warmstart::{
    MissReason,
    target::cpu::{CpuFeatures, Kernel},
};
use warmstart_tests::cpu::{INCLUDING, hits, memory, misses, run, settle, target, targets, write};

#[test]
fn an_edited_header_is_a_miss() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let header = directory.path().join("a b/value.h");
        write(&header, "#include \"deep.h\"\n");
        write(directory.path().join("a b/deep.h"), "#define VALUE 1\n");
        let kernel = Kernel::new("f", "#include \"a b/value.h\"\nint f(void) { return VALUE; }")
            .include_dir(directory.path());
        misses(&target, &cache, &kernel, MissReason::Absent, 1);
        // Of the same length, and within the time that the file system's clock takes for one step.
        write(directory.path().join("a b/deep.h"), "#define VALUE 2\n");
        misses(&target, &cache, &kernel, MissReason::InputChanged, 2);
        write(directory.path().join("a b/deep.h"), "#define VALUE 1\n");
        hits(&target, &cache, &kernel, 1);
        fs::remove_file(directory.path().join("a b/deep.h")).unwrap();
        let error = target.compile(&cache, &kernel).unwrap_err();
        assert!(error.is_rejected_source());
        let path = directory.path().join("a b/value.h");
        assert!(error.log().unwrap().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn header_edited_back_and_forth_is_never_stale() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let header = directory.path().join("value.h");
    write(&header, "#define VALUE 1\n");
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
    let _ = run(&target, &cache, &kernel);
    settle();
    // The digest of a settled header is remembered from here on.
    hits(&target, &cache, &kernel, 1);
    let old = fs::metadata(&header).unwrap();
    // A program can set the time of modification back, and keep inode and size.
    write(&header, "#define VALUE 2\n");
    fs::File::options().append(true).open(&header).unwrap().set_modified(old.modified().unwrap()).unwrap();
    assert_eq!(fs::metadata(&header).unwrap().modified().unwrap(), old.modified().unwrap());
    assert_eq!(run(&target, &cache, &kernel).0, 2);
    // Or replace the file by one that was written before.
    let other = directory.path().join("other");
    write(&other, "#define VALUE 3\n");
    fs::rename(&other, &header).unwrap();
    assert_eq!(run(&target, &cache, &kernel).0, 3);
}

#[test]
fn a_new_file_that_shadows_an_earlier_include_is_a_miss() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let at = |name: &str| directory.path().join(name);
        write(at("second/value.h"), "#define VALUE 1\n");
        write(at("second/way.h"), "#include \"value.h\"\n");
        fs::create_dir_all(at("first")).unwrap();
        fs::create_dir_all(at("source")).unwrap();
        let kernel = |text: &str| {
            Kernel::new("f", format!("{text}\nint f(void) {{ return VALUE; }}"))
                .source_dir(at("source"))
                .include_dir(at("first"))
                .include_dir(at("second"))
        };
        let define = |value: i32| format!("#define VALUE {value}\n");

        let quoted = kernel("#include \"value.h\"");
        let angled = kernel("#include <value.h>");
        misses(&target, &cache, &quoted, MissReason::Absent, 1);
        misses(&target, &cache, &angled, MissReason::Absent, 1);
        write(at("first/value.h"), &define(2));
        misses(&target, &cache, &quoted, MissReason::InputChanged, 2);
        misses(&target, &cache, &angled, MissReason::InputChanged, 2);
        write(at("source/value.h"), &define(3));
        misses(&target, &cache, &quoted, MissReason::InputChanged, 3);
        hits(&target, &cache, &angled, 2);
        fs::remove_file(at("source/value.h")).unwrap();
        fs::remove_file(at("first/value.h")).unwrap();
        hits(&target, &cache, &quoted, 1);

        // Beside the file that includes it, which here is found in the second directory.
        fs::rename(at("second/value.h"), at("first/value.h")).unwrap();
        write(at("first/value.h"), &define(4));
        let through = kernel("#include \"way.h\"");
        misses(&target, &cache, &through, MissReason::Absent, 4);
        write(at("second/value.h"), &define(5));
        misses(&target, &cache, &through, MissReason::InputChanged, 5);

        // A directory that was not there.
        write(at("second/deep/er/value.h"), &define(6));
        let deep = kernel("#include <deep/er/value.h>");
        misses(&target, &cache, &deep, MissReason::Absent, 6);
        write(at("first/deep/er/value.h"), &define(7));
        misses(&target, &cache, &deep, MissReason::InputChanged, 7);

        // One of the compiler's own headers.
        let system = kernel("#include <math.h>\n#ifndef VALUE\n#define VALUE 8\n#endif");
        misses(&target, &cache, &system, MissReason::Absent, 8);
        write(at("second/math.h"), &define(9));
        misses(&target, &cache, &system, MissReason::InputChanged, 9);
    }
}

#[test]
fn directories_that_are_named_twice_are_no_trouble() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        write(directory.path().join("value.h"), "#include <math.h>\n#define VALUE 1\n");
        let kernel = Kernel::new("f", INCLUDING)
            .source_dir(directory.path())
            .include_dir(directory.path())
            .include_dir("/usr/include")
            .include_dir(directory.path().join("."))
            .include_dir("/nowhere");
        misses(&target, &cache, &kernel, MissReason::Absent, 1);
        write(directory.path().join("value.h"), "#include <math.h>\n#define VALUE 2\n");
        misses(&target, &cache, &kernel, MissReason::InputChanged, 2);
    }
}

#[test]
fn a_copy_that_is_skipped_because_it_is_a_copy_is_looked_at() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let at = |name: &str| directory.path().join(name);
        // gcc skips a file that is marked so if one of the same time and content was read, and does not list it.
        let (one, two) = (at("source/value.h"), at("first/value.h"));
        for path in [&one, &two] {
            write(path, "#pragma once\nenum { CAT(value, __COUNTER__) };\n");
        }
        let time = fs::metadata(&one).unwrap().modified().unwrap();
        fs::File::options().append(true).open(&two).unwrap().set_modified(time).unwrap();
        let text = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n#include \"value.h\"\n#include <value.h>\n\
                    int f(void) { return __COUNTER__; }";
        let kernel = Kernel::new("f", text).source_dir(at("source")).include_dir(at("first"));
        let before = run(&target, &cache, &kernel).0;
        write(&two, "#pragma once\nenum { CAT(value, __COUNTER__), CAT(value, __COUNTER__) };\n");
        let after = run(&target, &memory(), &kernel).0;
        assert_ne!(before, after);
        misses(&target, &cache, &kernel, MissReason::InputChanged, after);
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_a_miss() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let at = |name: &str| directory.path().join(name);
    write(at("one/value.h"), "#define VALUE 1\n");
    write(at("two/value.h"), "#define VALUE 2\n");
    std::os::unix::fs::symlink(at("one"), at("current")).unwrap();
    let kernel = Kernel::new("f", INCLUDING).include_dir(at("current"));
    misses(&target, &cache, &kernel, MissReason::Absent, 1);
    fs::remove_file(at("current")).unwrap();
    std::os::unix::fs::symlink(at("two"), at("current")).unwrap();
    misses(&target, &cache, &kernel, MissReason::InputChanged, 2);
}

#[test]
fn the_answer_of_has_include_is_part_of_the_key() {
    for target in targets() {
        let (directory, cache) = (tempfile::tempdir().unwrap(), memory());
        let text = "#if __has_include(\"tuned.h\")\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n";
        write(directory.path().join("value.h"), text);
        let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
        misses(&target, &cache, &kernel, MissReason::Absent, 1);
        write(directory.path().join("tuned.h"), "");
        misses(&target, &cache, &kernel, MissReason::InputChanged, 2);
        fs::remove_file(directory.path().join("tuned.h")).unwrap();
        hits(&target, &cache, &kernel, 1);
        write(directory.path().join("tuned.h"), "");
        hits(&target, &cache, &kernel, 2);
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "needs an x86-64 CPU")]
fn a_precompiled_header_is_never_read() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let target = target.with_features(CpuFeatures::none());
    let header = directory.path().join("value.h");
    write(&header, "#define VALUE 1\n");
    // With the options that the kernel will be compiled with, or the compiler would refuse it by itself.
    let mut command = Command::new(target.compiler().path());
    command.args(["-march=x86-64", "-mtune=generic", "-O3", "-fPIC", "-x", "c-header"]);
    assert!(
        command.arg(&header).arg("-o").arg(directory.path().join("value.h.gch")).status().unwrap().success()
    );
    write(&header, "#define VALUE 2\n");
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
    misses(&target, &cache, &kernel, MissReason::Absent, 2);
}

#[test]
fn name_in_the_source_is_resolved_in_the_source_directory() {
    let (target, cache) = (target(), memory());
    let directory = tempfile::tempdir().unwrap();
    write(directory.path().join("value.h"), "#define VALUE 1\n");
    fs::create_dir_all(directory.path().join("source")).unwrap();
    let kernel = Kernel::new("f", "#include \"../value.h\"\nint f(void) { return VALUE; }")
        .source_dir(directory.path().join("source"));
    // Names that a neighbour of our temporary directory could have.
    let neighbour = std::env::temp_dir().join("value.h");
    write(&neighbour, "#define VALUE 2\n");
    misses(&target, &cache, &kernel, MissReason::Absent, 1);
    let _ = fs::remove_file(neighbour);
}

#[test]
fn header_behind_a_raw_string_or_a_pasted_question_is_found() {
    let (target, cache, directory) = (target(), memory(), tempfile::tempdir().unwrap());
    let paste = "#define C(a, b) a##b\n#define ASK C(__has_, include)\n#if ASK(\"value.h\")\n";
    for head in [paste, "const char *s = R\"x(\" /* )x\";\n#if __has_include(\"value.h\")\n"] {
        let text = format!(
            "{head}#include \"value.h\"\n#else\n#define VALUE 1\n#endif\nint f(void) {{ return VALUE; }}"
        );
        let kernel = Kernel::new("f", text).source_dir(directory.path());
        // A compiler may take neither.
        let Ok(_) = target.compile(&cache, &kernel) else { continue };
        write(directory.path().join("value.h"), "#define VALUE 2\n");
        assert_eq!(run(&target, &cache, &kernel).0, 2);
        fs::remove_file(directory.path().join("value.h")).unwrap();
    }
}
