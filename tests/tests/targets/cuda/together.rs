//! The CUDA target: many programs in one call.

use std::{fs, sync::Mutex};

use warmstart::{
    Cache, Limits,
    cache::{Fetched, ManyOptions},
    store::MemoryStore,
    target::cuda::{OptionName, Program},
};
use warmstart_tests::cuda;

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn compile_many_gives_each_program_its_own_result_or_error() {
    let headers = tempfile::tempdir().unwrap();
    fs::write(headers.path().join("n.h"), "#define N 3\n").unwrap();
    let scale = |n: u32| {
        let source = format!("extern \"C\" __global__ void scale(float *x) {{ x[threadIdx.x] *= {n}; }}");
        Program::cxx("scale.cu", source).arch("sm_90")
    };
    let template = "#include \"n.h\"\ntemplate <int M> __global__ void times(int *x) { x[0] = M * N; }";
    let programs = [
        scale(2),
        Program::cxx("broken.cu", "__global__ void f() { g(); }").arch("sm_90"),
        Program::cxx("times.cu", template)
            .arch("sm_90")
            .include_dir(headers.path())
            .name_expression("times<2>"),
        scale(2).option(OptionName::PtxasOptions, "--output-file=a"),
        scale(2),
        Program::cxx("times.cu", "#include \"absent.h\"\n").arch("sm_90"),
        scale(3),
    ];
    let (target, cache) = (cuda::target(), Cache::new(MemoryStore::new(Limits::NONE)));
    for (pass, [hits, builds]) in [[0, 3], [4, 3]].into_iter().enumerate() {
        let ready = Mutex::new(Vec::new());
        let on_ready = |index: usize, _: &Fetched| ready.lock().unwrap().push(index);
        let options = ManyOptions::default().with_workers(3).with_on_ready(&on_ready);
        let compiled = target.compile_many(&cache, &programs, options);

        for index in [0, 2, 4, 6] {
            let one = compiled[index].as_ref().unwrap();
            let alone = cuda::target().compile(&Cache::new(MemoryStore::new(Limits::NONE)), &programs[index]);
            let alone = alone.unwrap();
            assert_eq!(one.binary(), alone.binary(), "{index}");
            assert_eq!(one.lowered_name("times<2>"), alone.lowered_name("times<2>"), "{index}");
            assert_eq!(one.lowered_name("times<2>").is_some(), index == 2);
            assert_eq!(one.is_hit(), pass == 1, "{index}");
        }
        for (index, said) in [(1, "broken.cu"), (3, "ptxas_options"), (5, "absent.h")] {
            let error = compiled[index].as_ref().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let mut ready = ready.into_inner().unwrap();
        ready.sort_unstable();
        assert_eq!(ready, [0, 2, 4, 6], "pass {pass}");
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.builds), (hits, builds), "pass {pass}");
    }
}
