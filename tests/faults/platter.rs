//! What a disk holds after the changes of a tape, and what is left of that if the power goes: [`Platter`].
//!
//! What was synced is there. Of what was not, each sector of 512 bytes is left as any of the writes to it left it,
//! or none; each file is as long as it was at any moment since; and each name leads to any of the files that it
//! has led to since. No order among them is kept.
//!
//! What it never does, and SQLite relies on: a sector that is being written keeps its other bytes, and is never garbage
//! (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`); a file that was made longer has zeros there; a sync that failed has lost nothing of
//! what was written before it.

use crate::dice::Dice;
use crate::tape::{Change, FileId, Folder};
use std::collections::BTreeMap;
use std::ops::Range;

const SECTOR: usize = 512;

/// What is left of that which was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    All,
    Nothing,
    /// All but some sectors of the write that came last.
    TornWrite,
    /// Each sector, length and name by itself: of so many in eight the newest, of the others any.
    Some(usize),
}

/// One file.
struct File {
    synced: Vec<u8>,
    now: Vec<u8>,
    /// Of each sector that was written to since the last sync, what each write left.
    sectors: BTreeMap<usize, Vec<[u8; SECTOR]>>,
    /// The lengths that it was brought to since.
    lens: Vec<usize>,
}

/// The bytes of a sector, zeros where the file has none.
fn sector(bytes: &[u8], number: usize) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    let part = bytes.get(number * SECTOR..).unwrap_or(&[]);
    let len = part.len().min(SECTOR);
    sector[..len].copy_from_slice(&part[..len]);
    sector
}

/// The newest in `newest` cases of eight, else any of `versions`, or none of them.
fn draw<'v, T>(versions: &'v [T], newest: usize, dice: &mut Dice) -> Option<&'v T> {
    if dice.between(1, 8) <= newest {
        return versions.last();
    }
    dice.between(0, versions.len()).checked_sub(1).map(|version| &versions[version])
}

impl File {
    const fn new(bytes: Vec<u8>) -> Self {
        Self { synced: Vec::new(), now: bytes, sectors: BTreeMap::new(), lens: Vec::new() }
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        self.sectors.clear();
        self.lens.clear();
    }

    fn resize(&mut self, len: usize) {
        if len != self.now.len() {
            self.lens.push(len);
            let cut = len..self.now.len();
            self.now.resize(len, 0);
            self.keep_versions(cut);
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.resize(end.max(self.now.len()));
        self.now[offset..end].copy_from_slice(bytes);
        self.keep_versions(offset..end);
    }

    /// Of the sectors that `changed` reaches into.
    fn keep_versions(&mut self, changed: Range<usize>) {
        for number in changed.start / SECTOR..changed.end.div_ceil(SECTOR) {
            let version = sector(&self.now, number);
            self.sectors.entry(number).or_default().push(version);
        }
    }

    /// As it was, but for the sectors of a write to `place`.
    fn torn(&self, place: &Range<usize>, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.now.clone();
        for (number, versions) in &self.sectors {
            let is_of_the_write = (place.start / SECTOR..place.end.div_ceil(SECTOR)).contains(number);
            if is_of_the_write && dice.between(0, 1) == 0 {
                let before = versions.len().checked_sub(2).map(|version| versions[version]);
                put(&mut bytes, *number, &before.unwrap_or_else(|| sector(&self.synced, *number)));
            }
        }
        bytes
    }

    fn drawn(&self, newest: usize, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        bytes.resize(*draw(&self.lens, newest, dice).unwrap_or(&self.synced.len()), 0);
        for (number, versions) in &self.sectors {
            if let Some(version) = draw(versions, newest, dice) {
                put(&mut bytes, *number, version);
            }
        }
        bytes
    }
}

/// Writes as much of the sector as the file is long.
fn put(bytes: &mut [u8], number: usize, sector: &[u8; SECTOR]) {
    if let Some(place) = bytes.get_mut(number * SECTOR..) {
        let len = place.len().min(SECTOR);
        place[..len].copy_from_slice(&sector[..len]);
    }
}

/// A name of the folder.
#[derive(Default)]
struct Name {
    synced: Option<FileId>,
    /// What it led to since.
    since: Vec<Option<FileId>>,
}

pub struct Platter {
    files: Vec<File>,
    names: BTreeMap<String, Name>,
    /// The write that was the last change.
    last_write: Option<(FileId, Range<usize>)>,
}

impl Platter {
    pub fn new(before: &Folder) -> Self {
        let named = |file| Name { synced: Some(file), since: Vec::new() };
        let mut files: Vec<_> = before.values().cloned().map(File::new).collect();
        files.iter_mut().for_each(File::sync);
        Self { files, names: before.keys().cloned().zip((0..).map(named)).collect(), last_write: None }
    }

    pub fn apply(&mut self, change: &Change) {
        self.last_write = None;
        match change {
            Change::Create { name } => {
                let file = Some(self.files.len());
                self.files.push(File::new(Vec::new()));
                self.names.entry(name.clone()).or_default().since.push(file);
            }
            Change::Delete { name } => self.names.entry(name.clone()).or_default().since.push(None),
            Change::Write { file, offset, bytes } => {
                self.files[*file].write(*offset, bytes);
                self.last_write = Some((*file, *offset..*offset + bytes.len()));
            }
            Change::Truncate { file, len } => self.files[*file].resize(*len),
            Change::Sync { file } => self.files[*file].sync(),
            Change::SyncFolder => {
                for name in self.names.values_mut() {
                    name.synced = name.since.pop().unwrap_or(name.synced);
                    name.since.clear();
                }
            }
        }
    }

    /// What is found when the power is back.
    pub fn left(&self, left: Left, dice: &mut Dice) -> Folder {
        let newest = |name: &Name| *name.since.last().unwrap_or(&name.synced);
        let mut folder = Folder::new();
        for (path, name) in &self.names {
            let file = match left {
                Left::All | Left::TornWrite => newest(name),
                Left::Nothing => name.synced,
                Left::Some(parts) => *draw(&name.since, parts, dice).unwrap_or(&name.synced),
            };
            let Some(id) = file else { continue };
            let file = &self.files[id];
            let bytes = match (left, &self.last_write) {
                (Left::Nothing, _) => file.synced.clone(),
                (Left::Some(parts), _) => file.drawn(parts, dice),
                (Left::TornWrite, Some((written, place))) if *written == id => file.torn(place, dice),
                (Left::All | Left::TornWrite, _) => file.now.clone(),
            };
            folder.insert(path.clone(), bytes);
        }
        folder
    }
}
