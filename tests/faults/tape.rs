//! What a disk was asked to change, in the order in which it was: [`Tape`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A file with its bytes, whichever name leads to it: one that is made anew is another file.
pub type FileId = usize;

/// The files of a folder, by name.
pub type Folder = BTreeMap<String, Vec<u8>>;

/// The files of the folder at `path`, but for the shared memory: no loss of power leaves that.
pub fn folder_at(path: &Path) -> Folder {
    let entries = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| (entry.file_name().into_string().expect("a name of ours"), entry.path()))
        .filter(|(name, _)| !name.ends_with("-shm"))
        .map(|(name, path)| (name, fs::read(path).expect("a file")))
        .collect()
}

pub enum Change {
    /// The name leads to a new, empty file from here on.
    Create {
        name: String,
    },
    Delete {
        name: String,
    },
    Write {
        file: FileId,
        offset: usize,
        bytes: Box<[u8]>,
    },
    Truncate {
        file: FileId,
        len: usize,
    },
    /// What the file has is there for good.
    Sync {
        file: FileId,
    },
    /// What the folder's names lead to is there for good.
    SyncFolder,
}

pub struct Tape {
    /// What there was before the first change, for good.
    pub before: Folder,
    pub changes: Vec<Change>,
    /// Whether the disk says of syncs that they are done, and does nothing.
    ignores_syncs: bool,
    names: BTreeMap<String, FileId>,
    files: usize,
}

impl Tape {
    pub fn new(before: Folder, ignores_syncs: bool) -> Self {
        let names: BTreeMap<_, _> = before.keys().cloned().zip(0..).collect();
        Self { files: names.len(), before, changes: Vec::new(), ignores_syncs, names }
    }

    /// The file that was opened by this name, which is a new one if there was none.
    pub fn opened(&mut self, name: String) -> FileId {
        if let Some(file) = self.names.get(&name) {
            return *file;
        }
        let file = self.files;
        self.files += 1;
        self.names.insert(name.clone(), file);
        self.changes.push(Change::Create { name });
        file
    }

    pub fn deleted(&mut self, name: String, is_synced: bool) {
        self.names.remove(&name);
        self.changes.push(Change::Delete { name });
        if is_synced && !self.ignores_syncs {
            self.changes.push(Change::SyncFolder);
        }
    }

    pub fn changed(&mut self, change: Change) {
        let is_sync = matches!(change, Change::Sync { .. } | Change::SyncFolder);
        if !(is_sync && self.ignores_syncs) {
            self.changes.push(change);
        }
    }
}
