//! What SQLite was made to run, as its own trace tells: to count attempts, where an error does not show them.

use idempotency::SqliteOptions;
use rusqlite::{Connection, ffi};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard};

/// What the connections of one store have run. Never freed: a connection may outlive whoever looks.
#[derive(Default)]
pub struct Trace {
    connections: Mutex<usize>,
    statements: Mutex<Vec<String>>,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while it is held")
}

impl Trace {
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The options, with every connection traced from its first statement on.
    pub fn on(&'static self, options: SqliteOptions) -> SqliteOptions {
        self.with_setup(options, |_| Ok(()))
    }

    /// The same, with a set-up of the connection besides.
    pub fn with_setup(
        &'static self,
        options: SqliteOptions,
        setup: impl Fn(&Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> SqliteOptions {
        options.with_connection_setup(move |connection| {
            *unpoisoned(&self.connections) += 1;
            setup(connection)?;
            self.follow(connection);
            Ok(())
        })
    }

    fn follow(&'static self, connection: &Connection) {
        let context = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the handle is an open connection's, the callback has the signature that the interface asks
        // for, and its context is never freed and only read.
        let answer = unsafe {
            ffi::sqlite3_trace_v2(
                connection.handle(),
                ffi::SQLITE_TRACE_STMT as c_uint,
                Some(record),
                context,
            )
        };
        assert_eq!(answer, ffi::SQLITE_OK);
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        *unpoisoned(&self.connections)
    }

    /// How many statements that have `text` in them were begun.
    pub fn runs_of(&self, text: &str) -> usize {
        unpoisoned(&self.statements).iter().filter(|statement| statement.contains(text)).count()
    }

    /// Everything that was begun since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *unpoisoned(&self.statements))
    }
}

/// SQLite calls it when a statement begins: `text` is the statement's SQL, unexpanded.
unsafe extern "C" fn record(
    _event: c_uint,
    trace: *mut c_void,
    _statement: *mut c_void,
    text: *mut c_void,
) -> c_int {
    // SAFETY: the context that `follow` gave, and a string that SQLite keeps for the time of the call.
    let (trace, text) = unsafe { (&*trace.cast::<Trace>(), CStr::from_ptr(text.cast::<c_char>())) };
    unpoisoned(&trace.statements).push(text.to_string_lossy().into_owned());
    0
}
