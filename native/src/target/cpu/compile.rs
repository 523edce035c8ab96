//! Running the compiler, so that nothing gets into the object that is not in its key.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use warmstart_core::reason::Reason;

use super::{
    compiler::{Compiler, command},
    dependencies::{Digests, Located, Root, Roots},
    error::{CompileError, CompileProblem},
    flags::MATH_LIBRARY,
    kernel::Kernel,
    library::private_directory,
    probe::Probe,
    snapshot::Snapshot,
};
use crate::os::{FileIdentity, Stamp};

/// The options that are the same for every kernel, part of the key.
pub(super) const FIXED: &[&str] = &[
    "-O3",
    "-fPIC",
    "-shared",
    // What a kernel defines and uses is its own, and not a function of the host's that has the same name.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    "-Wl,-Bsymbolic",
];

/// Hides every warning, and so that one which tells that the time is in the object.
const QUIET: &str = "-w";

/// What the names of the compiler's directories begin with.
const PREFIX: &str = "warmstart-cc-";

/// How old a directory is that no compiler uses any more.
const STALE: Duration = Duration::from_secs(3600);

/// How often a kernel is compiled at most while its headers change.
const TRIES: usize = 3;

/// Below the directory that the compiler runs in, so many levels deep: a source that includes `"../x.h"` finds what
/// its directory has there, and never what happens to lie beside our directory.
const LEVELS: &str = "warmstart/w/w/w/w/w/w/w/w";

/// The names by which the compiler knows the caller's directories. They stand in messages and in debug information.
const SOURCE_LINK: &str = "warmstart.source";
const INCLUDE_LINK: &str = "warmstart.include";

/// An empty file that is included first: gcc reads a precompiled header, which may be out of date, only in the place
/// of the first header of all.
const EMPTY_HEADER: &str = "warmstart.empty.h";

/// An object, and what it was made from, or why that cannot be told.
pub(super) struct Compiled {
    pub(super) object: Vec<u8>,
    pub(super) inputs: Result<Snapshot, Reason>,
}

/// What one run of the compiler leaves: the object, and the headers that it lists, if they can be told.
struct Output {
    object: Vec<u8>,
    listed: Result<Vec<Located>, Reason>,
}

/// Compiles `kernel` until it is known what the object was made from.
pub(super) fn compile(
    compiler: &Compiler,
    probe: &Probe,
    options: &[String],
    kernel: &Kernel,
    roots: Roots<'_>,
    digests: &Digests,
) -> Result<Compiled, CompileError> {
    let workshop = Workshop::open(kernel, roots)
        .map_err(|error| failed("cannot prepare a temporary directory for the compiler", error))?;
    let ignored = workshop.directory.path().parent().unwrap_or(Path::new(""));
    let mut earlier: Option<Snapshot> = None;
    let mut tries_left = TRIES;
    loop {
        let reference = workshop
            .reference()
            .map_err(|error| failed("cannot write to the temporary directory of the compiler", error))?;
        let Output { object, listed } = workshop.run(compiler, probe, options, kernel, roots)?;
        let snapshot = listed.and_then(|listed| Snapshot::take(&listed, kernel, roots, digests, ignored));
        let inputs = snapshot.and_then(|snapshot| {
            let is_unchanged = |earlier: &Snapshot| earlier.is_same_as(&snapshot);
            if snapshot.is_older_than(reference) || earlier.as_ref().is_some_and(is_unchanged) {
                return Ok(snapshot);
            }
            earlier = Some(snapshot);
            Err(Reason::InputUnstable)
        });
        tries_left -= 1;
        if tries_left == 0 || !matches!(inputs, Err(Reason::InputUnstable)) {
            return Ok(Compiled { object, inputs });
        }
    }
}

fn failed(what: &'static str, error: io::Error) -> CompileError {
    CompileError::new(CompileProblem::Io(what, error))
}

/// A private directory with links to the caller's directories: the compiler is told no path that could get into the
/// object, and lists headers below names that are ours.
struct Workshop {
    directory: TempDir,
    /// Where the compiler runs, behind all links, as it would call it itself.
    inside: PathBuf,
    links: Vec<(String, PathBuf)>,
}

impl Workshop {
    fn open(kernel: &Kernel, roots: Roots<'_>) -> io::Result<Self> {
        remove_stale(&std::env::temp_dir());
        let directory = private_directory(PREFIX)?;
        let inside = fs::canonicalize(directory.path())?.join(LEVELS);
        fs::create_dir_all(&inside)?;
        fs::write(inside.join(EMPTY_HEADER), "")?;
        fs::write(directory.path().join("source"), kernel.source())?;
        let mut links = Vec::new();
        if let Some(source) = roots.source {
            links.push((String::from(SOURCE_LINK), source.to_path_buf()));
        }
        for (place, include) in roots.includes.iter().enumerate() {
            links.push((format!("{INCLUDE_LINK}{place}"), include.clone()));
        }
        for (name, target) in &links {
            link(target, &inside.join(name))?;
        }
        Ok(Self { directory, inside, links })
    }

    /// The time of the file system, before the compiler runs.
    fn reference(&self) -> io::Result<Stamp> {
        let path = self.path("reference");
        fs::write(&path, "")?;
        Ok(FileIdentity::of(&fs::metadata(&path)?).last_change())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the compiler once.
    fn run(
        &self,
        compiler: &Compiler,
        probe: &Probe,
        options: &[String],
        kernel: &Kernel,
        roots: Roots<'_>,
    ) -> Result<Output, CompileError> {
        let io = |error| failed("cannot run the compiler in its temporary directory", error);
        let [object, list, log] = [self.path("object"), self.path("list"), self.path("log")];
        let _ = fs::remove_file(&object);
        let mut command = command(compiler.path(), self.directory.path());
        command.current_dir(&self.inside).args(options).args(FIXED);
        command
            .args(kernel.all_flags().iter().filter(|flag| ![MATH_LIBRARY, QUIET].contains(&flag.as_str())));
        let is_quiet = kernel.all_flags().iter().any(|flag| flag == QUIET);
        if is_quiet {
            // Nobody reads warnings of what compiles. All that is left of the flag is that none is an error.
            command.args(["-Wno-error", "-Wdate-time"]);
        } else {
            command.arg("-Werror=date-time");
        }
        command.args(probe.as_spelt());
        command.arg(format!("-ffile-prefix-map={}=.", self.inside.display()));
        command.args(["-include", EMPTY_HEADER]);
        if roots.source.is_some() {
            command.args(["-iquote", SOURCE_LINK]);
        }
        for place in 0..roots.includes.len() {
            command.arg(format!("-I{INCLUDE_LINK}{place}"));
        }
        command
            .args(["-MD", "-MT", "object", "-MF"])
            .arg(&list)
            .arg("-o")
            .arg(&object)
            .args(["-x", "c", "-"]);
        command.args(kernel.all_flags().iter().filter(|flag| *flag == MATH_LIBRARY));
        // Files and not pipes: a compiler that writes much while it reads cannot block on us.
        command.stdin(File::open(self.path("source")).map_err(io)?);
        command.stderr(Stdio::from(File::create(&log).map_err(io)?));
        let status = command.status().map_err(|error| failed("cannot start the compiler", error))?;
        let object = fs::read(&object).unwrap_or_default();
        let log = fs::read(&log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        if !status.success() || object.is_empty() {
            let log = self.with_paths(kernel, &log);
            let log = if log.trim().is_empty() { format!("it said nothing ({status})") } else { log };
            let searched = is_about_a_header(&log).then(|| searched(roots));
            return Err(CompileError::new(CompileProblem::Failed {
                kernel: kernel.name().into(),
                log,
                searched,
            }));
        }
        let listed = fs::read(&list)
            .ok()
            .and_then(|list| String::from_utf8(list).ok())
            .and_then(|list| prerequisites(&list))
            .ok_or(Reason::Uncacheable)
            .and_then(|names| located(&names, roots));
        // gcc and clang both say so of the date and the time.
        let listed = if is_quiet && log.contains("reproducible") { Err(Reason::Uncacheable) } else { listed };
        Ok(Output { object, listed })
    }

    /// A message with the caller's names in it instead of ours.
    fn with_paths(&self, kernel: &Kernel, log: &str) -> String {
        self.links.iter().fold(log.replace("<stdin>", kernel.name()), |log, (name, path)| {
            log.replace(&format!("{name}/"), &format!("{}/", path.display()))
        })
    }
}

/// Whether the compiler missed a header.
fn is_about_a_header(log: &str) -> bool {
    log.lines().any(|line| {
        line.contains("fatal error:")
            && (line.ends_with(": No such file or directory") || line.ends_with(" file not found"))
    })
}

/// The directories that headers are looked for in, for people.
fn searched(roots: Roots<'_>) -> String {
    let callers = roots.source.into_iter().chain(roots.includes.iter().map(PathBuf::as_path));
    let all: Vec<_> =
        callers.chain(roots.system.iter().map(Path::new)).map(|path| path.display().to_string()).collect();
    all.join(", ")
}

/// Removes directories of compilations that were killed. Best effort, and so many at most that nobody waits for it.
fn remove_stale(temporary: &Path) {
    const LOOKED_AT: usize = 4096;
    const REMOVED: usize = 16;

    let Ok(entries) = fs::read_dir(temporary) else { return };
    let stale = entries.take(LOOKED_AT).filter_map(Result::ok).filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) && is_stale(&entry.path())
    });
    for entry in stale.take(REMOVED) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Whether it is a directory of this user's that nobody compiles in any more.
fn is_stale(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::uid(&metadata) != rustix::process::geteuid().as_raw() {
        return false;
    }
    let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
    metadata.is_dir() && age.is_some_and(|age| age > STALE)
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The files of a make rule. Nothing if it is not one.
fn prerequisites(rule: &str) -> Option<Vec<String>> {
    let rule = rule.strip_prefix("object:")?;
    let mut names = vec![String::new()];
    let mut rest = rule.chars().peekable();
    while let Some(c) = rest.next() {
        let name = names.last_mut()?;
        match (c, rest.peek().copied()) {
            ('\\', Some('\n')) | (' ' | '\t' | '\r', _) => {
                rest.next_if_eq(&'\n');
                names.push(String::new());
            }
            ('\\', Some('\r')) => {}
            // What follows are rules without a recipe, which nobody asked for.
            ('\n', _) => break,
            ('\\', Some(escaped @ (' ' | '#' | '\t'))) => {
                // make reads two backslashes before a blank as one.
                let backslashes = name.len() - name.trim_end_matches('\\').len();
                name.truncate(name.len() - backslashes / 2 - backslashes % 2);
                name.push(escaped);
                rest.next();
            }
            ('$', Some('$')) => {
                name.push('$');
                rest.next();
            }
            _ => name.push(c),
        }
    }
    names.retain(|name| !name.is_empty());
    Some(names)
}

/// The names as places below their roots.
fn located(names: &[String], roots: Roots<'_>) -> Result<Vec<Located>, Reason> {
    let names = names.iter().map(|name| name.strip_prefix("./").unwrap_or(name));
    names.filter(|name| *name != EMPTY_HEADER && *name != "-").map(|name| locate(name, roots)).collect()
}

fn locate(name: &str, roots: Roots<'_>) -> Result<Located, Reason> {
    if name.starts_with('/') {
        let below = |(place, directory): (usize, &String)| {
            let rest = name.strip_prefix(directory.trim_end_matches('/'))?.strip_prefix('/')?;
            let root = Root::System(u32::try_from(place).ok()?);
            Some((rest.len(), Located::new(root, rest)))
        };
        // The longest directory is the one with the shortest rest.
        let deepest = roots.system.iter().enumerate().filter_map(below).min_by_key(|(length, _)| *length);
        return Ok(deepest.map_or_else(|| Located::new(Root::Absolute, name), |(_, at)| at));
    }
    if let Some(rest) = name.strip_prefix(SOURCE_LINK).and_then(|rest| rest.strip_prefix('/')) {
        return Ok(Located::new(Root::Source, rest));
    }
    name.strip_prefix(INCLUDE_LINK)
        .and_then(|rest| rest.split_once('/'))
        .and_then(|(place, rest)| Some(Located::new(Root::Include(place.parse().ok()?), rest)))
        // Found in our own directory: there is nothing of the caller's in it.
        .ok_or(Reason::Uncacheable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_make_rule_is_read_as_make_reads_it() {
        let names = |rule: &str| prerequisites(rule).unwrap();
        assert_eq!(names("object: a.h b.h \\\n c.h\\\n  d.h\n\nx.h:\n"), ["a.h", "b.h", "c.h", "d.h"]);
        assert_eq!(names("object: a\\ b.h c\\#.h $$d.h e\\f.h\n"), ["a b.h", "c#.h", "$d.h", "e\\f.h"]);
        assert_eq!(names("object:\n"), [""; 0]);
        assert_eq!(prerequisites("other: a.h\n"), None);
    }

    #[test]
    fn a_listed_file_belongs_to_the_deepest_of_the_roots() {
        let system = [String::from("/usr/include"), String::from("/usr/include/x86_64-linux-gnu/")];
        let roots = Roots { source: None, includes: &[], system: &system };
        let at = |name| locate(name, roots);
        assert_eq!(at("/usr/include/math.h"), Ok(Located::new(Root::System(0), "math.h")));
        assert_eq!(
            at("/usr/include/x86_64-linux-gnu/bits/a.h"),
            Ok(Located::new(Root::System(1), "bits/a.h"))
        );
        assert_eq!(at("/usr/included.h"), Ok(Located::new(Root::Absolute, "/usr/included.h")));
        assert_eq!(at("warmstart.source/../a.h"), Ok(Located::new(Root::Source, "../a.h")));
        assert_eq!(at("warmstart.include12/a.h"), Ok(Located::new(Root::Include(12), "a.h")));
        assert_eq!(at("../a.h"), Err(Reason::Uncacheable));
        assert_eq!(at("warmstart.includex/a.h"), Err(Reason::Uncacheable));
    }
}
