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
    /// Makes `console` use colours from now on, or none. By default it uses them on a terminal, unless the environment says otherwise.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        match arguments.color {
            ColorChoice::Always => console::set_colors_enabled(true),
            ColorChoice::Never => console::set_colors_enabled(false),
            // `console` lets CLICOLOR_FORCE win.
            ColorChoice::Auto if env::var_os("NO_COLOR").is_some() => console::set_colors_enabled(false),
            ColorChoice::Auto => {}
        }
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
