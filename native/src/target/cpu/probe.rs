//! What a compiler says about itself, and what it is made of.

use std::{
    collections::HashSet,
    env,
    ffi::OsStr,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::Stdio,
};

use serde::{Deserialize, Serialize};
use warmstart_core::key::{Key, KeyFields};

use super::{
    compiler::{command, find_program},
    error::{CompileError, CompileProblem},
    library::private_directory,
    told::Told,
};
use crate::os::FileIdentity;

/// The programs that a compiler runs.
const PROGRAMS: &[&str] = &["cc1", "as", "ld", "collect2"];

/// What is linked into a shared object, and what tells how.
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

/// Keeps gcc from listing a header of its own under another name than the one it was found by. clang has no such
/// option, and needs none.
const AS_SPELT: &str = "-fno-canonical-system-headers";

/// A compiler's answers, and the state of its files when it gave them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Probe {
    pub(super) driver: FileIdentity,
    /// The first line of `--version`.
    pub(super) version: String,
    /// The machine that it compiles for.
    pub(super) triple: String,
    /// The contents of all its files.
    pub(super) digest: [u8; Key::LEN],
    /// Where it looks for headers, in its order.
    pub(super) system: Vec<String>,
    /// Where it would look if they were there.
    missing: Vec<String>,
    /// What it is made of beside the driver.
    parts: Vec<Part>,
    /// Whether it takes [`AS_SPELT`].
    takes_as_spelt: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// The bare name, if the compiler looks it up on the `PATH`.
    bare: Option<String>,
    path: String,
    identity: FileIdentity,
}

impl Probe {
    /// Asks the compiler at `path`.
    pub(super) fn ask(path: &Path, driver: FileIdentity) -> Result<Self, CompileError> {
        let temporary = private_directory("warmstart-probe-").map_err(|error| {
            CompileError::new(CompileProblem::Io("cannot make a temporary directory for the compiler", error))
        })?;
        let questions = Questions { path, temporary: temporary.path() };
        let because = |problem: String, source: Option<io::Error>| {
            CompileError::new(CompileProblem::Unusable {
                compiler: path.display().to_string(),
                problem,
                source,
            })
        };
        let unusable = |problem: &str| because(problem.into(), None);
        let version = questions.line(&["--version"]).ok_or_else(|| unusable("--version says nothing"))?;
        let triple =
            questions.line(&["-dumpmachine"]).ok_or_else(|| unusable("-dumpmachine says nothing"))?;
        let search = ["-E", "-v", "-x", "c", "-"];
        let with_option = questions.errors(&[&[AS_SPELT], &search[..]].concat());
        let takes_as_spelt = with_option.is_some();
        let told = with_option
            .or_else(|| questions.errors(&search))
            .ok_or_else(|| unusable("-E -v fails on an empty source"))?;
        let told = Told::parse(&told);

        let mut parts = Parts::default();
        parts.script(path);
        for driver in told.drivers.iter().filter(|driver| Path::new(driver.as_str()) != path) {
            parts.program(Some(driver.clone()));
            parts.ahead_of(driver);
        }
        for name in PROGRAMS.iter().copied().chain(version.contains("clang").then_some("clang")) {
            parts.program(questions.line(&[&format!("-print-prog-name={name}")]));
        }
        // Much of a compiler is in its shared libraries.
        let mut programs: Vec<_> = parts.found.iter().map(|part| PathBuf::from(&part.path)).collect();
        programs.push(path.to_path_buf());
        for program in &programs {
            questions.libraries(program).into_iter().for_each(|library| parts.file(Some(library)));
        }
        for name in LINKED {
            parts.file(questions.line(&[&format!("-print-file-name={name}")]));
        }
        told.files.iter().cloned().for_each(|file| parts.file(Some(file)));
        let places = if version.contains("clang") {
            configurations(path, &triple, &told)
        } else {
            specs(&questions.lines(&["-print-search-dirs"]))
        };
        for place in places {
            parts.file_or_missing(place);
        }
        let missing = told.missing.into_iter().chain(parts.missing).collect();

        let content = |path: &Path| {
            fs::read(path)
                .map(|bytes| Key::digest(&bytes))
                .map_err(|error| because(format!("{} cannot be read ({error})", path.display()), Some(error)))
        };
        let mut fields = KeyFields::new("warmstart.cpu.compiler content", 2)
            .bytes("driver", content(path)?.as_bytes().to_vec())
            // What a script between us and the compiler adds shows here, wherever it has it from.
            .text("options", told.options)
            .text("macros", questions.lines(&["-E", "-dM", "-x", "c", "-"]).join("\n"));
        for part in &parts.found {
            fields = fields.bytes("part", content(Path::new(&part.path))?.as_bytes().to_vec());
        }
        Ok(Self {
            driver,
            version,
            triple,
            digest: *fields.key().as_bytes(),
            system: told.search,
            missing,
            parts: parts.found,
            takes_as_spelt,
        })
    }

    /// Whether the parts of the compiler are where and what they were.
    pub(super) fn holds(&self) -> bool {
        let is_there = |part: &Part| {
            let path = Path::new(&part.path);
            part.bare.as_ref().is_none_or(|name| find_program(OsStr::new(name)).as_deref() == Some(path))
                && FileIdentity::of_path(path) == Some(part.identity)
        };
        self.parts.iter().all(is_there) && !self.missing.iter().any(|directory| Path::new(directory).exists())
    }

    /// Whether every file has been left alone for so long that its next change will be seen.
    pub(super) fn is_settled(&self) -> bool {
        self.driver.is_settled() && self.parts.iter().all(|part| part.identity.is_settled())
    }

    /// The option that makes the compiler list headers as they are spelt, if it needs one.
    pub(super) fn as_spelt(&self) -> Option<&'static str> {
        self.takes_as_spelt.then_some(AS_SPELT)
    }

    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        postcard::to_allocvec(self).ok()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

struct Questions<'a> {
    path: &'a Path,
    temporary: &'a Path,
}

impl Questions<'_> {
    /// The first line of what the compiler writes out.
    fn line(&self, arguments: &[&str]) -> Option<String> {
        let output =
            command(self.path, self.temporary).args(arguments).stdout(Stdio::piped()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let line = text.lines().next()?.trim();
        (output.status.success() && !line.is_empty()).then(|| String::from(line))
    }

    /// All lines of what the compiler writes out.
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let output = command(self.path, self.temporary).args(arguments).stdout(Stdio::piped()).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    /// What the compiler writes to standard error, if it succeeds.
    fn errors(&self, arguments: &[&str]) -> Option<String> {
        let output =
            command(self.path, self.temporary).args(arguments).stderr(Stdio::piped()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The shared libraries of a program, where the loader lists them as `ldd` has it do; nothing elsewhere.
    fn libraries(&self, program: &Path) -> Vec<String> {
        if !cfg!(target_os = "linux") {
            return Vec::new();
        }
        let mut command = command(program, self.temporary);
        command.arg("--version").env("LD_TRACE_LOADED_OBJECTS", "1").stdout(Stdio::piped());
        let Ok(output) = command.output() else { return Vec::new() };
        let text = String::from_utf8_lossy(&output.stdout);
        let path = |line: &str| {
            let (path, _) = line.split_once(" => ")?.1.rsplit_once(" (0x")?;
            path.starts_with('/').then(|| String::from(path))
        };
        text.lines().filter_map(path).collect()
    }
}

#[derive(Default)]
struct Parts {
    found: Vec<Part>,
    paths: HashSet<String>,
    /// Where nothing is, and where something would change what the compiler does.
    missing: Vec<String>,
}

impl Parts {
    /// A program that the compiler names by a path or by a bare name. What is not found, the compiler does not run.
    fn program(&mut self, answer: Option<String>) {
        let Some(answer) = answer else { return };
        let bare = !answer.contains('/');
        let found =
            find_program(OsStr::new(&answer)).and_then(|path| path.into_os_string().into_string().ok());
        if let Some(path) = found {
            self.add(bare.then_some(answer), path);
        }
    }

    /// If `path` is a script: every program that one of its words could mean, and what those run.
    fn script(&mut self, path: &Path) {
        /// A script that names more programs is read so far.
        const WORDS: usize = 256;

        let Some(text) = script_text(path) else { return };
        let is_of_words = |c: char| c.is_ascii_alphanumeric() || "._+-/".contains(c);
        for word in text.split(|c: char| !is_of_words(c)).filter(|word| !word.is_empty()) {
            let known = self.found.len();
            if known < WORDS && (word.starts_with('/') || !word.contains('/')) {
                self.program(Some(String::from(word)));
            }
            if let Some(part) = self.found.get(known) {
                self.script(&PathBuf::from(&part.path));
            }
        }
    }

    /// Notes where a program would be found before the one at `path`, as whoever runs one of the same name looks for it.
    fn ahead_of(&mut self, path: &str) {
        let path = Path::new(path);
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
        let Some(search) = env::var_os("PATH").filter(|_| path.is_absolute()) else { return };
        let directories: Vec<_> = env::split_paths(&search).collect();
        let Some(place) = directories.iter().position(|other| other == directory) else { return };
        let ahead = directories[..place].iter().map(|directory| directory.join(name));
        self.missing
            .extend(ahead.filter(|path| !path.exists()).filter_map(|path| path.to_str().map(String::from)));
    }

    /// A file that configures the compiler, or would if it were there.
    fn file_or_missing(&mut self, path: PathBuf) {
        let Ok(path) = path.into_os_string().into_string() else { return };
        if Path::new(&path).exists() {
            self.file(Some(path));
        } else if !self.missing.contains(&path) {
            self.missing.push(path);
        }
    }

    /// A file. The compiler answers with a bare name when it has no such file.
    fn file(&mut self, answer: Option<String>) {
        if let Some(answer) = answer.filter(|answer| answer.starts_with('/')) {
            self.add(None, answer);
        }
    }

    fn add(&mut self, bare: Option<String>, path: String) {
        if let Some(identity) = FileIdentity::of_path(Path::new(&path))
            && self.paths.insert(path.clone())
        {
            self.found.push(Part { bare, path, identity });
        }
    }
}

/// The text of a script. Nothing if it is something else, or too long for one.
fn script_text(path: &Path) -> Option<String> {
    const LONGEST: u64 = 1 << 16;

    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    bytes.starts_with(b"#!").then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Where gcc looks for specs, by its answer to `-print-search-dirs`.
fn specs(answer: &[String]) -> Vec<PathBuf> {
    let directories = |line: &String| {
        let (kind, directories) = line.split_once(": ")?;
        let directories = directories.trim_start_matches('=');
        ["install", "libraries"].contains(&kind).then(|| {
            env::split_paths(directories).map(|directory| directory.join("specs")).collect::<Vec<_>>()
        })
    };
    answer.iter().filter_map(directories).flatten().collect()
}

/// Where clang looks for configuration files.
fn configurations(path: &Path, triple: &str, told: &Told) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = told.configured_in.iter().map(PathBuf::from).collect();
    let real = fs::canonicalize(path).ok();
    directories.extend(
        [Some(path), real.as_deref()].into_iter().flatten().filter_map(Path::parent).map(PathBuf::from),
    );
    directories
        .extend(told.drivers.iter().filter_map(|driver| Path::new(driver).parent()).map(PathBuf::from));
    directories.push(PathBuf::from("/etc/clang"));
    directories.sort();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_probe_holds_until_a_part_changes() {
        let compiler = super::super::Compiler::find().unwrap();
        let driver = FileIdentity::of_path(compiler.path()).unwrap();
        let mut probe = Probe::ask(compiler.path(), driver).unwrap();
        assert!(probe.holds());
        assert_eq!(Probe::decode(&probe.encode().unwrap()).as_ref(), Some(&probe));
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
        let mut encoded = Vec::new();
        for (place, number) in identity.numbers().into_iter().enumerate() {
            // The times are signed, and zigzag.
            varint(if place < 3 { number } else { number << 1 }, &mut encoded);
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
            [&encoded[..], b"\x01v\x01t", &[9; 32], b"\x01\x01s\x01\x01m\x01\x01\x01b\x01p", &encoded, &[1]];
        assert_eq!(probe.encode().unwrap(), expected.concat());
    }

    #[test]
    fn a_damaged_probe_is_none() {
        assert_eq!(Probe::decode(b""), None);
        assert_eq!(Probe::decode(&[255; 40]), None);
    }
}
