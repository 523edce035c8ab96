//! Standard output: its width and its colours. It may be closed at any time.

use std::{
    env,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
    time::Duration,
};

use clap::ColorChoice;
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use serde_json::Value;
use warmstart::{Clock, SystemClock};

use crate::{arguments::Arguments, text::visible_json};

/// The output of results.
pub(crate) struct Screen {
    out: BufWriter<Stdout>,
    pub(crate) json: bool,
    /// The columns of the terminal, if there is one.
    pub(crate) width: Option<usize>,
    /// Milliseconds since 1970 UTC.
    pub(crate) now: u64,
}

impl Screen {
    /// Makes `console` use colours from now on, or none.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let is_terminal = io::stdout().is_terminal();
        console::set_colors_enabled(colors(arguments.color, is_terminal, |name| env::var(name).ok()));
        Self {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            json: arguments.json,
            width: Term::stdout().size_checked().map(|(_, columns)| columns.into()),
            now: arguments.now.unwrap_or_else(|| SystemClock.unix_ms()),
        }
    }

    /// Writes one line of JSON: an object with the fields of all `parts`, in their order.
    pub(crate) fn write_json(&mut self, parts: impl IntoIterator<Item = Value>) -> io::Result<()> {
        let fields = parts.into_iter().filter_map(|part| match part {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        let object = Value::Object(fields.flatten().collect());
        writeln!(self.out, "{}", visible_json(&object))
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns whether to use colours: by the option, else by the environment, else on a terminal.
fn colors(choice: ColorChoice, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is_zero = |name: &str| variable(name).as_deref() == Some("0");
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if is_set("NO_COLOR") => false,
        ColorChoice::Auto if is_set("CLICOLOR_FORCE") && !is_zero("CLICOLOR_FORCE") => true,
        ColorChoice::Auto => {
            is_terminal && !is_zero("CLICOLOR") && variable("TERM").as_deref() != Some("dumb")
        }
    }
}

/// Creates a progress bar on standard error, of `total` steps if their number is known. It is hidden at first, but measures its speed
/// from the start, and is removed when it is dropped.
pub(crate) fn progress(what: &'static str, total: Option<u64>) -> ProgressBar {
    let template = match total {
        Some(_) => "{msg} {bar:32.cyan/dim} {human_pos}/{human_len} {eta}",
        None => "{msg} {spinner} {human_pos}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
    bar.with_style(style.progress_chars("━╸─")).with_message(what).with_finish(ProgressFinish::AndClear)
}

/// Counts one step. After a second, the bar is shown if standard error is a terminal.
pub(crate) fn step(bar: &ProgressBar) {
    const DELAY: Duration = Duration::from_secs(1);
    bar.inc(1);
    if bar.is_hidden() && bar.elapsed() >= DELAY && io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_told_otherwise() {
        let auto = |is_terminal, set: &[(&str, &str)]| {
            let variable = |name: &str| {
                set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            };
            colors(ColorChoice::Auto, is_terminal, variable)
        };
        assert!(auto(true, &[]) && !auto(false, &[]));
        assert!(!auto(true, &[("NO_COLOR", "1")]) && auto(true, &[("NO_COLOR", "")]));
        assert!(auto(false, &[("CLICOLOR_FORCE", "1")]) && !auto(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!auto(true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
        assert!(!auto(true, &[("CLICOLOR", "0")]) && !auto(true, &[("TERM", "dumb")]));
        let no_color = |_: &str| Some("1".to_owned());
        assert!(colors(ColorChoice::Always, false, no_color) && !colors(ColorChoice::Never, true, |_| None));
    }
}
