//! Why a sub-command could not do what it was asked.

use std::{fmt, io};

use serde_json::json;
use warmstart::Reason;

use crate::screen::Screen;

/// A failure, with a name for programs and a sentence for people. A closed or full standard output is one, too.
#[derive(Debug)]
pub(crate) enum Failure {
    Found { code: &'static str, message: String },
    Output(io::Error),
}

impl Failure {
    /// `code` is stable and in snake case; the message says what was found and what to do.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self::Found { code, message: message.into() }
    }

    /// A store that is there does not do what it should.
    pub(crate) fn of_store(what: &str, path: &str, reason: Reason) -> Self {
        let remedy = match reason {
            Reason::NewerVersion => "; use that version's command",
            Reason::Busy => "; try again",
            Reason::ReadOnly => "; remount it, or copy it to where it can be written",
            Reason::Unavailable => "; see that its disk is there and works, and that you may read it",
            Reason::Untrusted => "; make it yours with chown and chmod go-w, or use one of your own",
            Reason::NoSpace => "; make room on its disk",
            Reason::Closed => "; run this again",
            _ => "",
        };
        Self::new(reason.as_str(), format!("{what} {path}: {reason}{remedy}"))
    }

    /// What a program that asked for JSON gets.
    pub(crate) fn write_json(&self, screen: &mut Screen) -> io::Result<()> {
        match self {
            Self::Found { code, message } => {
                screen.json(&json!({ "error": { "code": code, "message": message } }))
            }
            Self::Output(_) => Ok(()),
        }
    }

    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { message, .. } => f.write_str(message),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_happens_to_a_store_there_is_something_to_do() {
        for reason in [
            Reason::Busy,
            Reason::Closed,
            Reason::NewerVersion,
            Reason::NoSpace,
            Reason::ReadOnly,
            Reason::Unavailable,
            Reason::Untrusted,
        ] {
            let message = Failure::of_store("cannot read", "it", reason).to_string();
            assert!(message.starts_with(&format!("cannot read it: {reason}; ")), "{message}");
        }
    }
}
