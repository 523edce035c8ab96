//! `warmstart explain`: why a look-up missed.

mod words;

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use serde::Serialize;
use serde_json::Value;
use warmstart::Miss;
use warmstart::{FieldChange, Reason, Recipe, store::Entry};

use crate::{
    Verdict,
    arguments::Explain,
    entry::Summary,
    failure::Failure,
    screen::{Screen, Tone},
    store::{Access, Head, Opened, Opener},
    table::{Cell, Table},
    text::{hex, visible, visible_path},
    units::{ago, counted, time},
};

/// A longer recipe is none of ours, in bytes.
const LONGEST: u64 = 16 << 20;

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    head: Head,
    miss: Option<MissAnswer<'a>>,
    /// What is wanted is stored now.
    stored: Option<&'a Summary>,
    nearest: Option<&'a Summary>,
    changes: &'a [FieldChange],
}

#[derive(Serialize)]
struct MissAnswer<'a> {
    reason: &'static str,
    explanation: &'static str,
    refusal: Option<&'static str>,
    unix_ms: u64,
    key: String,
    recipe: Option<&'a Recipe>,
}

/// What there is that is like what was wanted.
#[derive(Debug, Default)]
struct Found {
    same: Option<Entry>,
    nearest: Option<Entry>,
}

pub(crate) fn run(arguments: &Explain, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Look)?;
    let (miss, recipe) = match &arguments.recipe {
        Some(path) => (None, Some(read_recipe(path)?)),
        None => {
            let miss = last_miss(&opened)?;
            let recipe = miss.recipe.clone();
            (Some(miss), recipe)
        }
    };
    let found = match &recipe {
        Some(recipe) => find(&opened, recipe, miss.is_some())?,
        None => Found::default(),
    };
    let changes = changes(found.nearest.as_ref(), recipe.as_ref());
    if screen.json {
        let [stored, nearest] = [&found.same, &found.nearest].map(|entry| entry.as_ref().map(Summary::new));
        screen.json(&Answer {
            head: opened.head(),
            miss: miss.as_ref().map(|miss| MissAnswer {
                reason: miss.reason.as_str(),
                explanation: miss.reason.explanation(),
                refusal: miss.refusal.map(Reason::as_str),
                unix_ms: miss.unix_ms,
                key: hex(&miss.key),
                recipe: miss.recipe.as_ref(),
            }),
            stored: stored.as_ref(),
            nearest: nearest.as_ref(),
            changes: &changes,
        })?;
    } else {
        show(miss.as_ref(), recipe.as_ref(), &found, &changes, screen)?;
    }
    Ok(Verdict::Good)
}

fn last_miss(opened: &Opened) -> Result<Miss, Failure> {
    let kept = opened.store.kept().map_err(|reason| opened.cannot("read the statistics of", reason))?;
    if let Some(miss) = kept.last_miss {
        return Ok(miss);
    }
    let found = if opened.may_hide_seals()? {
        "the last miss may be sealed: name the secret with `--seal-key`"
    } else {
        "no miss is recorded; `--recipe FILE` explains without one"
    };
    Err(Failure::new("no_miss", format!("{}: {found}", opened.path())))
}

/// The nearest entry; and, unless the store proposed one quickly for a miss that was, whether there is the very same.
fn find(opened: &Opened, recipe: &Recipe, is_quick: bool) -> Result<Found, Failure> {
    if is_quick {
        let nearest = opened.store.nearest(recipe).map_err(|reason| opened.cannot("search", reason))?;
        if nearest.is_some() {
            return Ok(Found { same: None, nearest });
        }
    }
    let mut found = Found::default();
    let mut least = (u64::MAX, true);
    opened.entries(|entry| {
        let Some(other) = entry.recipe().filter(|other| other.domain() == recipe.domain()) else { return };
        let remoteness = recipe.remoteness_of(other);
        if remoteness.0 == 0 {
            found.same = Some(entry);
        } else if remoteness <= least {
            // Of equals, the one used last.
            least = remoteness;
            found.nearest = Some(entry);
        }
    })?;
    Ok(found)
}

fn changes(nearest: Option<&Entry>, wanted: Option<&Recipe>) -> Vec<FieldChange> {
    let changes =
        nearest.and_then(Entry::recipe).zip(wanted).map(|(stored, wanted)| stored.changes_to(wanted));
    changes.unwrap_or_default()
}

/// A recipe as JSON, or something that has one as its `recipe`.
fn read_recipe(path: &Path) -> Result<Recipe, Failure> {
    let shown = visible_path(path);
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(LONGEST).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::new("bad_recipe", format!("cannot read the recipe {shown}: {error}")))?;
    let wrong = |error: &dyn std::fmt::Display| {
        let message =
            format!("{shown} is no recipe: {error}; `warmstart inspect --json` prints one under \"recipe\"");
        Failure::new("bad_recipe", message)
    };
    let mut value: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    for name in ["miss", "recipe"] {
        if let Some(inner) = value.get_mut(name).filter(|inner| inner.is_object()) {
            value = inner.take();
        }
    }
    serde_json::from_value(value).map_err(|error| wrong(&error))
}

fn show(
    miss: Option<&Miss>,
    recipe: Option<&Recipe>,
    found: &Found,
    changes: &[FieldChange],
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut table = Table::without_header(&["", ""]);
    let title = |text: &'static str| Cell::new(Tone::Faint, text);
    if let Some(miss) = miss {
        let when = time(miss.unix_ms).zip(ago(miss.unix_ms, screen.now));
        table.row([title("missed"), Cell::known(when.map(|(time, ago)| format!("{time} ({ago})")))]);
        table.row([title("reason"), format!("{}: {}", miss.reason.as_str(), miss.reason).into()]);
        if let Some(refusal) = miss.refusal {
            let text = format!("{}: {refusal}", refusal.as_str());
            table.row([title("not stored"), Cell::new(Tone::Bad, text)]);
        }
    }
    match recipe {
        Some(recipe) => {
            let name = recipe.name().map_or_else(String::new, |name| format!("{} ", visible(name)));
            let wanted = format!("{name}({}, schema {})", visible(recipe.domain()), recipe.schema());
            table.row([title("wanted"), Cell::new(Tone::Heading, wanted)]);
        }
        None => table.row([title("wanted"), "a key without a recipe, so that nothing is near it".into()]),
    }
    for (what, entry) in [("now stored", &found.same), ("nearest", &found.nearest)] {
        if let Some(entry) = entry {
            table.row([title(what), described(entry, screen.now).into()]);
        }
    }
    table.write(screen)?;

    let Some(recipe) = recipe else { return Ok(()) };
    if let Some(nearest) = found.nearest.as_ref().and_then(Entry::recipe) {
        for change in changes {
            words::show(change, screen)?;
        }
        // The schema, which comes first, is no field.
        let fields = changes.iter().skip(usize::from(nearest.schema() != recipe.schema()));
        let differing = fields.filter(|change| change.old.is_some()).count();
        let same = nearest.fields().len().saturating_sub(differing);
        if same > 0 {
            let line = format!("{} the same", counted(same as u64, "other field is", "other fields are"));
            writeln!(screen, "\n{}", screen.paint.apply(Tone::Faint, line))?;
        }
    } else if found.same.is_none() {
        let domain = visible(recipe.domain()).into_owned();
        writeln!(screen, "\nnothing else of the domain {domain} is stored: this is the first of its kind")?;
    }
    Ok(())
}

fn described(entry: &Entry, now: u64) -> String {
    let summary = Summary::new(entry);
    let mut text = summary.short_name().to_owned();
    if let Some(label) = &summary.label {
        text += &format!("  {}", visible(label));
    }
    if let Some(ago) = summary.created_unix_ms.and_then(|time| ago(time, now)) {
        text += &format!("  (made {ago})");
    }
    text
}
