//! `warmstart inspect`: everything about one entry.

use std::{fs, io::Write, path::Path};

use clap::CommandFactory;
use serde::Serialize;
use warmstart::{Artifact, Key, Lookup, Metadata, Reason, Recipe, store::Entry};

use crate::{
    Verdict,
    arguments::{Arguments, Inspect},
    entry::Summary,
    failure::Failure,
    launch::Launch,
    screen::{Screen, Tone},
    store::{Access, Head, Opened, Opener},
    table::{Cell, Table},
    text::{hex, printable, visible, visible_path},
    units::{ago, bytes, nanos, time},
};

/// So many candidates are named where a prefix has several.
const CANDIDATES: usize = 8;

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    summary: &'a Summary,
    key: Option<String>,
    key_text: Option<&'a str>,
    recipe: Option<&'a Recipe>,
    attributes: Vec<Attribute<'a>>,
    launch: Option<Launch>,
    is_whole: bool,
    reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Attribute<'a> {
    name: &'a str,
    bytes: usize,
    value: String,
    text: Option<&'a str>,
}

pub(crate) fn run(arguments: &Inspect, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let Some(name) = &arguments.name else { return without_name(&arguments.store, opener, screen) };
    let opened = opener.open(&arguments.store, Access::Look)?;
    let entry = find(&opened, name)?;
    let proof = prove(&opened, &entry);
    if let Some(path) = &arguments.payload {
        let artifact = proof.as_ref().map_err(|reason| {
            Failure::new(reason.as_str(), format!("the payload of {} is not written: {reason}", entry.name))
        })?;
        if path.as_os_str() == "-" {
            screen.write_all(artifact.payload())?;
            return Ok(Verdict::Good);
        }
        write_payload(path, artifact)?;
    }
    let reason = proof.as_ref().err().copied();
    let summary = Summary::new(&entry);
    let content = entry.head.as_ref().ok();
    if screen.json {
        let metadata = content.map(|content| &content.metadata);
        screen.json(&Answer {
            head: opened.head(),
            summary: &summary,
            key: content.map(|content| hex(&content.key)),
            key_text: content.and_then(|content| std::str::from_utf8(&content.key).ok()),
            recipe: metadata.and_then(Metadata::recipe),
            attributes: metadata.map(attributes).unwrap_or_default(),
            launch: metadata.and_then(Launch::of),
            is_whole: reason.is_none(),
            reason: reason.map(Reason::as_str),
        })?;
    } else {
        show(&entry, &summary, reason, screen)?;
    }
    Ok(if reason.is_none() { Verdict::Good } else { Verdict::Damage })
}

/// A file of packed weights is shown whole. Of a store, an entry must be named.
fn without_name(path: &Path, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    if crate::recognise::is_pack(path) {
        return crate::pack::inspect(path, screen);
    }
    let _ = (opener.open(path, Access::Look)?, screen);
    let message = "name an entry of the store, as `warmstart ls` shows them: inspect STORE NAME\n";
    Arguments::command().error(clap::error::ErrorKind::MissingRequiredArgument, message).exit()
}

/// The one entry whose name begins so.
fn find(opened: &Opened, prefix: &str) -> Result<Entry, Failure> {
    let mut found = Vec::new();
    opened.entries(|entry| {
        if entry.name.to_string().starts_with(prefix) {
            found.push(entry);
        }
    })?;
    if found.len() > 1 {
        let mut names: Vec<String> = found.iter().map(|entry| format!("  {}", entry.name)).collect();
        names.sort();
        if names.len() > CANDIDATES {
            let more = names.len() - CANDIDATES;
            names.truncate(CANDIDATES);
            names.push(format!("  and {more} more"));
        }
        let message = format!("{prefix} is the beginning of several names:\n{}", names.join("\n"));
        return Err(Failure::new("ambiguous", message));
    }
    found.pop().ok_or_else(|| {
        let message = format!("{} has no entry {prefix}; `warmstart ls` names them", opened.path());
        Failure::new("no_such_entry", message)
    })
}

/// Reads the entry to its end.
fn prove(opened: &Opened, entry: &Entry) -> Result<Artifact, Reason> {
    let content = entry.head.as_ref().map_err(|reason| *reason)?;
    // Whoever asks for this key is given what stands under its digest.
    if Key::digest(&content.key) != entry.name {
        return Err(Reason::KeyMismatch);
    }
    match opened.store.get(&content.key) {
        Lookup::Hit(artifact) => Ok(artifact),
        Lookup::Miss(reason) => Err(reason),
    }
}

fn write_payload(path: &Path, artifact: &Artifact) -> Result<(), Failure> {
    fs::write(path, artifact.payload()).map_err(|error| {
        Failure::new("unwritable", format!("cannot write the payload to {}: {error}", visible_path(path)))
    })
}

fn attributes(metadata: &Metadata) -> Vec<Attribute<'_>> {
    let attributes = metadata.attributes().map(|(name, value)| Attribute {
        name,
        bytes: value.len(),
        value: hex(value),
        text: std::str::from_utf8(value).ok(),
    });
    attributes.collect()
}

fn show(
    entry: &Entry,
    summary: &Summary,
    reason: Option<Reason>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let when = |unix_ms: Option<u64>, now| {
        let unix_ms = unix_ms?;
        Some(format!("{} ({})", time(unix_ms)?, ago(unix_ms, now)?))
    };
    let mut table = Table::without_header(&["", ""]).wrapped();
    let label = |text: &'static str| Cell::new(Tone::Faint, text);
    table.row([label("name"), Cell::new(Tone::Name, entry.name.to_string())]);
    if let Some(text) = &summary.label {
        table.row([label("label"), Cell::new(Tone::Heading, visible(text))]);
    }
    let size = format!("{} ({} bytes)", bytes(entry.size), entry.size);
    table.row([label("size"), size.into()]);
    if let Ok(content) = &entry.head {
        let payload = format!("{} ({} bytes)", bytes(content.payload_len), content.payload_len);
        table.row([label("payload"), payload.into()]);
        table.row([label("key"), shown(&content.key).into()]);
        table.row([label("made"), Cell::known(when(summary.created_unix_ms, screen.now))]);
    }
    table.row([label("used"), Cell::known(when(summary.used_unix_ms, screen.now))]);
    if let Ok(content) = &entry.head {
        table.row([label("build"), Cell::known(summary.build_nanos.map(nanos))]);
        if content.is_sealed {
            table.row([label("seal"), "sealed".into()]);
        }
    }
    table.row([
        label("proof"),
        match reason {
            None => Cell::new(Tone::Good, "whole"),
            Some(reason) => Cell::new(Tone::Bad, format!("{}: {reason}", reason.as_str())),
        },
    ]);
    table.write(screen)?;

    let Ok(content) = &entry.head else { return Ok(()) };
    if let Some(recipe) = content.metadata.recipe() {
        let title = format!("{}, schema {}", visible(recipe.domain()), recipe.schema());
        writeln!(screen, "\n{}", screen.paint.apply(Tone::Heading, title))?;
        let mut table = Table::new(&["FIELD", "DIGEST", "VALUE"]).wrapped();
        for field in recipe.fields() {
            table.row([
                visible(field.label()).into_owned().into(),
                Cell::new(Tone::Faint, field.digest_hex()),
                Cell::known(field.value().map(|value| visible(value).into_owned())),
            ]);
        }
        table.write(screen)?;
    }
    if content.metadata.attributes().next().is_some() {
        writeln!(screen)?;
        let mut table = Table::new(&["ATTRIBUTE", ">SIZE", "VALUE"]).wrapped();
        for (name, value) in content.metadata.attributes() {
            table.row([
                visible(name).into_owned().into(),
                bytes(value.len() as u64).into(),
                shown(value).into(),
            ]);
        }
        table.write(screen)?;
    }
    Launch::of(&content.metadata).map_or(Ok(()), |launch| launch.show(screen))
}

/// Bytes as text if they are, else their first digits.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 32;
    match printable(bytes) {
        Some(text) => visible(text).into_owned(),
        None if bytes.len() > MOST => format!("{}…", hex(&bytes[..MOST])),
        None => hex(bytes),
    }
}
