//! A database contains what the documents say.

use std::sync::Arc;

use warmstart::{Clock, Limits};
use warmstart_tests::conformance::{Harness as _, stores::Sqlite};

/// A clock that stands still.
#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn unix_ms(&self) -> u64 {
        1000
    }
}

#[test]
fn the_schema_and_the_order_of_use_are_what_is_documented() {
    let harness = Sqlite::new(None);
    let store = harness.open(Limits::NONE, Arc::new(Stopped));
    for key in [&b"a"[..], b"bc", b"d"] {
        store.put(key, &warmstart::Artifact::new(vec![7; 500])).unwrap();
    }
    let _ = store.get(b"bc");
    store.close().unwrap();
    let connection = rusqlite::Connection::open(harness.path()).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let format = include_str!("../../../../docs/format.md");
    let documented = format.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let schema = texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid");
    assert_eq!(schema, documented.lines().collect::<Vec<_>>());
    let entries =
        texts("SELECT cast(key AS TEXT) || ' ' || size || ' ' || accessed_at FROM entry ORDER BY key");
    // 128 bytes of head and 500 of payload, twice the key, and 1/256 of all that.
    assert_eq!(entries, ["a 632 1000", "bc 634 1003", "d 632 1002"]);
}

/// `application_id`, where the format of SQLite has it, while the store is open and the entry in its log.
#[test]
fn the_file_says_whose_it_is_while_it_is_in_use() {
    let harness = Sqlite::new(None);
    let store = harness.open(Limits::NONE, Arc::new(Stopped));
    store.put(b"k", &warmstart::Artifact::new(vec![7; 500])).unwrap();
    assert_eq!(std::fs::read(harness.path()).unwrap().get(68..72), Some(&b"WSCA"[..]));
    store.close().unwrap();
}
