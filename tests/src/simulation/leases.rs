//! A machine's leases, and what it sees of others' leases.

use std::collections::BTreeMap;

use warmstart_core::{
    batch::Surveyed,
    lease::{Lease, Watch},
};

use super::{
    engine::{Answer, Ask, Kind, Seen},
    link::{Event, Link, Message, Task},
};

#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<usize, Holding>,
    watches: BTreeMap<usize, Watch<u64>>,
    /// The leases that stood still, and their versions.
    over: BTreeMap<usize, u64>,
}

/// A lease of this machine.
#[derive(Debug)]
struct Holding {
    lease: Lease,
    version: u64,
    /// The answer to a renewal was lost.
    is_unsure: bool,
}

impl Leases {
    /// Returns the request that claims a kernel.
    pub(super) fn claim(&self, kernel: usize) -> Ask {
        self.over.get(&kernel).map_or(Ask::Claim(kernel), |version| Ask::TakeOver(kernel, *version))
    }

    /// Records that another machine holds the lease.
    pub(super) fn refused(&mut self, kernel: usize) {
        self.over.remove(&kernel);
    }

    /// Records a claim that was requested at `sent`.
    pub(super) fn claimed(&mut self, kernel: usize, version: u64, sent: u64, link: &mut Link) {
        self.over.remove(&kernel);
        let lease = Lease::new(sent / 1_000);
        self.held.insert(kernel, Holding { lease, version, is_unsure: false });
        self.await_renewal(kernel, link);
    }

    /// Returns what a survey means for this machine: on objects, a lease that stood still is as good as none.
    pub(super) fn judge(&mut self, kind: Kind, kernel: usize, seen: Seen, now: u64) -> Surveyed {
        let version = match seen {
            Seen::Stored => return Surveyed::Stored,
            Seen::Held(_) if kind == Kind::Redis => return Surveyed::Claimed,
            Seen::Held(version) => version,
            Seen::Free => {
                self.over.remove(&kernel);
                return Surveyed::Free;
            }
        };
        let watch = self.watches.entry(kernel).or_insert(Watch::new(version, now));
        if watch.is_over(version, now) {
            self.over.insert(kernel, version);
            Surveyed::Free
        } else {
            Surveyed::Claimed
        }
    }

    fn await_renewal(&self, kernel: usize, link: &mut Link) {
        if let Some(holding) = self.held.get(&kernel) {
            let left = (holding.lease.renewal() * 1_000).saturating_sub(link.now);
            link.after(left, Event::Renewal(kernel));
        }
    }

    pub(super) fn renew(&self, kernel: usize, link: &mut Link) {
        if let Some(holding) = self.held.get(&kernel)
            && link.is_online()
        {
            link.send(Task::Renewal, Ask::Renew(kernel, holding.version), holding.is_unsure);
        }
    }

    /// Records the answer to a renewal.
    pub(super) fn renewed(&mut self, message: &Message, answer: &Answer, link: &mut Link) {
        let Ask::Renew(kernel, _) = message.ask else { return };
        let Some(holding) = self.held.get_mut(&kernel) else { return };
        match answer {
            Answer::Done(version) => {
                holding.version = *version;
                holding.is_unsure = false;
                holding.lease.renew(message.sent / 1_000);
            }
            Answer::Lost => self.drop(kernel),
            _ => {
                holding.is_unsure |= matches!(answer, Answer::Cut);
                holding.lease.retry(link.millis());
            }
        }
        self.await_renewal(kernel, link);
    }

    /// Leaves a lease to its end.
    pub(super) fn drop(&mut self, kernel: usize) {
        self.held.remove(&kernel);
    }

    pub(super) fn release(&mut self, kernel: usize, link: &mut Link) {
        if let Some(holding) = self.held.remove(&kernel)
            && holding.lease.is_held(link.millis())
        {
            link.send(Task::Release, Ask::Release(kernel, holding.version), false);
        }
    }
}
