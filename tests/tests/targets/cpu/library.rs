//! The CPU target: loaded objects.

use std::ffi::CStr;

use warmstart::{
    Artifact,
    target::cpu::{Kernel, Library},
};
use warmstart_tests::cpu::{call, memory, run, target};

#[test]
fn an_object_for_features_that_the_host_lacks_is_not_loaded() {
    let fetched = target().compile(&memory(), &Kernel::new("f", "int f(void) { return 1; }")).unwrap();
    let with = |name: &str, value: &str| {
        let metadata = fetched.artifact().metadata().unwrap().with_attribute(name, value.as_bytes());
        fetched.artifact().clone().with_metadata(&metadata)
    };
    // SAFETY: the object is this test's.
    let load = |artifact: &Artifact| unsafe { Library::load(artifact) };
    assert!(load(fetched.artifact()).is_ok());
    let error = load(&with("cpu.features", "sse3 of_a_cpu_to_come")).unwrap_err();
    assert!(error.is_missing_feature());
    assert!(error.to_string().contains("of_a_cpu_to_come"), "{error}");
    assert!(load(&with("cpu.machine", "plan9 vax")).is_err());
}

#[test]
fn libraries_loaded_and_dropped_repeatedly_are_told_apart() {
    let (target, cache) = (target(), memory());
    let kernel = |value: i32| {
        // A library that is never really unloaded, because a constructor pins it, must not be found in another's place.
        let pin = "#define _GNU_SOURCE\n#include <dlfcn.h>\nstatic int here;\n\
                   __attribute__((constructor)) static void pin(void) { Dl_info i; if (dladdr(&here, &i)) \
                   dlopen(i.dli_fname, RTLD_NOW | RTLD_NODELETE); }\n";
        Kernel::new("f", format!("{pin}int f(void) {{ return {value}; }}"))
    };
    for value in [1, 2, 1, 3] {
        assert_eq!(run(&target, &cache, &kernel(value)).0, value);
    }
    let all: Vec<_> = (0..6)
        .flat_map(|_| [1, 2, 3])
        .map(|value| (value, target.load(&cache, &kernel(value)).unwrap()))
        .collect();
    for (value, loaded) in &all {
        assert_eq!(call(loaded.library(), "f"), *value);
    }
    let missing = all[0].1.library();
    // SAFETY: there is no such symbol.
    let error = unsafe { missing.symbol::<unsafe extern "C" fn()>("g") }.unwrap_err();
    assert!(error.to_string().contains("symbol g"), "{error}");
}

#[test]
fn two_loads_of_one_object_have_variables_of_their_own() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", "static int count; int f(void) { return ++count; }");
    let [one, other] = [0, 1].map(|_| target.load(&cache, &kernel).unwrap());
    assert_eq!((call(one.library(), "f"), call(one.library(), "f"), call(other.library(), "f")), (1, 2, 1));
}

#[test]
fn an_address_of_data_is_a_symbol_too() {
    let loaded = target().load(&memory(), &Kernel::new("f", "const char text[] = \"hello\";")).unwrap();
    // SAFETY: it is an array of characters that ends with a zero, and lives as long as the library.
    let text =
        unsafe { CStr::from_ptr(*loaded.library().symbol::<*const std::ffi::c_char>("text").unwrap()) };
    assert_eq!(text.to_bytes(), b"hello");
}
