//! Where the files of the CUDA toolkit are.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    path::{Path, PathBuf},
};

/// A file that is looked for under a name with a version in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Nvrtc,
    /// Which NVRTC loads.
    Builtins,
    NvJitLink,
    Nvvm,
    /// The library of device functions that NVVM links.
    Libdevice,
}

/// Where to look, the most wanted first.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<Place>);

/// Directories among which the newest file wins.
#[derive(Clone, Debug)]
enum Place {
    /// As an installer makes it: the libraries are in directories below it.
    Root(PathBuf),
    /// And nothing below it.
    Directory(PathBuf),
    /// A Python environment, with the packages of NVIDIA.
    Python(PathBuf),
}

/// Directories that an error names.
const SHOWN: usize = 8;

/// What is known of a part before it is found.
pub(crate) struct Facts {
    /// As people call it.
    name: &'static str,
    /// As a key calls it.
    pub(crate) label: &'static str,
    /// The package that has it.
    pub(crate) package: &'static str,
    /// The oldest release that has all that is needed.
    pub(crate) oldest: &'static str,
    /// What stands before and after the version in a file's name, on Linux and on Windows.
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
                package: "nvidia-cuda-nvrtc",
                oldest: "NVRTC 12.0",
                files: [("libnvrtc-builtins.so.", ""), ("nvrtc-builtins64_", ".dll")],
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
                package: "nvidia-nvvm",
                oldest: "the NVVM of CUDA 12.0",
                files: [("libdevice.", ".bc"); 2],
            },
        }
    }

    /// The name of the file that is looked for.
    pub(crate) fn pattern(self) -> String {
        let (before, after) = self.facts().files[usize::from(cfg!(windows))];
        format!("{before}*{after}")
    }

    /// The version in a file's name, if it is a name of this part. A name without one, of a link for linkers, has the
    /// least.
    fn version_in(self, name: &str, windows: bool) -> Option<Vec<u64>> {
        let (before, after) = self.facts().files[usize::from(windows)];
        if after.is_empty() && name == before.trim_end_matches('.') {
            return Some(Vec::new());
        }
        let name = if windows { name.to_ascii_lowercase() } else { name.into() };
        let version = name.strip_prefix(before)?.strip_suffix(after)?;
        version.split(['.', '_']).map(|number| number.parse().ok()).collect()
    }

    /// The files of this part in a directory, with their versions. A link to nothing is as if it were not there.
    fn files_in(self, directory: &Path) -> impl Iterator<Item = (Vec<u64>, PathBuf)> {
        entries(directory).into_iter().filter_map(move |path| {
            let version = self.version_in(path.file_name()?.to_str()?, cfg!(windows))?;
            path.exists().then_some((version, path))
        })
    }
}

/// As people call it.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

impl Places {
    /// The folder that `WARMSTART_CUDA` names and no other; else those that name an installed toolkit, the directories of the
    /// dynamic loader, the Python environment, where toolkits are installed, and where pip installs.
    pub(crate) fn usual() -> Self {
        Self::by(|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// These folders and no others: the files are in them, or below them as an installer puts them.
    pub(crate) fn of<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>) -> Self {
        Self(folders.into_iter().map(|folder| Place::Root(folder.as_ref().into())).collect())
    }

    fn by(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().filter_map(|name| variable(name)).map(PathBuf::from).collect()
        };
        // Who names a folder means that one. A slip in its name shall not lead to another compiler.
        if let Some(folder) = variable("WARMSTART_CUDA") {
            return Self(vec![Place::Root(folder.into())]);
        }
        let roots = named(&["CUDA_HOME", "CUDA_PATH"]).into_iter().map(Place::Root);
        let loader = variable(if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" });
        let loader: Vec<PathBuf> = env::split_paths(&loader.unwrap_or_default())
            // An empty entry is the current directory, from which nobody wants to load.
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

    /// The newest file of the first place that has one.
    pub(crate) fn find(&self, part: Part) -> Option<PathBuf> {
        self.0.iter().find_map(|place| newest(part, &place.directories(part)))
    }

    /// Where was looked, for an error.
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
                // Where a toolkit has its libraries is on the path, and NVVM's are elsewhere in it.
                (Part::Nvvm | Part::Libdevice, Some(root)) => {
                    [vec![directory.clone()], nvvm(root, part)].concat()
                }
                _ => vec![directory.clone()],
            },
            Self::Python(root) => {
                let packages = |lib: &Path| {
                    // Debian keeps what pip installs apart from its own.
                    ["site-packages", "dist-packages"].map(|kind| lib.join(kind).join("nvidia"))
                };
                let mut libraries = entries(&root.join("lib"));
                libraries.retain(|path| starts(path, "python"));
                libraries.push(root.join("Lib"));
                let packages = libraries.iter().flat_map(|lib| packages(lib));
                let roots = packages.flat_map(|packages| entries(&packages));
                roots.flat_map(|root| below(&root, part)).collect()
            }
        }
    }
}

fn below(root: &Path, part: Part) -> Vec<PathBuf> {
    let usual = ["", "lib64", "lib", "bin", "bin/x64"];
    let mut directories: Vec<_> = usual.iter().map(|below| root.join(below)).collect();
    // Without the separator that joining nothing adds.
    directories[0] = root.into();
    if !cfg!(windows) {
        directories.truncate(3);
    }
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

/// The file of the greatest version. Of two with the same, the one in the earlier directory.
fn newest(part: Part, directories: &[PathBuf]) -> Option<PathBuf> {
    let files = directories.iter().rev().flat_map(|directory| part.files_in(directory));
    files.max_by(|(version, _), (other, _)| version.cmp(other)).map(|(_, path)| path)
}

/// All files of the part that lie beside `path`, or beside the file that it is a link to.
pub(crate) fn beside(path: &Path, part: Part) -> Vec<PathBuf> {
    let real = fs::canonicalize(path).ok();
    let directories = [Some(path), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let found = directories.map(|directory| part.files_in(directory).map(|(_, path)| path).collect());
    found.into_iter().find(|found: &Vec<PathBuf>| !found.is_empty()).unwrap_or_default()
}

/// What is in a directory, in the order of names; nothing if there is none.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn starts(path: &Path, with: &str) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(with))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        let linux = |part: Part, name| part.version_in(name, false);
        assert_eq!(linux(Part::Nvrtc, "libnvrtc.so.13"), Some(vec![13]));
        assert_eq!(linux(Part::Nvrtc, "libnvrtc.so.12.4.127"), Some(vec![12, 4, 127]));
        assert_eq!(linux(Part::Nvrtc, "libnvrtc.so"), Some(vec![]));
        assert_eq!(linux(Part::Libdevice, "libdevice.10.bc"), Some(vec![10]));
        for other in ["libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.5", "libnvrtc.so.x", "libnvrtc.so.13~"] {
            assert_eq!(linux(Part::Nvrtc, other), None, "{other}");
        }
        assert_eq!(linux(Part::Libdevice, "libdevice.bc"), None);
        let windows = |part: Part, name| part.version_in(name, true);
        assert_eq!(windows(Part::Nvrtc, "nvrtc64_130_0.dll"), Some(vec![130, 0]));
        assert_eq!(windows(Part::NvJitLink, "nvJitLink_130_0.dll"), Some(vec![130, 0]));
        assert_eq!(windows(Part::Nvrtc, "nvrtc64_130_0.alt.dll"), None);
        assert_eq!(windows(Part::Builtins, "nvrtc-builtins64_135.dll"), Some(vec![135]));
    }

    #[cfg(not(windows))]
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        directory
    }

    #[cfg(not(windows))]
    #[test]
    fn the_newest_of_a_place_wins_and_the_first_place_before_it() {
        let tree = tree(&[
            "a/lib/libnvrtc.so.12",
            "a/lib64/libnvrtc.so.9",
            "a/lib64/libnvrtc.so",
            "b/libnvrtc.so.13",
            "b/nvvm/lib64/libnvvm.so.4",
            "b/nvvm/libdevice/libdevice.10.bc",
        ]);
        let places = Places::of(["none", "a", "b"].map(|name| tree.path().join(name)));
        let found = |part| Some(places.find(part)?.strip_prefix(tree.path()).unwrap().to_path_buf());
        assert_eq!(found(Part::Nvrtc), Some("a/lib/libnvrtc.so.12".into()));
        assert_eq!(found(Part::Nvvm), Some("b/nvvm/lib64/libnvvm.so.4".into()));
        assert_eq!(found(Part::Libdevice), Some("b/nvvm/libdevice/libdevice.10.bc".into()));
        assert_eq!(found(Part::NvJitLink), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_passed_over() {
        let tree = tree(&["libnvrtc.so.12"]);
        std::os::unix::fs::symlink("nothing", tree.path().join("libnvrtc.so.13")).unwrap();
        let found = Places::of([tree.path()]).find(Part::Nvrtc).unwrap();
        assert_eq!(found, tree.path().join("libnvrtc.so.12"));
    }

    #[cfg(not(windows))]
    #[test]
    fn the_environment_names_places_in_order() {
        let tree = tree(&[
            "own/libnvrtc.so.12",
            "home/lib64/libnvrtc.so.13",
            "loader/lib64/libnvJitLink.so.13",
            "loader/nvvm/libdevice/libdevice.10.bc",
            "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvvm.so.4",
            "user/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvJitLink.so.13",
        ]);
        let found = |named: &[(&str, &str)], part| {
            let places = Places::by(|name| {
                let (_, below) = named.iter().find(|(other, _)| *other == name)?;
                Some(tree.path().join(below).into_os_string())
            });
            Some(places.find(part)?.strip_prefix(tree.path()).ok()?.to_str().unwrap().to_owned())
        };
        let all = [("CUDA_HOME", "home"), ("WARMSTART_CUDA", "own"), ("VIRTUAL_ENV", "venv")];
        assert_eq!(found(&all, Part::Nvrtc).unwrap(), "own/libnvrtc.so.12");
        assert_eq!(found(&all[..1], Part::Nvrtc).unwrap(), "home/lib64/libnvrtc.so.13");
        let venv = "venv/lib/python3.12/site-packages/nvidia/cu13/lib/";
        assert_eq!(found(&all[2..], Part::Nvrtc).unwrap(), format!("{venv}libnvrtc.so.13"));
        assert_eq!(found(&all[2..], Part::Nvvm).unwrap(), format!("{venv}libnvvm.so.4"));
        assert_eq!(found(&all, Part::Nvvm), None, "who names a folder means that one");
        let own = [("HOME", "user")];
        let user = "user/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvJitLink.so.13";
        assert_eq!(found(&own, Part::NvJitLink).unwrap(), user);
        let loader = [("LD_LIBRARY_PATH", "loader/lib64")];
        assert_eq!(found(&loader, Part::NvJitLink).unwrap(), "loader/lib64/libnvJitLink.so.13");
        assert_eq!(found(&loader, Part::Libdevice).unwrap(), "loader/nvvm/libdevice/libdevice.10.bc");
    }
}
