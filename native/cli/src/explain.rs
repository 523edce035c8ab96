//! `warmstart explain`: why a look-up missed.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use console::style;
use serde_json::{Value, json};
use warmstart::{FieldChange, Miss, MissReason, Recipe, Seal, store::Entry};

use crate::{
    arguments::Explain,
    failure::Failure,
    screen::Screen,
    store::{Access, Opened, Summary, open},
    table::{Table, known},
    text::{hex, short, visible, visible_path},
    units::{ago, counted, when},
};

/// The longest JSON that is read as a recipe, in bytes.
const LONGEST_RECIPE: u64 = 16 << 20;

/// The longest value that is compared word by word, in bytes: the time grows with the square.
const LONGEST: usize = 2048;

pub(crate) fn run(arguments: &Explain, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    let opened = open(&arguments.store, seal, Access::Look)?;
    let miss = if arguments.last_miss { Some(last_miss(&opened)?) } else { None };
    let recipe = match &arguments.recipe {
        Some(path) => Some(read_recipe(path)?),
        None => miss.as_ref().and_then(|miss| miss.recipe.clone()),
    };
    let (same, nearest) = match &recipe {
        Some(recipe) => find(&opened, recipe, seal.is_some())?,
        None => (None, None),
    };
    // An entry built after the miss explains nothing, unless there is no other.
    let same = same.filter(|_| miss.is_none() || nearest.is_none());
    let stored = nearest.as_ref().and_then(Entry::recipe);
    let changes = stored.zip(recipe.as_ref()).map(|(stored, wanted)| stored.changes_to(wanted));
    let changes = changes.unwrap_or_default();
    if screen.json {
        let miss = miss.as_ref().map(|miss| {
            json!({
                "reason": miss.reason.as_str(),
                "explanation": miss.reason.explanation(),
                "refusal": miss.refusal.map(MissReason::as_str),
                "unix_ms": miss.unix_ms,
                "key": hex(&miss.key),
                "recipe": miss.recipe,
            })
        });
        let answer = json!({
            "miss": miss,
            "stored": same.as_ref().map(Summary::new),
            "nearest": nearest.as_ref().map(Summary::new),
            "changes": changes,
        });
        screen.write_json([opened.head(), answer])?;
    } else {
        show(miss.as_ref(), recipe.as_ref(), [&same, &nearest], &changes, screen)?;
    }
    Ok(true)
}

fn last_miss(opened: &Opened) -> Result<Miss, Failure> {
    let stats = opened.look("read the statistics of", |inspect| inspect.stats())?;
    stats.last_miss.ok_or_else(|| {
        let message = format!(
            "{}: no miss is recorded, or it is sealed: pass the secret by `--seal-key`, or a recipe by `--recipe FILE`",
            opened.path()
        );
        Failure::new("no_miss", message)
    })
}

/// Returns the entry of this recipe, and the nearest one of another recipe; of equally near ones, the one used last.
fn find(opened: &Opened, recipe: &Recipe, has_seal: bool) -> Result<(Option<Entry>, Option<Entry>), Failure> {
    let (mut same, mut nearest) = (None, None);
    let mut least = (u64::MAX, true);
    opened.entries(|entry| {
        let Some(distance) = entry.distance_to(recipe, has_seal) else { return };
        if distance.0 == 0 {
            same = Some(entry);
        } else if distance <= least {
            least = distance;
            nearest = Some(entry);
        }
    })?;
    Ok((same, nearest))
}

/// Reads a recipe as JSON, or an object with a `recipe`.
fn read_recipe(path: &Path) -> Result<Recipe, Failure> {
    let shown = visible_path(path);
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(LONGEST_RECIPE).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LONGEST_RECIPE).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::new("bad_recipe", format!("cannot read the recipe {shown}: {error}")))?;
    let wrong = |error: serde_json::Error| {
        let message =
            format!("{shown} is no recipe: {error}; `warmstart inspect --json` prints one under \"recipe\"");
        Failure::new("bad_recipe", message)
    };
    let mut value: Value = serde_json::from_str(&text).map_err(wrong)?;
    for name in ["miss", "recipe"] {
        if let Some(inner) = value.get_mut(name).filter(|inner| inner.is_object()) {
            value = inner.take();
        }
    }
    serde_json::from_value(value).map_err(wrong)
}

fn show(
    miss: Option<&Miss>,
    recipe: Option<&Recipe>,
    [same, nearest]: [&Option<Entry>; 2],
    changes: &[FieldChange],
    screen: &mut Screen,
) -> Result<(), Failure> {
    let mut table = Table::new(["", ""]);
    if let Some(miss) = miss {
        table.row([&style("missed").dim(), &known(when(miss.unix_ms, screen.now))]);
        let reason = format!("{}: {}", miss.reason.as_str(), miss.reason);
        table.row([&style("reason").dim(), &reason]);
        if let Some(refusal) = miss.refusal {
            let text = format!("{}: {refusal}", refusal.as_str());
            table.row([&style("not stored").dim(), &style(text).red()]);
        }
    }
    let wanted = recipe.map(|recipe| {
        let name = recipe.name().map_or_else(String::new, |name| format!("{} ", visible(name)));
        style(format!("{name}({}, schema {})", visible(recipe.domain()), recipe.schema())).bold()
    });
    let none = || style("a key without a recipe, which no entry can be compared with".to_owned());
    table.row([&style("wanted").dim(), &wanted.unwrap_or_else(none)]);
    for (what, entry) in [("now stored", same), ("nearest", nearest)] {
        if let Some(entry) = entry {
            table.row([&style(what).dim(), &described(entry, screen.now)]);
        }
    }
    table.write(screen)?;

    let Some(recipe) = recipe else { return Ok(()) };
    if let Some(nearest) = nearest.as_ref().and_then(Entry::recipe) {
        for change in changes {
            show_change(change, screen)?;
        }
        // The schema comes first, and is not a field.
        let fields = changes.iter().skip(usize::from(nearest.schema() != recipe.schema()));
        let differing = fields.filter(|change| change.old.is_some()).count();
        let same = nearest.fields().len().saturating_sub(differing);
        if same > 0 {
            let line = format!("{} the same", counted(same as u64, "other field is", "other fields are"));
            writeln!(screen, "\n{}", style(line).dim())?;
        }
    } else if same.is_none() {
        let domain = visible(recipe.domain());
        writeln!(screen, "\nno other entry of the domain {domain} is stored")?;
    }
    Ok(())
}

fn described(entry: &Entry, now: u64) -> String {
    let summary = Summary::new(entry);
    let label = summary.label.map(|label| format!("  {}", visible(&label)));
    let made = summary.created_unix_ms.and_then(|time| ago(time, now)).map(|ago| format!("  (made {ago})"));
    format!("{}{}{}", short(&summary.name), label.unwrap_or_default(), made.unwrap_or_default())
}

/// Shows a field with its stored value, its wanted value and the words that differ.
fn show_change(change: &FieldChange, screen: &mut Screen) -> Result<(), Failure> {
    writeln!(screen, "\n{}", style(visible(&change.label)).bold())?;
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    for (side, value) in [("stored", old), ("wanted", new)] {
        let value = match value {
            None => style("nothing".into()).dim(),
            Some("") => style("empty".into()).dim(),
            Some(value) => style(visible(value)),
        };
        writeln!(screen, "  {side}  {value}")?;
    }
    let [old_only, new_only] = old.zip(new).map_or_else(Default::default, differing);
    // If all words differ, the two lines above suffice.
    let has_common = old.is_some_and(|old| old.split_whitespace().count() > old_only.len());
    if has_common && !(old_only.is_empty() && new_only.is_empty()) {
        let old_only = old_only.iter().map(|word| style(format!("- {}", visible(word))).red().to_string());
        let new_only = new_only.iter().map(|word| style(format!("+ {}", visible(word))).green().to_string());
        let words: Vec<String> = old_only.chain(new_only).collect();
        writeln!(screen, "          {}", words.join("   "))?;
    }
    Ok(())
}

/// Returns the words that only one of the two has; none for long values, which take long to compare.
fn differing<'a>((old, new): (&'a str, &'a str)) -> [Vec<&'a str>; 2] {
    if old.len().max(new.len()) > LONGEST {
        Default::default()
    } else {
        [without(old, new), without(new, old)]
    }
}

/// Returns the words of `text` that `other` lacks, or has less often.
fn without<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    for word in other.split_whitespace() {
        if let Some(at) = words.iter().position(|left| *left == word) {
            words.remove(at);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_not_compared_word_by_word() {
        let [old, new] = ["a ", "b "].map(|word| word.repeat(LONGEST / 2));
        assert_eq!(differing((&old, &new)).map(|words| words.len()), [LONGEST / 2; 2]);
        let longer = format!("{new}b");
        assert_eq!(differing((&old, &longer)), [[""; 0]; 2]);
    }

    #[test]
    fn words_of_only_one_side_are_found_in_any_order() {
        assert_eq!(without("-O3 -g -DA", "-g -O2"), ["-O3", "-DA"]);
        assert_eq!(without("a a b", "b a"), ["a"]);
        assert_eq!(without("a b", "b a"), [""; 0]);
    }
}
