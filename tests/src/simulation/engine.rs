//! The simulated engine: what it stores, the leases on it, and what it refuses.

use warmstart_core::lease::TTL;

use super::SECOND;

/// An entry, which proves its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The kernel that it is.
    pub kernel: usize,
}

/// What an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One script answers a request about many kernels or a claim. Leases expire.
    Redis,
    /// GET, LIST, conditional create and If-Match. Each kernel's lease lies beside its entry, so that one LIST shows both.
    Objects,
}

/// How an engine behaves.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// What it is.
    pub kind: Kind,
    /// The requests a second that each partition admits: reads and writes. Others are refused with 503 or 429.
    pub limit: Option<(u64, u64)>,
    /// The number of partitions that names are spread over.
    pub partitions: usize,
    /// Whether a conditional write succeeds whatever there is.
    pub ignores_conditions: bool,
    /// Whether it returns the entry of another kernel: to test the check.
    pub mixes_up: bool,
    /// From when on no request is answered, in microseconds.
    pub dies: u64,
    /// Of a thousand answers, so many are lost after the engine has acted.
    pub lost: u64,
}

/// A request. Kernels are named by their indexes; a version names a state of a lease.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Survey(Vec<usize>),
    Fetch(Vec<usize>),
    /// Get or claim on Redis, a conditional create on objects.
    Claim(usize),
    /// Claims in place of the lease of this version.
    TakeOver(usize, u64),
    Put(usize, Entry),
    Renew(usize, u64),
    Release(usize, u64),
    /// Two conditional creates of one name; one if the first is refused.
    Probe,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Surveyed(Vec<(usize, Seen)>),
    /// The entries, and the kernels whose requests were refused.
    Fetched(Vec<(usize, Entry)>, Vec<usize>),
    Stored(Entry),
    Held,
    Claimed(u64),
    /// A write was done. A renewal has made this version.
    Done(u64),
    /// The lease is another's or over.
    Lost,
    /// Whether conditions are honoured.
    Probed(bool),
    /// 503 or 429.
    Busy,
    /// The connection was cut before the answer.
    Cut,
    /// No answer came before the deadline.
    TimedOut,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    Stored,
    Held(u64),
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    machine: usize,
    version: u64,
    expires: u64,
}

/// Admits so many requests a second, and a fifth of that at once.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: u64,
    next: u64,
}

impl Rate {
    const fn admit(&mut self, now: u64) -> bool {
        let next = if self.next > now { self.next } else { now };
        let is_admitted = next - now <= SECOND / 5;
        if is_admitted {
            self.next = next + self.interval;
        }
        is_admitted
    }
}

#[derive(Debug)]
pub(super) struct Engine {
    behaviour: Behaviour,
    stored: Vec<Option<Entry>>,
    leases: Vec<Option<Held>>,
    has_probe: bool,
    version: u64,
    reads: Vec<Rate>,
    writes: Vec<Rate>,
}

impl Engine {
    pub(super) fn new(behaviour: Behaviour, kernels: usize) -> Self {
        let (reads, writes) = behaviour.limit.unwrap_or((u64::MAX, u64::MAX));
        let rates = |limit: u64| vec![Rate { interval: SECOND / limit, next: 0 }; behaviour.partitions];
        Self {
            behaviour,
            stored: vec![None; kernels],
            leases: vec![None; kernels],
            has_probe: false,
            version: 0,
            reads: rates(reads),
            writes: rates(writes),
        }
    }

    /// Answers a request, and returns how many requests it was. `is_retry` says that an earlier answer to the same request may have
    /// been lost.
    pub(super) fn act(&mut self, now: u64, machine: usize, ask: &Ask, is_retry: bool) -> (Answer, u64) {
        let is_redis = self.behaviour.kind == Kind::Redis;
        match ask {
            Ask::Fetch(kernels) if !is_redis => {
                let (mut entries, mut refused) = (Vec::new(), Vec::new());
                for &kernel in kernels {
                    let rate = kernel % self.reads.len();
                    if self.reads[rate].admit(now) {
                        entries.extend(self.entry(kernel).map(|entry| (kernel, entry)));
                    } else {
                        refused.push(kernel);
                    }
                }
                (Answer::Fetched(entries, refused), kernels.len() as u64)
            }
            _ if !self.admits(now, machine, ask) => (Answer::Busy, 1),
            Ask::Fetch(kernels) => {
                let find = |&kernel: &usize| self.entry(kernel).map(|entry| (kernel, entry));
                let entries = kernels.iter().filter_map(find).collect();
                (Answer::Fetched(entries, Vec::new()), 1)
            }
            Ask::Survey(kernels) => {
                let seen = kernels.iter().map(|&kernel| (kernel, self.see(now, kernel))).collect();
                (Answer::Surveyed(seen), 1)
            }
            Ask::Claim(kernel) => {
                let entry = self.entry(*kernel).filter(|_| is_redis);
                match (entry, self.see(now, *kernel), self.leases[*kernel]) {
                    (Some(entry), ..) => (Answer::Stored(entry), 1),
                    (None, Seen::Held(_), Some(held)) if held.machine == machine => {
                        // On objects, the create is refused, and a GET shows whose lease it is.
                        (Answer::Claimed(held.version), 1 + u64::from(!is_redis))
                    }
                    // After a lost answer, the lease is read.
                    (None, Seen::Held(_), Some(_)) => (Answer::Held, 1 + u64::from(is_retry && !is_redis)),
                    // A lease on objects may lie there beside its entry.
                    (None, Seen::Stored, Some(_)) => (Answer::Held, 1),
                    _ => (Answer::Claimed(self.hold(now, *kernel, machine)), 1),
                }
            }
            Ask::TakeOver(kernel, version) => match self.leases[*kernel] {
                Some(held) if held.machine == machine && is_retry => (Answer::Claimed(held.version), 2),
                Some(held) if held.version == *version => {
                    (Answer::Claimed(self.hold(now, *kernel, machine)), 1)
                }
                _ => (Answer::Held, 1 + u64::from(is_retry)),
            },
            Ask::Put(kernel, entry) => {
                self.stored[*kernel] = Some(*entry);
                (Answer::Done(0), 1)
            }
            Ask::Renew(kernel, version) => {
                let count = 1 + u64::from(is_retry && !is_redis);
                if self.is_own(now, *kernel, machine, *version, is_retry) {
                    (Answer::Done(self.hold(now, *kernel, machine)), count)
                } else {
                    (Answer::Lost, count)
                }
            }
            Ask::Release(kernel, version) => {
                if self.is_own(now, *kernel, machine, *version, is_retry) {
                    self.leases[*kernel] = None;
                }
                (Answer::Done(0), 1)
            }
            Ask::Probe => {
                let count = 1 + u64::from(!self.has_probe || self.behaviour.ignores_conditions);
                self.has_probe = true;
                (Answer::Probed(!self.behaviour.ignores_conditions), count)
            }
        }
    }

    fn admits(&mut self, now: u64, machine: usize, ask: &Ask) -> bool {
        if self.behaviour.limit.is_none() {
            return true;
        }
        let (rates, name) = match ask {
            // One limit for all, because each is a script.
            _ if self.behaviour.kind == Kind::Redis => (&mut self.reads, machine),
            Ask::Survey(_) | Ask::Fetch(_) => (&mut self.reads, machine),
            Ask::Claim(kernel)
            | Ask::TakeOver(kernel, _)
            | Ask::Put(kernel, _)
            | Ask::Renew(kernel, _)
            | Ask::Release(kernel, _) => (&mut self.writes, *kernel),
            Ask::Probe => (&mut self.writes, machine),
        };
        let rate = name % rates.len();
        rates[rate].admit(now)
    }

    fn entry(&self, kernel: usize) -> Option<Entry> {
        let kernel = if self.behaviour.mixes_up { (kernel + 1) % self.stored.len() } else { kernel };
        self.stored[kernel]
    }

    fn see(&self, now: u64, kernel: usize) -> Seen {
        match self.leases[kernel] {
            _ if self.stored[kernel].is_some() => Seen::Stored,
            Some(held) if self.behaviour.kind == Kind::Objects || now < held.expires => {
                Seen::Held(held.version)
            }
            _ => Seen::Free,
        }
    }

    const fn hold(&mut self, now: u64, kernel: usize, machine: usize) -> u64 {
        self.version += 1;
        let expires = now + TTL * 1_000;
        self.leases.as_mut_slice()[kernel] = Some(Held { machine, version: self.version, expires });
        self.version
    }

    /// Returns whether a lease is still a machine's. After a lost answer its version is unknown, and a GET shows its holder.
    fn is_own(&self, now: u64, kernel: usize, machine: usize, version: u64, is_retry: bool) -> bool {
        self.leases[kernel].is_some_and(|held| match self.behaviour.kind {
            Kind::Redis => held.machine == machine && now < held.expires,
            Kind::Objects => held.version == version || is_retry && held.machine == machine,
        })
    }
}

impl Ask {
    /// Returns a name for the trace, and the kernel or the number of kernels.
    pub(super) const fn name(&self) -> (&'static str, Option<usize>) {
        match self {
            Self::Survey(kernels) => ("survey", Some(kernels.len())),
            Self::Fetch(kernels) => ("fetch", Some(kernels.len())),
            Self::Claim(kernel) => ("claim", Some(*kernel)),
            Self::TakeOver(kernel, _) => ("take-over", Some(*kernel)),
            Self::Put(kernel, _) => ("put", Some(*kernel)),
            Self::Renew(kernel, _) => ("renew", Some(*kernel)),
            Self::Release(kernel, _) => ("release", Some(*kernel)),
            Self::Probe => ("probe", None),
        }
    }
}

impl Answer {
    /// Returns a name for the trace.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Surveyed(_) => "surveyed",
            Self::Fetched(..) => "fetched",
            Self::Stored(_) => "stored",
            Self::Held => "held",
            Self::Claimed(_) => "claimed",
            Self::Done(_) => "done",
            Self::Lost => "lost",
            Self::Probed(_) => "probed",
            Self::Busy => "busy",
            Self::Cut => "cut",
            Self::TimedOut => "timed-out",
        }
    }
}
