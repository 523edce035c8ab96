//! The real XNNPACK with our weights cache: what one process packed, the next finds, and nothing else.

use std::{fs, path::Path, sync::Arc};

use warmstart::{
    MissReason,
    pack::{ModelId, Pack, PackOptions},
    target::xnnpack::{
        Abi, Provider,
        abi::{Fingerprint, FingerprintFn, KeyV2024, NOT_FOUND},
    },
};
use warmstart_tests::{
    map_backend::Poor,
    packed::{image, open, place},
    xnnpack::{self, Bf16, Binding, FullyConnected, Library, Status, Subgraph, Tensor, Unary, WeightsCache},
};

use super::relay::Relay;

/// A model: its number says which numbers its layers have. All models have the same names and shapes.
struct Model {
    number: u8,
    layers: Vec<(Tensor, Tensor)>,
}

impl Model {
    const INPUTS: usize = 40;
    const LAYERS: usize = 5;

    fn new(number: u8) -> Self {
        let layer = |at: usize| {
            let (outputs, seed) = (16 + 30 * at, 1000 * u32::from(number) + at as u32);
            (Tensor::noise(Self::INPUTS * outputs, seed), Tensor::noise(outputs, seed + 500))
        };
        Self { number, layers: (0..Self::LAYERS).map(layer).collect() }
    }

    /// A provider for it.
    fn provider(&self, library: &'static Library, pack: Pack) -> Provider {
        let provider = Provider::new(pack, Abi::V2025, ModelId::from_bytes([self.number; 32]));
        // SAFETY: the function is XNNPACK's own.
        unsafe { provider.with_fingerprints(library.fingerprint_function()) }
    }

    /// Creates all operators, saves, runs them, and deletes them: what they computed.
    fn load(&self, library: &'static Library, provider: &Provider) -> Vec<Vec<u32>> {
        self.load_with(library, provider, cache(provider))
    }

    fn load_with(
        &self,
        library: &'static Library,
        provider: &Provider,
        cache: WeightsCache<'_>,
    ) -> Vec<Vec<u32>> {
        provider.begin();
        for (at, (weight, bias)) in self.layers.iter().enumerate() {
            provider.register(weight.as_ptr(), &format!("layer.{at}.weight"));
            provider.register(bias.as_ptr(), &format!("layer.{at}.bias"));
        }
        let create = |(weight, bias)| {
            FullyConnected::new(library, weight, Some(bias), Self::INPUTS, Some(cache)).unwrap()
        };
        let mut operators: Vec<_> = self.layers.iter().map(|(weight, bias)| create((weight, bias))).collect();
        provider.finalize();
        let _ = provider.pack().save();
        let input = Tensor::noise(3 * Self::INPUTS, 7);
        let run = |(operator, (_, bias)): (&mut FullyConnected<'_>, &(Tensor, Tensor))| {
            let mut output = Tensor::zeros(3 * bias.len());
            operator.reshape(3).unwrap();
            operator.run(&input, &mut output).unwrap();
            output.bits()
        };
        operators.iter_mut().zip(&self.layers).map(run).collect()
    }

    /// Returns XNNPACK's result without a cache.
    fn plain(&self, library: &'static Library) -> Vec<Vec<u32>> {
        let pack = Pack::in_memory();
        self.load(library, &self.provider(library, pack))
    }
}

fn cache(provider: &Provider) -> WeightsCache<'_> {
    // SAFETY: the provider is borrowed, and so outlives what it is handed to. The tests register weights where they are.
    unsafe { WeightsCache::from_raw(provider.as_ptr().cast()) }
}

/// Returns the numbers of weights that were packed and found.
fn packed_and_found(provider: &Provider) -> (u64, u64) {
    let statistics = provider.statistics();
    (statistics.packed, statistics.hits)
}

/// Returns the number of mappings of this file in the process.
#[cfg(target_os = "linux")]
fn mappings(path: &Path) -> usize {
    let path = path.canonicalize().unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())).count()
}

const ALL: u64 = Model::LAYERS as u64;

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn path_opts_in_and_caches_of_other_paths_are_separate() {
    let library = xnnpack::library();
    let (directory, path) = place().unwrap();
    let other = directory.path().join("other.xpwc");
    let model = Model::new(1);
    let [one, two, opted_out] = [open(&path).unwrap(), open(&other).unwrap(), Pack::in_memory()]
        .map(|pack| model.provider(library, pack));
    let expected = model.load(library, &opted_out);
    assert_eq!(opted_out.pack().save().unwrap().entries, 0);
    assert!(!path.exists() && !other.exists());
    assert_eq!(model.load(library, &one), expected);
    assert!(path.exists() && !other.exists());
    assert_eq!(model.load(library, &two), expected);
    assert_eq!([&one, &two, &opted_out].map(packed_and_found), [(ALL, 0); 3]);
    // Two on one path share what is packed, saved or not.
    let same = model.provider(library, open(&path).unwrap());
    assert_eq!(model.load(library, &same), expected);
    assert_eq!(packed_and_found(&same), (0, ALL));
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn what_was_packed_and_saved_is_not_mapped_a_second_time() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let model = Model::new(1);
    let provider = model.provider(library, open(&path).unwrap());
    model.load(library, &provider);
    let before = mappings(&path);
    assert!(before > 0);
    for _ in 0..3 {
        model.load(library, &provider);
        drop(model.provider(library, open(&path).unwrap()));
    }
    assert_eq!(mappings(&path), before);
    assert_eq!(packed_and_found(&provider), (ALL, 3 * ALL));
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn saved_weights_outlive_the_model_and_reloading_grows_nothing() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let model = Model::new(1);
    let expected = model.load(library, &model.provider(library, open(&path).unwrap()));
    let before = image(&path).unwrap();
    for _ in 0..10 {
        // Everything is closed in between, and the weights come to lie elsewhere.
        let model = Model::new(1);
        let provider = model.provider(library, open(&path).unwrap());
        assert_eq!(model.load(library, &provider), expected);
        assert_eq!((packed_and_found(&provider), provider.statistics().reservations), ((0, ALL), 0));
        assert_eq!(image(&path).unwrap(), before);
    }
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn finalize_and_save_with_nothing_new_write_nothing() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let model = Model::new(1);
    let provider = model.provider(library, open(&path).unwrap());
    model.load(library, &provider);
    let before = image(&path).unwrap();
    for _ in 0..3 {
        provider.finalize();
        assert_eq!(provider.pack().save().unwrap(), warmstart::pack::Saved::default());
        model.load(library, &provider);
    }
    assert_eq!(image(&path).unwrap(), before);
    assert_eq!(provider.pack().statistics().saves, 1);
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn models_share_a_file_and_names_of_another_model_are_no_hit() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let models = [1, 2, 3].map(Model::new);
    let expected: Vec<_> = models.iter().map(|model| model.plain(library)).collect();
    for (model, expected) in models.iter().zip(&expected) {
        let provider = model.provider(library, open(&path).unwrap());
        assert_eq!(model.load(library, &provider), *expected);
        let reason = if model.number == 1 { MissReason::Absent } else { MissReason::OtherModel };
        assert_eq!(provider.statistics().misses.of(reason), ALL);
    }
    for (model, expected) in models.iter().zip(&expected) {
        let provider = model.provider(library, open(&path).unwrap());
        assert_eq!(model.load(library, &provider), *expected);
        assert_eq!(packed_and_found(&provider), (0, ALL));
    }
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn another_seed_is_packed_again_and_the_next_process_finds_that() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let model = Model::new(1);
    let expected = model.load(library, &model.provider(library, open(&path).unwrap()));
    for (packed, found) in [(ALL, 0), (0, ALL)] {
        let provider = model.provider(library, open(&path).unwrap());
        let other = Relay::with_other_seeds(&provider);
        assert_eq!(model.load_with(library, &provider, other.cache()), expected);
        assert_eq!(packed_and_found(&provider), (packed, found));
        assert_eq!(provider.statistics().misses.of(MissReason::OtherSeed), packed);
    }
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn other_algorithm_packs_again_and_the_next_process_finds_that() {
    unsafe extern "C" fn other(id: u32) -> *const Fingerprint {
        static OTHER: Fingerprint = Fingerprint { id: 0, value: 12345 };
        if id == 0 { std::ptr::null() } else { &raw const OTHER }
    }
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let model = Model::new(1);
    let expected = model.load(library, &model.provider(library, open(&path).unwrap()));
    for (packed, found) in [(ALL, 0), (0, ALL)] {
        let provider = Provider::new(open(&path).unwrap(), Abi::V2025, ModelId::from_bytes([1; 32]));
        // SAFETY: what it points to is there for ever.
        let provider = unsafe { provider.with_fingerprints(other as FingerprintFn) };
        assert_eq!(model.load(library, &provider), expected);
        assert_eq!(packed_and_found(&provider), (packed, found));
        assert_eq!(provider.statistics().misses.of(MissReason::OtherFingerprint), packed);
    }
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn without_mappings_and_on_a_full_disk_all_computes_the_same() {
    let library = xnnpack::library();
    let (directory, path) = place().unwrap();
    let model = Model::new(1);
    let expected = model.plain(library);
    for (packed, found) in [(ALL, 0), (0, ALL)] {
        let options = PackOptions::default().with_backend(Arc::new(Poor::without_mappings()));
        let provider = model.provider(library, Pack::open(&path, options).unwrap());
        assert_eq!(model.load(library, &provider), expected);
        assert_eq!(packed_and_found(&provider), (packed, found));
    }
    // Weights saved from the heap are mapped where mappings work.
    let provider = model.provider(library, open(&path).unwrap());
    assert_eq!(model.load(library, &provider), expected);
    assert_eq!(packed_and_found(&provider), (0, ALL));

    let options = PackOptions::default().with_backend(Arc::new(Poor::with_room(4096)));
    let full = directory.path().join("full.xpwc");
    let provider = model.provider(library, Pack::open(full, options).unwrap());
    assert_eq!(model.load(library, &provider), expected);
    assert_eq!(packed_and_found(&provider), (ALL, 0));
    assert_eq!(model.load(library, &provider), expected);
    assert_eq!(packed_and_found(&provider), (ALL, ALL));
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn a_panic_of_ours_is_no_memory_to_xnnpack() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let options = PackOptions::default().with_backend(Arc::new(Poor::that_panics()));
    let provider = Provider::new(Pack::open(&path, options).unwrap(), Abi::V2025, ModelId::default());
    let weight = Tensor::noise(64, 1);
    provider.register(weight.as_ptr(), "weight");
    let refused = FullyConnected::new(library, &weight, None, 8, Some(cache(&provider))).unwrap_err();
    assert_eq!(refused.status(), Some(Status::OUT_OF_MEMORY));
    assert_eq!(provider.statistics().panics, 1);
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn weights_without_names_leave_the_file_as_it_was() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let model = Model::new(1);
    model.load(library, &model.provider(library, open(&path).unwrap()));
    let before = image(&path).unwrap();
    let provider = model.provider(library, open(&path).unwrap());
    let (weight, bias) = (Tensor::noise(64, 1), Tensor::noise(8, 2));
    provider.register(weight.as_ptr(), "layer.0.weight");
    for named in [None, Some(&bias)] {
        // A name of the weight alone is none if there is a bias.
        if named.is_none() {
            provider.forget(weight.as_ptr());
        } else {
            provider.register(weight.as_ptr(), "layer.0.weight");
        }
        drop(FullyConnected::new(library, &weight, named, 8, Some(cache(&provider))).unwrap());
    }
    provider.finalize();
    assert_eq!(provider.pack().save().unwrap().entries, 0);
    assert_eq!((provider.statistics().unnamed, packed_and_found(&provider)), (2, (0, 0)));
    assert_eq!(provider.statistics().misses.of(MissReason::Unnamed), 2);
    assert_eq!(image(&path).unwrap(), before);
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn an_operator_runs_only_once_the_provider_is_finalized() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let provider = Model::new(1).provider(library, open(&path).unwrap());
    let weight = Tensor::noise(64, 1);
    provider.register(weight.as_ptr(), "weight");
    let relay = Relay::to(&provider);
    let mut operator = FullyConnected::new(library, &weight, None, 8, Some(relay.cache())).unwrap();
    operator.reshape(1).unwrap();
    let (input, mut output) = (Tensor::noise(8, 2), Tensor::zeros(8));
    let refused = operator.run(&input, &mut output).unwrap_err();
    assert_eq!(refused.status(), Some(Status::INVALID_STATE));
    provider.finalize();
    operator.run(&input, &mut output).unwrap();
    assert_eq!(relay.calls().delete_cache, 0, "XNNPACK leaves it to the host");
}

#[test]
#[cfg_attr(not(has_xnnpack), ignore = "needs XNNPACK: cargo xtask runtimes --xnnpack")]
fn weight_that_xnnpack_converts_is_found_by_its_original_name() {
    let library = xnnpack::library();
    let (_directory, path) = place().unwrap();
    let (rows, inputs, outputs) = (2, 32, 16);
    let weight: Tensor<Bf16> =
        Tensor::noise(inputs * outputs, 1).iter().map(|number| Bf16::truncated(*number)).collect();
    let (bias, given) = (Tensor::noise(outputs, 2), Tensor::noise(rows * inputs, 3));
    let mut computed = Vec::new();
    for (packed, found) in [(1, 0), (0, 1)] {
        let provider = Model::new(1).provider(library, open(&path).unwrap());
        provider.register(weight.as_ptr(), "weight");
        provider.register(bias.as_ptr(), "bias");
        let mut subgraph = Subgraph::new(library, 2).unwrap();
        let input = subgraph.input(&[rows, inputs]).unwrap();
        let output = subgraph.output(&[rows, outputs]).unwrap();
        let short = subgraph.intermediate_of::<Bf16>(&[rows, inputs]).unwrap();
        subgraph.unary(Unary::Convert, input, short).unwrap();
        let filter = subgraph.constant(&[outputs, inputs], &weight).unwrap();
        let addend = subgraph.constant(&[outputs], &bias).unwrap();
        subgraph.fully_connected(short, filter, Some(addend), output).unwrap();
        let relay = Relay::to(&provider);
        let mut runtime = subgraph.compile(Some(relay.cache())).unwrap();
        provider.finalize();
        provider.pack().save().unwrap();
        runtime.reshape(&[]).unwrap();
        let mut result = Tensor::zeros(rows * outputs);
        runtime.run(&mut [Binding::Input(input, &given), Binding::Output(output, &mut result)]).unwrap();
        // Where the processor multiplies such numbers itself, nothing would be converted.
        assert!(relay.calls().alias_data > 0);
        assert_eq!(packed_and_found(&provider), (packed, found));
        computed.push(result.bits());
    }
    assert_eq!(computed[0], computed[1]);
}

#[test]
fn an_older_key_at_the_end_of_a_page_is_read_no_further() {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    let (_directory, path) = place().unwrap();
    let provider = Provider::new(open(&path).unwrap(), Abi::V2024, ModelId::default());
    let weight = [0_u8; 1];
    provider.register(weight.as_ptr(), "weight");
    let page = 1 << 16;
    // SAFETY: the system chooses where.
    let pages = unsafe {
        mmap_anonymous(std::ptr::null_mut(), 2 * page, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }
    .unwrap();
    let key = pages.wrapping_byte_add(page - size_of::<KeyV2024>()).cast::<KeyV2024>();
    // SAFETY: the key is within the first page, whose end is aligned. The table is that of a provider that lives. The pages
    // are not used after they are unmapped.
    unsafe {
        mprotect(pages.wrapping_byte_add(page), page, MprotectFlags::empty()).unwrap();
        key.write(KeyV2024 { seed: 1, kernel: weight.as_ptr().cast(), bias: std::ptr::null() });
        let table = *provider.as_ptr();
        assert_eq!((table.look_up)(table.context, key), NOT_FOUND);
        let packed = (table.reserve_space)(table.context, 64);
        let offset = (table.look_up_or_insert)(table.context, key, packed, 64);
        assert_eq!((table.offset_to_addr)(table.context, offset), packed);
        assert_eq!((table.look_up)(table.context, key), offset);
        munmap(pages, 2 * page).unwrap();
    }
}
