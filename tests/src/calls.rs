//! Any program of calls that XNNPACK and its host could make of a provider, and of some that they should not, run on it and on a
//! model that is too simple to be wrong.

use std::{collections::BTreeMap, ffi::c_void, ptr};

use tempfile::TempDir;
use warmstart::{
    pack::{ModelId, Pack, PackOptions},
    target::xnnpack::{
        Abi, Provider,
        abi::{ALIGNMENT, KeyV2024, KeyV2025, NOT_FOUND, SUCCESS},
    },
};

/// The storage of a program's pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In a file.
    File,
    /// In the heap alone.
    Heap,
}

/// A call of the host or of XNNPACK. Numbers are cut to what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Registers the name of a weight at an address.
    Register(u8, u8),
    /// Forgets the name at an address.
    Forget(u8),
    /// The host takes all back.
    ForgetAll,
    /// XNNPACK says that an address stands for another.
    Alias(u8, u8),
    /// XNNPACK looks a weight up.
    LookUp(Asked),
    /// Reserves a space of this many bytes.
    Reserve(usize),
    /// Inserts a packed weight: the number of its space, its bytes, and the used part of the space; 255 is more than all of it.
    Insert(Asked, u8, u8, u8),
    /// Inserts a weight again, or one at an address that was not reserved.
    InsertNothing(Asked, bool),
    /// Asks for the address of this offset.
    Address(usize),
    /// Begins the next runtime.
    Begin,
    /// Ends packing.
    Finalize,
    /// Saves the pack.
    Save,
    /// The host loads another model, or the same again, with an XNNPACK of either age.
    NewProvider(u8, bool),
    /// The process ends, and another begins.
    Reopen,
}

/// The weight, the bias and the seed of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    weight: u8,
    bias: u8,
    seed: u8,
}

/// The identity of packed weights: name, name of the bias, model, seed, and the age of XNNPACK.
type Key = (u8, Option<u8>, u8, u8, bool);

/// The bytes of a packed weight: all the same, and how many.
type Packed = (u8, usize);

/// Data before they are packed: only the address of each byte counts. Nothing lies at the first.
static DATA: [u8; ADDRESSES] = [0; ADDRESSES];
const ADDRESSES: usize = 6;
const NAMES: u8 = 4;

/// Fills a reserved space until it is inserted, to notice spaces that overlap.
fn pattern(number: usize) -> u8 {
    0x80 | (number as u8 & 0x7f)
}

impl Call {
    /// The calls that bytes stand for, four bytes each. Any bytes do.
    pub fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = Self> + '_ {
        bytes.as_chunks().0.iter().map(|word| Self::from_word(*word))
    }

    fn from_word([kind, a, b, c]: [u8; 4]) -> Self {
        let asked = Asked { weight: a & 15, bias: a >> 4, seed: b & 1 };
        match kind % 32 {
            0..=5 => Self::Register(a, b),
            6 => Self::Forget(a),
            7 => Self::ForgetAll,
            8 | 9 => Self::Alias(a, b),
            10..=14 => Self::LookUp(asked),
            15..=17 => Self::Reserve(match c {
                0 => 0,
                1 => usize::MAX - usize::from(a),
                _ => 1 + usize::from(a) * usize::from(b >> 2),
            }),
            18..=24 => Self::Insert(asked, b >> 1, c & 7, c),
            25 => Self::InsertNothing(asked, c & 1 == 0),
            26 => Self::Address(usize::MAX - usize::from(a) * ((1 + usize::from(b)) << 40)),
            27 => Self::Begin,
            28 => Self::Finalize,
            29 => Self::Save,
            30 => Self::NewProvider(a, b & 1 == 0),
            _ => Self::Reopen,
        }
    }
}

/// Runs a program.
///
/// # Panics
/// If the provider does something else than the model, or bytes change that it handed out.
pub fn run(medium: Medium, calls: impl IntoIterator<Item = Call>) {
    let mut run = Run::new(medium);
    for call in calls {
        run.call(call);
    }
    run.check_all();
    run.check_counts();
}

/// A provider, and what must be true of it.
struct Run {
    directory: TempDir,
    medium: Medium,
    provider: Provider,
    model: u8,
    is_newer: bool,
    is_finalized: bool,
    names: BTreeMap<usize, u8>,
    /// The weights that look-ups must find.
    known: BTreeMap<Key, Packed>,
    /// The weights that they must find after the process ended.
    saved: BTreeMap<Key, Packed>,
    /// The space that was reserved and not inserted: its address, length and pattern.
    spaces: Vec<(*mut u8, usize, u8)>,
    /// Offsets that are good as long as the pack is open.
    named: Vec<(usize, Packed)>,
    /// Offsets that are good as long as the provider is there.
    unnamed: Vec<(usize, Packed)>,
    reserved: usize,
}

impl Run {
    fn new(medium: Medium) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("there is room for files");
        let provider = provider(open(medium, &directory), 0, true);
        Self {
            directory,
            medium,
            provider,
            model: 0,
            is_newer: true,
            is_finalized: false,
            names: BTreeMap::new(),
            known: BTreeMap::new(),
            saved: BTreeMap::new(),
            spaces: Vec::new(),
            named: Vec::new(),
            unnamed: Vec::new(),
            reserved: 0,
        }
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Register(at, name) => {
                self.provider.register(data(at), &format!("name {}", name % NAMES));
                if index(at) != 0 {
                    self.names.insert(index(at), name % NAMES);
                }
            }
            Call::Forget(at) => {
                self.provider.forget(data(at));
                self.names.remove(&index(at));
            }
            Call::ForgetAll => {
                self.provider.forget_all();
                self.names.clear();
            }
            Call::Alias(alias, original) => self.alias(alias, original),
            Call::LookUp(asked) => self.look_up(asked),
            Call::Reserve(len) => self.reserve(len),
            Call::Insert(asked, space, fill, part) => self.insert(asked, space, fill, part),
            Call::InsertNothing(asked, is_null) => self.insert_nothing(asked, is_null),
            Call::Address(offset) => assert!(self.address(offset).is_null(), "{offset} leads somewhere"),
            Call::Begin => {
                self.provider.begin();
                self.names.clear();
                self.is_finalized = false;
            }
            Call::Finalize => {
                self.provider.finalize();
                self.names.clear();
                self.is_finalized = true;
                self.check_all();
            }
            Call::Save => self.save(),
            Call::NewProvider(model, is_newer) => {
                self.check_counts();
                let pack = self.provider.pack().clone();
                self.replace(provider(pack, model % 2, is_newer));
                (self.model, self.is_newer) = (model % 2, is_newer);
            }
            Call::Reopen => {
                self.check_counts();
                self.check_all();
                self.replace(provider(Pack::in_memory(), 0, true));
                self.named.clear();
                self.known = self.saved.clone();
                self.replace(provider(open(self.medium, &self.directory), 0, true));
                (self.model, self.is_newer) = (0, true);
            }
        }
        let table = self.table();
        // SAFETY: the context is the provider's, which lives.
        assert_eq!(unsafe { (table.is_finalized)(table.context) }, self.is_finalized);
        assert_eq!(self.provider.registered(), self.names.len());
    }

    /// Puts a provider in the place of the one before, with which all goes that was its own.
    fn replace(&mut self, provider: Provider) {
        self.provider = provider;
        self.names.clear();
        self.spaces.clear();
        self.unnamed.clear();
        self.is_finalized = false;
        self.reserved = 0;
    }

    fn table(&self) -> warmstart::target::xnnpack::WeightsCacheProvider {
        // SAFETY: the table can be read as long as the provider lives.
        unsafe { *self.provider.as_ptr() }
    }

    fn alias(&mut self, alias: u8, original: u8) {
        let table = self.table();
        let [from, to] = [alias, original].map(|at| data(at).cast_mut().cast::<c_void>());
        // SAFETY: the context is the provider's, which lives.
        assert_eq!(unsafe { (table.alias_data)(table.context, from, to) }, SUCCESS);
        match self.names.get(&index(original)).copied() {
            Some(name) if index(alias) != 0 => self.names.insert(index(alias), name),
            _ => self.names.remove(&index(alias)),
        };
    }

    /// Returns the key of a request, if its addresses have names.
    fn key(&self, asked: Asked) -> Option<Key> {
        let weight = *self.names.get(&index(asked.weight))?;
        let bias = match index(asked.bias) {
            0 => None,
            bias => Some(*self.names.get(&bias)?),
        };
        Some((weight, bias, self.model, asked.seed, self.is_newer))
    }

    fn look_up(&mut self, asked: Asked) {
        let (table, key) = (self.table(), as_c(asked));
        // SAFETY: the context is the provider's, and the newer key begins with an older one.
        let offset = unsafe { (table.look_up)(table.context, (&raw const key).cast()) };
        let known = self.key(asked).and_then(|key| self.known.get(&key).copied());
        self.found(offset, known);
    }

    /// Compares what was found with what should have been.
    fn found(&mut self, offset: usize, known: Option<Packed>) {
        assert_eq!(offset != NOT_FOUND, known.is_some(), "found at {offset}, instead of {known:?}");
        if let Some(packed) = known {
            self.check(offset, packed);
            self.named.push((offset, packed));
        }
    }

    fn reserve(&mut self, len: usize) {
        let table = self.table();
        // SAFETY: the context is the provider's, which lives.
        let space: *mut u8 = unsafe { (table.reserve_space)(table.context, len) }.cast();
        if len == 0 || len > isize::MAX.unsigned_abs() {
            assert!(space.is_null(), "{len} bytes cannot be reserved");
            return;
        }
        assert!(!space.is_null() && space.addr().is_multiple_of(ALIGNMENT), "{space:?}");
        self.reserved += 1;
        let pattern = pattern(self.reserved);
        // SAFETY: so much was reserved, and nothing else uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(space, len) };
        assert!(bytes.iter().all(|byte| *byte == 0), "what was reserved is not zeroed");
        bytes.fill(pattern);
        self.spaces.push((space, len, pattern));
    }

    fn insert(&mut self, asked: Asked, space: u8, fill: u8, part: u8) {
        if self.spaces.is_empty() {
            return;
        }
        let (table, key) = (self.table(), as_c(asked));
        let at = usize::from(space) % self.spaces.len();
        let (space, reserved, pattern) = self.spaces[at];
        let len = match part {
            255 => reserved + 1,
            part => reserved * usize::from(part) / 254,
        };
        // SAFETY: so much was reserved, and nothing else uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(space, reserved) };
        assert!(bytes.iter().all(|byte| *byte == pattern), "a space was written to by another call");
        if part != 255 {
            bytes.fill(fill);
        }
        // SAFETY: the context is the provider's, and the newer key begins with an older one. The space is not written to again.
        let offset =
            unsafe { (table.look_up_or_insert)(table.context, (&raw const key).cast(), space.cast(), len) };
        if part == 255 {
            assert_eq!(offset, NOT_FOUND, "more was inserted than reserved");
            return;
        }
        assert_ne!(offset, NOT_FOUND);
        self.spaces.swap_remove(at);
        // No bytes are the same as no others.
        let packed = (if len == 0 { 0 } else { fill }, len);
        self.check(offset, packed);
        match self.key(asked) {
            Some(key) => {
                self.known.insert(key, packed);
                self.named.push((offset, packed));
            }
            None => self.unnamed.push((offset, packed)),
        }
    }

    fn insert_nothing(&mut self, asked: Asked, is_null: bool) {
        let (table, key) = (self.table(), as_c(asked));
        let packed = if is_null { ptr::null_mut() } else { data(5).cast_mut().cast() };
        // SAFETY: the context is the provider's, and the newer key begins with an older one.
        let offset = unsafe { (table.look_up_or_insert)(table.context, (&raw const key).cast(), packed, 1) };
        let known = self.key(asked).and_then(|key| self.known.get(&key).copied());
        self.found(offset, known.filter(|_| is_null));
    }

    fn save(&mut self) {
        let before = self.provider.pack().statistics().written_bytes;
        let saved = self.provider.pack().save().expect("nothing keeps it from being saved");
        let grown = self.provider.pack().statistics().written_bytes - before;
        let new = match self.medium {
            Medium::File => {
                let is_new = |entry: &(&Key, &Packed)| self.saved.get(entry.0) != Some(entry.1);
                let new = self.known.iter().filter(is_new).count();
                self.saved = self.known.clone();
                new
            }
            Medium::Heap => 0,
        };
        assert_eq!(saved.entries, new);
        assert_eq!(grown > 0, new > 0, "a save of {new} entries wrote {grown} bytes");
        self.check_all();
    }

    fn address(&self, offset: usize) -> *const u8 {
        let table = self.table();
        // SAFETY: the context is the provider's, which lives.
        unsafe { (table.offset_to_addr)(table.context, offset) }.cast_const().cast()
    }

    /// Checks the bytes that an offset leads to.
    fn check(&self, offset: usize, (fill, len): Packed) {
        if len == 0 {
            return;
        }
        let address = self.address(offset);
        assert!(
            !address.is_null() && address.addr().is_multiple_of(ALIGNMENT),
            "{offset} leads to {address:?}"
        );
        // SAFETY: the offset was handed out for so many bytes, and is good.
        let bytes = unsafe { std::slice::from_raw_parts(address, len) };
        assert!(
            bytes.iter().all(|byte| *byte == fill),
            "the bytes at {offset} are not those that were packed"
        );
    }

    /// Checks all that was handed out and is good.
    fn check_all(&self) {
        for (offset, packed) in self.named.iter().chain(&self.unnamed) {
            self.check(*offset, *packed);
        }
    }

    fn check_counts(&self) {
        let statistics = self.provider.statistics();
        assert_eq!((statistics.panics, statistics.reservations), (0, self.reserved as u64));
        assert_eq!(statistics.unnamed, self.unnamed.len() as u64);
    }
}

fn open(medium: Medium, directory: &TempDir) -> Pack {
    match medium {
        Medium::File => Pack::open(directory.path().join("weights.xpwc"), PackOptions::default())
            .expect("nothing else is under the path"),
        Medium::Heap => Pack::in_memory(),
    }
}

fn provider(pack: Pack, model: u8, is_newer: bool) -> Provider {
    let abi = if is_newer { Abi::V2025 } else { Abi::V2024 };
    Provider::new(pack, abi, ModelId::from_bytes([model; 32]))
}

fn index(at: u8) -> usize {
    usize::from(at) % ADDRESSES
}

/// Returns the bytes at an address: null at the first.
fn data(at: u8) -> *const u8 {
    match index(at) {
        0 => ptr::null(),
        at => &raw const DATA[at],
    }
}

fn as_c(asked: Asked) -> KeyV2025 {
    let [kernel, bias] = [asked.weight, asked.bias].map(|at| data(at).cast());
    KeyV2025 { before: KeyV2024 { seed: u32::from(asked.seed), kernel, bias }, fingerprint_id: 5 }
}
