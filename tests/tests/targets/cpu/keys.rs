//! The CPU target: what is in a key and in an object, and what is not.

use warmstart::{
    MissReason,
    target::cpu::{CpuFeatures, CpuTarget, Kernel},
};
use warmstart_tests::cpu::{INCLUDING, hits, memory, misses, restarted, target, targets, write};

#[test]
fn what_was_compiled_once_is_found_and_called() {
    for target in targets() {
        let cache = memory();
        let source = "#include <math.h>\nint f(void) { return FORTY + 2; }";
        let kernel = Kernel::new("f", source).flag("-DFORTY=40");
        misses(&target, &cache, &kernel, MissReason::Absent, 42);
        let statistics = cache.statistics();
        // Only the objects are counted, not what is looked up on the way to them.
        assert_eq!((statistics.hits, statistics.misses.total(), statistics.builds), (2, 1, 1));
        let renamed = Kernel::new("g", source).flag("-DFORTY=40");
        hits(&target, &cache, &renamed, 42);
    }
}

#[test]
fn source_flags_and_the_number_of_directories_are_in_the_key() {
    let (target, cache) = (target(), memory());
    let kernel = |source| Kernel::new("f", source);
    misses(&target, &cache, &kernel("int f(void) { return 1; }"), MissReason::Absent, 1);
    misses(&target, &cache, &kernel("int f(void) { return 2; }"), MissReason::Absent, 2);
    misses(&target, &cache, &kernel("int f(void) { return 2; }").flag("-DX"), MissReason::Absent, 2);
    misses(
        &target,
        &cache,
        &kernel("int f(void) { return 2; }").include_dir("/nowhere"),
        MissReason::Absent,
        2,
    );
    misses(
        &target,
        &cache,
        &kernel("int f(void) { return 2; }").source_dir("/nowhere"),
        MissReason::Absent,
        2,
    );
    hits(&target, &cache, &kernel("int f(void) { return 1; }"), 1);
}

#[test]
fn no_path_is_in_a_key_or_in_a_recipe() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path().join("value.h"), "#define VALUE 1\n");
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", INCLUDING).source_dir(directory.path());
    let fetched = target.compile(&cache, &kernel).unwrap();
    let metadata = fetched.artifact().metadata().unwrap();
    let recipe = format!("{:?}", metadata.recipe().unwrap());
    assert!(recipe.contains("header source/value.h"), "{recipe}");
    for path in [directory.path().to_str().unwrap(), "/usr", "/home", "/tmp", "native"] {
        assert!(!recipe.contains(path), "{path} in {recipe}");
    }
}

#[test]
fn fewer_cpu_features_are_another_key() {
    let cache = memory();
    let kernel = Kernel::new("f", "int f(void) { return 1; }");
    let host = target();
    let one = host.features().names().next().map(String::from).expect("every tested CPU has features");
    let fewer = target().with_features(host.features().names().filter(|name| *name != one).collect());
    misses(&host, &cache, &kernel, MissReason::Absent, 1);
    misses(&fewer, &cache, &kernel, MissReason::Absent, 1);
    hits(&host, &cache, &kernel, 1);

    let recipe = |target: &CpuTarget| {
        target.compile(&cache, &kernel).unwrap().artifact().metadata().unwrap().recipe().unwrap().clone()
    };
    let changes = recipe(&fewer).changes_to(&recipe(&host));
    assert!(changes.iter().any(|change| change.label == "cpu features"), "{changes:?}");
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "needs an x86-64 CPU")]
fn the_features_are_named_and_the_host_is_not_guessed_at() {
    let source = "#ifdef __AVX2__\nint f(void) { return 2; }\n#else\nint f(void) { return 1; }\n#endif\n";
    for target in targets() {
        let cache = memory();
        let none = target.with_features(CpuFeatures::none());
        misses(&none, &cache, &Kernel::new("f", source), MissReason::Absent, 1);
        if CpuFeatures::host().names().any(|name| name == "avx2") {
            let host = restarted(&none).with_features(CpuFeatures::host());
            misses(&host, &cache, &Kernel::new("f", source), MissReason::Absent, 2);
        }
    }
}

#[test]
fn what_is_no_name_of_a_feature_is_refused() {
    for name in ["native", "arch=native", "avx2 -march=native", ""] {
        let target = target().with_features(CpuFeatures::none().with(name));
        let error = target.compile(&memory(), &Kernel::new("f", "int f;")).unwrap_err();
        assert!(error.is_refused(), "{error}");
    }
}

#[test]
fn the_same_kernel_gives_the_same_bytes_wherever_it_is_compiled() {
    let source = "#include \"value.h\"\n#include <stdlib.h>\n#include <math.h>\nconst char *name(void) { return __FILE__; }\n\
                  int f(void) { return VALUE + (int)sqrt(4.0); }";
    for target in targets() {
        let objects: Vec<Vec<u8>> = (0..2)
            .map(|_| {
                let directory = tempfile::tempdir().unwrap();
                let text =
                    "static const char *path(void) { return __FILE__; }\n#define VALUE (path() != 0)\n";
                write(directory.path().join("value.h"), text);
                let kernel =
                    Kernel::new("f", source).include_dir(directory.path()).flags(["-g", "-g3", "-lm"]);
                let fetched = target.compile(&memory(), &kernel).unwrap();
                let object = fetched.artifact().payload().to_vec();
                let text = String::from_utf8_lossy(&object).into_owned();
                assert!(!text.contains(directory.path().to_str().unwrap()));
                assert!(!text.contains(std::env::temp_dir().to_str().unwrap()));
                assert!(!text.contains(env!("CARGO_MANIFEST_DIR")));
                object
            })
            .collect();
        assert!(objects[0] == objects[1], "two objects differ");
    }
}
