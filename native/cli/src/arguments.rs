//! What the command line says.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use warmstart::pack::ModelId;

use crate::units;

/// What is said below the help of every sub-command.
const EXIT_CODES: &str = "\
Exit codes:
  0  done, and nothing is wrong
  1  damage was found, or nothing was found (no store, no such entry, no miss), or the store could not be read or changed
  2  the command line is wrong";

/// Looks into a warmstart cache, which is a directory or an SQLite file, and into files of packed weights.
///
/// Looking changes nothing: only `prune`, `clear`, `verify --remove`, `compact` and `convert` write.
#[derive(Debug, Parser)]
#[command(name = "warmstart", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every sub-command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Prints one line of JSON, for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colours. `auto` is on a terminal, and heeds NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,

    /// The secret of a sealed store: a file of 32 bytes, or of 64 hexadecimal digits.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) seal_key: Option<PathBuf>,

    /// The time to count ages from, in milliseconds since 1970 UTC, so that a test gives the same at any time.
    #[arg(long, global = true, hide = true, value_name = "UNIX_MS")]
    pub(crate) now: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists the entries.
    #[command(after_help = EXIT_CODES)]
    Ls(List),
    /// Shows everything about one entry, and proves it; or what a file of packed weights holds.
    #[command(after_help = EXIT_CODES)]
    Inspect(Inspect),
    /// Reads every entry to its end, and names those that are damaged.
    #[command(after_help = EXIT_CODES)]
    Verify(Verify),
    /// Shows what is stored, and what all processes have counted: hits, misses by reason, time saved.
    #[command(after_help = EXIT_CODES)]
    Stats(Stats),
    /// Removes what was not used for longest, until the rest fits.
    #[command(after_help = EXIT_CODES)]
    Prune(Prune),
    /// Removes every entry, without asking: a cache costs time only. What was counted stays.
    #[command(after_help = EXIT_CODES)]
    Clear(Clear),
    /// Explains a miss: finds the stored entry that is nearest to what was wanted, and names what differs.
    #[command(after_help = EXIT_CODES)]
    Explain(Explain),
    /// Writes a file of packed weights anew without what nobody reaches, if there is anything like that.
    #[command(after_help = EXIT_CODES)]
    Compact(Compact),
    /// Writes a file of packed weights in ExecuTorch's version 2, or a file of ExecuTorch's in version 3.
    ///
    /// Never give ExecuTorch and warmstart one path: each takes the other's file for damaged, and ExecuTorch truncates what it
    /// cannot read.
    #[command(after_help = EXIT_CODES)]
    Convert(Convert),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// What comes first: what was used last, is newest, is largest, or took longest to build.
    #[arg(long, value_name = "BY", default_value = "used")]
    pub(crate) sort: Order,
    /// The other way around.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Names with all of their 64 digits.
    #[arg(long)]
    pub(crate) full: bool,
    /// Sizes in bytes.
    #[arg(long)]
    pub(crate) bytes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    Used,
    Age,
    Size,
    Build,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A cache directory, or an SQLite file; or a file of packed weights.
    pub(crate) store: PathBuf,
    /// The entry's name, as `ls` shows it, or its first digits, at least 4. Not for a file of packed weights, of which all
    /// entries are shown.
    #[arg(value_parser = prefix)]
    pub(crate) name: Option<String>,
    /// Writes the payload, once it is proved, to this file; `-` is standard output, and prints nothing else there.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) payload: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A cache directory, or an SQLite file; or a file of packed weights.
    pub(crate) store: PathBuf,
    /// Removes what is damaged.
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// Print Prometheus' text format.
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    /// Give every sample of the Prometheus text the label `store` with this value.
    #[arg(long, value_name = "VALUE", requires = "prometheus")]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// Keeps at most this many bytes: 1000000, 500M, 2GB (of 1000), 64MiB, 1.5GiB (of 1024).
    #[arg(long, value_name = "N", value_parser = units::parse_bytes, required_unless_present = "max_entries")]
    pub(crate) max_bytes: Option<u64>,
    /// Keeps at most this many entries.
    #[arg(long, value_name = "N")]
    pub(crate) max_entries: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// Explain the last miss, whichever process had it.
    #[arg(long, required_unless_present = "recipe", conflicts_with = "recipe")]
    pub(crate) last_miss: bool,
    /// Explain why nothing of this recipe is found: a JSON file with what `inspect --json` prints as "recipe", or all of
    /// what it prints; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) recipe: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// A file of packed weights, of version 3.
    pub(crate) file: PathBuf,
    /// Keeps the entries of this model alone, named by its file or its 64 digits; of 64 zeros, entries of an unverified model. May
    /// be given more than once.
    #[arg(long, value_name = "FILE|HEX", value_parser = OsStringValueParser::new().map(Model::from))]
    pub(crate) model: Vec<Model>,
    /// Waits so many seconds for another process that writes to the file.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A file of packed weights.
    pub(crate) file: PathBuf,
    /// The version to write: 2, which is ExecuTorch's, or 3.
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u32).range(2..=3))]
    pub(crate) to: u32,
    /// Writes to this file, which must not exist, and leaves the other where it is.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The model: the file that it is in, or its 64 digits, the first word that `b2sum -l 256` prints of that file. To version 3, it is written
    /// to the entries that do not say of which model they are. To version 2, which holds one model of a name, its entries alone
    /// are written.
    #[arg(long, value_name = "FILE|HEX", value_parser = OsStringValueParser::new().map(Model::from))]
    pub(crate) model: Option<Model>,
    /// Waits so many seconds for another process that writes to the file.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u32,
}

/// A model, as it is named on a command line.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    Digest(ModelId),
    File(PathBuf),
}

impl From<OsString> for Model {
    fn from(text: OsString) -> Self {
        match text.to_str().and_then(|text| warmstart::Key::from_hex(&text.to_ascii_lowercase())) {
            Some(digest) => Self::Digest(ModelId::from_bytes(*digest.as_bytes())),
            None => Self::File(text.into()),
        }
    }
}

fn prefix(text: &str) -> Result<String, String> {
    let is_name = (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_name {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("a name is 4 to 64 hexadecimal digits; `warmstart ls` shows them".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_name_is_digits() {
        assert_eq!(prefix("00FF"), Ok("00ff".to_owned()));
        for wrong in ["", "00f", "00fg", &"0".repeat(65)] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }
}
