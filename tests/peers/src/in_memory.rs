//! Our stores in memory against concurrent caches.

use std::{
    hint::black_box,
    panic::{self, AssertUnwindSafe},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use warmstart_tests::measure::Comparison;

use crate::{
    Bench, Duels,
    crash::Bout,
    duel::Outcome,
    peer::{Kind, OURS_IN_MEMORY, PEERS_IN_MEMORY, Peer, Settings},
    persistent::rotate,
    value::{Key, Values, key},
};

const SIZE: usize = 1 << 10;
const ENTRIES: u64 = 50_000;
const THREADS: usize = 8;

/// The number of operations of each thread between two orders.
const AT_ONCE: u64 = 4096;

/// An operation, the number of entries and that of threads.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) name: &'static str,
    pub(crate) entries: u64,
    /// Whether no more entries fit.
    pub(crate) cap: bool,
    pub(crate) threads: usize,
}

pub(crate) fn rows(bench: &Bench) -> Duels {
    let values = Values::new(SIZE);
    // Four times what fits: when a key is used again, its entry has gone.
    let keys: Vec<Key> = (0..4 * ENTRIES).map(key).collect();
    let mut duels = Vec::new();
    for ours in &OURS_IN_MEMORY {
        for peer in &PEERS_IN_MEMORY {
            for (name, entries, cap) in [
                ("hit", 1000, false),
                ("hit", ENTRIES, false),
                ("put", ENTRIES, false),
                ("put at the cap", ENTRIES, true),
            ] {
                // A put there costs what it costs the file store behind.
                if ours.name == "tiered" && name != "hit" {
                    continue;
                }
                for threads in [1, THREADS] {
                    duels.extend(row(
                        bench,
                        (ours, peer),
                        Job { name, entries, cap, threads },
                        &keys,
                        &values,
                    )?);
                }
            }
        }
    }
    Ok(duels)
}

pub(crate) fn row(
    bench: &Bench,
    (ours, peer): (&'static Kind, &'static Kind),
    job: Job,
    keys: &[Key],
    values: &Values,
) -> Duels {
    let Job { name, entries, cap, threads } = job;
    let by = if threads == 1 { String::new() } else { format!(" by {threads} threads") };
    let bout = Bout {
        jobs: &[format!("{name}{by}/1KiB/{entries}")],
        medium: "",
        ours: ours.name,
        peer: peer.name,
        leaves_out: peer.leaves_out,
        roots: ["ours", "peer"].map(|name| bench.quiet.path(name)),
    };
    let max_bytes = cap.then_some(entries * (SIZE as u64 + 32));
    let settings = Settings { max_bytes, ..Settings::default() };
    bout.rows(|roots, outcomes| {
        let (our, their) = ((ours.open)(&roots[0], settings), (peer.open)(&roots[1], settings));
        our.fill(entries, values);
        their.fill(entries, values);
        let hit = |peer: &dyn Peer, call: u64| {
            let found = peer.get(&keys[rotate(call, entries)], &mut |bytes| {
                black_box(bytes.len());
            });
            assert!(found, "an entry was not kept");
        };
        let among = if cap { keys.len() as u64 } else { entries };
        let put = |peer: &dyn Peer, call: u64| peer.put(&keys[(call % among) as usize], values.of(call));
        let work: &(dyn Fn(&dyn Peer, u64) + Sync) = if name == "hit" { &hit } else { &put };
        outcomes.push(if threads == 1 {
            Outcome::of(bench.plan.compare(|call| work(&*our, call), |call| work(&*their, call)))
        } else {
            let found = by_threads(bench, threads, &*our, &*their, work);
            Outcome::of_many(found, AT_ONCE * threads as u64)
        });
        Ok(())
    })
}

/// The same by threads that wait for each other after [`AT_ONCE`] operations each.
fn by_threads(
    bench: &Bench,
    threads: usize,
    our: &dyn Peer,
    their: &dyn Peer,
    work: &(dyn Fn(&dyn Peer, u64) + Sync),
) -> Comparison {
    thread::scope(|scope| {
        let squad = |peer| Squad::start(scope, threads, peer, work);
        let (our, their) = (squad(our), squad(their));
        bench.plan.compare(|call| our.round(call), |call| their.round(call))
    })
}

/// Threads that do the same job on one store.
struct Squad {
    orders: Vec<Sender<u64>>,
    done: Receiver<thread::Result<()>>,
}

impl Squad {
    fn start<'scope, 'env>(
        scope: &'scope thread::Scope<'scope, 'env>,
        threads: usize,
        peer: &'env dyn Peer,
        work: &'env (dyn Fn(&dyn Peer, u64) + Sync),
    ) -> Self {
        let (say_done, done) = mpsc::channel();
        let orders = (0..threads as u64)
            .map(|thread| {
                let (order, orders) = mpsc::channel::<u64>();
                let say_done = say_done.clone();
                scope.spawn(move || {
                    for round in orders {
                        let first = (round * threads as u64 + thread) * AT_ONCE;
                        let done = panic::catch_unwind(AssertUnwindSafe(|| {
                            (first..first + AT_ONCE).for_each(|call| work(peer, call));
                        }));
                        let _ = say_done.send(done);
                    }
                });
                order
            })
            .collect();
        Self { orders, done }
    }

    fn round(&self, round: u64) {
        for order in &self.orders {
            order.send(round).expect("the thread listens");
        }
        for _ in &self.orders {
            self.done
                .recv()
                .expect("a thread says how its work ended")
                .unwrap_or_else(|cause| panic::resume_unwind(cause));
        }
    }
}
