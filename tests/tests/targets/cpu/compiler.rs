//! The CPU target: the compiler as a part of the key.

use std::fs;

use warmstart::{
    MissReason,
    target::cpu::{Compiler, CpuTarget, Kernel},
};
use warmstart_tests::cpu::{hits, memory, misses, restarted, run, script, settle};

#[test]
fn missing_compiler_is_an_error_that_names_its_path() {
    let error = Compiler::at("/no/such/cc").unwrap_err();
    assert!(error.is_no_compiler());
    assert!(error.to_string().contains("/no/such/cc"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let silent = script(&directory.path().join("cc"), "exit 1");
    let error = CpuTarget::new(silent).compile(&memory(), &Kernel::new("f", "int f;")).unwrap_err();
    assert!(error.is_no_compiler());
}

#[test]
fn a_warm_start_runs_no_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let path = directory.path().join("cc");
    script(&path, &format!("echo \"$@\" >> {}\nexec cc \"$@\"", log.display()));
    settle();
    let cache = memory();
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 5; }");
    let target = CpuTarget::new(Compiler::at(&path).unwrap());
    assert!(!run(&target, &cache, &kernel).1.is_hit());
    assert!(fs::read_to_string(&log).unwrap().contains("-MD"));
    fs::remove_file(&log).unwrap();
    hits(&target, &cache, &kernel, 5);
    assert!(!log.exists(), "{}", fs::read_to_string(&log).unwrap());
    // Another kernel runs the compiler twice, to compile and to assemble, and does not probe it again.
    let _ = run(&restarted(&target), &cache, &Kernel::new("f", "int f(void) { return 6; }"));
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 2);

    // A changed compiler is another one, even if it reports the same version.
    script(&path, &format!("echo \"$@\" >> {}\n: changed\nexec cc \"$@\"", log.display()));
    let (_, fetched) = run(&restarted(&target), &cache, &kernel);
    assert_eq!(fetched.miss(), Some(MissReason::Absent));
}

#[test]
fn a_program_that_the_compiler_runs_is_part_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let assembler = directory.path().join("as");
    let _ = script(&assembler, "exec as \"$@\"");
    let answer = format!("case \"$*\" in -print-prog-name=as) echo {};; ", assembler.display());
    let compiler = script(&directory.path().join("cc"), &format!("{answer} *) exec cc \"$@\";; esac"));
    settle();
    let (target, cache) = (CpuTarget::new(compiler), memory());
    let kernel = Kernel::new("f", "int f(void) { return 5; }");
    misses(&target, &cache, &kernel, MissReason::Absent, 5);
    let _ = script(&assembler, ": changed\nexec as \"$@\"");
    misses(&restarted(&target), &cache, &kernel, MissReason::Absent, 5);
}

#[test]
fn compiler_that_changes_while_it_runs_is_not_cached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cc");
    script(&path, &format!("case \"$*\" in *-MD*) echo '# x' >> {};; esac\nexec cc \"$@\"", path.display()));
    let cache = memory();
    let target = CpuTarget::new(Compiler::at(&path).unwrap());
    let (value, fetched) = run(&target, &cache, &Kernel::new("f", "int f(void) { return 5; }"));
    assert_eq!((value, fetched.refusal()), (5, Some(MissReason::InputUnstable)));
}
