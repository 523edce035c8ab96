//! Several processes at one job: ours and others, in Rust and in Python, spoken to alike.

use std::{
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    peer::{self, Settings},
    value::{Values, key},
};

/// The task of a process, as JSON in its arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The name of a peer, or the cache of cuda-core that is meant.
    pub(crate) kind: String,
    pub(crate) path: PathBuf,
    /// The bytes of a payload.
    pub(crate) size: usize,
    pub(crate) durable: bool,
    pub(crate) shared: bool,
    pub(crate) max_bytes: Option<u64>,
}

/// Processes that wait for work, and end when this is dropped. Panics where one of them dies, with what it said.
pub(crate) struct Crew(Vec<Worker>);

struct Worker {
    name: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Reads what it says of errors, until it ends.
    errors: Option<JoinHandle<String>>,
}

/// An operation on entries, as its word in an order.
#[derive(Clone, Copy)]
pub(crate) enum Verb {
    Fill,
    Hit,
    Miss,
    Put,
    /// Opens its store again and finds one entry.
    Open,
}

impl Verb {
    const ALL: [(Self, &str); 5] = [
        (Self::Fill, "fill"),
        (Self::Hit, "hit"),
        (Self::Miss, "miss"),
        (Self::Put, "put"),
        (Self::Open, "open"),
    ];

    fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Crew {
    /// Starts this many processes of this benchmark.
    pub(crate) fn of_ours(processes: usize, task: &Task) -> Result<Self, Box<dyn Error>> {
        let program = std::env::current_exe()?;
        Self::start(processes, &task.kind, task, || {
            let mut command = Command::new(&program);
            command.arg("--worker");
            command
        })
    }

    /// Starts this many processes of a Python script.
    pub(crate) fn of_python(
        processes: usize,
        task: &Task,
        python: &Path,
        script: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        Self::start(processes, &name, task, || {
            let mut command = Command::new(python);
            command.arg(script);
            command
        })
    }

    fn start(
        processes: usize,
        name: &str,
        task: &Task,
        command: impl Fn() -> Command,
    ) -> Result<Self, Box<dyn Error>> {
        let mut crew = Self(Vec::new());
        for _ in 0..processes {
            let mut command = command();
            command.arg(serde_json::to_string(task)?);
            let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = piped.spawn()?;
            let orders = child.stdin.take();
            let answers = BufReader::new(child.stdout.take().ok_or("its output is piped")?);
            let mut errors = child.stderr.take().ok_or("its errors are piped")?;
            let errors = thread::spawn(move || {
                let mut text = Vec::new();
                let _ = errors.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            });
            crew.0.push(Worker { name: name.to_owned(), child, orders, answers, errors: Some(errors) });
            if let Some(worker) = crew.0.last_mut() {
                worker.answer();
            }
        }
        Ok(crew)
    }

    /// Lets each of them work on `count` entries from `start` on: puts on entries of its own, all else on the same.
    /// Returns the longest time that one of them took, by its own clock.
    pub(crate) fn work(&mut self, verb: Verb, start: u64, count: u64) -> Duration {
        let many = self.0.len() as u64;
        for (n, worker) in self.0.iter_mut().enumerate() {
            let from = if matches!(verb, Verb::Put) { start * many + n as u64 * count } else { start };
            worker.order(verb, from, count);
        }
        self.0.iter_mut().map(Worker::answer).max().unwrap_or_default()
    }
}

impl Worker {
    fn order(&mut self, verb: Verb, start: u64, count: u64) {
        let Some(orders) = &mut self.orders else { self.died() };
        if writeln!(orders, "{} {start} {count}", verb.word()).is_err() {
            self.died();
        }
    }

    /// The nanoseconds that it says.
    fn answer(&mut self) -> Duration {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match line.trim().parse() {
            Ok(nanoseconds) => Duration::from_nanos(nanoseconds),
            // It closed its output, so it is ending.
            Err(_) if matches!(read, Ok(0)) => self.died(),
            Err(_) => panic!("{} said something else than a number: {line:?}", self.name),
        }
    }

    /// Panics with how it ended, and with what it said then.
    fn died(&mut self) -> ! {
        self.orders = None;
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let said = self.errors();
        let said = last_words(&said);
        panic!("{} ended, {status}{}{said}", self.name, if said.is_empty() { "" } else { ": " });
    }

    /// Returns the standard error of an ended process, which was also shown.
    fn errors(&mut self) -> String {
        let text = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        eprint!("{text}");
        text
    }
}

/// The first line of what a panic says; of anything else the last line, where Python's exceptions are.
fn last_words(text: &str) -> &str {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    if lines.clone().any(|line| line.contains("panicked at")) {
        lines.find(|line| line.contains("panicked at"));
        return lines.next().unwrap_or_default();
    }
    lines.next_back().unwrap_or_default()
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            // It ends when there are no more orders; after a crash it may wait for a process that is gone.
            worker.orders = None;
            if thread::panicking() {
                let _ = worker.child.kill();
            }
            let _ = worker.child.wait();
            worker.errors();
        }
    }
}

/// Is one of the processes: says 0 when it is ready, then obeys a line at a time, and says how long it took.
pub(crate) fn serve(task: &Task) -> Result<(), Box<dyn Error>> {
    let kind = peer::named(&task.kind).ok_or("there is no such peer")?;
    let settings = Settings { durable: task.durable, shared: task.shared, max_bytes: task.max_bytes };
    let values = Values::new(task.size);
    let mut store = (kind.open)(&task.path, settings);
    println!("0");
    for line in io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let [word, start, count] = words[..] else { return Err(format!("not understood: {line}").into()) };
        let (start, count): (u64, u64) = (start.parse()?, count.parse()?);
        let verb = Verb::ALL.into_iter().find(|(_, name)| *name == word).ok_or("no such verb")?.0;
        let numbers = start..start + count;
        let far = if matches!(verb, Verb::Miss | Verb::Put) { 1 << 40 } else { 0 };
        let keys: Vec<_> = numbers.clone().map(|n| key(n + far)).collect();
        if matches!(verb, Verb::Open) {
            drop(store);
            store =
                peer::named("memory").map(|kind| (kind.open)(&task.path, settings)).ok_or("it is there")?;
        }
        let clock = Instant::now();
        match verb {
            Verb::Fill => store.fill(count, &values),
            Verb::Put => keys.iter().zip(numbers).for_each(|(key, n)| store.put(key, values.of(n))),
            Verb::Hit | Verb::Miss => {
                let found = keys.iter().filter(|key| store.get(key, &mut |_| {})).count() as u64;
                assert_eq!(found, if matches!(verb, Verb::Hit) { count } else { 0 }, "{}", kind.name);
            }
            Verb::Open => {
                store = (kind.open)(&task.path, settings);
                assert!(store.get(&keys[0], &mut |_| {}), "{}: an entry was not kept", kind.name);
            }
        }
        println!("{}", clock.elapsed().as_nanos());
    }
    Ok(())
}
