//! The file: where it lies, what is in it, when it is ours, when it is dropped and made anew.
//!
//! Owns opening. Whoever opens holds a lock on the folder meanwhile, so that two Hosts over one file
//! never drop it under each other. Leaves keeping connections to `connections`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::{CatalogError, Verdict};
use crate::occurrences;

/// Says in the file's header whose it is: "Orry".
const APPLICATION_ID: i32 = 0x4f72_7279;
/// The version of the tables. Another one means that the file is made anew.
const SCHEMA_VERSION: i32 = 2;
/// The tables.
const SCHEMA: &str = include_str!("schema.sql");
/// The tables that are checked at every start. The index itself is not: reading all of it would cost
/// more than the lists that wait for it, and a damaged page of it is noticed by who needs it.
const CHECKED: &[&str] = &["state", "sessions"];
/// SQLite's files beside the database.
const BESIDE: &[&str] = &["-wal", "-shm", "-journal"];

/// Bytes of a page. Twice SQLite's own choice: fewer, longer reads of the index.
const PAGE_BYTES: i64 = 8192;
/// The most memory for pages of one connection, in KiB.
const CACHE_KIB: i64 = 2000;
/// The write-ahead log is cut back to this length when it has grown beyond.
const WAL_BYTES: i64 = 4 << 20;
/// How long a writer waits for the writer of another process.
const BUSY: Duration = Duration::from_secs(5);
/// How long opening waits for somebody else who opens.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// A database's header: where its fields lie (SQLite, "Database File Format", 1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const VERSION_AT: usize = 60;
const APPLICATION_AT: usize = 68;

/// Names of tables and indexes, and what made them.
type Tables = BTreeMap<String, Option<String>>;

/// Which files a connection holds. Others at the same paths mean that ours were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    main: (u64, u64),
    wal: Option<(u64, u64)>,
}

impl Identity {
    /// The files that lie at the path now; `None` without a database.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let inode = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let wal = beside(path, "-wal");
        Some(Self {
            main: fs::metadata(path).ok().map(inode)?,
            wal: fs::metadata(wal).ok().map(inode),
        })
    }

    /// Whether the databases are the same file.
    pub(crate) fn same_database(&self, other: &Self) -> bool {
        self.main == other.main
    }
}

/// How an existing file is to be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// It is used if a quick look finds nothing wrong.
    QuickLook,
    /// It is used if reading all of it finds nothing wrong.
    WholeLook,
    /// It is dropped.
    Anew,
}

/// A database that is ready.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) identity: Identity,
    /// Whether it was made just now.
    pub(crate) made: bool,
}

/// Opens the database for writing; makes it where there is none of use.
pub(crate) fn open(path: &Path, demand: Demand) -> Result<Opened, CatalogError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(place("make", folder))?;
    let _lock = lock(folder);
    if let Some(why) = reason_to_drop(path, demand)? {
        tracing::warn!(path = %path.display(), why, "the catalogue is dropped and made anew");
        drop_files(path)?;
    } else if !is_empty(path) {
        match existing(path, demand) {
            Ok(connection) => return opened(path, connection, false),
            Err(error) if error.verdict() == Verdict::Damaged => {
                tracing::warn!(path = %path.display(), %error, "the catalogue is dropped and made anew");
                drop_files(path)?;
            }
            Err(error) => return Err(error),
        }
    }
    // Without its database a write-ahead log is the rest of another one.
    for suffix in BESIDE {
        remove(&beside(path, suffix))?;
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600);
    file.open(path).map_err(place("make", path))?;
    let connection = connect(path)?;
    create(&connection)?;
    opened(path, connection, true)
}

/// A connection to a database in memory.
pub(crate) fn in_memory() -> Result<Connection, CatalogError> {
    let connection = Connection::open_in_memory()?;
    configure(&connection)?;
    create(&connection)?;
    Ok(connection)
}

/// A further connection, for reading.
pub(crate) fn reader(path: &Path) -> Result<Connection, CatalogError> {
    let connection = connect(path)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Drops the database's files, without asking whose they are.
fn drop_files(path: &Path) -> Result<(), CatalogError> {
    // The database first: who has it open sees that it is gone, and touches nothing beside it.
    remove(path)?;
    BESIDE
        .iter()
        .try_for_each(|suffix| remove(&beside(path, suffix)))
}

fn opened(path: &Path, connection: Connection, made: bool) -> Result<Opened, CatalogError> {
    let identity = Identity::of(path).ok_or_else(|| CatalogError::Place {
        action: "find",
        path: path.to_owned(),
        source: io::ErrorKind::NotFound.into(),
    })?;
    Ok(Opened {
        connection,
        identity,
        made,
    })
}

/// Judges the file by its header alone: nothing of another program is even opened, which might
/// change it.
fn reason_to_drop(path: &Path, demand: Demand) -> Result<Option<&'static str>, CatalogError> {
    let mut header = Vec::new();
    match File::open(path) {
        Ok(file) => {
            let mut start = file.take(HEADER_BYTES as u64);
            start
                .read_to_end(&mut header)
                .map_err(place("read", path))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place("read", path)(error)),
    }
    if header.is_empty() {
        return Ok(None);
    }
    let number = |at: usize| {
        let bytes = header
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map(i32::from_be_bytes)
    };
    if !header.starts_with(MAGIC) {
        return Ok(Some("it is not a database"));
    }
    match (number(APPLICATION_AT), number(VERSION_AT)) {
        (Some(APPLICATION_ID), Some(SCHEMA_VERSION)) => {
            Ok((demand == Demand::Anew).then_some("it was asked for"))
        }
        (Some(APPLICATION_ID), _) => Ok(Some("it is of another version")),
        (Some(other), _) => Err(CatalogError::Foreign {
            path: path.to_owned(),
            why: format!("application id {other:#x}"),
        }),
        (None, _) => Ok(Some("it is torn")),
    }
}

/// Opens a database whose header is ours.
fn existing(path: &Path, demand: Demand) -> Result<Connection, CatalogError> {
    let connection = connect(path)?;
    let tables = tables(&connection)?;
    let ours = ours()?;
    if let Some(unknown) = tables.keys().find(|name| !ours.contains_key(*name)) {
        return Err(CatalogError::Foreign {
            path: path.to_owned(),
            why: format!("{unknown:?} is in it"),
        });
    }
    if tables != *ours {
        return Err(CatalogError::Damaged("a table is not as it was".to_owned()));
    }
    if demand == Demand::WholeLook {
        sound(&connection, "PRAGMA quick_check(1)")?;
    } else {
        for table in CHECKED {
            sound(&connection, &format!("PRAGMA quick_check({table})"))?;
        }
    }
    // FTS5 reads its own configuration and structure with the first search.
    let look =
        "SELECT generation, (SELECT rowid FROM text WHERE text MATCH '\"a\"' LIMIT 1) FROM state";
    connection
        .query_row(look, [], |row| row.get::<_, i64>(0))
        .map_err(|error| CatalogError::Damaged(error.to_string()))?;
    Ok(connection)
}

/// What is in a database, with the statements that made it.
fn tables(connection: &Connection) -> Result<Tables, CatalogError> {
    let sql = "SELECT name, sql FROM sqlite_schema";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<Tables, _>>()?)
}

/// What is in a database of ours.
fn ours() -> Result<&'static Tables, CatalogError> {
    static OURS: OnceLock<Tables> = OnceLock::new();
    match OURS.get() {
        Some(ours) => Ok(ours),
        None => {
            let ours = tables(&in_memory()?)?;
            Ok(OURS.get_or_init(|| ours))
        }
    }
}

fn sound(connection: &Connection, pragma: &str) -> Result<(), CatalogError> {
    let verdict: String = connection.query_row(pragma, [], |row| row.get(0))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(CatalogError::Damaged(verdict))
    }
}

fn connect(path: &Path) -> Result<Connection, CatalogError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    configure(&connection)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), CatalogError> {
    connection.busy_timeout(BUSY)?;
    // Not mapped into memory: a file that somebody cuts short would end the process.
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // What a lost commit costs is indexed again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    occurrences::register(connection)?;
    Ok(())
}

/// Fills an empty database. Whose it is stands in the file before the write-ahead log begins, and
/// together with the tables: a crash leaves all of it or nothing.
fn create(connection: &Connection) -> Result<(), CatalogError> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; \
         PRAGMA user_version = {SCHEMA_VERSION}; {SCHEMA}"
    ))?;
    let instance = uuid::Uuid::new_v4().hyphenated().to_string();
    connection.execute(
        "INSERT INTO state (singleton, instance, generation) VALUES (1, ?1, 0)",
        [instance],
    )?;
    connection.execute_batch("COMMIT")?;
    // Where the file system cannot share memory SQLite keeps its older way, which does as well.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // Makes the write-ahead log, so that its identity is known from now on.
    connection.execute_batch("UPDATE state SET generation = 1")?;
    Ok(())
}

/// Waits for the others who open, for a bounded time: where locks do not work, it goes without.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    let mut waited = Duration::ZERO;
    while waited < LOCK_WAIT {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
            Err(fs::TryLockError::Error(_)) => return None,
        }
        waited += LOCK_POLL;
    }
    None
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |metadata| metadata.len() == 0)
}

fn remove(path: &Path) -> Result<(), CatalogError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(place("remove", path)(error)),
        _ => Ok(()),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn place(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CatalogError {
    let path = path.to_owned();
    move |source| CatalogError::Place {
        action,
        path,
        source,
    }
}
