//! The folder: what is in it, and how a file takes the place of another, so that a crash leaves one of the two.

use super::codec;
use idempotency::{BackendError, Error, FencingToken, Fingerprint, Record, RecordId, StoreId, Timestamp};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What `store` begins with; changes with the names and the meaning of the files.
const LAYOUT: &[u8] = b"file-per-key 1 ";
/// A record's name of a file begins with it.
const RECORD: &str = "r-";
/// What a file is called until it is whole.
const UNFINISHED: &str = "unfinished";

pub struct Files {
    folder: PathBuf,
    last_token: FencingToken,
    /// When each record expires, and its file: a sweep looks at no others.
    expiries: BTreeSet<(Timestamp, String)>,
    /// A file was replaced or removed, and the folder could not be synced since.
    owes_sync: bool,
    /// Closing it leaves the folder to others.
    _lock: File,
}

impl Files {
    pub fn open(folder: &Path) -> Result<(Self, StoreId), BackendError> {
        let lock = File::create(folder.join("lock")).map_err(not_opened)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => BackendError::busy(),
            TryLockError::Error(error) => not_opened(error),
        })?;
        let mut files = Self {
            folder: folder.to_owned(),
            last_token: FencingToken::FIRST,
            expiries: BTreeSet::new(),
            // What a process renamed before it was killed may not last yet.
            owes_sync: true,
            _lock: lock,
        };
        files.settle()?;
        let id = files.store_id()?;
        // At least the wall clock's: in a folder that was restored from a copy, the counter is an old one.
        files.last_token = files.stored_token()?.max(FencingToken::at_wall_clock());
        files.list_records()?;
        Ok((files, id))
    }

    /// Syncs the folder if an earlier command could not: what it wrote may not last, and nobody is to be answered by
    /// it before it does.
    pub fn settle(&mut self) -> Result<(), BackendError> {
        if self.owes_sync {
            self.sync_folder().map_err(|error| BackendError::unavailable().with_source(error))?;
        }
        Ok(())
    }

    pub const fn last_token(&self) -> FencingToken {
        self.last_token
    }

    /// The next token, never below the wall clock: another copy of the folder may be in use, too. Whatever comes of
    /// the writing, its number is used up.
    pub fn draw_token(&mut self) -> Result<(), BackendError> {
        let next = self.last_token.get().checked_add(1).and_then(FencingToken::new);
        let next = next.ok_or_else(BackendError::tokens_exhausted)?;
        self.last_token = next.max(FencingToken::at_wall_clock());
        let digits = self.last_token.to_string();
        self.replace("token", digits.as_bytes()).map_err(|error| {
            // Only of the number is it unknown whether it lasts: nothing was claimed by it.
            if error.is_indefinite() { BackendError::unavailable().with_source(error) } else { error }
        })
    }

    /// The record under `id`, expired or not.
    pub fn record(&self, id: &RecordId) -> Result<Option<Record>, BackendError> {
        self.load_record(&name_of(id))
    }

    /// `new` under `id`, in the place of `old`.
    pub fn put(&mut self, id: &RecordId, old: Option<&Record>, new: &Record) -> Result<(), BackendError> {
        new.check().map_err(|error| BackendError::bug("a record breaks an invariant").with_source(error))?;
        let name = name_of(id);
        // First, so that a sweep finds it whatever comes of the writing. One entry too many does no harm.
        self.expiries.insert((new.expires_at, name.clone()));
        self.replace(&name, &codec::encode(id, new))?;
        if let Some(old) = old.filter(|old| old.expires_at != new.expires_at) {
            self.expiries.remove(&(old.expires_at, name));
        }
        Ok(())
    }

    pub fn delete(&mut self, id: &RecordId, old: Option<&Record>) -> Result<(), BackendError> {
        let name = name_of(id);
        fs::remove_file(self.folder.join(&name)).map_err(|error| self.perhaps_done(error))?;
        if let Some(old) = old {
            self.expiries.remove(&(old.expires_at, name));
        }
        self.sync_folder().map_err(|error| BackendError::indefinite().with_source(error))
    }

    /// The first record that has expired. An entry that is not true any more is mended. One whose file can't be read
    /// is left out until the store is opened again: it must not stop the others from being removed.
    pub fn first_expired(&mut self, now: Timestamp) -> Result<Option<(Timestamp, String)>, BackendError> {
        while let Some((filed, name)) = self.expiries.first().cloned() {
            if !filed.is_over(now) {
                return Ok(None);
            }
            let record = self.load_record(&name).ok().flatten();
            match record.map(|record| record.expires_at) {
                Some(expires_at) if expires_at == filed => return Ok(Some((filed, name))),
                expires_at => {
                    self.expiries.remove(&(filed, name.clone()));
                    self.expiries.extend(expires_at.map(|expires_at| (expires_at, name)));
                }
            }
        }
        Ok(None)
    }

    /// Removes what [`first_expired`](Self::first_expired) gave. Not synced: if it comes back, it has still expired.
    pub fn remove_expired(&mut self, expired: &(Timestamp, String)) -> Result<(), BackendError> {
        fs::remove_file(self.folder.join(&expired.1)).map_err(|error| self.perhaps_done(error))?;
        self.expiries.remove(expired);
        Ok(())
    }

    fn store_id(&mut self) -> Result<StoreId, BackendError> {
        if let Some(bytes) = self.load("store")? {
            let id = bytes.strip_prefix(LAYOUT).ok_or_else(|| BackendError::foreign("an unknown layout"))?;
            let id = id.try_into().map_err(|_| BackendError::corrupt("the id of the store"))?;
            return Ok(StoreId::from_bytes(id));
        }
        let id = StoreId::random();
        self.replace("store", &[LAYOUT, id.as_bytes()].concat())?;
        Ok(id)
    }

    fn stored_token(&self) -> Result<FencingToken, BackendError> {
        let Some(bytes) = self.load("token")? else { return Ok(FencingToken::FIRST) };
        let number = String::from_utf8(bytes).ok().and_then(|digits| digits.parse().ok());
        number.and_then(FencingToken::new).ok_or_else(|| BackendError::corrupt("the highest token"))
    }

    /// Looks at every record. One that is damaged has no entry: it stays, and says so when it is asked for.
    fn list_records(&mut self) -> Result<(), BackendError> {
        for entry in fs::read_dir(&self.folder).map_err(not_opened)? {
            let name = entry.map_err(not_opened)?.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(RECORD)) else { continue };
            if let Ok(Some(record)) = self.load_record(name) {
                self.expiries.insert((record.expires_at, name.to_owned()));
                // If `token` was lost.
                self.last_token = self.last_token.max(record.token);
            }
        }
        Ok(())
    }

    /// The record in the file of this name. One that was copied over another's is damage, too.
    fn load_record(&self, name: &str) -> Result<Option<Record>, BackendError> {
        let Some(bytes) = self.load(name)? else { return Ok(None) };
        let (id, record) = codec::decode(&bytes)?;
        if name_of(&id) == name {
            Ok(Some(record))
        } else {
            Err(BackendError::corrupt("a record of another key"))
        }
    }

    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        match fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackendError::other(error)),
        }
    }

    /// Puts a file of these bytes in the place of the one of this name: written beside it, synced, renamed, and the
    /// folder synced.
    fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        let unfinished = self.folder.join(UNFINISHED);
        let mut file = File::create(&unfinished).map_err(nothing_done)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(nothing_done)?;
        fs::rename(&unfinished, self.folder.join(name)).map_err(|error| self.perhaps_done(error))?;
        // From here on it is done, and whether it lasts is known only once the folder is synced.
        self.sync_folder().map_err(|error| BackendError::indefinite().with_source(error))
    }

    /// An error of the very act: only what the system finds before it says that nothing was done.
    fn perhaps_done(&mut self, error: io::Error) -> BackendError {
        let error = nothing_done(error);
        if matches!(Error::from(error.clone()), Error::Full(_) | Error::ReadOnly(_)) {
            return error;
        }
        self.owes_sync = true;
        BackendError::indefinite().with_source(error)
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.owes_sync = true;
        File::open(&self.folder)?.sync_all()?;
        self.owes_sync = false;
        Ok(())
    }
}

/// A digest: names may have any bytes, mean something to a file system, or be too long for it. It frames its parts, so
/// that no two pairs of scope and key run into one another.
fn name_of(id: &RecordId) -> String {
    let name =
        Fingerprint::builder().field("scope", id.scope.as_str()).field("key", id.key.as_str()).finish();
    let digits = name.digest().iter().map(|byte| format!("{byte:02x}"));
    RECORD.chars().map(String::from).chain(digits).collect()
}

/// An error before anything took the place of something else.
fn nothing_done(error: io::Error) -> BackendError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BackendError::full().with_source(error),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            BackendError::read_only().with_source(error)
        }
        _ => BackendError::other(error),
    }
}

fn not_opened(error: io::Error) -> BackendError {
    BackendError::cannot_open().with_source(error)
}
