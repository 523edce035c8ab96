//! The failure of a sub-command.

use std::io;

use thiserror::Error;
use warmstart::MissReason;

/// A failure: a code for programs and a message for people, or a closed or full standard output.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// `code` is stable and in snake case; the message names the cause, the value and the remedy.
    #[error("{message}")]
    Found { code: &'static str, message: String },
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self::Found { code, message: message.into() }
    }

    /// Creates the failure of a store that refused an operation.
    pub(crate) fn of_store(verb: &str, path: &str, reason: MissReason) -> Self {
        let remedy = match reason {
            MissReason::NewerVersion => "; use that version's command",
            MissReason::Busy => "; try again",
            MissReason::ReadOnly => "; remount it read-write, or copy it to a writable place",
            MissReason::Unavailable => "; check that its disk is mounted and works, and that you may read it",
            MissReason::Untrusted => "; make it yours with chown and chmod go-w, or use one of your own",
            MissReason::NoSpace => "; free space on its disk",
            MissReason::Closed => "; run this again",
            _ => "",
        };
        Self::new(reason.as_str(), format!("cannot {verb} {path}: {reason}{remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_a_store_names_a_remedy() {
        for reason in [
            MissReason::Busy,
            MissReason::Closed,
            MissReason::NewerVersion,
            MissReason::NoSpace,
            MissReason::ReadOnly,
            MissReason::Unavailable,
            MissReason::Untrusted,
        ] {
            let message = Failure::of_store("read", "it", reason).to_string();
            assert!(message.starts_with(&format!("cannot read it: {reason}; ")), "{message}");
        }
    }
}
