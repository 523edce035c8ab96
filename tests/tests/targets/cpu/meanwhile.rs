//! The CPU target: what changes, and who asks, while the compiler runs.

use std::{fs, thread, time::Duration};

use warmstart::{
    MissReason,
    cache::Origin,
    target::cpu::{CpuTarget, Kernel},
};
use warmstart_tests::cpu::{INCLUDING, hits, memory, run, script, target, write};

#[test]
fn header_edited_while_the_compiler_runs_is_not_stored_wrongly() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write(at("value.h"), "#define VALUE 1\n");
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());

    // Edited after it was read, the first time only.
    let once = format!(
        "cc \"$@\"; code=$?\ncase \"$*\" in *-MD*) test -e {d}/done || echo '#define VALUE 2' > {d}/value.h; : > {d}/done;; esac\nexit $code",
        d = directory.path().display()
    );
    let (target, cache) = (CpuTarget::new(script(&at("once"), &once)), memory());
    let (value, fetched) = run(&target, &cache, &kernel);
    assert_eq!((value, fetched.refusal()), (2, None));
    hits(&target, &cache, &kernel, 2);

    // Edited each time.
    let always = format!(
        "cc \"$@\"; code=$?\ncase \"$*\" in *-MD*) echo x >> {d}/count; echo \"#define VALUE $(wc -l < {d}/count)\" > {d}/value.h;; esac\nexit $code",
        d = directory.path().display()
    );
    let target = CpuTarget::new(script(&at("always"), &always));
    let (_, fetched) = run(&target, &cache, &kernel);
    assert_eq!(fetched.refusal(), Some(MissReason::InputUnstable));
    assert_eq!(fs::read_to_string(at("count")).unwrap().lines().count(), 3);

    // A file that shadows it appears meanwhile, or the directory is exchanged for an older one.
    fs::create_dir_all(at("first")).unwrap();
    write(at("second/value.h"), "#define VALUE 10\n");
    write(at("older/value.h"), "#define VALUE 11\n");
    let kernel = Kernel::new("f", INCLUDING).include_dir(at("first")).include_dir(at("second"));
    for (name, change, value) in [
        ("shadow", "cp {d}/older/value.h {d}/first/value.h", 11),
        ("exchange", "mv {d}/second {d}/away; mv {d}/older {d}/second", 11),
    ] {
        let change = change.replace("{d}", directory.path().to_str().unwrap());
        let d = directory.path().display();
        let text = format!(
            "cc \"$@\"; code=$?\ncase \"$*\" in *-MD*) test -e {d}/{name}.done || {{ {change}; : > {d}/{name}.done; }};; esac\nexit $code"
        );
        let (target, cache) = (CpuTarget::new(script(&at(name), &text)), memory());
        let (found, fetched) = run(&target, &cache, &kernel);
        assert_eq!((found, fetched.refusal()), (value, None), "{name}");
        hits(&target, &cache, &kernel, value);
        let _ = fs::remove_file(at("first/value.h"));
    }
}

#[test]
fn of_many_threads_one_compiles() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 7; }");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(run(&target, &cache, &kernel).0, 7));
        }
    });
    assert_eq!(cache.statistics().builds, 1);
}

#[test]
fn waiter_never_gets_an_object_compiled_from_other_headers() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let started = at("started");
    let text = format!("case \"$*\" in *-MD*) : > {}; sleep 0.3;; esac\nexec cc \"$@\"", started.display());
    let (target, cache) = (CpuTarget::new(script(&at("cc"), &text)), memory());
    let kernel = |name: &str| Kernel::new("f", INCLUDING).source_dir(at(name));
    for (name, value) in [("one", 1), ("two", 2), ("three", 1)] {
        write(at(name).join("value.h"), &format!("#define VALUE {value}\n"));
    }
    let run = |name| run(&target, &cache, &kernel(name));
    let [one, two, three] = thread::scope(|scope| {
        let first = scope.spawn(|| run("one"));
        while !started.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        [first, scope.spawn(|| run("two")), scope.spawn(|| run("three"))].map(|thread| thread.join().unwrap())
    });
    assert_eq!((one.0, two.0, three.0), (1, 2, 1));
    assert!(matches!(one.1.origin(), Origin::Built { .. }));
    assert!(matches!(two.1.origin(), Origin::Built { .. }));
    // The contents of its headers are the same: that build is its build.
    assert!(matches!(three.1.origin(), Origin::Coalesced { .. }), "{:?}", three.1.origin());
}
