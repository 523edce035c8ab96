//! The figures of docs/compare.md: tables between two marks, a plot, and the rows for programs. And the chart of the README.

use std::{
    collections::BTreeSet,
    error::Error,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    thread,
};

use crate::{
    duel::{self, Duel, Outcome, time},
    plot,
};

const BEGIN: &str = "<!-- The figures: `cargo xtask bench peers --doc` writes what follows. -->";
const END: &str = "<!-- The end of the figures. -->";

/// Writes docs/compare.svg, docs/compare.json and the figures of docs/compare.md; and docs/warm-start.svg, of the figures in
/// docs/warm-start.json.
pub(crate) fn write(duels: &[Duel]) -> Result<(), Box<dyn Error>> {
    let starts: Vec<plot::Start> = serde_json::from_str(&fs::read_to_string(path("warm-start.json"))?)?;
    put("warm-start.svg", &plot::draw_starts(&starts))?;
    let of_files: Vec<&Duel> = duels.iter().filter(|duel| duel.ours == "files").collect();
    put("compare.svg", &plot::draw(&of_files, "The file store against its peers"))?;
    put("compare.json", &duel::json(duels)?)?;
    let text = fs::read_to_string(path("compare.md"))?;
    put("compare.md", &replaced(&text, &figures(duels)).ok_or("docs/compare.md has lost its marks")?)?;
    Ok(())
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn put(name: &str, text: &str) -> io::Result<()> {
    fs::write(path(name), text)
}

/// The text with other figures between its marks.
fn replaced(text: &str, figures: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{figures}\n{END}{after}"))
}

fn figures(duels: &[Duel]) -> String {
    let mut text = format!("{}\n", machine());
    for (ours, title) in [
        ("files", "`FileStore`"),
        ("sqlite", "`SqliteStore`"),
        ("memory", "`MemoryStore`"),
        ("tiered", "`TieredStore`, memory in front of files"),
    ] {
        let group: Vec<&Duel> = duels.iter().filter(|duel| duel.ours == ours).collect();
        if !group.is_empty() {
            let _ = write!(text, "\n### {title}\n\n{}", matrix(&group));
        }
    }
    let _ = write!(text, "\n### What is missing\n\n{}", missing(duels));
    text
}

/// Returns a description of the machine, without its name.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    let system = std::env::consts::OS;
    format!("Measured on {cores} shared {} cores, {system} {kernel}.", std::env::consts::ARCH)
}

/// A line for each job, a column for each peer, and the ratios.
fn matrix(duels: &[&Duel]) -> String {
    let (mut jobs, mut peers): (Vec<(&str, &str)>, Vec<&str>) = (Vec::new(), Vec::new());
    for duel in duels {
        let job = (&*duel.job, &*duel.medium);
        if !jobs.contains(&job) {
            jobs.push(job);
        }
        if !peers.contains(&&*duel.peer) {
            peers.push(&duel.peer);
        }
    }
    let mut text = format!("| job | on | ours takes | {} |\n|---|---|---|", peers.join(" | "));
    text += &"---|".repeat(peers.len());
    text.push('\n');
    for (job, medium) in jobs {
        let row: Vec<&&Duel> = duels.iter().filter(|duel| duel.job == job && duel.medium == medium).collect();
        let ours: Vec<f64> = row
            .iter()
            .filter_map(|duel| match duel.outcome {
                Outcome::Measured { ours_ns, .. } => Some(ours_ns),
                Outcome::Missing(_) | Outcome::Crashed(_) => None,
            })
            .collect();
        let ours = if ours.is_empty() { String::new() } else { time(warmstart_tests::measure::median(ours)) };
        let _ = write!(text, "| {job} | {medium} | {ours} |");
        for peer in &peers {
            let cell =
                row.iter().find(|duel| duel.peer == **peer).map_or_else(String::new, |duel| cell(duel));
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}

fn cell(duel: &Duel) -> String {
    match duel.ratio() {
        None if matches!(duel.outcome, Outcome::Crashed(_)) => "crashed".to_owned(),
        None => "missing".to_owned(),
        Some(ratio) if duel.is_lost() => format!("**{ratio:.2}**"),
        Some(ratio) if ratio < 0.01 => format!("{ratio:.4}"),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

fn missing(duels: &[Duel]) -> String {
    let reasons: BTreeSet<String> = duels
        .iter()
        .filter_map(|duel| {
            let job = duel.job.split('/').next().unwrap_or_default();
            match &duel.outcome {
                Outcome::Missing(why) => Some(format!("- {}, {job}: {why}.\n", duel.peer)),
                // The message may hold anything, and stands within a list.
                Outcome::Crashed(why) => {
                    Some(format!("- {}, {job}: crashed: `{}`.\n", duel.peer, why.replace('`', "'")))
                }
                Outcome::Measured { .. } => None,
            }
        })
        .collect();
    if reasons.is_empty() { "Nothing.\n".to_owned() } else { reasons.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_by_hand_stays() {
        let text = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let once = replaced(&text, "new").unwrap();
        assert_eq!(once, format!("above\n{BEGIN}\n\nnew\n{END}\nbelow\n"));
        assert_eq!(replaced(&once, "new").unwrap(), once);
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn lost_row_is_bold_and_missing_row_has_its_reason() {
        let duel =
            |peer: &str, outcome| Duel::with("hit/1KiB/100", "tmpfs", ("files", peer), "quota", outcome);
        let measured = |ratio| Outcome::Measured { ours_ns: ratio * 1e3, peer_ns: 1e3, ratio };
        let duels = [
            duel("slow", measured(0.5)),
            duel("quick", measured(2.0)),
            duel("absent", Outcome::Missing("why".into())),
            duel("broken", Outcome::Crashed("no `page`".into())),
        ];
        let text = figures(&duels);
        let row = "| hit/1KiB/100 | tmpfs | 1.25 µs | 0.50 | **2.00** | missing | crashed |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("- absent, hit: why."), "{text}");
        assert!(text.contains("- broken, hit: crashed: `no 'page'`."), "{text}");
    }
}
