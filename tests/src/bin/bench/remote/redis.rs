//! A remote on Redis, against the `redis` crate alone.

use std::{error::Error, time::Instant};

use redis::{Commands, Connection};
use warmstart::{Key, Store};
use warmstart_remote::engine::{Answer, Token};
use warmstart_tests::servers::Server;

use super::{PATIENT, artifact, sealed, unsealed};
use crate::{
    Rows,
    measure::Plan,
    row::{Compared, Row, Sense},
};

/// The entries that a start needs.
const START: u64 = 80;

/// The misses whose round trips are counted.
const MISSES: u64 = 100;

pub(super) fn rows(plan: &Plan) -> Rows {
    let server = Server::redis(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port);
    let mut connection = ::redis::Client::open(url.as_str())?.get_connection()?;
    let key = |number: u64| Key::digest(&number.to_le_bytes());
    for number in 0..START {
        let stored = artifact(number);
        connection.set::<_, _, ()>(number, stored.payload())?;
        for store in [unsealed(&url)?, sealed(&url)?] {
            store.put(key(number).as_bytes(), &stored)?;
        }
    }

    let mut rows = Vec::new();
    for (name, store, bound) in
        [("redis/hit", unsealed(&url)?, 1.3), ("redis/sealed_hit", sealed(&url)?, 2.2)]
    {
        let compared = plan.compare(
            |call| store.get(key(call % START).as_bytes()).expect("it is stored"),
            |call| get(&mut connection, call % START),
        );
        rows.extend(compared.rows(name, "redis_get", bound));
    }

    let (store, token) = (unsealed(&url)?, Token::random()?);
    store.get(key(0).as_bytes())?;
    let before = commands(&mut connection)?;
    for number in 0..MISSES {
        let answer = store.engine().get_or_claim(&key(START + number), &token, Instant::now() + PATIENT)?;
        if !matches!(answer, Answer::Claimed(_)) {
            return Err("a miss is not claimed".into());
        }
    }
    // The commands of a script are counted with it: a look-up of the entry, one of the lease, and its creation.
    let trips = (commands(&mut connection)? - before) / MISSES as f64;
    rows.push(Row::bounded("redis/miss_with_claim", (trips, "round trips"), "none", Sense::AtMost, 1.0));

    let keys: Vec<Key> = (0..START).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key.as_bytes()[..]).collect();
    let store = sealed(&url)?;
    store.get(keys[0])?;
    let before = commands(&mut connection)?;
    let found = store.get_many(&keys);
    let requests = commands(&mut connection)? - before;
    if found.iter().any(Result::is_err) {
        return Err("a batch lacks entries".into());
    }
    rows.push(Row::bounded("redis/start/requests", (requests, "requests"), "none", Sense::AtMost, 5.0));
    let sealed_ns = median_ns(plan, || store.get_many(&keys));
    let store = unsealed(&url)?;
    let compared = plan.compare(
        |_| store.get_many(&keys),
        |_| (0..START).map(|number| get(&mut connection, number)).collect::<Vec<_>>(),
    );
    rows.extend(compared.rows("redis/start/time", "80_redis_gets", 0.5));
    rows.push(Row::note("redis/start/sealed_time/warmstart", (sealed_ns, "ns"), "none"));
    Ok(rows)
}

/// Returns the time of an operation that has no peer.
fn median_ns<T>(plan: &Plan, mut operation: impl FnMut() -> T) -> f64 {
    plan.compare(|_| operation(), |_| {}).subject_ns
}

fn get(connection: &mut Connection, number: u64) -> Vec<u8> {
    connection.get(number).expect("it is stored")
}

/// Returns how many requests the server has had, without those that scripts make.
fn commands(connection: &mut Connection) -> Result<f64, Box<dyn Error>> {
    let stats: String = ::redis::cmd("INFO").arg("commandstats").query(connection)?;
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        // What scripts call, and this question.
        let is_ours = !matches!(name, "info" | "get" | "set" | "exists");
        is_ours.then(|| rest.split(',').next()?.parse::<f64>().ok()).flatten()
    };
    Ok(stats.lines().filter_map(calls).sum())
}
