//! Headers of CUDA programs: what we find is what NVRTC reads, and what it makes of closed texts is what it makes by
//! itself.

mod bundled;
mod corpus;
mod nvrtc;
mod opened;
mod program;
mod random;

use std::{
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use self::{
    corpus::CORPUS,
    nvrtc::{Nvrtc, nvrtc},
    program::Program,
};

/// Runs `check` for each program of the corpus, in a directory of its own.
fn each(check: impl Fn(&Nvrtc, &str, &Program)) {
    let nvrtc = nvrtc();
    let check = |(name, text): &(&str, &str)| {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap().join("here");
        check(nvrtc, name, &Program::lay_out(&root, text));
    };
    // All are checked, also where one fails.
    let fails = |program: &&(&str, &str)| catch_unwind(AssertUnwindSafe(|| check(program))).is_err();
    let failed: Vec<&str> = CORPUS.iter().filter(fails).map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// The same, for the programs that are not refused.
fn each_taken(check: impl Fn(&Nvrtc, &str, &Program)) {
    each(|nvrtc, name, program| {
        if program.refused.is_none() && !program.is_untold {
            check(nvrtc, name, program);
        }
    });
}

#[test]
fn the_corpus_is_large_and_its_programs_have_names_of_their_own() {
    let names: BTreeSet<&str> = CORPUS.iter().map(|(name, _)| *name).collect();
    assert!(names.len() >= 40 && names.len() == CORPUS.len(), "{}", names.len());
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn what_only_the_compiler_can_tell_is_refused() {
    each(|_, name, program| match (&program.refused, program.found()) {
        (None, found) => assert!(found.is_ok(), "{name}: {}", found.unwrap_err()),
        (Some(words), Ok(_)) => panic!("{name} is not refused: {words}"),
        (Some(words), Err(error)) => assert!(error.to_string().contains(words), "{name}: {error}"),
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn an_include_of_a_macro_that_is_reached_makes_no_binary() {
    each(|nvrtc, name, program| {
        if program.is_untold {
            let (closed, _) = program.closed().unwrap();
            let (compiled, opened) = program.compile_closed(nvrtc, &closed);
            let log = compiled.unwrap_err();
            assert!(log.contains("a name that only the preprocessor makes"), "{name}: {log}");
            assert!(opened.is_empty(), "{name}: {opened:?}");
        }
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn all_files_that_the_compiler_opens_are_found() {
    each_taken(|nvrtc, name, program| {
        let (compiled, opened) = program.compile_plainly(nvrtc);
        assert_eq!(compiled.is_err(), program.fails, "{name}: {compiled:?}");
        let found = program.files(&program.found().unwrap());
        let opened: BTreeSet<PathBuf> =
            opened.into_iter().filter(|path| !program.asked.contains(path) || found.contains(path)).collect();
        assert!(opened.is_subset(&found), "{name}: {opened:#?} {found:#?}");
        assert!(program.is_conditional || opened == found, "{name}: {opened:#?} {found:#?}");
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn closed_texts_compile_to_the_same_and_open_no_file() {
    each_taken(|nvrtc, name, program| {
        let (plain, _) = program.compile_plainly(nvrtc);
        let (closed, found) = program.closed().unwrap();
        assert_eq!(found, program.found().unwrap(), "{name}");
        let (compiled, opened) = program.compile_closed(nvrtc, &closed);
        assert!(opened.is_empty(), "{name}: {opened:?}");
        match (plain, compiled) {
            (Ok(plain), Ok(compiled)) => assert!(plain == compiled, "{name}"),
            (Err(_), Err(_)) => {}
            (plain, compiled) => panic!("{name}: {plain:?} {compiled:?} {closed:#?}"),
        }
        for (_, text) in closed.headers.iter().chain([&(String::new(), closed.source)]) {
            let text = String::from_utf8_lossy(text);
            assert!(program.is_fixed || !text.contains(program.root.to_str().unwrap()), "{name}: {text}");
        }
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn an_edit_of_any_file_is_found() {
    each_taken(|_, name, program| {
        let headers = warmstart::target::cuda::headers::Headers::default();
        let found = || headers.found(&program.described()).unwrap();
        let before = found();
        for file in program.files(&before) {
            let text = fs::read(&file).unwrap();
            fs::write(&file, [&text[..], b"\n"].concat()).unwrap();
            assert_ne!(found(), before, "{name}: {}", file.display());
            fs::write(&file, text).unwrap();
            assert_eq!(found(), before, "{name}: {}", file.display());
        }
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_file_that_shadows_another_is_found() {
    each_taken(|nvrtc, name, program| {
        let before = program.found().unwrap();
        let (plain, opened) = program.compile_plainly(nvrtc);
        let directories: Vec<PathBuf> = [program.root.join("src"), program.root.join("src/s")]
            .into_iter()
            .chain(program.includes.clone())
            .collect();
        // Each name of a header, in each directory where it is not yet.
        let mut names: BTreeSet<PathBuf> = BTreeSet::new();
        for file in program.files(&before) {
            for directory in &directories {
                names.extend(file.strip_prefix(directory).ok().map(Path::to_path_buf));
            }
        }
        for (directory, name_of) in
            directories.iter().flat_map(|directory| names.iter().map(move |n| (directory, n)))
        {
            let path = directory.join(name_of);
            if path.exists() || path.is_symlink() || fs::create_dir_all(path.parent().unwrap()).is_err() {
                continue;
            }
            fs::write(&path, "#undef A\n#define A 999\n").unwrap();
            let (shadowed, opened_then) = program.compile_plainly(nvrtc);
            let differs = shadowed.ok() != plain.clone().ok() || opened_then != opened;
            let found = program.found();
            if differs {
                assert!(found.is_err() || found.unwrap() != before, "{name}: {}", path.display());
            }
            fs::remove_file(path).unwrap();
        }
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn what_is_not_reached_does_not_count() {
    each_taken(|_, name, program| {
        let before = program.found().unwrap();
        for directory in ["src", "src/other"] {
            fs::create_dir_all(program.root.join(directory)).unwrap();
            fs::write(program.root.join(directory).join("unrelated.h"), "#error").unwrap();
        }
        assert_eq!(program.found().unwrap(), before, "{name}");
    });
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn a_program_that_moved_has_the_same_headers() {
    each_taken(|_, name, program| {
        if program.is_fixed {
            return;
        }
        let before = program.closed().unwrap();
        let root = program.root.with_file_name("there");
        fs::rename(&program.root, &root).unwrap();
        let after = program.moved(&root).closed().unwrap();
        assert!(before == after, "{name}: {before:#?} {after:#?}");
    });
}
