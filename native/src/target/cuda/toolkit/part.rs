//! The parts of the CUDA toolkit: the names of their files, the directories to search, and the build id in a file.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    io::{Read, Seek},
    path::{Path, PathBuf},
};

use object::{
    Endianness,
    elf::{self, Machine},
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader, NoteIterator, ProgramHeader},
    },
};

/// A file of the toolkit, found by a name with a version in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Nvrtc,
    /// The library of builtins that NVRTC loads.
    Builtins,
    NvJitLink,
    Nvvm,
    /// The library of device functions that NVVM links.
    Libdevice,
}

/// Where to search, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<Place>);

/// Directories among which the newest file wins.
#[derive(Clone, Debug)]
enum Place {
    /// A folder as an installer makes it, with the libraries in subfolders.
    Root(PathBuf),
    /// A folder without its subfolders.
    Directory(PathBuf),
    /// A Python environment with NVIDIA's packages.
    Python(PathBuf),
}

/// The most directories that an error names.
const SHOWN: usize = 8;
/// The most bytes of notes to read; a build id is in the first hundred.
const MAX_NOTES: u64 = 1 << 16;
/// The longest build id: a linker computes 8, 16 or 20 bytes, or takes up to 32 that are given to it.
const MAX_BUILD_ID: usize = 64;

/// Facts about a part before it is found.
pub(crate) struct Facts {
    /// The name in messages.
    name: &'static str,
    /// The name in keys.
    pub(crate) label: &'static str,
    /// The pip package that has it.
    pub(crate) package: &'static str,
    /// The oldest release that has all that is needed.
    pub(crate) oldest: &'static str,
    /// Prefix and suffix around the version in a file's name, on Linux and on Windows.
    files: [(&'static str, &'static str); 2],
}

impl Part {
    pub(crate) const fn facts(self) -> Facts {
        match self {
            Self::Nvrtc => Facts {
                name: "NVRTC",
                label: "nvrtc",
                package: "nvidia-cuda-nvrtc",
                oldest: "NVRTC 12.0",
                files: [("libnvrtc.so.", ""), ("nvrtc64_", ".dll")],
            },
            Self::Builtins => Facts {
                name: "the library of NVRTC's builtins",
                label: "nvrtc-builtins",
                files: [("libnvrtc-builtins.so.", ""), ("nvrtc-builtins64_", ".dll")],
                ..Self::Nvrtc.facts()
            },
            Self::NvJitLink => Facts {
                name: "nvJitLink",
                label: "nvjitlink",
                package: "nvidia-nvjitlink",
                oldest: "nvJitLink 12.4",
                files: [("libnvJitLink.so.", ""), ("nvjitlink_", ".dll")],
            },
            Self::Nvvm => Facts {
                name: "NVVM",
                label: "nvvm",
                package: "nvidia-nvvm",
                oldest: "the NVVM of CUDA 12.0",
                files: [("libnvvm.so.", ""), ("nvvm64_", ".dll")],
            },
            Self::Libdevice => Facts {
                name: "libdevice",
                label: "libdevice",
                files: [("libdevice.", ".bc"); 2],
                ..Self::Nvvm.facts()
            },
        }
    }

    /// Returns the pattern of the file's name, for messages.
    pub(crate) fn pattern(self) -> String {
        let (before, after) = self.facts().files[usize::from(cfg!(windows))];
        format!("{before}*{after}")
    }

    /// Returns the version in a file's name, if it is a name of this part. A name without a version, such as that of a link for
    /// linkers, counts as the lowest.
    fn version_in(self, name: &str, windows: bool) -> Option<Vec<u64>> {
        let (before, after) = self.facts().files[usize::from(windows)];
        if after.is_empty() && name == before.trim_end_matches('.') {
            return Some(Vec::new());
        }
        let name = if windows { name.to_ascii_lowercase() } else { name.into() };
        let version = name.strip_prefix(before)?.strip_suffix(after)?;
        version.split(['.', '_']).map(|number| number.parse().ok()).collect()
    }

    /// Returns the files of this part in a directory, with their versions. Broken links are left out.
    fn files_in(self, directory: &Path) -> impl Iterator<Item = (Vec<u64>, PathBuf)> {
        entries(directory).into_iter().filter_map(move |path| {
            let version = self.version_in(path.file_name()?.to_str()?, cfg!(windows))?;
            path.exists().then_some((version, path))
        })
    }
}

/// Writes the name in messages.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

impl Places {
    /// Returns the places of this machine: the folder `WARMSTART_CUDA` alone if it is set; else the folders of environment
    /// variables, the directories of the dynamic loader, the Python environment, the usual folders of toolkits, and those of pip.
    pub(crate) fn usual() -> Self {
        Self::by(|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// Returns only these folders, with the subfolders that an installer makes.
    pub(crate) fn of<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Self {
        Self(folders.into_iter().map(|folder| Place::Root(folder.as_ref().into())).collect())
    }

    fn by(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().filter_map(|name| variable(name)).map(PathBuf::from).collect()
        };
        // Only this folder: a slip in its name must not lead to another compiler.
        if let Some(folder) = variable("WARMSTART_CUDA") {
            return Self(vec![Place::Root(folder.into())]);
        }
        let roots = named(&["CUDA_HOME", "CUDA_PATH"]).into_iter().map(Place::Root);
        let loader = variable(if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" });
        let loader: Vec<PathBuf> = env::split_paths(&loader.unwrap_or_default())
            // An empty entry is the current directory, where any file could lie under a library's name.
            .filter(|directory| directory.is_absolute())
            .collect();
        let python = named(&["VIRTUAL_ENV", "CONDA_PREFIX"]);
        let python = python.into_iter().flat_map(|root| [Place::Python(root.clone()), Place::Root(root)]);
        let installed = ["/usr/local/cuda", "/opt/cuda"].map(|root| Place::Root(root.into()));
        let architecture = env::consts::ARCH;
        let system = [
            format!("/usr/lib/{architecture}-linux-gnu"),
            "/usr/lib64".into(),
            "/usr/lib".into(),
            "/usr/lib/nvidia-cuda-toolkit/libdevice".into(),
        ];
        let system = system.map(|directory| Place::Directory(directory.into()));
        let mut places: Vec<Place> = roots.collect();
        places.extend(loader.into_iter().map(Place::Directory));
        places.extend(python);
        if cfg!(unix) {
            // Where pip installs outside of an environment.
            let own = named(&["HOME"]).into_iter().map(|home| home.join(".local"));
            places.extend(own.chain([PathBuf::from("/usr/local")]).map(Place::Python));
            places.extend(installed.into_iter().chain(system));
        }
        Self(places)
    }

    /// Returns the newest file of the first place that has one.
    pub(crate) fn find(&self, part: Part) -> Option<PathBuf> {
        self.0.iter().find_map(|place| newest(part, &place.directories(part)))
    }

    /// Lists the searched places, for an error.
    pub(crate) fn described(&self, part: Part) -> String {
        let directories: Vec<PathBuf> = self.0.iter().flat_map(|place| place.directories(part)).collect();
        let there: Vec<&PathBuf> = directories.iter().filter(|directory| directory.is_dir()).collect();
        if there.is_empty() {
            let first = directories.first().map(|first| format!("{}, which is no folder", first.display()));
            return first.unwrap_or_else(|| String::from("no folder at all"));
        }
        let shown: Vec<_> =
            there.iter().take(SHOWN).map(|directory| directory.display().to_string()).collect();
        let more = if there.len() > SHOWN { " and others" } else { "" };
        shown.join(", ") + more
    }
}

impl Place {
    fn directories(&self, part: Part) -> Vec<PathBuf> {
        match self {
            Self::Root(root) => below(root, part),
            Self::Directory(directory) => match (part, directory.parent()) {
                // The path has a toolkit's library folder; NVVM is in another folder of the toolkit.
                (Part::Nvvm | Part::Libdevice, Some(root)) => {
                    [vec![directory.clone()], nvvm(root, part)].concat()
                }
                _ => vec![directory.clone()],
            },
            Self::Python(root) => {
                let mut libraries = entries(&root.join("lib"));
                libraries.retain(|path| {
                    let name = path.file_name().and_then(OsStr::to_str);
                    name.is_some_and(|name| name.starts_with("python"))
                });
                libraries.push(root.join("Lib"));
                // Debian keeps what pip installs apart from its own.
                let kinds = ["site-packages", "dist-packages"];
                let packages =
                    libraries.iter().flat_map(|lib| kinds.map(|kind| lib.join(kind).join("nvidia")));
                let roots = packages.flat_map(|packages| entries(&packages));
                roots.flat_map(|root| below(&root, part)).collect()
            }
        }
    }
}

fn below(root: &Path, part: Part) -> Vec<PathBuf> {
    let usual: &[&str] = if cfg!(windows) { &["lib64", "lib", "bin", "bin/x64"] } else { &["lib64", "lib"] };
    let mut directories = vec![root.into()];
    directories.extend(usual.iter().map(|below| root.join(below)));
    if matches!(part, Part::Nvvm | Part::Libdevice) {
        directories.extend(nvvm(root, part));
    }
    directories
}

/// NVVM's own directories in a toolkit.
fn nvvm(root: &Path, part: Part) -> Vec<PathBuf> {
    let names: &[&str] = match part {
        Part::Libdevice => &["nvvm/libdevice"],
        _ if cfg!(windows) => &["nvvm/bin", "nvvm/bin/x64"],
        _ => &["nvvm/lib64", "nvvm/lib"],
    };
    names.iter().map(|name| root.join(name)).collect()
}

/// Returns the file of the greatest version; of equal ones, the one in the earlier directory.
fn newest(part: Part, directories: &[PathBuf]) -> Option<PathBuf> {
    let files = directories.iter().rev().flat_map(|directory| part.files_in(directory));
    files.max_by(|(version, _), (other, _)| version.cmp(other)).map(|(_, path)| path)
}

/// Returns all files of the part beside `path`, or beside the file that it links to.
pub(crate) fn beside(path: &Path, part: Part) -> Vec<PathBuf> {
    let real = fs::canonicalize(path).ok();
    let directories = [Some(path), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let found = directories.map(|directory| part.files_in(directory).map(|(_, path)| path).collect());
    found.into_iter().find(|found: &Vec<PathBuf>| !found.is_empty()).unwrap_or_default()
}

/// Lists a directory in the order of names; empty if there is none.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// The header of a file that this process can load.
#[cfg(target_pointer_width = "64")]
pub(in crate::target::cuda) type HostHeader = elf::FileHeader64<Endianness>;
#[cfg(not(target_pointer_width = "64"))]
pub(in crate::target::cuda) type HostHeader = elf::FileHeader32<Endianness>;

/// Returns the build id of a shared library, if it has one. Checks that the file has all that the loader will map.
///
/// # Errors
/// Says what the file is instead of a shared library that this machine can load. Completes "the file ...".
pub(super) fn build_id(file: impl Read + Seek) -> Result<Option<Vec<u8>>, String> {
    read_build_id::<HostHeader>(file, host())
}

/// Returns ELF's number of the machine that this was compiled for, or zero if NVIDIA makes no libraries for it.
const fn host() -> Machine {
    if cfg!(target_arch = "x86_64") {
        elf::EM_X86_64
    } else if cfg!(target_arch = "aarch64") {
        elf::EM_AARCH64
    } else {
        elf::EM_NONE
    }
}

fn read_build_id<H: FileHeader<Endian = Endianness>>(
    file: impl Read + Seek,
    machine: Machine,
) -> Result<Option<Vec<u8>>, String> {
    let data = &ReadCache::new(file);
    let damaged = |error: &str| format!("is damaged or cannot be read: {error}");
    let len = data.len().map_err(|()| damaged("its length is unknown"))?;
    let has = |end: Option<u64>| match end.ok_or_else(|| damaged("an address in it cannot be"))? {
        end if end > len => Err(format!("is cut short: it has {len} bytes and should have {end} or more")),
        _ => Ok(()),
    };
    let start = data.read_bytes_at(0, len.min(64)).map_err(|()| damaged("its start"))?;
    if !start.starts_with(&elf::ELFMAG) {
        return Err(format!("is no shared library: it is {}", what_it_is(start)));
    }
    has(Some(size_of::<H>() as u64))?;
    let header = H::parse(data).map_err(|_| "is a library for another machine".to_owned())?;
    let endian = header.endian().map_err(|error| damaged(&error.to_string()))?;
    let found = header.e_machine(endian);
    if endian != Endianness::default() || found != machine {
        return Err(format!("is a library for another machine: number {} of ELF", found.0));
    }
    if header.e_type(endian) != elf::ET_DYN {
        return Err("is no shared library: it is a program or an object".into());
    }
    // The sections come last in most files, so one that was cut lacks them first.
    let sections = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    has(header.e_shoff(endian).into().checked_add(sections))?;
    let segments = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
    has(header.e_phoff(endian).into().checked_add(segments))?;
    let segments = header.program_headers(endian, data).map_err(|error| damaged(&error.to_string()))?;
    let mut build_id = None;
    for segment in segments {
        let size: u64 = segment.p_filesz(endian).into();
        if matches!(segment.p_type(endian), elf::PT_LOAD | elf::PT_NOTE) {
            has(segment.p_offset(endian).into().checked_add(size))?;
        }
        if build_id.is_none() && size <= MAX_NOTES {
            build_id = segment.notes(endian, data).ok().flatten().and_then(build_id_of);
        }
    }
    Ok(build_id)
}

/// Finds the build id among notes.
pub(in crate::target::cuda) fn build_id_of<H: FileHeader<Endian = Endianness>>(
    mut notes: NoteIterator<'_, H>,
) -> Option<Vec<u8>> {
    while let Some(note) = notes.next().ok()? {
        let is_build_id =
            note.name() == elf::ELF_NOTE_GNU && note.n_type(Endianness::default()) == elf::NT_GNU_BUILD_ID;
        if is_build_id && (1..=MAX_BUILD_ID).contains(&note.desc().len()) {
            return Some(note.desc().to_vec());
        }
    }
    None
}

fn what_it_is(start: &[u8]) -> &'static str {
    match start {
        [] => "empty",
        [b'M', b'Z', ..] => "a library for Windows",
        [b'!', b'<', b'a', b'r', b'c', b'h', ..] => "a static library",
        _ if start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) => "text",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests;
