//! Faults of a database, and how the store reacts to each.

use rusqlite::{ErrorCode, ffi};
use warmstart_core::reason::MissReason;

use crate::{error::OpenError, os::reason_of};

/// A failed call on the database.
#[derive(Debug)]
pub(super) enum DbError {
    /// The call was refused. The connection stays usable.
    Refused(MissReason),
    /// The connection is unusable. The next call opens another one.
    Disconnected(MissReason),
    /// The database is damaged, and must be quarantined.
    Damaged(MissReason),
    /// Only the caller can correct it.
    Caller(OpenError),
}

impl DbError {
    /// Returns the reason that is counted.
    pub(super) const fn reason(&self) -> MissReason {
        match self {
            Self::Refused(reason) | Self::Disconnected(reason) | Self::Damaged(reason) => *reason,
            Self::Caller(error) if error.is_untrusted() => MissReason::Untrusted,
            Self::Caller(_) => MissReason::Unavailable,
        }
    }
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(failure, _) = error else {
            return match error {
                // The schema is ours and strict, so another type or a missing row was not written by this crate.
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::Utf8Error(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::QueryReturnedNoRows => Self::Damaged(MissReason::Malformed),
                _ => Self::Disconnected(MissReason::Unavailable),
            };
        };
        match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Self::Refused(MissReason::Busy)
            }
            ErrorCode::NotADatabase => Self::Damaged(MissReason::Foreign),
            ErrorCode::DatabaseCorrupt | ErrorCode::ConstraintViolation => {
                Self::Damaged(MissReason::Malformed)
            }
            ErrorCode::DiskFull => Self::Refused(MissReason::NoSpace),
            ErrorCode::TooBig => Self::Refused(MissReason::TooLong),
            // The index of the log could not grow to its length.
            _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
                Self::Disconnected(MissReason::NoSpace)
            }
            ErrorCode::ReadOnly => Self::Disconnected(MissReason::ReadOnly),
            // For example an I/O error, a missing file, or a schema that another version changed in the meantime.
            _ => Self::Disconnected(MissReason::Unavailable),
        }
    }
}

impl From<OpenError> for DbError {
    fn from(error: OpenError) -> Self {
        Self::Caller(error)
    }
}

impl From<std::io::Error> for DbError {
    fn from(error: std::io::Error) -> Self {
        Self::Disconnected(match reason_of(&error) {
            // For an entry this would be the right reason; here it is the database.
            MissReason::Absent => MissReason::Unavailable,
            reason => reason,
        })
    }
}
