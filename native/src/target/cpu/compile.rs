//! Runs the compiler so that the object depends only on its key.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use warmstart_core::reason::MissReason;

use super::{
    assembly,
    dependencies::{Located, Root, Roots},
    error::{CompileError, CompileProblem},
    flags::MATH_LIBRARY,
    kernel::{COMPILED, LINKED, Request},
    probe::{command, is_clang, private_directory},
    snapshot::Snapshot,
};
use crate::os::{FileIdentity, Stamp};

/// The most attempts to compile a kernel while its headers change.
const TRIES: usize = 3;

/// The depth of the links below the directory in which the compiler runs: a source that includes `"../x.h"` finds the file of
/// its own directory, and never a file that happens to be beside ours.
const LEVELS: &str = "warmstart/w/w/w/w/w/w/w/w";

/// The names by which the compiler knows the caller's directories, which appear in messages and in debug information.
const SOURCE_LINK: &str = "warmstart.source";
const INCLUDE_LINK: &str = "warmstart.include";

/// An empty file that is included first: gcc reads a precompiled header, which may be out of date, only in the place
/// of the first header of all.
const EMPTY_HEADER: &str = "warmstart.empty.h";

/// Compiles a kernel until its dependencies are certain. Returns the object and its dependencies, or why these cannot be
/// determined.
pub(super) fn compile(
    request: &Request<'_>,
) -> Result<(Vec<u8>, Result<Snapshot, MissReason>), CompileError> {
    let directory = BuildDir::open(request).map_err(in_directory)?;
    let ignored = directory.outer.path().parent().unwrap_or(Path::new(""));
    let mut earlier: Option<Snapshot> = None;
    let mut tries_left = TRIES;
    loop {
        let reference = directory.now().map_err(in_directory)?;
        let (object, listed) = directory.run(request)?;
        let inputs = listed.ok_or(MissReason::Uncacheable).and_then(|listed| {
            let snapshot = Snapshot::take(request, &listed, ignored)?;
            if snapshot.is_older_than(reference)
                || earlier.as_ref().is_some_and(|earlier| earlier.is_same_as(&snapshot))
            {
                return Ok(snapshot);
            }
            earlier = Some(snapshot);
            Err(MissReason::InputUnstable)
        });
        tries_left -= 1;
        if tries_left == 0 || !matches!(inputs, Err(MissReason::InputUnstable)) {
            return Ok((object, inputs));
        }
    }
}

fn in_directory(error: io::Error) -> CompileProblem {
    CompileProblem::Io("cannot run the compiler in its temporary directory", error)
}

/// A private directory with links to the caller's directories: the compiler gets no path that could end up in the object, and
/// lists headers under names that warmstart chose.
struct BuildDir {
    outer: TempDir,
    /// The directory in which the compiler runs, with all links resolved, as the compiler itself names it.
    inside: PathBuf,
    links: Vec<(String, PathBuf)>,
}

impl BuildDir {
    fn open(request: &Request<'_>) -> io::Result<Self> {
        let outer = private_directory("warmstart-cc-")?;
        let inside = fs::canonicalize(outer.path())?.join(LEVELS);
        fs::create_dir_all(&inside)?;
        fs::write(inside.join(EMPTY_HEADER), "")?;
        fs::write(outer.path().join("source"), &request.kernel.source)?;
        let source = request.roots.source.iter().map(|source| (String::from(SOURCE_LINK), source.clone()));
        let includes = request.roots.includes.iter().enumerate();
        let includes = includes.map(|(place, include)| (format!("{INCLUDE_LINK}{place}"), include.clone()));
        let links: Vec<_> = source.chain(includes).collect();
        #[cfg(unix)]
        for (name, target) in &links {
            std::os::unix::fs::symlink(target, inside.join(name))?;
        }
        Ok(Self { outer, inside, links })
    }

    /// Returns the time of the file system.
    fn now(&self) -> io::Result<Stamp> {
        let path = self.outer.path().join("reference");
        fs::write(&path, "")?;
        Ok(FileIdentity::of(&fs::metadata(&path)?).last_change())
    }

    /// Compiles once. Returns the object, and the headers that the compiler lists, if it lists them.
    fn run(&self, request: &Request<'_>) -> Result<(Vec<u8>, Option<Vec<Located>>), CompileError> {
        let [source, assembly, object, list] =
            ["source", "assembly", "object", "list"].map(|name| self.outer.path().join(name));
        let (kernel, roots) = (request.kernel, &request.roots);
        let flags = || kernel.flags.iter().filter(|flag| *flag != MATH_LIBRARY);

        let mut compiler = self.command(request);
        compiler.args(flags()).arg("-Werror=date-time").args(request.probe.as_spelt());
        compiler.arg(format!("-ffile-prefix-map={}=.", self.inside.display()));
        compiler.args(["-include", EMPTY_HEADER]);
        for (name, _) in &self.links {
            compiler.args([if name == SOURCE_LINK { "-iquote" } else { "-I" }, name]);
        }
        compiler.args(["-MD", "-MT", "object", "-MF"]).arg(&list);
        if is_clang(&request.probe.version) {
            // Otherwise it would execute the directives of assembly itself, and write only their results.
            compiler.arg("-fno-integrated-as");
        }
        compiler.args(["-S", "-o"]).arg(&assembly).args(["-x", "c", "-"]);
        compiler.stdin(File::open(source).map_err(in_directory)?);
        self.call(compiler, request)?;

        let text = fs::read(&assembly).map_err(in_directory)?;
        if kernel.extra_digest.is_none()
            && let Some(found) = assembly::reads_files(&String::from_utf8_lossy(&text))
        {
            return Err(CompileProblem::ReadsFiles { kernel: kernel.name.clone(), found }.into());
        }
        let mut linker = self.command(request);
        let is_linked =
            |flag: &&String| ["-O", "-f", "-m", "-pthread"].iter().any(|start| flag.starts_with(start));
        linker.args(LINKED).args(flags().filter(is_linked)).arg("-o").arg(&object);
        linker.args(["-x", "assembler"]).arg(&assembly);
        linker.args(kernel.flags.iter().filter(|flag| *flag == MATH_LIBRARY));
        self.call(linker, request)?;

        let object = fs::read(&object).map_err(in_directory)?;
        let list = fs::read(&list).ok().and_then(|list| String::from_utf8(list).ok());
        let listed = list.as_deref().and_then(prerequisites).and_then(|names| {
            let names = names.iter().map(|name| name.strip_prefix("./").unwrap_or(name));
            let headers = names.filter(|name| ![EMPTY_HEADER, "-"].contains(name));
            headers.map(|name| locate(name, roots)).collect()
        });
        Ok((object, listed))
    }

    /// Returns the compiler's command with the options of every run.
    fn command(&self, request: &Request<'_>) -> Command {
        let mut command = command(request.compiler.path(), self.outer.path());
        command.current_dir(&self.inside).args(&request.options).args(COMPILED);
        command
    }

    fn call(&self, mut command: Command, request: &Request<'_>) -> Result<(), CompileError> {
        // A file and not a pipe: a compiler that writes much while it reads cannot block on us.
        let log = self.outer.path().join("log");
        command.stderr(Stdio::from(File::create(&log).map_err(in_directory)?));
        let status =
            command.status().map_err(|error| CompileProblem::Io("cannot start the compiler", error))?;
        if status.success() {
            return Ok(());
        }
        let log = fs::read(&log).unwrap_or_default();
        let mut log = String::from_utf8_lossy(&log).replace("<stdin>", &request.kernel.name);
        // The log gets the caller's names instead of the private ones.
        for (name, path) in &self.links {
            log = log.replace(&format!("{name}/"), &format!("{}/", path.display()));
        }
        if log.trim().is_empty() {
            log = format!("the compiler printed nothing ({status})\n");
        }
        Err(CompileProblem::Rejected { kernel: request.kernel.name.clone(), log }.into())
    }
}

/// Returns the files of a make rule. `None` if the text is no rule, or has a name that not all versions of make read alike.
fn prerequisites(rule: &str) -> Option<Vec<String>> {
    const BLANK: &str = "\0";
    const DOLLAR: &str = "\x01";

    let rule = rule.strip_prefix("object:")?.replace("\\\n", "\n");
    let rule = rule.replace("\\ ", BLANK).replace("\\#", "#").replace("$$", DOLLAR);
    let names = rule.split([' ', '\n']).filter(|name| !name.is_empty());
    let names = names.map(|name| name.replace(BLANK, " ").replace(DOLLAR, "$"));
    (!rule.contains(['\\', '$'])).then(|| names.collect())
}

/// Returns the path of a listed header below its root. `None` for a file in the private directory, which has no file of the
/// caller.
fn locate(name: &str, roots: &Roots<'_>) -> Option<Located> {
    if name.starts_with('/') {
        let below = |(place, directory): (u32, &String)| {
            let rest = name.strip_prefix(directory.trim_end_matches('/'))?.strip_prefix('/')?;
            Some(Located::new(Root::System(place), rest))
        };
        // The longest directory is the one with the shortest rest.
        let deepest = (0..).zip(roots.system).filter_map(below).min_by_key(|at| at.path.len());
        return Some(deepest.unwrap_or_else(|| Located::new(Root::Absolute, name)));
    }
    let (link, rest) = name.split_once('/')?;
    if link == SOURCE_LINK {
        return Some(Located::new(Root::Source, rest));
    }
    let place = link.strip_prefix(INCLUDE_LINK)?.parse().ok()?;
    Some(Located::new(Root::Include(place), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_make_rule_is_read_as_make_reads_it() {
        let names = |rule: &str| prerequisites(rule).unwrap();
        assert_eq!(names("object: a.h b.h \\\n c.h\\\n  d.h\n"), ["a.h", "b.h", "c.h", "d.h"]);
        assert_eq!(names("object: a\\ b.h c\\#.h $$d.h\n"), ["a b.h", "c#.h", "$d.h"]);
        assert_eq!(names("object:\n"), [""; 0]);
        for rule in
            ["other: a.h\n", "object: a\\b.h\n", "object: a\\\\ b.h\n", "object: $(A).h\n", "object: a\\"]
        {
            assert_eq!(prerequisites(rule), None, "{rule}");
        }
    }

    #[test]
    fn a_listed_file_belongs_to_the_deepest_of_the_roots() {
        let system = [String::from("/usr/include"), String::from("/usr/include/x86_64-linux-gnu/")];
        let roots = Roots { source: None, includes: Vec::new(), system: &system };
        let at = |name| locate(name, &roots);
        assert_eq!(at("/usr/include/math.h"), Some(Located::new(Root::System(0), "math.h")));
        assert_eq!(
            at("/usr/include/x86_64-linux-gnu/bits/a.h"),
            Some(Located::new(Root::System(1), "bits/a.h"))
        );
        assert_eq!(at("/usr/included.h"), Some(Located::new(Root::Absolute, "/usr/included.h")));
        assert_eq!(at("warmstart.source/../a.h"), Some(Located::new(Root::Source, "../a.h")));
        assert_eq!(at("warmstart.include12/a.h"), Some(Located::new(Root::Include(12), "a.h")));
        assert_eq!(at("../a.h"), None);
        assert_eq!(at("warmstart.includex/a.h"), None);
    }
}
