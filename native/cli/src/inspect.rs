//! `warmstart inspect`: all details of one entry.

use std::{fs, io::Write};

use clap::{CommandFactory, error::ErrorKind};
use console::style;
use serde_json::{Value, json};
use warmstart::launch_record::{LaunchRecord, RecordError};
use warmstart::{Artifact, Key, MissReason, Seal, store::Entry};

use crate::{
    arguments::{Arguments, Inspect},
    failure::Failure,
    screen::Screen,
    store::{Access, Opened, Summary, is_pack, open},
    table::{Table, known},
    text::{hex, visible, visible_bytes, visible_path},
    units::{bytes, nanos, when},
};

/// The number of candidates that are listed for an ambiguous prefix.
const CANDIDATES: usize = 8;

/// A launch record, or the reason of its refusal.
type Record = Result<LaunchRecord, RecordError>;

pub(crate) fn run(arguments: &Inspect, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    if arguments.name.is_none() && is_pack(&arguments.store) {
        return crate::pack::inspect(&arguments.store, screen);
    }
    let opened = open(&arguments.store, seal, Access::Look)?;
    let Some(name) = &arguments.name else {
        let message = "name an entry of the store, as `warmstart ls` shows them: inspect STORE NAME\n";
        Arguments::command().error(ErrorKind::MissingRequiredArgument, message).exit();
    };
    let entry = find(&opened, name)?;
    let proof = verify(&opened, &entry);
    if let Some(path) = &arguments.payload {
        let artifact = proof.as_ref().map_err(|reason| {
            Failure::new(reason.as_str(), format!("the payload of {} is not written: {reason}", entry.digest))
        })?;
        if path.as_os_str() == "-" {
            screen.write_all(artifact.payload())?;
            return Ok(true);
        }
        fs::write(path, artifact.payload()).map_err(|error| {
            let message = format!("cannot write the payload to {}: {error}", visible_path(path));
            Failure::new("unwritable", message)
        })?;
    }
    let reason = proof.err();
    let record = entry.head.as_ref().ok().and_then(|head| head.metadata.attribute(LaunchRecord::ATTRIBUTE));
    let record = record.map(LaunchRecord::decode);
    if screen.json {
        let summary = json!(Summary::new(&entry));
        screen.write_json([opened.head(), summary, content(&entry, record.as_ref(), reason)])?;
    } else {
        show(&entry, reason, screen)?;
        if let Some(record) = &record {
            show_record(record, screen)?;
        }
    }
    Ok(reason.is_none())
}

/// Finds the one entry whose name has this prefix.
fn find(opened: &Opened, prefix: &str) -> Result<Entry, Failure> {
    let mut found = Vec::new();
    opened.entries(|entry| {
        if entry.digest.to_string().starts_with(prefix) {
            found.push(entry);
        }
    })?;
    if found.len() > 1 {
        let names: Vec<String> =
            found.iter().take(CANDIDATES).map(|entry| entry.digest.to_string()).collect();
        let several = format!("{prefix} is ambiguous: give more digits of one of {} names: ", found.len());
        return Err(Failure::new("ambiguous", several + &names.join(", ")));
    }
    found.pop().ok_or_else(|| {
        let message = format!("{} has no entry {prefix}; `warmstart ls` lists the names", opened.path());
        Failure::new("no_such_entry", message)
    })
}

/// Verifies the entry by reading it to its end.
fn verify(opened: &Opened, entry: &Entry) -> Result<Artifact, MissReason> {
    let content = entry.head.as_ref().map_err(|reason| *reason)?;
    // A look-up of this key reads the entry with its digest.
    if Key::digest(&content.key) != entry.digest {
        return Err(MissReason::KeyMismatch);
    }
    opened.store.get(&content.key)
}

/// Returns the fields of the JSON beside the summary.
fn content(entry: &Entry, record: Option<&Record>, reason: Option<MissReason>) -> Value {
    let head = entry.head.as_ref().ok();
    let attribute = |(name, value): (&str, &[u8])| {
        let text = std::str::from_utf8(value).ok();
        json!({ "name": name, "bytes": value.len(), "value": hex(value), "text": text })
    };
    let attributes = head.into_iter().flat_map(|head| head.metadata.attributes()).map(attribute);
    json!({
        "key": head.map(|head| hex(&head.key)),
        "key_text": head.and_then(|head| std::str::from_utf8(&head.key).ok()),
        "recipe": entry.recipe(),
        "attributes": attributes.collect::<Vec<_>>(),
        "launch": record.map(launch),
        "is_whole": reason.is_none(),
        "reason": reason.map(MissReason::as_str),
    })
}

/// Returns a launch record as JSON.
fn launch(record: &Record) -> Value {
    let (rows, results) = record.as_ref().map(|record| (record.rows(), record.results())).unwrap_or_default();
    let ids = rows
        .iter()
        .map(|row| json!({ "id": row.id().to_string(), "kernel": row.kernel(), "task": row.task() }));
    let results = results.iter().map(|result| {
        json!({
            "kernel": result.kernel(),
            "output": result.has_output(),
            "specs": result.specs(),
            "dependencies": result.dependencies(),
        })
    });
    json!({
        "ids": ids.collect::<Vec<_>>(),
        "results": results.collect::<Vec<_>>(),
        "refused": record.as_ref().err().map(ToString::to_string),
    })
}

fn show(entry: &Entry, reason: Option<MissReason>, screen: &mut Screen) -> Result<(), Failure> {
    let summary = Summary::new(entry);
    let size = |n: u64| format!("{} ({n} bytes)", bytes(n));
    let time = |unix_ms: Option<u64>| known(unix_ms.and_then(|unix_ms| when(unix_ms, screen.now)));
    let content = entry.head.as_ref().ok();
    let proof = match reason {
        None => style("whole".to_owned()).green(),
        Some(reason) => style(format!("{}: {reason}", reason.as_str())).red(),
    };
    let lines = [
        ("name", Some(style(&summary.name).yellow().to_string())),
        ("label", summary.label.as_deref().map(|label| style(visible(label)).bold().to_string())),
        ("size", Some(size(entry.size))),
        ("payload", content.map(|content| size(content.payload_len))),
        ("key", content.map(|content| visible_bytes(&content.key))),
        ("made", content.map(|_| time(summary.created_unix_ms))),
        ("used", Some(time(summary.used_unix_ms))),
        ("build", content.map(|_| known(summary.build_nanos.map(nanos)))),
        ("seal", content.filter(|content| content.is_sealed).map(|_| "sealed".to_owned())),
        ("proof", Some(proof.to_string())),
    ];
    let mut table = Table::new(["", ""]).wrapped();
    for (name, value) in &lines {
        if let Some(value) = value {
            table.row([&style(name).dim(), value]);
        }
    }
    table.write(screen)?;

    let Some(content) = content else { return Ok(()) };
    if let Some(recipe) = content.metadata.recipe() {
        let title = format!("{}, schema {}", visible(recipe.domain()), recipe.schema());
        writeln!(screen, "\n{}", style(title).bold())?;
        let mut table = Table::new(["FIELD", "DIGEST", "VALUE"]).wrapped();
        for field in recipe.fields() {
            let digest = field.digest_hex();
            table.row([&visible(field.label()), &style(digest).dim(), &known(field.value().map(visible))]);
        }
        table.write(screen)?;
    }
    if content.metadata.attributes().next().is_some() {
        writeln!(screen)?;
        let mut table = Table::new(["ATTRIBUTE", ">SIZE", "VALUE"]).wrapped();
        for (name, value) in content.metadata.attributes() {
            table.row([&visible(name), &bytes(value.len() as u64), &visible_bytes(value)]);
        }
        table.write(screen)?;
    }
    Ok(())
}

fn show_record(record: &Record, screen: &mut Screen) -> Result<(), Failure> {
    let record = match record {
        Ok(record) => record,
        Err(error) => {
            writeln!(screen, "\n{}", style(visible(&error.to_string())).red())?;
            return Ok(());
        }
    };
    if !record.rows().is_empty() {
        writeln!(screen)?;
        let mut table = Table::new(["ID IN THE CODE", "KERNEL", ">TASK"]).wrapped();
        for row in record.rows() {
            table.row([&row.id(), &visible(row.kernel()), &row.task()]);
        }
        table.write(screen)?;
    }
    if !record.results().is_empty() {
        writeln!(screen)?;
        let mut table = Table::new(["RESULT FOR", "KEPT", ">SPECS", ">DEPENDENCIES"]).wrapped();
        for result in record.results() {
            let kept = if result.has_output() { "whole" } else { "specs" };
            table.row([&visible(result.kernel()), &kept, &result.specs(), &result.dependencies()]);
        }
        table.write(screen)?;
    }
    Ok(())
}
