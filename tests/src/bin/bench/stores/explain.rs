//! The cost of explaining a miss.

use std::{error::Error, time::Instant};

use warmstart::{
    Artifact, KeyFields, Limits, Metadata, MissReason, Recipe, Store,
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions},
};

use super::medium::Medium;
use crate::{
    Rows,
    measure::median,
    row::{Row, Sense},
};

const ENTRIES: u64 = 50_000;

/// The rows of all stores. A handle that was just opened explains one miss; the one field that differs from the nearest
/// entry is another one each time.
pub(super) fn rows() -> Rows {
    let memory = MemoryStore::new(Limits::NONE);
    fill(&memory)?;
    let mut rows = rows_of("memory", || Ok(&memory))?.to_vec();
    let medium = Medium::disk()?;
    let (files, database) = (medium.path("explain-files"), medium.path("explain-sqlite").join("db"));
    let open_files = || Ok(FileStore::open(&files, StoreOptions::default())?);
    fill(&open_files()?)?;
    rows.extend(rows_of("files", open_files)?.map(|row| row.on(medium.name)));
    let open_sqlite = || Ok(SqliteStore::open(&database, StoreOptions::default())?);
    fill(&open_sqlite()?)?;
    rows.extend(rows_of("sqlite", open_sqlite)?.map(|row| row.on(medium.name)));
    Ok(rows)
}

fn fields(n: u64, flags: &'static str) -> KeyFields<'static> {
    (0..10).fold(
        KeyFields::new("bench", 1)
            .digest("source", n.to_le_bytes().repeat(4), format!("kernel {n}"))
            .text("flags", flags),
        |fields, other| fields.number(format!("field {other}"), n % (other + 2)),
    )
}

fn fill(store: &impl Store) -> Result<(), Box<dyn Error>> {
    for n in 0..ENTRIES {
        let fields = fields(n, "-O2");
        let metadata = Metadata::new().with_recipe(fields.recipe());
        store.put(fields.key().as_bytes(), &Artifact::new(vec![0; 1024]).with_metadata(&metadata))?;
    }
    Ok(())
}

/// Measures the time to find the nearest entry, and to find that the domain has none.
fn rows_of<S: Store>(
    name: &str,
    open: impl Fn() -> Result<S, Box<dyn Error>>,
) -> Result<[Row; 2], Box<dyn Error>> {
    let time = |wanted: &Recipe| -> Result<_, Box<dyn Error>> {
        let store = open()?;
        let start = Instant::now();
        let nearest = store.inspect().ok_or(MissReason::Unavailable)?.nearest(wanted)?;
        Ok((nearest, start.elapsed().as_secs_f64() * 1e3))
    };
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for n in 0..11 {
        let wanted: Recipe = fields(n * 4099 % ENTRIES, "-O3").recipe();
        let (nearest, took) = time(&wanted)?;
        let content = nearest.ok_or("nothing is near")?.head?;
        let changes = content.metadata.recipe().ok_or("the entry has no recipe")?.changes_to(&wanted);
        if changes.iter().map(|change| &*change.label).ne(["flags"]) {
            return Err(format!("{name}: not the nearest, but one that differs in {changes:?}").into());
        }
        found.push(took);
        unknown.push(time(&KeyFields::new("another domain", 1).number("n", n).recipe())?.1);
    }
    let bounded =
        |name: String, took| Row::bounded(name, (median(took), "ms"), "limit", Sense::AtMost, 1000.0);
    Ok([
        bounded(format!("{name}_explain/50000"), found),
        bounded(format!("{name}_explain/50000/unknown_domain"), unknown),
    ])
}
