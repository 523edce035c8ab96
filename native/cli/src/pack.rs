//! Files of packed weights: `inspect`, `verify`, `compact` and `convert` of them.

mod json;

use std::{io, io::Write, path::Path, time::Duration};

use warmstart::pack::{self, FileError, Inspection, ModelId, PackEntry, Refusal, RewriteOptions, Rewritten};

use json::{Answer, Problem, Proved, Written};

use crate::{
    Verdict,
    arguments::{Compact, Convert, Model, Verify},
    failure::Failure,
    recognise::recognise,
    screen::{Progress, Screen, Tone},
    table::{Cell, Table},
    text::{visible, visible_path},
    units::{bytes, counted},
};

/// Shows what a file holds.
pub(crate) fn inspect(path: &Path, screen: &mut Screen) -> Result<Verdict, Failure> {
    let found = pack::inspect(path).map_err(|error| failure("read", path, &error))?;
    if screen.json {
        screen.json(&Answer::of(&found))?;
    } else {
        show(path, &found, screen)?;
    }
    Ok(if found.refusal.is_none() { Verdict::Good } else { Verdict::Damage })
}

/// Proves every payload.
pub(crate) fn verify(arguments: &Verify, screen: &mut Screen) -> Result<Verdict, Failure> {
    let path = &*arguments.store;
    if arguments.remove {
        let shown = visible_path(path);
        let message =
            format!("{shown} is a file of packed weights; `warmstart compact` drops what is damaged");
        return Err(Failure::new("not_a_store", message));
    }
    let mut progress = Progress::new("verifying", None);
    let found = pack::verify(path, &mut |_, _| progress.step());
    drop(progress);
    let found = found.map_err(|error| failure("read", path, &error))?;
    let all = &found.inspection;
    let damaged: Vec<&PackEntry> = found.damaged.iter().filter_map(|at| all.entries.get(*at)).collect();
    let verdict = if found.is_good() { Verdict::Good } else { Verdict::Damage };
    if screen.json {
        screen.json(&Proved {
            format: "xpwc",
            version: all.version,
            has_checksums: found.has_checksums,
            whole: found.whole,
            damaged: damaged.len(),
            recovered: all.refusal.as_ref().map(Refusal::to_string),
            misfiled: found.misfiled.as_ref().map(Refusal::to_string),
            problems: damaged.iter().map(|entry| Problem::of(entry)).collect(),
        })?;
        return Ok(verdict);
    }
    if !damaged.is_empty() {
        let mut table = Table::new(&[">OFFSET", ">SIZE", "NAME"]);
        for entry in &damaged {
            let name = Cell::new(Tone::Bad, visible(&entry.name().to_string()));
            table.row([entry.offset.to_string().into(), bytes(entry.size).into(), name]);
        }
        table.write(screen)?;
        writeln!(screen)?;
    }
    let mut line = if found.has_checksums {
        format!("{} whole", counted(found.whole, "entry", "entries"))
    } else {
        let count = counted(all.entries.len() as u64, "entry", "entries");
        format!("{count} that do not overlap; version 2 has no checksums, so no payload was proved")
    };
    if !damaged.is_empty() {
        line += &format!(", {} damaged", damaged.len());
    }
    for (refusal, what) in [(all.refusal, "an earlier index counts"), (found.misfiled, "some are not found")]
    {
        if let Some(refusal) = refusal {
            line += &format!("; {what}: {refusal}");
        }
    }
    let tone = if found.is_good() { Tone::Good } else { Tone::Bad };
    writeln!(screen, "{}", screen.paint.apply(tone, line))?;
    if !damaged.is_empty() {
        writeln!(
            screen,
            "what is damaged is packed again where payloads are checked, and goes with `warmstart compact`"
        )?;
    }
    Ok(verdict)
}

/// Writes a file anew.
pub(crate) fn compact(arguments: &Compact, screen: &mut Screen) -> Result<Verdict, Failure> {
    let path = &*arguments.file;
    is_pack(path)?;
    let mut options = RewriteOptions::default().with_patience(Duration::from_secs(arguments.wait.into()));
    if !arguments.model.is_empty() {
        let models = arguments.model.iter().map(digest_of).collect::<Result<Vec<_>, _>>()?;
        options = options.with_models(models);
    }
    let done = pack::compact(path, &options).map_err(|error| match error {
        FileError::WrongVersion(_) => Failure::new(
            "wrong_version",
            format!(
                "{shown} is of version 2, which is not compacted; to convert it: warmstart convert {shown} --to 3 --model MODEL",
                shown = visible_path(path)
            ),
        ),
        error => failure("compact", path, &error),
    })?;
    written(path, 3, &done, screen)
}

/// Writes a file in another version.
pub(crate) fn convert(arguments: &Convert, screen: &mut Screen) -> Result<Verdict, Failure> {
    let path = &*arguments.file;
    is_pack(path)?;
    let mut options = RewriteOptions::default().with_patience(Duration::from_secs(arguments.wait.into()));
    if let Some(output) = &arguments.output {
        options = options.with_output(output);
    }
    let model = arguments.model.as_ref().map(digest_of).transpose()?;
    if let Some(model) = model {
        if arguments.to != 2 && model == ModelId::default() {
            return Err(Failure::new(
                "no_such_model",
                "64 zeros are no model; name the model's file, or its digest",
            ));
        }
        options =
            if arguments.to == 2 { options.with_models([model]) } else { options.with_imported_model(model) };
    }
    let done = if arguments.to == 2 { pack::export(path, &options) } else { pack::import(path, &options) };
    let output = arguments.output.as_deref().unwrap_or(path);
    let done = done.map_err(|error| match error {
        FileError::Exists => failure("write", output, &error),
        FileError::Several(_) => Failure::new(
            "ambiguous",
            format!("cannot convert {}: {error} with `--model`", visible_path(path)),
        ),
        error => failure("convert", path, &error),
    })?;
    if let (3, false, Some(model)) = (arguments.to, done.is_changed, model) {
        is_of_model(output, model)?;
    }
    written(output, arguments.to, &done, screen)
}

/// Checks that entries, which say already of which model they are, are not all of others than this one. With entries that a host
/// packed, to go by way of version 2 would lose what is known of them.
fn is_of_model(path: &Path, model: ModelId) -> Result<(), Failure> {
    let found = pack::inspect(path).map_err(|error| failure("read", path, &error))?;
    let shown = visible_path(path);
    let message = match found.entries.iter().find(|entry| entry.is_imported) {
        Some(other) if found.entries.iter().all(|entry| entry.is_imported && entry.model != model) => {
            format!(
                "{shown} says that it is of the model {other}; to change that: warmstart convert {shown} --to 2 --model {other}, and then \
             --to 3 with the right one",
                other = other.model
            )
        }
        Some(other) if found.entries.iter().all(|entry| !entry.is_imported || entry.model != model) => {
            format!(
                "what was imported into {shown} says that it is of the model {}; to drop it: warmstart compact {shown} --model {model}",
                other.model
            )
        }
        None if !found.entries.is_empty() && !found.models.contains(&model) => format!(
            "{shown} has nothing of the model {model}, and says of each entry which model it is of: warmstart inspect {shown}"
        ),
        _ => return Ok(()),
    };
    Err(Failure::new("no_such_model", message))
}

fn digest_of(model: &Model) -> Result<ModelId, Failure> {
    let path = match model {
        Model::Digest(digest) => return Ok(*digest),
        Model::File(path) => path,
    };
    pack::model_of_file(path).map_err(|error| {
        let message = format!(
            "cannot read the model {}: {error}; name the model's file, or its 64 hexadecimal digits",
            visible_path(path)
        );
        Failure::new("no_such_model", message)
    })
}

/// That a path leads to a file of packed weights, or what else it leads to.
fn is_pack(path: &Path) -> Result<(), Failure> {
    if crate::recognise::is_pack(path) {
        return Ok(());
    }
    Err(match recognise(path) {
        Ok(kind) => Failure::new(
            "not_a_pack",
            format!("{} is a store, a {}, not a file of packed weights", visible_path(path), kind.noun()),
        ),
        Err(failure) => failure,
    })
}

fn failure(verb: &str, path: &Path, error: &FileError) -> Failure {
    let code = match error {
        FileError::Io(error) if error.kind() == io::ErrorKind::NotFound => "missing",
        FileError::Io(error) if error.kind() == io::ErrorKind::StorageFull => "no_space",
        FileError::Io(_) => "unreadable",
        FileError::WrongKind(_) => "not_a_pack",
        FileError::Untrusted => "untrusted",
        FileError::Refused(refusal) => refusal.reason().as_str(),
        FileError::Busy => "busy",
        FileError::Exists => "exists",
        FileError::Clash(..) => "clash",
        FileError::Several(_) => "ambiguous",
        FileError::NoSuchModel(_) => "no_such_model",
        _ => "wrong_version",
    };
    let way = if code == "busy" { ", or wait for it with `--wait SECONDS`" } else { "" };
    // What stands in the file may be in the message.
    Failure::new(code, format!("cannot {verb} {}: {}{way}", visible_path(path), visible(&error.to_string())))
}

fn show(path: &Path, found: &Inspection, screen: &mut Screen) -> Result<(), Failure> {
    /// So many digits tell the models of a file apart that a person looks at.
    const SHORT: usize = 12;
    let model = |entry: &PackEntry| {
        Cell::known(entry.has_model().then(|| entry.model.to_string()[..SHORT].to_owned()))
    };
    if !found.entries.is_empty() {
        let titles = [">OFFSET", ">SIZE", ">SEED", "FINGERPRINT", "MODEL", ">COMMIT", "NAME"];
        let mut table = Table::new(&titles);
        for entry in &found.entries {
            let fingerprint = entry.packing.fingerprint.map(|fingerprint| match fingerprint.value {
                Some(value) => format!("{:08x} {value:08x}", fingerprint.id),
                None => format!("{:08x}", fingerprint.id),
            });
            table.row([
                entry.offset.to_string().into(),
                bytes(entry.size).into(),
                format!("{:08x}", entry.packing.seed).into(),
                Cell::known(fingerprint),
                model(entry),
                Cell::known((entry.generation > 0).then(|| entry.generation.to_string())),
                Cell::new(Tone::Name, visible(&entry.name().to_string())),
            ]);
        }
        table.write(screen)?;
        writeln!(screen)?;
    }
    let payloads = found.entries.iter().map(|entry| entry.size).fold(0, u64::saturating_add);
    let entries = counted(found.entries.len() as u64, "entry", "entries");
    writeln!(screen, "{}: packed weights, version {}", visible_path(path), found.version)?;
    let dead = bytes(found.dead_bytes);
    writeln!(
        screen,
        "{entries}, {} of {} in the file; {dead} dead",
        bytes(payloads),
        bytes(found.file_bytes)
    )?;
    if found.generation > 0 {
        writeln!(screen, "{}", counted(found.generation, "commit", "commits"))?;
    }
    for model in &found.models {
        let of = found.entries.iter().filter(|entry| entry.model == *model && entry.has_model()).count();
        if of > 0 {
            writeln!(screen, "model {model}: {}", counted(of as u64, "entry", "entries"))?;
        }
    }
    let imported = found.entries.iter().filter(|entry| entry.is_imported).count() as u64;
    if imported > 0 {
        let count = counted(imported, "entry", "entries");
        writeln!(
            screen,
            "{count} converted from version 2: names are joined with those of biases, and no packing is proved"
        )?;
    }
    let unverified = found.entries.iter().filter(|entry| !entry.has_model()).count() as u64;
    if unverified > 0 {
        writeln!(screen, "{}", unverified_model(path, unverified))?;
    }
    if let Some(refusal) = found.refusal {
        let line = format!("recovered: an earlier index counts, as the newest does not: {refusal}");
        writeln!(screen, "{}", screen.paint.apply(Tone::Bad, line))?;
    }
    Ok(())
}

/// What it means that nothing says of which model entries are, and how to go on.
fn unverified_model(path: &Path, entries: u64) -> String {
    let (count, are) = (counted(entries, "entry", "entries"), if entries == 1 { "is" } else { "are" });
    format!(
        "{count} {are} of an unverified model: hosts that name a model pack such weights again, unless they open the pack with \
         WS_UNVERIFIED (in Rust, `with_unverified`); to name the model: warmstart convert {} --to 3 --model MODEL",
        visible_path(path)
    )
}

fn written(path: &Path, version: u32, done: &Rewritten, screen: &mut Screen) -> Result<Verdict, Failure> {
    if screen.json {
        screen.json(&Written {
            format: "xpwc",
            version,
            path: path.to_string_lossy().into_owned(),
            is_changed: done.is_changed,
            entries: done.entries,
            left_out: done.left_out,
            damaged: done.damaged,
            unverified: done.unverified,
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
        })?;
    } else if done.is_changed {
        let mut line = format!(
            "{} written in version {version}, {} after {}",
            counted(done.entries, "entry", "entries"),
            bytes(done.bytes_after),
            bytes(done.bytes_before)
        );
        for (n, what) in [(done.left_out, "left out"), (done.damaged, "damaged and dropped")] {
            if n > 0 {
                line += &format!("; {n} {what}");
            }
        }
        writeln!(screen, "{line}")?;
    } else {
        let entries = counted(done.entries, "entry", "entries");
        writeln!(screen, "nothing to do: {entries}, {} in version {version}", bytes(done.bytes_after))?;
    }
    if done.unverified > 0 && !screen.json {
        writeln!(screen, "{}", unverified_model(path, done.unverified))?;
    }
    Ok(if done.damaged == 0 { Verdict::Good } else { Verdict::Damage })
}
