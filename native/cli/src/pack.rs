//! `inspect`, `verify`, `compact` and `convert` for files of packed weights.

use std::{ffi::OsStr, io, io::Write, path::Path, time::Duration};

use console::style;
use serde_json::{Value, json};
use warmstart::{
    Key,
    pack::{self, FormatError, Inspection, ModelId, PackEntry, PackError, RewriteOptions, Rewritten},
};

use crate::{
    arguments::{Compact, Convert, Verify},
    failure::Failure,
    screen::{self, Screen},
    store::{detect, is_pack},
    table::{Table, known},
    text::{short, visible, visible_path},
    units::{bytes, counted, entries},
};

/// Lists the contents of a file.
pub(crate) fn inspect(path: &Path, screen: &mut Screen) -> Result<bool, Failure> {
    let found = pack::inspect(path).map_err(|error| failure("read", path, &error))?;
    if screen.json {
        // For version 2, the fields of a reader of ExecuTorch's files.
        let is_ours = found.version == 3;
        let list = found.entries.iter().map(|entry| of_entry(entry, is_ours));
        let mut answer = json!({
            "format": "xpwc",
            "version": found.version,
            "entries": list.collect::<Vec<_>>(),
            "dead_bytes": found.dead_bytes,
        });
        if is_ours {
            let models = found.models.iter().map(ModelId::to_string);
            answer["file_bytes"] = json!(found.file_bytes);
            answer["generation"] = json!(found.generation);
            answer["models"] = json!(models.collect::<Vec<_>>());
            answer["recovered"] = json!(found.refusal.as_ref().map(FormatError::to_string));
        }
        screen.write_json([answer])?;
    } else {
        show(path, &found, screen)?;
    }
    Ok(found.refusal.is_none())
}

/// Returns an entry as JSON.
fn of_entry(entry: &PackEntry, is_ours: bool) -> Value {
    let packing = entry.packing;
    let mut fields = json!({
        "name": entry.weight,
        "offset": entry.offset,
        "size": entry.size,
        "seed": packing.seed,
    });
    if is_ours {
        let fingerprint = packing.fingerprint;
        fields["bias"] = json!(entry.bias);
        fields["model"] = json!(entry.has_model().then(|| entry.model.to_string()));
        fields["fingerprint"] =
            fingerprint.map_or(Value::Null, |of| json!({ "id": of.id, "value": of.value }));
        fields["checksum"] = json!(entry.checksum.map(|sum| format!("{sum:016x}")));
        fields["generation"] = json!(entry.generation);
        fields["is_imported"] = json!(entry.is_imported);
    }
    fields
}

/// Verifies every payload.
pub(crate) fn verify(arguments: &Verify, screen: &mut Screen) -> Result<bool, Failure> {
    let path = &*arguments.store;
    if arguments.remove {
        let shown = visible_path(path);
        let message =
            format!("{shown} is a file of packed weights; `warmstart compact` drops what is damaged");
        return Err(Failure::new("not_a_store", message));
    }
    let progress = screen::progress("verifying", None);
    let found = pack::verify(path, &mut |_, _| screen::step(&progress));
    drop(progress);
    let found = found.map_err(|error| failure("read", path, &error))?;
    let all = &found.inspection;
    let damaged: Vec<&PackEntry> = found.damaged.iter().filter_map(|at| all.entries.get(*at)).collect();
    if screen.json {
        let problems = damaged.iter().map(|entry| {
            json!({
                "name": entry.weight,
                "bias": entry.bias,
                "offset": entry.offset,
                "size": entry.size,
                "reason": "checksum_mismatch",
            })
        });
        let answer = json!({
            "format": "xpwc",
            "version": all.version,
            "has_checksums": found.has_checksums,
            "whole": found.whole,
            "damaged": damaged.len(),
            "recovered": all.refusal.as_ref().map(FormatError::to_string),
            "misfiled": found.misfiled.as_ref().map(FormatError::to_string),
            "problems": problems.collect::<Vec<_>>(),
        });
        screen.write_json([answer])?;
        return Ok(found.is_good());
    }
    if !damaged.is_empty() {
        let mut table = Table::new([">OFFSET", ">SIZE", "NAME"]);
        for entry in &damaged {
            let name = entry.name().to_string();
            table.row([&entry.offset, &bytes(entry.size), &style(visible(&name)).red()]);
        }
        table.write(screen)?;
        writeln!(screen)?;
    }
    let mut line = if found.has_checksums {
        format!("{} whole", entries(found.whole))
    } else {
        let count = entries(all.entries.len() as u64);
        format!("{count} that do not overlap; version 2 has no checksums, so no payload was verified")
    };
    if !damaged.is_empty() {
        line += &format!(", {} damaged", damaged.len());
    }
    for (refusal, what) in [(all.refusal, "an earlier index is used"), (found.misfiled, "some are not found")]
    {
        if let Some(refusal) = refusal {
            line += &format!("; {what}: {refusal}");
        }
    }
    let line = if found.is_good() { style(line).green() } else { style(line).red() };
    writeln!(screen, "{line}")?;
    if !damaged.is_empty() {
        writeln!(
            screen,
            "hosts that check payloads pack damaged weights again; `warmstart compact` removes them"
        )?;
    }
    Ok(found.is_good())
}

/// Rewrites a file without unreachable data.
pub(crate) fn compact(arguments: &Compact, screen: &mut Screen) -> Result<bool, Failure> {
    let path = &*arguments.file;
    let mut options = options(path, arguments.wait)?;
    if !arguments.model.is_empty() {
        let models = arguments.model.iter().map(|model| digest_of(model)).collect::<Result<Vec<_>, _>>()?;
        options = options.with_models(models);
    }
    let done = pack::compact(path, &options).map_err(|error| failure("compact", path, &error))?;
    written(path, 3, &done, screen)
}

/// Converts a file to another version.
pub(crate) fn convert(arguments: &Convert, screen: &mut Screen) -> Result<bool, Failure> {
    let path = &*arguments.file;
    let mut options = options(path, arguments.wait)?;
    if let Some(output) = &arguments.output {
        options = options.with_output(output);
    }
    let model = arguments.model.as_deref().map(digest_of).transpose()?;
    if arguments.to == 3 && model == Some(ModelId::default()) {
        let message = "64 zeros are no model; give the model's file, or its digest";
        return Err(Failure::new("no_such_model", message));
    }
    options = match model {
        None => options,
        Some(model) if arguments.to == 2 => options.with_models([model]),
        Some(model) => options.with_imported_model(model),
    };
    let done = if arguments.to == 2 { pack::export(path, &options) } else { pack::import(path, &options) };
    let output = arguments.output.as_deref().unwrap_or(path);
    let done = done.map_err(|error| match error {
        PackError::Exists => failure("write", output, &error),
        error => failure("convert", path, &error),
    })?;
    if let (3, false, Some(model)) = (arguments.to, done.is_changed, model) {
        is_of_model(output, model)?;
    }
    written(output, arguments.to, &done, screen)
}

/// Checks that the imported entries, if there are any, are of this model, and else that some entry is.
fn is_of_model(path: &Path, model: ModelId) -> Result<(), Failure> {
    let found = pack::inspect(path).map_err(|error| failure("read", path, &error))?;
    let mut imported = found.entries.iter().filter(|entry| entry.is_imported).peekable();
    let is_known = match imported.peek() {
        Some(_) => imported.any(|entry| entry.model == model),
        None => found.entries.is_empty() || found.models.contains(&model),
    };
    if is_known {
        return Ok(());
    }
    let shown = visible_path(path);
    let mut message = format!(
        "no entry of {shown} was imported as the model {model}; to list the entries: warmstart inspect {shown}"
    );
    // By way of version 2, any other entries would lose their fingerprints and checksums.
    if found.entries.iter().all(|entry| entry.is_imported) {
        message += &format!(
            "; to change their model: warmstart convert {shown} --to 2, and then --to 3 with the right model"
        );
    }
    Err(Failure::new("no_such_model", message))
}

/// Returns the digest of a model that is given by its digest or its file.
fn digest_of(model: &OsStr) -> Result<ModelId, Failure> {
    let digest = model.to_str().and_then(|text| Key::from_hex(&text.to_ascii_lowercase()));
    if let Some(digest) = digest {
        return Ok(ModelId::from_bytes(*digest.as_bytes()));
    }
    pack::model_of_file(model).map_err(|error| {
        let message = format!(
            "cannot read the model {}: {error}; give the model's file, or its 64 hexadecimal digits",
            visible_path(model.as_ref())
        );
        Failure::new("no_such_model", message)
    })
}

/// Returns the options to rewrite the file of packed weights at `path`.
///
/// # Errors
/// If the path leads to anything else, which the failure names.
fn options(path: &Path, wait: u32) -> Result<RewriteOptions, Failure> {
    if is_pack(path) {
        return Ok(RewriteOptions::default().with_timeout(Duration::from_secs(wait.into())));
    }
    let noun = detect(path)?.noun();
    let message = format!("{} is a store, a {noun}, not a file of packed weights", visible_path(path));
    Err(Failure::new("not_a_pack", message))
}

fn failure(verb: &str, path: &Path, error: &PackError) -> Failure {
    let code = match error {
        PackError::Io(error) if error.kind() == io::ErrorKind::NotFound => "missing",
        PackError::Io(error) if error.kind() == io::ErrorKind::StorageFull => "no_space",
        PackError::Io(_) => "unreadable",
        PackError::WrongKind(_) => "not_a_pack",
        PackError::Untrusted => "untrusted",
        PackError::Refused(refusal) => refusal.reason().as_str(),
        PackError::Busy => "busy",
        PackError::Exists => "exists",
        PackError::Clash(..) => "clash",
        PackError::Several(_) => "ambiguous",
        PackError::NoSuchModel(_) => "no_such_model",
        _ => "wrong_version",
    };
    let shown = visible_path(path);
    // The message may contain text of the file.
    let mut message = format!("cannot {verb} {shown}: {}", visible(&error.to_string()));
    match error {
        PackError::Busy => message += ", or wait for it with `--wait SECONDS`",
        PackError::Several(_) => message += " with `--model`",
        PackError::WrongVersion(_) if verb == "compact" => {
            message = format!(
                "{shown} is of version 2, which is not compacted; to convert it: warmstart convert {shown} --to 3 --model MODEL"
            );
        }
        _ => {}
    }
    Failure::new(code, message)
}

fn show(path: &Path, found: &Inspection, screen: &mut Screen) -> Result<(), Failure> {
    if !found.entries.is_empty() {
        let mut table = Table::new([">OFFSET", ">SIZE", ">SEED", "FINGERPRINT", "MODEL", ">COMMIT", "NAME"]);
        for entry in &found.entries {
            let fingerprint = entry.packing.fingerprint.map(|fingerprint| match fingerprint.value {
                Some(value) => format!("{:08x} {value:08x}", fingerprint.id),
                None => format!("{:08x}", fingerprint.id),
            });
            let model = entry.has_model().then(|| short(&entry.model.to_string()).to_owned());
            let name = entry.name().to_string();
            table.row([
                &entry.offset,
                &bytes(entry.size),
                &format!("{:08x}", entry.packing.seed),
                &known(fingerprint),
                &known(model),
                &known((entry.generation > 0).then_some(entry.generation)),
                &style(visible(&name)).yellow(),
            ]);
        }
        table.write(screen)?;
        writeln!(screen)?;
    }
    writeln!(screen, "{}: packed weights, version {}", visible_path(path), found.version)?;
    let payloads = found.entries.iter().map(|entry| entry.size).fold(0, u64::saturating_add);
    let [payloads, all, dead] = [payloads, found.file_bytes, found.dead_bytes].map(bytes);
    let count = entries(found.entries.len() as u64);
    writeln!(screen, "{count}, {payloads} of {all} in the file; {dead} dead")?;
    if found.generation > 0 {
        writeln!(screen, "{}", counted(found.generation, "commit", "commits"))?;
    }
    let count =
        |is: &dyn Fn(&PackEntry) -> bool| found.entries.iter().filter(|entry| is(entry)).count() as u64;
    for model in &found.models {
        let of = count(&|entry| entry.model == *model && entry.has_model());
        if of > 0 {
            writeln!(screen, "model {model}: {}", entries(of))?;
        }
    }
    let imported = count(&|entry| entry.is_imported);
    if imported > 0 {
        writeln!(
            screen,
            "{} converted from version 2: names are joined with those of biases, and no packing is verified",
            entries(imported)
        )?;
    }
    let unverified = count(&|entry| !entry.has_model());
    if unverified > 0 {
        writeln!(screen, "{}", unverified_model(path, unverified))?;
    }
    if let Some(refusal) = found.refusal {
        let line = format!("recovered: an earlier index is used, because the newest is unusable: {refusal}");
        writeln!(screen, "{}", style(line).red())?;
    }
    Ok(())
}

/// Returns the note for entries without a model, with the remedy.
fn unverified_model(path: &Path, n: u64) -> String {
    let (count, are) = (entries(n), if n == 1 { "is" } else { "are" });
    format!(
        "{count} {are} of an unverified model: hosts that name a model pack such weights again, unless they open the pack with \
         WS_UNVERIFIED (in Rust, `with_unverified`); to name the model: warmstart convert {} --to 3 --model MODEL",
        visible_path(path)
    )
}

fn written(path: &Path, version: u32, done: &Rewritten, screen: &mut Screen) -> Result<bool, Failure> {
    let is_good = done.damaged == 0;
    if screen.json {
        screen.write_json([json!({
            "format": "xpwc",
            "version": version,
            "path": path.to_string_lossy(),
            "is_changed": done.is_changed,
            "entries": done.entries,
            "left_out": done.left_out,
            "damaged": done.damaged,
            "unverified": done.unverified,
            "bytes_before": done.bytes_before,
            "bytes_after": done.bytes_after,
        })])?;
        return Ok(is_good);
    }
    let (count, after) = (entries(done.entries), bytes(done.bytes_after));
    if done.is_changed {
        let before = bytes(done.bytes_before);
        let mut line = format!("{count} written in version {version}, {after} after {before}");
        for (n, what) in [(done.left_out, "left out"), (done.damaged, "damaged and dropped")] {
            if n > 0 {
                line += &format!("; {n} {what}");
            }
        }
        writeln!(screen, "{line}")?;
    } else {
        writeln!(screen, "nothing to do: {count}, {after} in version {version}")?;
    }
    if done.unverified > 0 {
        writeln!(screen, "{}", unverified_model(path, done.unverified))?;
    }
    Ok(is_good)
}
