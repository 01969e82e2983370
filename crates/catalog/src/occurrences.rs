//! `occurrences(text, pattern)`: how often the phrases of a query occur in a document, as an
//! auxiliary function of FTS5.
//!
//! The only unsafe code of the crate: FTS5 tells places of matches to functions of C alone, and its
//! own `bm25` counts something else. The rule of counting is that of `orrery_query::search::words`:
//! for each phrase of a query the larger of the places where its words stand and the places where
//! its joined form begins. FTS5 knows one phrase for each of the two, so the pattern has a letter
//! for each phrase of FTS5:
//!
//! - `w`: the words of the next phrase;
//! - `b`: the next phrase, one word that means both: in the first column itself, in the second the
//!   joined form;
//! - `j`: the joined form of the phrase before, in both columns.
//!
//! Phrases behind those of the pattern do not count.

#![expect(
    unsafe_code,
    reason = "an auxiliary function of FTS5 can be registered and called through its C interface only"
)]

use std::ffi::{c_int, c_void};
use std::ptr;

use rusqlite::{Connection, Error, Result, ffi};

/// The column of the words; behind it is that of joined identifiers. No phrase of the pattern looks
/// into others.
const WORDS: c_int = 0;

/// Makes the function known to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let mut api: *mut ffi::fts5_api = ptr::null_mut();
    let mut statement: *mut ffi::sqlite3_stmt = ptr::null_mut();
    // SAFETY: the handle is used while `connection` is borrowed, and is not closed.
    let database = unsafe { connection.handle() };
    // SAFETY: the text ends in NUL, and `statement` is a place for the result.
    let prepared = unsafe {
        ffi::sqlite3_prepare_v2(
            database,
            c"SELECT fts5(?1)".as_ptr(),
            -1,
            &raw mut statement,
            ptr::null_mut(),
        )
    };
    check(prepared)?;
    // SAFETY: `fts5()` writes the address of its interface to where a pointer of this type name
    // points. `api` lives until the statement is finalised below. No destructor is needed.
    let bound = unsafe {
        ffi::sqlite3_bind_pointer(
            statement,
            1,
            (&raw mut api).cast::<c_void>(),
            c"fts5_api_ptr".as_ptr(),
            None,
        )
    };
    // SAFETY: the statement was prepared above; stepping it is what calls `fts5()`.
    let stepped = if bound == ffi::SQLITE_OK {
        unsafe { ffi::sqlite3_step(statement) }
    } else {
        bound
    };
    // SAFETY: the statement was prepared above and is not used afterwards.
    unsafe { ffi::sqlite3_finalize(statement) };
    if stepped != ffi::SQLITE_ROW {
        check(stepped)?;
    }
    // SAFETY: FTS5 left null or the address of its interface, which lives as long as the database.
    let Some(create) = (unsafe { api.as_ref() }).and_then(|api| api.xCreateFunction) else {
        return Err(Error::InvalidQuery);
    };
    // SAFETY: `api` is the interface that `create` belongs to. The name ends in NUL and is copied;
    // the function has no state, so that nothing has to be destroyed.
    let created = unsafe {
        create(
            api,
            c"occurrences".as_ptr(),
            ptr::null_mut(),
            Some(occurrences),
            None,
        )
    };
    check(created)
}

fn check(code: c_int) -> Result<()> {
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(Error::SqliteFailure(ffi::Error::new(code), None))
    }
}

/// Called by FTS5 for a matching row. Nothing in it panics: that must not cross into C.
///
/// # Safety
/// FTS5 calls this with its own interface, the cursor and the context of one call, and `count`
/// values at `values`, all alive until it returns.
unsafe extern "C" fn occurrences(
    api: *const ffi::Fts5ExtensionApi,
    cursor: *mut ffi::Fts5Context,
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as this function's own contract says.
    let counted = unsafe { total(api, cursor, count, values) };
    match counted {
        // SAFETY: the context is the one of this call.
        Ok(total) => unsafe { ffi::sqlite3_result_int64(context, total) },
        // SAFETY: the same.
        Err(code) => unsafe { ffi::sqlite3_result_error_code(context, code) },
    }
}

/// The number, or the code of a failure.
///
/// # Safety
/// As of [`occurrences`].
unsafe fn total(
    api: *const ffi::Fts5ExtensionApi,
    cursor: *mut ffi::Fts5Context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) -> std::result::Result<i64, c_int> {
    if count != 1 {
        return Err(ffi::SQLITE_MISUSE);
    }
    // SAFETY: there is one value.
    let value = unsafe { *values };
    // SAFETY: the value is alive; the text stays valid until the value is converted, which nobody does.
    let text = unsafe { ffi::sqlite3_value_text(value) };
    // SAFETY: the same; asked after the text, so that it is the length of that text.
    let length = unsafe { ffi::sqlite3_value_bytes(value) };
    if text.is_null() {
        return Err(ffi::SQLITE_MISUSE);
    }
    let length = usize::try_from(length).unwrap_or_default();
    // SAFETY: SQLite says that so many bytes are there.
    let pattern = unsafe { std::slice::from_raw_parts(text, length) };
    let mut total = 0;
    let (mut words, mut joined) = (0, 0);
    for (phrase, kind) in (0..).zip(pattern) {
        if *kind != b'j' {
            total += i64::max(words, joined);
            (words, joined) = (0, 0);
        }
        // SAFETY: as this function's own contract says.
        let (first, second) = unsafe { places(api, cursor, phrase) }?;
        match kind {
            b'w' => words = first + second,
            b'b' => (words, joined) = (first, second),
            _ => joined = first + second,
        }
    }
    Ok(total + i64::max(words, joined))
}

/// In how many places of the first and of the second column a phrase occurs.
///
/// # Safety
/// As of [`occurrences`].
unsafe fn places(
    api: *const ffi::Fts5ExtensionApi,
    cursor: *mut ffi::Fts5Context,
    phrase: c_int,
) -> std::result::Result<(i64, i64), c_int> {
    // SAFETY: the interface is alive for the call.
    let known = unsafe { api.as_ref() }.and_then(|api| Some((api.xPhraseFirst?, api.xPhraseNext?)));
    let Some((first, next)) = known else {
        return Err(ffi::SQLITE_ERROR);
    };
    let mut places = ffi::Fts5PhraseIter {
        a: ptr::null(),
        b: ptr::null(),
    };
    let (mut column, mut offset): (c_int, c_int) = (-1, -1);
    // SAFETY: `cursor` belongs to this interface; FTS5 checks the phrase's number.
    let code = unsafe {
        first(
            cursor,
            phrase,
            &raw mut places,
            &raw mut column,
            &raw mut offset,
        )
    };
    if code != ffi::SQLITE_OK {
        return Err(code);
    }
    let mut counts = (0, 0);
    // FTS5 says -1 behind the last place.
    while column >= 0 {
        if column == WORDS {
            counts.0 += 1;
        } else {
            counts.1 += 1;
        }
        // SAFETY: `places` was filled by `first` for this row, and the row has not changed.
        unsafe {
            next(cursor, &raw mut places, &raw mut column, &raw mut offset);
        };
    }
    Ok(counts)
}
