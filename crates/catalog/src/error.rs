//! What can go wrong with the file, and what follows from it.

use std::io;
use std::path::PathBuf;

use orrery_projection::checkpoint::CheckpointError;
use orrery_query::search::IndexError;
use rusqlite::{Error as Sqlite, ErrorCode, ffi};

/// Why the catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Another program's database lies at the path. It is left as it is.
    #[error("{path} is a database of another program ({why}); it is left alone", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How it was recognised.
        why: String,
    },
    /// The file or its folder cannot be made, looked at or removed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Place {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("the database failed: {0}")]
    Database(#[from] Sqlite),
    /// What was read cannot be ours.
    #[error("the database is damaged: {0}")]
    Damaged(String),
    /// The file was lost since somebody last asked what is indexed.
    #[error("the index was lost and is empty: ask which sessions it holds, and feed it again")]
    Lost,
}

/// What a failure says about the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: the disk is full, somebody else writes.
    Sound,
    /// The connections are of no use; the file may be.
    Suspect,
    /// It has to be made anew.
    Damaged,
}

impl CatalogError {
    /// What to do about the file.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Damaged(_) => Verdict::Damaged,
            Self::Database(error) => verdict_of(error),
            Self::Foreign { .. } | Self::Place { .. } | Self::Lost => Verdict::Sound,
        }
    }
}

fn verdict_of(error: &Sqlite) -> Verdict {
    match error {
        // A value of a type that we never write.
        Sqlite::InvalidColumnType(..)
        | Sqlite::FromSqlConversionFailure(..)
        | Sqlite::IntegralValueOutOfRange(..)
        | Sqlite::Utf8Error(..) => Verdict::Damaged,
        Sqlite::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Verdict::Damaged,
            ErrorCode::SystemIoFailure
                if matches!(
                    failure.extended_code,
                    ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS
                ) =>
            {
                Verdict::Damaged
            }
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::SchemaChanged
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch => Verdict::Suspect,
            // Among others a table that is gone and an index in a form that FTS5 does not know.
            ErrorCode::Unknown => Verdict::Suspect,
            _ => Verdict::Sound,
        },
        Sqlite::SqlInputError { .. } | Sqlite::QueryReturnedNoRows => Verdict::Suspect,
        _ => Verdict::Sound,
    }
}

impl From<CatalogError> for IndexError {
    fn from(error: CatalogError) -> Self {
        Self(error.to_string())
    }
}

impl From<CatalogError> for CheckpointError {
    fn from(error: CatalogError) -> Self {
        Self(error.to_string())
    }
}
