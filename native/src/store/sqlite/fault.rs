//! What can go wrong below the store, and what is to be done about it.

use rusqlite::{ErrorCode, ffi};
use warmstart_core::reason::Reason;

use crate::{error::OpenError, os::reason_of};

/// Why a call on the database failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The call was refused; the connection is as good as before.
    Refused(Reason),
    /// The connection is of no use any more; the next call opens another one.
    Disconnected(Reason),
    /// The database is damaged: it is to be set aside.
    Damaged(Reason),
    /// Only the caller can mend it.
    Caller(OpenError),
}

impl Fault {
    /// The reason to be counted.
    pub(super) const fn reason(&self) -> Reason {
        match self {
            Self::Refused(reason) | Self::Disconnected(reason) | Self::Damaged(reason) => *reason,
            Self::Caller(error) if error.is_untrusted() => Reason::Untrusted,
            Self::Caller(_) => Reason::Unavailable,
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(failure, _) = error else {
            return match error {
                // The schema is ours and strict: another type, or a missing row, was not written by us.
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::QueryReturnedNoRows => Self::Damaged(Reason::Malformed),
                _ => Self::Disconnected(Reason::Unavailable),
            };
        };
        match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Self::Refused(Reason::Busy)
            }
            ErrorCode::NotADatabase => Self::Damaged(Reason::Foreign),
            ErrorCode::DatabaseCorrupt | ErrorCode::ConstraintViolation => Self::Damaged(Reason::Malformed),
            ErrorCode::DiskFull => Self::Refused(Reason::NoSpace),
            ErrorCode::TooBig => Self::Refused(Reason::TooLong),
            // The index of the log could not be made as long as it must be.
            _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Self::Disconnected(Reason::NoSpace),
            ErrorCode::ReadOnly => Self::Disconnected(Reason::ReadOnly),
            // Among them: an I/O error, a file that is gone, a schema that another version has changed meanwhile.
            _ => Self::Disconnected(Reason::Unavailable),
        }
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        Self::Caller(error)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Disconnected(match reason_of(&error) {
            // Of an entry it would say so; this is the database.
            Reason::Absent => Reason::Unavailable,
            reason => reason,
        })
    }
}
