//! Identifies a compiler by its answers and by the contents of the files that it consists of.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use warmstart_core::key::{Key, KeyFields};

use super::error::{CompileError, CompileProblem};
use crate::os::FileIdentity;

/// The programs that a compiler runs.
const PROGRAMS: &[&str] = &["cc1", "as", "ld", "collect2"];

/// Files that are linked into a shared object, or that determine how it is linked.
const LINKED: &[&str] = &[
    "crti.o",
    "crtn.o",
    "crtbeginS.o",
    "crtendS.o",
    "crtfastm.o",
    "libgomp.spec",
    "libgcc.a",
    "libgcc_s.so",
    "libc.so",
    "libc_nonshared.a",
    "libm.so",
];

/// The option that keeps gcc from listing one of its own headers under another name than the one by which it was found. clang
/// has no such option, and needs none.
const AS_SPELT: &str = "-fno-canonical-system-headers";

/// A compiler's answers, and the state of its files when it gave them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Probe {
    pub(super) driver: FileIdentity,
    /// The first line of `--version`.
    pub(super) version: String,
    /// The machine that the compiler compiles for.
    pub(super) triple: String,
    /// The digest of the contents of all its files.
    pub(super) digest: [u8; Key::LEN],
    /// The directories in which it searches for headers, in order.
    pub(super) system: Vec<String>,
    /// The directories that it would search if they existed.
    missing: Vec<String>,
    /// The compiler's files besides the driver.
    parts: Vec<Part>,
    /// Whether the compiler accepts [`AS_SPELT`].
    takes_as_spelt: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// The bare name, if the `PATH` leads from it to this file: the compiler, or a script, may look it up there.
    bare: Option<String>,
    path: String,
    identity: FileIdentity,
}

impl Probe {
    /// Runs the compiler at `path` to identify it.
    pub(super) fn ask(path: &Path, driver: FileIdentity) -> Result<Self, CompileError> {
        let temporary = private_directory("warmstart-probe-").map_err(|error| {
            CompileProblem::Io("cannot make a temporary directory for the compiler", error)
        })?;
        let ask = |arguments: &[&str]| answer(command(path, temporary.path()).args(arguments));
        let line = |arguments: &[&str]| {
            let (output, _) = ask(arguments)?;
            output.lines().next().map(|line| String::from(line.trim())).filter(|line| !line.is_empty())
        };
        let unusable = |problem: &str| CompileProblem::Unusable {
            compiler: path.display().to_string(),
            problem: problem.into(),
        };
        let version = line(&["--version"]).ok_or_else(|| unusable("--version says nothing"))?;
        let triple = line(&["-dumpmachine"]).ok_or_else(|| unusable("-dumpmachine says nothing"))?;
        let is_clang = is_clang(&version);
        let search = ["-E", "-v", "-x", "c", "-"];
        let with_option = ask(&[&[AS_SPELT], &search[..]].concat());
        let takes_as_spelt = with_option.is_some();
        let said = with_option.or_else(|| ask(&search));
        let (_, said) = said.ok_or_else(|| unusable("-E -v fails on an empty source"))?;
        let info = DriverInfo::parse(&said);

        let mut probe = Self {
            driver,
            version,
            triple,
            digest: [0; Key::LEN],
            system: info.search,
            missing: info.missing,
            parts: Vec::new(),
            takes_as_spelt,
        };
        probe.script(path);
        for driver in info.drivers.iter().filter(|driver| Path::new(driver.as_str()) != path) {
            probe.program(driver);
        }
        for name in PROGRAMS.iter().copied().chain(is_clang.then_some("clang")) {
            probe.program(&line(&[&format!("-print-prog-name={name}")]).unwrap_or_default());
        }
        // Much of a compiler is in its shared libraries.
        let mut programs: Vec<_> = probe.parts.iter().map(|part| PathBuf::from(&part.path)).collect();
        programs.push(path.to_path_buf());
        for program in &programs {
            libraries(program, temporary.path()).iter().for_each(|library| probe.file(library));
        }
        for name in LINKED {
            probe.file(&line(&[&format!("-print-file-name={name}")]).unwrap_or_default());
        }
        info.files.iter().for_each(|file| probe.file(file));
        let places = if is_clang {
            configurations(path, &probe.triple, &info.configured_in, &info.drivers)
        } else {
            specs(&ask(&["-print-search-dirs"]).unwrap_or_default().0)
        };
        for place in places.into_iter().filter_map(|place| place.into_os_string().into_string().ok()) {
            if Path::new(&place).exists() {
                probe.file(&place);
            } else if !probe.missing.contains(&place) {
                probe.missing.push(place);
            }
        }

        let content = |path: &Path| {
            let bytes = fs::read(path)
                .map_err(|error| unusable(&format!("{} cannot be read ({error})", path.display())))?;
            Ok::<_, CompileError>(Key::digest(&bytes).as_bytes().to_vec())
        };
        let (macros, _) = ask(&["-E", "-dM", "-x", "c", "-"]).unwrap_or_default();
        let mut fields = KeyFields::new("warmstart.cpu.compiler content", 2)
            .bytes("driver", content(path)?)
            // Options that a script adds between us and the compiler appear here, wherever they come from.
            .text("options", info.options)
            .text("macros", macros.lines().collect::<Vec<_>>().join("\n"));
        for part in &probe.parts {
            fields = fields.bytes("part", content(Path::new(&part.path))?);
        }
        probe.digest = *fields.key().as_bytes();
        Ok(probe)
    }

    /// Adds a program that the compiler names by a path or by a bare name. The compiler does not run a program that is not
    /// found.
    fn program(&mut self, answer: &str) {
        let Some(path) = find_programs(OsStr::new(answer)).next() else { return };
        let name = path.file_name().unwrap_or_default();
        let is_on_path = find_programs(name).next().as_ref() == Some(&path);
        let bare = name.to_str().filter(|_| is_on_path).map(String::from);
        if let Some(answer) = path.to_str()
            && self.add(bare, answer)
        {
            self.script(&path);
        }
    }

    /// If `path` is a script, adds every program that one of its words could mean, and the programs that those run.
    fn script(&mut self, path: &Path) {
        /// Of a longer script, or of one that names more programs, the rest is ignored.
        const LONGEST: u64 = 1 << 16;
        const PROGRAMS: usize = 256;

        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
        if read.is_err() || !bytes.starts_with(b"#!") {
            return;
        }
        let text = String::from_utf8_lossy(&bytes);
        let is_of_words = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
        for word in text.split(|c: char| !is_of_words(c)) {
            if self.parts.len() < PROGRAMS && (word.starts_with('/') || !word.contains('/')) {
                self.program(word);
            }
        }
    }

    /// Adds a file. The compiler answers with a bare name if it has no such file.
    fn file(&mut self, answer: &str) {
        if answer.starts_with('/') {
            self.add(None, answer);
        }
    }

    /// Adds a file to the parts. Returns whether it exists and is new.
    fn add(&mut self, bare: Option<String>, path: &str) -> bool {
        let Some(identity) = FileIdentity::of_path(Path::new(path)) else { return false };
        let is_new = !self.parts.iter().any(|part| part.path == path);
        if is_new {
            self.parts.push(Part { bare, path: path.into(), identity });
        }
        is_new
    }

    /// Returns whether the parts of the compiler are unchanged.
    pub(super) fn holds(&self) -> bool {
        let is_there = |part: &Part| {
            let path = Path::new(&part.path);
            part.bare
                .as_ref()
                .is_none_or(|name| find_programs(OsStr::new(name)).next().as_deref() == Some(path))
                && FileIdentity::of_path(path) == Some(part.identity)
        };
        self.parts.iter().all(is_there) && !self.missing.iter().any(|directory| Path::new(directory).exists())
    }

    /// Returns whether every file is settled, so that its next change will be detected.
    pub(super) fn is_settled(&self) -> bool {
        self.driver.is_settled() && self.parts.iter().all(|part| part.identity.is_settled())
    }

    /// Returns the option that makes the compiler list headers as they are spelt, if it needs one.
    pub(super) fn as_spelt(&self) -> Option<&'static str> {
        self.takes_as_spelt.then_some(AS_SPELT)
    }
}

/// Returns whether a compiler with this version text is clang.
pub(super) fn is_clang(version: &str) -> bool {
    version.contains("clang")
}

/// Runs a program, and returns its standard output and standard error if it succeeds.
fn answer(command: &mut Command) -> Option<(String, String)> {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    output.status.success().then(|| (text(&output.stdout), text(&output.stderr)))
}

/// Returns the shared libraries of a program, if the loader can list them as for `ldd`.
fn libraries(program: &Path, temporary: &Path) -> Vec<String> {
    // On other systems the program would be run, and a script may name any program.
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    let mut command = command(program, temporary);
    let (listed, _) =
        answer(command.arg("--version").env("LD_TRACE_LOADED_OBJECTS", "1")).unwrap_or_default();
    let path = |line: &str| {
        let (path, _) = line.split_once(" => ")?.1.rsplit_once(" (0x")?;
        Some(String::from(path))
    };
    listed.lines().filter_map(path).collect()
}

/// The relevant parts of a compiler's output under `-v`.
#[derive(Debug, Default)]
struct DriverInfo {
    search: Vec<String>,
    missing: Vec<String>,
    /// The files that configure the compiler.
    files: Vec<String>,
    /// The directories that it searches for such files.
    configured_in: Vec<String>,
    /// The programs that the compiler turns out to be, if a script or another program runs it.
    drivers: Vec<String>,
    /// The options that reach the compiler.
    options: String,
}

impl DriverInfo {
    fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut searching = false;
        for line in text.lines() {
            let after = |beginnings: &[&str]| {
                beginnings.iter().find_map(|beginning| line.strip_prefix(beginning)).map(String::from)
            };
            if line.starts_with("#include ") && line.ends_with("search starts here:") {
                searching = true;
            } else if line == "End of search list." {
                searching = false;
            } else if searching {
                // Headers of frameworks are looked up in another way, and are then not found in this list.
                let directory = line.trim();
                info.search
                    .extend((!directory.ends_with(" (framework directory)")).then(|| directory.into()));
            } else if let Some(options) = after(&["COLLECT_GCC_OPTIONS="]) {
                info.options = options;
            } else {
                let missing = after(&["ignoring nonexistent directory "]);
                info.missing.extend(missing.map(|missing| String::from(missing.trim_matches('"'))));
                info.files.extend(after(&["Reading specs from ", "Configuration file: "]));
                info.configured_in.extend(after(&[
                    "InstalledDir: ",
                    "System configuration file directory: ",
                    "User configuration file directory: ",
                ]));
                let clang = line.split_once("\" -cc1 ").or_else(|| line.split_once("\" \"-cc1\""));
                let clang = clang.and_then(|(driver, _)| driver.strip_prefix(" \"")).map(String::from);
                info.drivers.extend(clang.or_else(|| after(&["COLLECT_GCC="])));
            }
        }
        info
    }
}

/// Returns the paths at which gcc searches for specs, from its answer to `-print-search-dirs`.
fn specs(answer: &str) -> Vec<PathBuf> {
    let directories = answer.lines().filter_map(|line| {
        let directories = line.strip_prefix("install: ").or_else(|| line.strip_prefix("libraries: "))?;
        Some(env::split_paths(directories.trim_start_matches('=')))
    });
    directories.flatten().map(|directory| directory.join("specs")).collect()
}

/// Returns the paths at which clang searches for configuration files.
fn configurations(path: &Path, triple: &str, configured_in: &[String], drivers: &[String]) -> Vec<PathBuf> {
    let real = fs::canonicalize(path).unwrap_or_default();
    let drivers = drivers.iter().map(Path::new).chain([path, &real]);
    let configured = configured_in.iter().map(Path::new);
    let mut directories: Vec<_> =
        drivers.filter_map(Path::parent).chain(configured).chain([Path::new("/etc/clang")]).collect();
    directories.sort_unstable();
    directories.dedup();
    let called = path.file_name().unwrap_or_default().to_string_lossy();
    let names = [
        String::from("clang.cfg"),
        format!("{called}.cfg"),
        format!("{triple}.cfg"),
        format!("{triple}-clang.cfg"),
        format!("{triple}-{called}.cfg"),
    ];
    directories.iter().flat_map(|directory| names.iter().map(|name| directory.join(name))).collect()
}

/// Returns the compiler's command, without environment variables that could change its behaviour.
pub(super) fn command(path: &Path, temporary: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("LC_ALL", "C").env("TMPDIR", temporary).current_dir(temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(path) = env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Finds the programs with this name, on the `PATH` if it is a bare name.
pub(super) fn find_programs(name: &OsStr) -> impl Iterator<Item = PathBuf> {
    let is_bare = Path::new(name).components().count() <= 1;
    // If the list is empty, only the name itself is tried.
    let search = env::var_os("PATH").filter(|_| is_bare).unwrap_or_default();
    let places: Vec<_> = env::split_paths(&search).map(|directory| directory.join(name)).collect();
    places.into_iter().filter(|path| is_program(path))
}

#[cfg(unix)]
pub(super) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(super) fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Creates a directory that only this user can enter. It is removed when dropped.
pub(super) fn private_directory(prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    // On other systems, a user's own directories are already private.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use super::super::encoded;
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_probe_holds_until_a_part_changes() {
        let compiler = super::super::Compiler::find().unwrap();
        let driver = FileIdentity::of_path(compiler.path()).unwrap();
        let mut probe = Probe::ask(compiler.path(), driver).unwrap();
        assert!(probe.holds());
        assert_eq!(postcard::from_bytes::<Probe>(&encoded(&probe)).as_ref(), Ok(&probe));
        assert!(probe.parts.iter().any(|part| part.bare.as_deref() == Some("as")), "{probe:?}");

        probe.missing.push(String::from("/usr"));
        assert!(!probe.holds());
        probe.missing.pop();
        probe.parts[0].identity = driver;
        assert!(!probe.holds());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = FileIdentity::of_path(file.path()).unwrap();
        let varint = |mut number: u64, bytes: &mut Vec<u8>| {
            while number >= 0x80 {
                bytes.push((number & 0x7F) as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        let mut bytes = Vec::new();
        for (place, number) in identity.numbers().into_iter().enumerate() {
            // The times are signed, and encoded as zigzag.
            varint(if place < 3 { number } else { number << 1 }, &mut bytes);
        }
        let probe = Probe {
            driver: identity,
            version: "v".into(),
            triple: "t".into(),
            digest: [9; Key::LEN],
            system: vec!["s".into()],
            missing: vec!["m".into()],
            parts: vec![Part { bare: Some("b".into()), path: "p".into(), identity }],
            takes_as_spelt: true,
        };
        let expected =
            [&bytes[..], b"\x01v\x01t", &[9; 32], b"\x01\x01s\x01\x01m\x01\x01\x01b\x01p", &bytes, &[1]];
        assert_eq!(encoded(&probe), expected.concat());
    }

    #[test]
    fn a_damaged_probe_is_an_error() {
        assert!(postcard::from_bytes::<Probe>(b"").is_err());
        assert!(postcard::from_bytes::<Probe>(&[255; 40]).is_err());
    }

    #[test]
    fn the_search_list_is_read_from_what_gcc_tells() {
        let info = DriverInfo::parse(
            "Reading specs from /usr/lib/specs\nignoring nonexistent directory \"/usr/local/include/x\"\n\
             #include \"...\" search starts here:\n#include <...> search starts here:\n /usr/lib/gcc/include\n \
             /usr/include\n /Frameworks (framework directory)\nEnd of search list.\n/not/this\n",
        );
        assert_eq!(info.search, ["/usr/lib/gcc/include", "/usr/include"]);
        assert_eq!(info.missing, ["/usr/local/include/x"]);
        assert_eq!(info.files, ["/usr/lib/specs"]);
    }
}
