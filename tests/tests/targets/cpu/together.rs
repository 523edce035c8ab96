//! The CPU target: many kernels in one call.

use std::{fs, sync::Mutex};

use warmstart::{
    cache::{Fetched, ManyOptions},
    target::cpu::{Kernel, LoadError, Loaded},
};
use warmstart_tests::cpu::{memory, target};

/// Returns the value of the kernel's function `f`.
fn call(loaded: &Result<Loaded, LoadError>) -> i32 {
    let library = loaded.as_ref().unwrap().library();
    // SAFETY: every kernel here that compiles has a function of this name and type.
    let f = unsafe { library.symbol::<unsafe extern "C" fn() -> i32>("f").unwrap() };
    // SAFETY: it has no preconditions.
    unsafe { f() }
}

#[test]
fn load_many_gives_each_kernel_its_own_result_or_error() {
    let returning = |n: u32| Kernel::new("f", format!("int f(void) {{ return {n}; }}"));
    let kernels = [
        returning(1),
        returning(2).flag("-march=native"),
        Kernel::new("broken", "int f(void) { return one; }"),
        returning(1),
        returning(5),
    ];
    let (target, cache) = (target(), memory());
    for (pass, [hits, builds]) in [[0, 2], [3, 2]].into_iter().enumerate() {
        let ready = Mutex::new(Vec::new());
        let on_ready = |index: usize, _: &Fetched| ready.lock().unwrap().push(index);
        let options = ManyOptions::default().with_workers(3).with_on_ready(&on_ready);
        let loaded = target.load_many(&cache, &kernels, options);

        assert_eq!([0, 3, 4].map(|index| call(&loaded[index])), [1, 1, 5]);
        let errors = [1, 2].map(|index| loaded[index].as_ref().unwrap_err().to_string());
        assert!(errors[0].contains("-march=native"), "{errors:?}");
        assert!(errors[1].contains("broken"), "{errors:?}");
        let mut ready = ready.into_inner().unwrap();
        ready.sort_unstable();
        assert_eq!(ready, [0, 3, 4], "pass {pass}");
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.builds), (hits, builds), "pass {pass}");
    }
}

/// Equal texts whose header lies in two directories are one flight, and two objects.
#[test]
fn load_many_tells_headers_of_two_directories_apart() {
    let directories = [1, 2].map(|n| {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("n.h"), format!("#define N {n}\n")).unwrap();
        directory
    });
    let kernel = |n: usize| {
        let source = "#include \"n.h\"\nint f(void) { return N; }";
        Kernel::new("f", source).include_dir(directories[n].path())
    };
    let kernels = [kernel(0), kernel(1), kernel(0), kernel(1)];
    for workers in [1, 4] {
        let (target, cache) = (target(), memory());
        for pass in ["cold", "warm"] {
            let ready: Mutex<Vec<Option<Vec<u8>>>> = Mutex::new(vec![None; kernels.len()]);
            let on_ready = |index: usize, fetched: &Fetched| {
                let before = ready.lock().unwrap()[index].replace(fetched.artifact().payload().to_vec());
                assert_eq!(before, None, "once");
            };
            let options = ManyOptions::default().with_workers(workers).with_on_ready(&on_ready);
            let loaded = target.load_many(&cache, &kernels, options);
            assert_eq!([0, 1, 2, 3].map(|index| call(&loaded[index])), [1, 2, 1, 2], "{workers}, {pass}");
            for (ready, loaded) in ready.into_inner().unwrap().iter().zip(&loaded) {
                let payload = loaded.as_ref().unwrap().fetched().artifact().payload();
                assert_eq!(ready.as_deref(), Some(payload), "{workers}, {pass}");
            }
        }
        assert_eq!(cache.statistics().builds, 2);
    }
}
