//! Standard output: its width, its colours, and that it may be closed at any time.

use std::{
    env,
    fmt::Display,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use console::{Style, Term};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::{
    arguments::{ColorChoice, Global},
    text::VisibleJson,
};

/// Where results go.
pub(crate) struct Screen {
    out: BufWriter<Stdout>,
    pub(crate) json: bool,
    pub(crate) paint: Paint,
    /// The columns of the terminal; nothing if there is none.
    pub(crate) width: Option<u16>,
    /// Milliseconds since 1970 UTC.
    pub(crate) now: u64,
}

impl Screen {
    pub(crate) fn new(global: &Global) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let columns = || Term::stdout().size_checked().map(|(_, columns)| columns);
        let clock = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        };
        Self {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            json: global.json,
            paint: Paint { is_on: colors(global.color, is_terminal, |name| env::var(name).ok()) },
            width: if is_terminal { columns() } else { None },
            now: global.now.unwrap_or_else(clock),
        }
    }

    /// Writes one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut self.out, VisibleJson))?;
        writeln!(self.out)
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

/// Whether to use colours: as was asked for, else as the environment says, else on a terminal.
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

/// What a piece of text is, which decides how it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Heading,
    Name,
    Faint,
    Good,
    Bad,
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    pub(crate) fn apply(self, tone: Tone, text: impl Display) -> String {
        let text = text.to_string();
        let style = match tone {
            _ if !self.is_on || text.is_empty() => return text,
            Tone::Plain => return text,
            Tone::Heading => Style::new().bold(),
            Tone::Name => Style::new().yellow(),
            Tone::Faint => Style::new().dim(),
            Tone::Good => Style::new().green(),
            Tone::Bad => Style::new().red(),
        };
        style.force_styling(true).apply_to(text).to_string()
    }
}

/// A bar on standard error, if that is a terminal, from when something has taken a second.
pub(crate) struct Progress {
    /// Hidden at first, so that it knows from the beginning how fast it goes.
    bar: ProgressBar,
}

impl Progress {
    const DELAY: Duration = Duration::from_secs(1);

    /// Of `total` steps, if their number is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => "{msg} {bar:32.cyan/dim} {human_pos}/{human_len} {eta}",
            None => "{msg} {spinner} {human_pos}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        Self { bar: bar.with_style(style.progress_chars("━╸─")).with_message(what) }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.bar.inc(1);
        if self.bar.is_hidden() && self.bar.elapsed() >= Self::DELAY && io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
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
