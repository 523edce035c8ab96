//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::units;

/// The text below the help of every sub-command.
const EXIT_CODES: &str = "\
Exit codes:
  0  success, and no damage
  1  damage was found, or nothing was found (no store, no such entry, no miss), or the store could not be read or changed
  2  the command line is wrong";

/// Inspects a warmstart cache, in a directory or an SQLite file, and files of packed weights.
///
/// Only `prune`, `clear`, `verify --remove`, `compact`, `convert`, `remote push` and `remote pull` write; everything else changes nothing.
#[derive(Debug, Parser)]
#[command(name = "warmstart", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// Prints one line of JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Sets when to use colours. `auto` uses them on a terminal, and honours NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,

    /// Reads the secret of a sealed store from a file of 32 bytes, or of 64 hexadecimal digits.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) seal_key: Option<PathBuf>,

    /// Counts ages from this time, in milliseconds since 1970 UTC, so that a test prints the same at any time.
    #[arg(long, global = true, hide = true, value_name = "UNIX_MS")]
    pub(crate) now: Option<u64>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Parses a command line, whose first item is the program's name, and ends the process if it is wrong or asks for help.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let command = Self::command().mut_subcommands(|command| command.after_help(EXIT_CODES));
        Self::from_arg_matches(&command.get_matches_from(arguments)).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists the entries.
    Ls(List),
    /// Shows all details of one entry, and verifies it; or lists the contents of a file of packed weights.
    Inspect(Inspect),
    /// Reads every entry to its end, and lists the damaged ones.
    Verify(Verify),
    /// Shows the size of the store, and the counters of all processes: hits, misses by reason, time saved.
    Stats(Stats),
    /// Evicts least recently used entries until the rest fits.
    Prune(Prune),
    /// Removes every entry, without asking. The counters stay.
    Clear {
        /// A cache directory, or an SQLite file.
        store: PathBuf,
    },
    /// Explains a miss: shows the stored entry nearest to the wanted one, and the fields that differ.
    Explain(Explain),
    /// Rewrites a file of packed weights without unreachable data, if it has any.
    Compact(Compact),
    /// Converts a file of packed weights to version 2, which is ExecuTorch's, or to version 3.
    ///
    /// Never give ExecuTorch and warmstart the same path: each takes the other's file for a damaged one, and ExecuTorch truncates
    /// a file that it cannot read.
    Convert(Convert),
    /// Checks a remote that many machines share, copies stores to it and from it, and shows what a machine used it for.
    #[command(subcommand)]
    Remote(Remote),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Remote {
    /// Measures the latency, and shows what the credentials permit: to read, to write, and to claim builds.
    Check {
        #[command(flatten)]
        place: Place,
    },
    /// Stores all entries of a local store that the remote lacks.
    Push {
        /// A cache directory, or an SQLite file.
        store: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Stores all entries of the remote that a local store lacks.
    Pull {
        #[command(flatten)]
        place: Place,
        /// A cache directory, or an SQLite file; a directory is created if it is missing.
        store: PathBuf,
    },
    /// Shows what the processes of a machine used a remote for.
    Stats {
        /// The directory of the fleet, as its programs name it.
        directory: PathBuf,
    },
}

/// A remote, and whom to trust there.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The remote: redis://host, rediss://host, s3://bucket/prefix or https://host/path.
    pub(crate) url: String,
    /// Reads the secret that seals the entries of the remote from a file of 32 bytes, or of 64 hexadecimal digits. May be repeated: the
    /// first one seals, and all are accepted.
    #[arg(long, value_name = "FILE", required_unless_present = "unsealed")]
    pub(crate) secret: Vec<PathBuf>,
    /// Accepts what anyone stores who may write to the remote.
    #[arg(long, conflicts_with = "secret")]
    pub(crate) unsealed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// Sorts by last use, age, size or build time; the most recent, newest, largest or slowest comes first.
    #[arg(long, value_name = "BY", default_value = "used")]
    pub(crate) sort: Order,
    /// Reverses the order.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Shows all 64 digits of each name.
    #[arg(long)]
    pub(crate) full: bool,
    /// Shows sizes in bytes.
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
    /// The entry's name, as `ls` shows it, or at least its first 4 digits. A file of packed weights takes none: all its entries
    /// are shown.
    #[arg(value_parser = prefix)]
    pub(crate) name: Option<String>,
    /// Writes the payload to this file after verifying it; `-` writes the payload alone to standard output.
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) payload: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A cache directory, or an SQLite file; or a file of packed weights.
    pub(crate) store: PathBuf,
    /// Removes damaged entries.
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// Prints the Prometheus text format.
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    /// Adds the label `store` with this value to every Prometheus sample.
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
pub(crate) struct Explain {
    /// A cache directory, or an SQLite file.
    pub(crate) store: PathBuf,
    /// Explains the last miss of all processes.
    #[arg(long, required_unless_present = "recipe", conflicts_with = "recipe")]
    pub(crate) last_miss: bool,
    /// Explains why this recipe misses. The JSON file holds the "recipe" that `inspect --json` prints, or its whole output; `-` reads
    /// standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) recipe: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// A file of packed weights of version 3.
    pub(crate) file: PathBuf,
    /// Keeps only the entries of this model, given by its file or its 64 digits; 64 zeros keep the entries of an unverified model.
    /// May be repeated.
    #[arg(long, value_name = "FILE|HEX")]
    pub(crate) model: Vec<OsString>,
    /// Waits at most this many seconds for another process that writes to the file.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A file of packed weights.
    pub(crate) file: PathBuf,
    /// Writes this version: 2, which is ExecuTorch's, or 3.
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u32).range(2..=3))]
    pub(crate) to: u32,
    /// Writes to this file, which must not exist, and keeps the original.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The model: its file, or the 64 digits that `b2sum -l 256` prints of that file. Version 3 records it in the entries without a
    /// model. Version 2 holds one model, so only the entries of this one are written.
    #[arg(long, value_name = "FILE|HEX")]
    pub(crate) model: Option<OsString>,
    /// Waits at most this many seconds for another process that writes to the file.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u32,
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let is_name = (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let wrong = "a name is 4 to 64 hexadecimal digits; `warmstart ls` shows them";
    is_name.then(|| text.to_ascii_lowercase()).ok_or(wrong)
}

#[cfg(test)]
mod tests {
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
