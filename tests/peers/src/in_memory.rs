//! Our stores in memory against concurrent caches.

use std::{
    hint::black_box,
    path::Path,
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use warmstart_tests::measure::Comparison;

use crate::{
    Bench, Duels,
    duel::{Duel, Outcome},
    peer::{Kind, OURS_IN_MEMORY, PEERS_IN_MEMORY, Peer, Wanted},
    persistent::rotate,
    value::{Key, Values, key},
};

const SIZE: usize = 1 << 10;
const ENTRIES: u64 = 50_000;
const THREADS: usize = 8;

/// What each of several threads does before it is asked again.
const AT_ONCE: u64 = 4096;

pub(crate) fn rows(bench: &Bench) -> Duels {
    let values = Values::new(SIZE);
    // Four times what fits: when a key comes round, its entry has gone.
    let keys: Vec<Key> = (0..4 * ENTRIES).map(key).collect();
    let mut duels = Vec::new();
    for ours in &OURS_IN_MEMORY {
        for peer in &PEERS_IN_MEMORY {
            for (job, entries, cap) in [
                ("hit", 1000, false),
                ("hit", ENTRIES, false),
                ("put", ENTRIES, false),
                ("put at the cap", ENTRIES, true),
            ] {
                // What a put costs there is what it costs the files behind.
                if ours.name == "tiered" && job != "hit" {
                    continue;
                }
                for threads in [1, THREADS] {
                    let outcome = one(bench, (ours, peer), job, entries, cap, threads, &keys, &values)?;
                    let by = if threads == 1 { String::new() } else { format!(" by {threads} threads") };
                    let name = format!("{job}{by}/1KiB/{entries}");
                    duels.push(Duel::with(&name, "", (ours.name, peer.name), peer.leaves_out, outcome));
                }
            }
        }
    }
    Ok(duels)
}

#[expect(clippy::too_many_arguments, reason = "a row has so many sides")]
fn one(
    bench: &Bench,
    (ours, peer): (&'static Kind, &'static Kind),
    job: &str,
    entries: u64,
    cap: bool,
    threads: usize,
    keys: &[Key],
    values: &Values,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let max_bytes = cap.then_some(entries * (SIZE as u64 + 32));
    let wanted = Wanted { max_bytes, ..Wanted::default() };
    let root = bench.quiet.path("tiered");
    let open = |kind: &Kind, root: &Path| (kind.open)(root, wanted);
    let (our, their) = (open(ours, &root), open(peer, &root));
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
    let work: &(dyn Fn(&dyn Peer, u64) + Sync) = if job == "hit" { &hit } else { &put };
    let outcome = if threads == 1 {
        Outcome::of(bench.plan.compare(|call| work(&*our, call), |call| work(&*their, call)))
    } else {
        let found = by_threads(bench, threads, &*our, &*their, work);
        Outcome::of_many(found, AT_ONCE * threads as u64)
    };
    drop((our, their));
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    Ok(outcome)
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
    done: Receiver<()>,
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
                        (first..first + AT_ONCE).for_each(|call| work(peer, call));
                        let _ = say_done.send(());
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
            self.done.recv().expect("no thread panicked");
        }
    }
}
