//! Several processes at one job: ours and others, in Rust and in Python, spoken to alike.

use std::{
    error::Error,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    peer::{self, Wanted},
    value::{Values, key},
};

/// What a process is told at its start, as JSON in its arguments.
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

/// Processes that wait for work, and end when this is dropped.
pub(crate) struct Crew(Vec<Worker>);

struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What a process does with entries, as the word for it in an order.
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
    /// So many processes of this benchmark.
    pub(crate) fn of_ours(processes: usize, task: &Task) -> Result<Self, Box<dyn Error>> {
        let program = std::env::current_exe()?;
        Self::start(processes, task, || {
            let mut command = Command::new(&program);
            command.arg("--worker");
            command
        })
    }

    /// So many processes of a script.
    pub(crate) fn of_python(
        processes: usize,
        task: &Task,
        python: &Path,
        script: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        Self::start(processes, task, || {
            let mut command = Command::new(python);
            command.arg(script);
            command
        })
    }

    fn start(processes: usize, task: &Task, command: impl Fn() -> Command) -> Result<Self, Box<dyn Error>> {
        let mut crew = Self(Vec::new());
        for _ in 0..processes {
            let mut command = command();
            command.arg(serde_json::to_string(task)?).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let orders = child.stdin.take();
            let answers = BufReader::new(child.stdout.take().ok_or("its output is piped")?);
            crew.0.push(Worker { child, orders, answers });
            if let Some(worker) = crew.0.last_mut() {
                worker.answer()?;
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
            worker.order(verb, from, count).expect("the process listens");
        }
        let answers = self.0.iter_mut().map(|worker| worker.answer().expect("the process answers"));
        answers.max().unwrap_or_default()
    }
}

impl Worker {
    fn order(&mut self, verb: Verb, start: u64, count: u64) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{} {start} {count}", verb.word())
    }

    /// The nanoseconds that it says.
    fn answer(&mut self) -> io::Result<Duration> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let nanoseconds = line.trim().parse().map_err(|_| {
            io::Error::other(format!("a process ended or said something else than a number: {line:?}"))
        })?;
        Ok(Duration::from_nanos(nanoseconds))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            worker.orders = None;
            // It ends when there are no more orders.
            let _ = worker.child.wait();
        }
    }
}

/// Is one of the processes: says 0 when it is ready, then obeys a line at a time, and says how long it took.
pub(crate) fn serve(task: &Task) -> Result<(), Box<dyn Error>> {
    let kind = peer::named(&task.kind).ok_or("there is no such peer")?;
    let wanted = Wanted { durable: task.durable, shared: task.shared, max_bytes: task.max_bytes };
    let values = Values::new(task.size);
    let mut store = (kind.open)(&task.path, wanted);
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
            store = peer::named("memory").map(|kind| (kind.open)(&task.path, wanted)).ok_or("it is there")?;
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
                store = (kind.open)(&task.path, wanted);
                assert!(store.get(&keys[0], &mut |_| {}), "{}: an entry was not kept", kind.name);
            }
        }
        println!("{}", clock.elapsed().as_nanos());
    }
    Ok(())
}
