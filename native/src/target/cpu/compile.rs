//! Running the compiler, so that nothing gets into the object that is not in its key.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use warmstart_core::reason::Reason;

use super::{
    assembly,
    dependencies::{Compilation, Located, Root, Roots},
    error::{CompileError, CompileProblem},
    flags::MATH_LIBRARY,
    probe::{command, is_clang, private_directory},
    snapshot::Snapshot,
};
use crate::os::{FileIdentity, Stamp};

/// The options that are the same for every kernel, part of the key.
pub(super) const COMPILED: &[&str] = &["-O3", "-fPIC"];
pub(super) const LINKED: &[&str] = &[
    "-shared",
    // What a kernel defines and uses is its own, and not a function of the host's that has the same name.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    "-Wl,-Bsymbolic",
];

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

/// Compiles a kernel until it is known what the object was made from. Returns the object, and what it was made from, or
/// why that cannot be told.
pub(super) fn compile(
    compilation: &Compilation<'_>,
) -> Result<(Vec<u8>, Result<Snapshot, Reason>), CompileError> {
    let directory = BuildDir::open(compilation).map_err(in_directory)?;
    let ignored = directory.outer.path().parent().unwrap_or(Path::new(""));
    let mut earlier: Option<Snapshot> = None;
    let mut tries_left = TRIES;
    loop {
        let reference = directory.now().map_err(in_directory)?;
        let (object, listed) = directory.run(compilation)?;
        let inputs = listed.ok_or(Reason::Uncacheable).and_then(|listed| {
            let snapshot = Snapshot::take(compilation, &listed, ignored)?;
            if snapshot.is_older_than(reference)
                || earlier.as_ref().is_some_and(|earlier| earlier.is_same_as(&snapshot))
            {
                return Ok(snapshot);
            }
            earlier = Some(snapshot);
            Err(Reason::InputUnstable)
        });
        tries_left -= 1;
        if tries_left == 0 || !matches!(inputs, Err(Reason::InputUnstable)) {
            return Ok((object, inputs));
        }
    }
}

fn in_directory(error: io::Error) -> CompileProblem {
    CompileProblem::Io("cannot run the compiler in its temporary directory", error)
}

/// A private directory with links to the caller's directories: the compiler is told no path that could get into the
/// object, and lists headers below names that are ours.
struct BuildDir {
    outer: TempDir,
    /// Where the compiler runs, behind all links, as it would call it itself.
    inside: PathBuf,
    links: Vec<(String, PathBuf)>,
}

impl BuildDir {
    fn open(compilation: &Compilation<'_>) -> io::Result<Self> {
        let outer = private_directory("warmstart-cc-")?;
        let inside = fs::canonicalize(outer.path())?.join(LEVELS);
        fs::create_dir_all(&inside)?;
        fs::write(inside.join(EMPTY_HEADER), "")?;
        fs::write(outer.path().join("source"), &compilation.kernel.source)?;
        let source =
            compilation.roots.source.iter().map(|source| (String::from(SOURCE_LINK), source.clone()));
        let includes = compilation.roots.includes.iter().enumerate();
        let includes = includes.map(|(place, include)| (format!("{INCLUDE_LINK}{place}"), include.clone()));
        let links: Vec<_> = source.chain(includes).collect();
        #[cfg(unix)]
        for (name, target) in &links {
            std::os::unix::fs::symlink(target, inside.join(name))?;
        }
        Ok(Self { outer, inside, links })
    }

    /// The time of the file system.
    fn now(&self) -> io::Result<Stamp> {
        let path = self.outer.path().join("reference");
        fs::write(&path, "")?;
        Ok(FileIdentity::of(&fs::metadata(&path)?).last_change())
    }

    /// Compiles once. Returns the object, and the headers that the compiler lists, if they can be told.
    fn run(&self, compilation: &Compilation<'_>) -> Result<(Vec<u8>, Option<Vec<Located>>), CompileError> {
        let [source, assembly, object, list] =
            ["source", "assembly", "object", "list"].map(|name| self.outer.path().join(name));
        let (kernel, roots) = (compilation.kernel, &compilation.roots);
        let flags = || kernel.flags.iter().filter(|flag| *flag != MATH_LIBRARY);

        let mut compiler = self.command(compilation);
        compiler.args(flags()).arg("-Werror=date-time").args(compilation.probe.as_spelt());
        compiler.arg(format!("-ffile-prefix-map={}=.", self.inside.display()));
        compiler.args(["-include", EMPTY_HEADER]);
        for (name, _) in &self.links {
            compiler.args([if name == SOURCE_LINK { "-iquote" } else { "-I" }, name]);
        }
        compiler.args(["-MD", "-MT", "object", "-MF"]).arg(&list);
        if is_clang(&compilation.probe.version) {
            // Else it would carry out the directives of assembly itself, and write only what comes of them.
            compiler.arg("-fno-integrated-as");
        }
        compiler.args(["-S", "-o"]).arg(&assembly).args(["-x", "c", "-"]);
        compiler.stdin(File::open(source).map_err(in_directory)?);
        self.call(compiler, compilation)?;

        let text = fs::read(&assembly).map_err(in_directory)?;
        if kernel.extra_digest.is_none()
            && let Some(found) = assembly::reads_files(&String::from_utf8_lossy(&text))
        {
            return Err(CompileProblem::ReadsFiles { kernel: kernel.name.clone(), found }.into());
        }
        let mut linker = self.command(compilation);
        let is_linked =
            |flag: &&String| ["-O", "-f", "-m", "-pthread"].iter().any(|start| flag.starts_with(start));
        linker.args(LINKED).args(flags().filter(is_linked)).arg("-o").arg(&object);
        linker.args(["-x", "assembler"]).arg(&assembly);
        linker.args(kernel.flags.iter().filter(|flag| *flag == MATH_LIBRARY));
        self.call(linker, compilation)?;

        let object = fs::read(&object).map_err(in_directory)?;
        let list = fs::read(&list).ok().and_then(|list| String::from_utf8(list).ok());
        let listed = list.as_deref().and_then(prerequisites).and_then(|names| {
            let names = names.iter().map(|name| name.strip_prefix("./").unwrap_or(name));
            let headers = names.filter(|name| ![EMPTY_HEADER, "-"].contains(name));
            headers.map(|name| locate(name, roots)).collect()
        });
        Ok((object, listed))
    }

    /// The compiler with the options of every run.
    fn command(&self, compilation: &Compilation<'_>) -> Command {
        let mut command = command(compilation.compiler, self.outer.path());
        command.current_dir(&self.inside).args(&compilation.options).args(COMPILED);
        command
    }

    fn call(&self, mut command: Command, compilation: &Compilation<'_>) -> Result<(), CompileError> {
        // A file and not a pipe: a compiler that writes much while it reads cannot block on us.
        let log = self.outer.path().join("log");
        command.stderr(Stdio::from(File::create(&log).map_err(in_directory)?));
        let status =
            command.status().map_err(|error| CompileProblem::Io("cannot start the compiler", error))?;
        if status.success() {
            return Ok(());
        }
        let log = fs::read(&log).unwrap_or_default();
        let mut log = String::from_utf8_lossy(&log).replace("<stdin>", &compilation.kernel.name);
        // The caller's names instead of ours.
        for (name, path) in &self.links {
            log = log.replace(&format!("{name}/"), &format!("{}/", path.display()));
        }
        if log.trim().is_empty() {
            log = format!("it said nothing ({status})\n");
        }
        Err(CompileProblem::Rejected { kernel: compilation.kernel.name.clone(), log }.into())
    }
}

/// The files of a make rule. Nothing if it is not one, or if a name is spelt in a way that makes do not agree on.
fn prerequisites(rule: &str) -> Option<Vec<String>> {
    const BLANK: &str = "\0";
    const DOLLAR: &str = "\x01";

    let rule = rule.strip_prefix("object:")?.replace("\\\n", "\n");
    let rule = rule.replace("\\ ", BLANK).replace("\\#", "#").replace("$$", DOLLAR);
    let names = rule.split([' ', '\n']).filter(|name| !name.is_empty());
    let names = names.map(|name| name.replace(BLANK, " ").replace(DOLLAR, "$"));
    (!rule.contains(['\\', '$'])).then(|| names.collect())
}

/// The place of a listed header below its root. Nothing for what was found in our own directory: there is nothing of the
/// caller's in it.
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
