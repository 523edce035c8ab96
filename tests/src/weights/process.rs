//! Uses the weights in a process of its own: a program starts itself again, and the two take turns.
//!
//! The process waits for a line, does its work, and prints a [`Report`]. It waits for another line, with all that it mapped
//! still mapped, so that it can be looked at. Then it prints a [`Proof`] and ends.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use warmstart::pack::{Checks, Pack, PackOptions};

use super::{Layers, PACKED_LEN, digest, touch};
use crate::smaps::{self, FileMappings};

/// The task of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Packs all weights and saves them.
    Cold,
    /// Looks all weights up and touches them.
    Warm,
    /// Looks all weights up and touches them, one after the other, and keeps nothing of a runtime but the weights.
    WarmInTurn,
    /// Holds the writer's lock, and a weight that is packed and not saved.
    Writer,
    /// Ten times: looks all weights up, saves, and closes the pack.
    Cycles,
}

/// The result of a process. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// From just before the pack was opened to the last weight touched, or saved.
    pub millis: f64,
    /// Of that, opening.
    pub open_millis: f64,
    /// Of that, looking up, and packing.
    pub use_millis: f64,
    /// Of that, touching or finalising and saving.
    pub last_millis: f64,
    /// The number of weights that were packed.
    pub packed: usize,
    /// By how many bytes anonymous memory grew meanwhile, where the system tells.
    pub anon_bytes: Option<u64>,
}

/// The proofs that the weights are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// XXH3-64 of all payloads as they were found.
    pub digest: u64,
    /// The number of payloads of the file whose checksums are right.
    pub proved: u64,
}

/// A process that was started, and waits.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Nothing once it was told to end.
    tell: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process that runs [`run`] with what is given to this program besides.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let tell = child.stdin.take();
        let hear = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, tell, hear: BufReader::new(hear) })
    }

    /// Tells it to go on.
    ///
    /// # Errors
    /// If it is gone.
    pub fn go(&mut self) -> io::Result<()> {
        let tell = self.tell.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        tell.write_all(b"go\n")?;
        tell.flush()
    }

    /// Waits for what it found. All that it mapped stays mapped.
    ///
    /// # Errors
    /// If it ended before.
    pub fn report(&mut self) -> io::Result<Report> {
        self.line()
    }

    /// Its mappings of a file in memory, where the system reports them.
    #[must_use]
    pub fn mapped(&self, file: &Path) -> Option<FileMappings> {
        smaps::of_file(Some(self.child.id()), file)
    }

    /// Has it prove what it found, and end.
    ///
    /// # Errors
    /// If it failed.
    pub fn end(mut self) -> io::Result<Proof> {
        self.go()?;
        let proof = self.line()?;
        drop(self.tell.take());
        let status = self.child.wait()?;
        if status.success() { Ok(proof) } else { Err(io::Error::other(status.to_string())) }
    }

    fn line<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        self.hear.read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the process ended too early"));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that waits for a line ends when none can come.
        drop(self.tell.take());
        let _ = self.child.wait();
    }
}

/// A model whose weights a process looks up, packs and verifies.
pub trait Model {
    /// The weights found, which stay mapped while this lives.
    type Used<'p>;

    /// Looks all weights up and packs those that are not found; says how many these were.
    ///
    /// # Errors
    /// As it says.
    fn use_all<'p>(&mut self, pack: &'p Pack) -> io::Result<(Self::Used<'p>, usize)>;

    /// Looks all weights up and touches them, and keeps nothing else; says how many were packed.
    ///
    /// # Errors
    /// As it says.
    fn use_in_turn(&mut self, pack: &Pack) -> io::Result<usize> {
        let (mut used, packed) = self.use_all(pack)?;
        self.touch(&mut used)?;
        Ok(packed)
    }

    /// Says that all that was needed was looked up, and has the system begin to write what was packed.
    fn finalize(&self, _used: &Self::Used<'_>, pack: &Pack) {
        pack.finalize();
    }

    /// Touches all that was found, or computes something with it. What is returned depends on it.
    ///
    /// # Errors
    /// As it says.
    fn touch(&self, used: &mut Self::Used<'_>) -> io::Result<u64>;

    /// The checksum of what was found, or of what was computed with it.
    ///
    /// # Errors
    /// As it says.
    fn digest(&self, used: &mut Self::Used<'_>) -> io::Result<u64>;
}

impl Model for Layers {
    type Used<'p> = Vec<warmstart::pack::Weights<'p>>;

    fn use_all<'p>(&mut self, pack: &'p Pack) -> io::Result<(Self::Used<'p>, usize)> {
        Layers::use_all(self, pack)
    }

    fn touch(&self, used: &mut Self::Used<'_>) -> io::Result<u64> {
        Ok(used.iter().map(|weights| touch(weights)).sum())
    }

    fn digest(&self, used: &mut Self::Used<'_>) -> io::Result<u64> {
        Ok(digest(used.iter().map(|weights| &**weights)))
    }
}

/// Plays a role in this process, which [`Process::start`] started.
///
/// # Errors
/// If something else than expected happens.
pub fn run(role: Role, model: &mut impl Model, path: &Path) -> io::Result<()> {
    wait()?;
    match role {
        Role::Cold | Role::Warm => {
            let before = smaps::anonymous(None);
            let start = Instant::now();
            let pack = open(path)?;
            let opened = start.elapsed();
            let (mut used, packed) = model.use_all(&pack)?;
            let in_use = start.elapsed();
            model.finalize(&used, &pack);
            match role {
                Role::Cold => save(&pack)?,
                _ => drop(std::hint::black_box(model.touch(&mut used)?)),
            }
            let done = start.elapsed();
            let millis = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
            say(&Report {
                millis: millis(done),
                open_millis: millis(opened),
                use_millis: millis(in_use - opened),
                last_millis: millis(done - in_use),
                packed,
                anon_bytes: grown(before),
            })?;
            wait()?;
            let digest = model.digest(&mut used)?;
            drop(used);
            drop(pack);
            say(&Proof { digest, proved: proved(path)? })
        }
        Role::WarmInTurn => {
            let before = smaps::anonymous(None);
            let start = Instant::now();
            let pack = open(path)?;
            let packed = model.use_in_turn(&pack)?;
            let millis = start.elapsed().as_secs_f64() * 1e3;
            say(&Report { millis, packed, anon_bytes: grown(before), ..Report::default() })?;
            wait()?;
            say(&Proof::default())
        }
        Role::Writer => {
            let pack = open(path)?;
            let mut reservation = pack.reserve(PACKED_LEN)?;
            reservation.bytes_mut().fill(1);
            let names = ("writer.weight".to_owned(), "writer.bias".to_owned());
            pack.insert(&super::wanted(&names), reservation);
            let is_in_file = pack.statistics().heap_entries == 0;
            say(&Report { packed: usize::from(is_in_file), ..Report::default() })?;
            wait()?;
            say(&Proof::default())
        }
        Role::Cycles => {
            let before = smaps::anonymous(None);
            let start = Instant::now();
            let mut packed = 0;
            for _ in 0..10 {
                let pack = open(path)?;
                let (used, new) = model.use_all(&pack)?;
                packed += new;
                model.finalize(&used, &pack);
                save(&pack)?;
                drop(used);
            }
            let millis = start.elapsed().as_secs_f64() * 1e3;
            say(&Report { millis, packed, anon_bytes: grown(before), ..Report::default() })?;
            wait()?;
            say(&Proof::default())
        }
    }
}

fn open(path: &Path) -> io::Result<Pack> {
    Pack::open(path, PackOptions::default()).map_err(io::Error::other)
}

fn save(pack: &Pack) -> io::Result<()> {
    pack.save().map_err(|reason| io::Error::other(format!("nothing was saved: {reason}")))?;
    Ok(())
}

/// Returns the number of payloads of the file whose checksums are right.
fn proved(path: &Path) -> io::Result<u64> {
    let options = PackOptions::default().with_checks(Checks::All).with_read_only(true);
    Ok(Pack::open(path, options).map_err(io::Error::other)?.statistics().proved)
}

fn grown(before: Option<u64>) -> Option<u64> {
    Some(smaps::anonymous(None)?.saturating_sub(before?))
}

/// Waits for a line.
fn wait() -> io::Result<()> {
    let mut line = String::new();
    match io::stdin().read_line(&mut line)? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the parent process has closed the pipe")),
        _ => Ok(()),
    }
}

fn say(what: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    out.flush()
}

/// The properties of a file that stay if nothing new is packed into it: its length, and its modification time.
///
/// # Errors
/// As the system reports.
pub fn stamp(path: &Path) -> io::Result<(u64, std::time::SystemTime)> {
    let facts = fs::metadata(path)?;
    Ok((facts.len(), facts.modified()?))
}
