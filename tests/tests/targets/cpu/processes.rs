//! The CPU target: several processes.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use warmstart::{
    Cache,
    store::{FileStore, StoreOptions},
    target::cpu::Kernel,
};
use warmstart_tests::{
    children_of,
    cpu::{call, target, write},
    own_process::Children,
};

/// Runs in another process: compiles the source that the environment names, and prints the result.
fn compile() {
    let directory = PathBuf::from(std::env::var_os("WARMSTART_STORE").unwrap());
    let include = std::env::var_os("WARMSTART_INCLUDE").unwrap();
    let cache = Cache::new(FileStore::open(directory, StoreOptions::default()).unwrap());
    let kernel = Kernel::new("f", "#include <math.h>\n#include <value.h>\nint f(void) { return VALUE; }")
        .include_dir(&include)
        .source_dir(include);
    match target().load(&cache, &kernel) {
        Ok(loaded) => {
            let hit = loaded.fetched().is_hit();
            println!(
                "value {} hit {hit} file {}",
                call(loaded.library(), "f"),
                loaded.fetched().artifact().payload().len()
            );
        }
        Err(error) => println!("error {error}"),
    }
}

fn child_with(processes: &Children, variables: &[(&str, &Path)], current: &Path) -> String {
    let mut command = processes.command();
    command.current_dir(current).envs(variables.iter().copied());
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let start = output.find("value ").or_else(|| output.find("error ")).expect(&output);
    String::from(output[start..].lines().next().unwrap())
}

#[test]
fn a_moved_checkout_and_another_home_still_hit() {
    let Some(processes) = children_of!(compile) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["store", "home", "other", "temporary"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    write(at("checkout/value.h"), "#include \"deep/value.h\"\n");
    write(at("checkout/deep/value.h"), "#define VALUE 1\n");
    write(at("moved/to/value.h"), "#include \"deep/value.h\"\n");
    write(at("moved/to/deep/value.h"), "#define VALUE 1\n");
    let first = child_with(
        &processes,
        &[("WARMSTART_STORE", &at("store")), ("WARMSTART_INCLUDE", &at("checkout")), ("HOME", &at("home"))],
        &at("home"),
    );
    assert!(first.starts_with("value 1 hit false"), "{first}");
    // A relative path besides, another current directory and another place for temporary files.
    let second = child_with(
        &processes,
        &[
            ("WARMSTART_STORE", &at("store")),
            ("WARMSTART_INCLUDE", Path::new("to")),
            ("HOME", &at("other")),
            ("TMPDIR", &at("temporary")),
        ],
        &at("moved"),
    );
    assert!(second.starts_with("value 1 hit true"), "{second}");
    write(at("moved/to/deep/value.h"), "#define VALUE 2\n");
    let third = child_with(
        &processes,
        &[("WARMSTART_STORE", &at("store")), ("WARMSTART_INCLUDE", &at("moved/to"))],
        &at("moved"),
    );
    assert!(third.starts_with("value 2 hit false"), "{third}");
}

#[test]
fn the_environment_does_not_change_what_is_compiled() {
    let Some(processes) = children_of!(compile) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("store")).unwrap();
    fs::create_dir_all(at("include")).unwrap();
    write(at("hidden/value.h"), "#define VALUE 1\n");
    for variable in ["CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "DEPENDENCIES_OUTPUT"] {
        let said = child_with(
            &processes,
            &[
                ("WARMSTART_STORE", &at("store")),
                ("WARMSTART_INCLUDE", &at("include")),
                (variable, &at("hidden")),
            ],
            directory.path(),
        );
        assert!(said.starts_with("error the compiler rejected"), "{variable}: {said}");
    }
}

#[test]
fn a_wrapper_that_stands_before_the_compiler_is_passed_over() {
    let Some(processes) = children_of!(compile) else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("store")).unwrap();
    write(at("include/value.h"), "#define VALUE 1\n");
    write(at("bin/ccache"), "#!/bin/sh\nexit 1\n");
    fs::set_permissions(at("bin/ccache"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("ccache", at("bin/cc")).unwrap();
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap());
    let said = child_with(
        &processes,
        &[
            ("WARMSTART_STORE", &at("store")),
            ("WARMSTART_INCLUDE", &at("include")),
            ("CC", Path::new("cc")),
            ("PATH", Path::new(&path)),
        ],
        directory.path(),
    );
    assert!(said.starts_with("value 1"), "{said}");
}
