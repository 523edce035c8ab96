//! The CUDA target: programs compiled by NVRTC, nvJitLink and NVVM, which are loaded at run time.
//!
//! ```no_run
//! use warmstart::{
//!     Cache, store::{FileOptions, FileStore},
//!     target::cuda::{CudaTarget, Program, Toolkit},
//! };
//!
//! let cache = Cache::new(FileStore::open("/tmp/my-runtime", FileOptions::default())?);
//! let target = CudaTarget::new(Toolkit::find()?);
//!
//! let source = "template <int N> __global__ void scale(float *x) { x[threadIdx.x] *= N; }";
//! let program = Program::cxx("scale.cu", source).arch("sm_90").name_expression("scale<3>");
//! let compiled = target.compile(&cache, &program)?;
//! println!("{} bytes of CUBIN, a hit: {}", compiled.binary().len(), compiled.is_hit());
//! println!("the kernel is called {:?}", compiled.lowered_name("scale<3>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What decides the binary is in its key: the source, the options as the compiler sees them, the exact architecture, the
//! contents of every header that the source can reach and how each is found, the compiler's version and build id, and
//! the variables of the environment that can change what it makes. No path is. What the key cannot hold is refused, by
//! the name of the option, before anything is looked up; [`warmstart_core::program`] has the rules.
//!
//! NVRTC compiles what the key holds and nothing else: it is handed the source and the headers, and gets no directory to
//! look in. In binaries and messages they have names such as `/warmstart/scale.cu` and `/warmstart/include0/tile.cuh`.
//!
//! The libraries are NVIDIA's and are not brought along. They are loaded when something has to be compiled: a warm start
//! reads a page of each file, for its build id, and loads none. Where files have no build id, as on Windows, it reads all
//! of each.

mod error;
pub mod headers;
mod library;
mod nvjitlink;
mod nvrtc;
mod nvvm;
mod program;
mod toolkit;
mod unit;

pub use error::CudaError;
pub use headers::HeaderError;
pub use program::Program;
pub use toolkit::Toolkit;
pub use warmstart_core::program::{
    CodeType, ExtraDigest, NameExpression, OptionName, Options, Refusal, Source, TargetType, Value,
};

use std::{
    ffi::OsString,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use warmstart_core::{
    artifact::Artifact,
    key::{Key, KeyFields},
    metadata::Metadata,
    program::{Contents, Toolchain},
    reason::Reason,
};

use crate::{
    cache::{Cache, Fetched},
    store::{Lookup, Store},
};
use error::CudaProblem;
use headers::Headers;
use unit::Unit;

/// The attributes of a binary: what it is, what the compiler wrote, and the names it gave.
const TARGET: &str = "cuda.target";
const LOG: &str = "cuda.log";
const LOWERED_NAMES: &str = "cuda.lowered_names";

/// Headers that change again and again while they are compiled are followed so many times.
const ATTEMPTS: u32 = 4;

/// Compiles CUDA programs, and keeps what it compiled.
#[derive(Debug)]
pub struct CudaTarget {
    toolkit: Toolkit,
    headers: Headers,
}

/// A binary, and how it was come by.
#[derive(Clone, Debug)]
#[must_use]
pub struct Compiled {
    fetched: Fetched,
    lowered_names: Vec<(NameExpression, String)>,
}

impl CudaTarget {
    /// A target that compiles with the libraries of `toolkit`. Nothing is loaded before something has to be compiled.
    #[must_use]
    pub fn new(toolkit: Toolkit) -> Self {
        Self { toolkit, headers: Headers::default() }
    }

    /// The libraries.
    #[must_use]
    pub const fn toolkit(&self) -> &Toolkit {
        &self.toolkit
    }

    /// Looks the program's binary up, else compiles it and stores it.
    ///
    /// Of all threads of the process, and of all processes that share the store's directory, one compiles. If the store
    /// fails, what was compiled is returned all the same.
    ///
    /// # Errors
    /// An option is refused, or a header cannot be resolved without the compiler; then nothing is looked up. The library
    /// is missing or is none that can be used, it rejects the source, it does not know the architecture, or what it made
    /// is empty; then nothing is stored.
    pub fn compile<S: Store>(&self, cache: &Cache<S>, program: &Program) -> Result<Compiled, CudaError> {
        for _ in 0..ATTEMPTS {
            if let Some(compiled) = self.attempt(cache, program, None)? {
                return Ok(compiled);
            }
        }
        // The headers never stand still. What is compiled now is stored under its own key, and shared with nobody who
        // asked for another.
        static ALONE: AtomicU64 = AtomicU64::new(0);
        let alone = KeyFields::new("warmstart.cuda.alone", 1)
            .number("process", std::process::id().into())
            .number("alone", ALONE.fetch_add(1, Ordering::Relaxed))
            .key();
        let compiled = self.attempt(cache, program, Some(alone))?;
        compiled.ok_or_else(|| CudaError::new(CudaProblem::Unstable))
    }

    /// The fields that the program's key is made of now: to ask whether its binary is stored, to remove it, or to have a
    /// miss explained.
    ///
    /// # Errors
    /// Those of [`compile`](Self::compile) that are found without compiling.
    pub fn fields<S: Store>(
        &self,
        cache: &Cache<S>,
        program: &Program,
    ) -> Result<KeyFields<'static>, CudaError> {
        let inputs = self.inputs(cache.store(), program)?;
        Ok(inputs.request(program)?.fields.into_owned())
    }

    /// Everything but the program that decides its binary, as it is now.
    fn inputs<S: Store>(&self, store: &S, program: &Program) -> Result<Inputs, CudaError> {
        let toolchain = self.toolkit.toolchain(store, program.description().code().compiler())?;
        let found = program.has_headers().then(|| self.headers.found(program)).transpose();
        let found = found.map_err(|error| CudaError::headers(program.name(), error))?;
        let libdevice = program.uses_libdevice().then(|| self.toolkit.libdevice_digest()).transpose()?;
        Ok(Inputs {
            described: described(program, &toolchain),
            toolchain,
            contents: program.contents(found, libdevice),
        })
    }

    /// Looks the program up as it is now, else compiles it. Nothing if an input is another by then.
    fn attempt<S: Store>(
        &self,
        cache: &Cache<S>,
        program: &Program,
        alone: Option<Key>,
    ) -> Result<Option<Compiled>, CudaError> {
        let inputs = self.inputs(cache.store(), program)?;
        let request = inputs.request(program)?;
        let flight = alone.unwrap_or(request.key);
        let mut lowered_names = None;
        let recalled = cache.recall(
            flight.as_bytes(),
            |store| match store.get(request.key.as_bytes()) {
                Lookup::Hit(artifact) => match names_of(&artifact, program) {
                    Some(names) => {
                        lowered_names = Some(names);
                        Lookup::Hit(artifact)
                    }
                    None => Lookup::Miss(Reason::Malformed),
                },
                miss @ Lookup::Miss(_) => miss,
            },
            || self.build(program, &inputs, &request, alone.is_some()),
            |store, artifact, built: Key| store.put(built.as_bytes(), artifact),
        );
        let fetched = match recalled {
            Ok(fetched) => fetched,
            Err(Stop::Changed) => return Ok(None),
            Err(Stop::Failed(error)) => return Err(error),
        };
        let lowered_names = lowered_names.or_else(|| names_of(fetched.artifact(), program));
        let lowered_names = lowered_names.ok_or_else(|| CudaError::new(CudaProblem::Unstable))?;
        Ok(Some(Compiled { fetched, lowered_names }))
    }

    /// Compiles the program with the headers as they are now, and says under which key that belongs: the requested one,
    /// unless it is compiled alone.
    fn build(
        &self,
        program: &Program,
        inputs: &Inputs,
        request: &Request<'_>,
        is_alone: bool,
    ) -> Result<(Artifact, Key), Stop> {
        let untold = |error| CudaError::headers(program.name(), error);
        let (texts, found, name, directories) = if program.has_headers() {
            let (closed, found) = self.headers.closed(program).map_err(untold)?;
            (closed, Some(found), format!("{}{}", headers::ROOT, program.name()), Vec::new())
        } else {
            let (texts, name, directories) = program.unclosed();
            (texts, None, name, directories)
        };
        let libdevice = program.uses_libdevice().then(|| self.toolkit.libdevice()).transpose()?;
        let (libdevice, digest) = libdevice.unzip();
        let now = Inputs { contents: program.contents(found, digest), ..inputs.clone() };
        let renewed;
        let request = if now.contents == inputs.contents {
            request
        } else if is_alone {
            renewed = now.request(program)?;
            &renewed
        } else {
            return Err(Stop::Changed);
        };
        let mut arguments = request.arguments.clone();
        arguments.extend(directories);
        arguments.extend(texts.pre_includes.iter().map(|name| format!("--pre-include={name}")));
        let unit = Unit {
            program: program.description(),
            name: &name,
            texts: &texts,
            arguments: &arguments,
            libdevice: libdevice.as_deref(),
        };
        let output = self.toolkit.compile(&inputs.toolchain, &unit).map_err(|error| {
            match error.log().and_then(|log| texts.untold_in(log)) {
                Some(error) => untold(error),
                None => error.with_places(|| program.places()),
            }
        })?;
        // It may have been another while the compiler asked for it.
        if described(program, &inputs.toolchain) != inputs.described {
            return Err(Stop::Changed);
        }
        let expressions = program.description().name_expressions().iter();
        let kept = expressions.zip(&output.lowered_names).map(|(expression, name)| {
            (matches!(expression, NameExpression::Bytes(_)), expression.as_bytes(), name.as_str())
        });
        let lowered_names = postcard::to_allocvec(&kept.collect::<Vec<_>>())
            .expect("a list of bytes and texts has an encoding, and memory grows");
        let metadata = Metadata::new()
            .with_recipe(request.fields.recipe())
            .with_attribute(TARGET, program.description().target().as_str())
            .with_attribute(LOG, output.log)
            .with_attribute(LOWERED_NAMES, lowered_names);
        Ok((Artifact::new(output.binary).with_metadata(&metadata), request.key))
    }
}

impl Compiled {
    /// What was compiled: a CUBIN, PTX or LTO-IR.
    #[must_use]
    pub fn binary(&self) -> &[u8] {
        self.fetched.artifact().payload()
    }

    /// What the compiler calls the kernel that this expression names, if it was [wanted](Program::name_expression).
    #[must_use]
    pub fn lowered_name(&self, expression: impl Into<NameExpression>) -> Option<&str> {
        let expression = expression.into();
        self.lowered_names().find(|(wanted, _)| **wanted == expression).map(|(_, name)| name)
    }

    /// All expressions that were wanted, and the names that the compiler gave to what they name.
    pub fn lowered_names(&self) -> impl Iterator<Item = (&NameExpression, &str)> {
        self.lowered_names.iter().map(|(expression, name)| (expression, name.as_str()))
    }

    /// What the compiler wrote when it compiled this: warnings, and what `ptxas` reports. It is kept with the binary.
    #[must_use]
    pub fn log(&self) -> String {
        let metadata = self.fetched.artifact().metadata().unwrap_or_default();
        String::from_utf8_lossy(metadata.attribute(LOG).unwrap_or_default()).into_owned()
    }

    /// How the binary was come by.
    pub const fn fetched(&self) -> &Fetched {
        &self.fetched
    }

    /// Whether the binary was stored.
    #[must_use]
    pub const fn is_hit(&self) -> bool {
        self.fetched.is_hit()
    }
}

/// Everything but the program that decides its binary.
#[derive(Clone)]
struct Inputs {
    toolchain: Arc<Toolchain>,
    /// The compiler as the key has it.
    described: Arc<Toolchain>,
    contents: Contents<'static>,
}

/// What is asked of the cache, and of the compiler if that has nothing.
struct Request<'a> {
    key: Key,
    fields: KeyFields<'a>,
    arguments: Vec<String>,
}

impl Inputs {
    fn request<'a>(&'a self, program: &'a Program) -> Result<Request<'a>, CudaError> {
        let (fields, arguments) = program.description().prepare(&self.contents, &self.described)?;
        Ok(Request { key: fields.key(), fields, arguments })
    }
}

/// The compiler, and the current directory where NVRTC writes that into the binary, which no option changes.
/// The key has a digest of it, and no path.
fn described(program: &Program, toolchain: &Arc<Toolchain>) -> Arc<Toolchain> {
    if !program.names_directory() {
        return Arc::clone(toolchain);
    }
    // Reached through a link, it is what this variable says.
    let directory = std::env::var_os("PWD").unwrap_or_default();
    let directories = [directory, std::env::current_dir().unwrap_or_default().into_os_string()];
    let label = |directory: OsString| Key::digest(directory.as_encoded_bytes()).to_string();
    let directories = directories.map(label).join(" ");
    Arc::new(Toolchain::clone(toolchain).with_environment("current directory", directories))
}

/// Why nothing was compiled.
enum Stop {
    /// An input is another than the one that was looked up.
    Changed,
    Failed(CudaError),
}

impl From<CudaError> for Stop {
    fn from(error: CudaError) -> Self {
        if error.is_changed_library() { Self::Changed } else { Self::Failed(error) }
    }
}

/// The lowered names that are kept with a binary. Nothing if one is missing that the program wants: whoever finds it would
/// not find the kernel in it.
fn names_of(artifact: &Artifact, program: &Program) -> Option<Vec<(NameExpression, String)>> {
    // Most programs want none, and a look-up of theirs need not decode what they are made of.
    let wanted = program.description().name_expressions();
    if wanted.is_empty() {
        return Some(Vec::new());
    }
    let metadata = artifact.metadata().ok()?;
    let kept: Vec<(bool, Vec<u8>, String)> = postcard::from_bytes(metadata.attribute(LOWERED_NAMES)?).ok()?;
    let names = kept.into_iter().map(|(is_bytes, expression, name)| {
        let expression =
            if is_bytes { expression.into() } else { String::from_utf8(expression).ok()?.into() };
        Some((expression, name))
    });
    let names: Vec<(NameExpression, String)> = names.collect::<Option<_>>()?;
    let has = |wanted: &NameExpression| names.iter().any(|(expression, _)| expression == wanted);
    wanted.iter().all(has).then_some(names)
}
