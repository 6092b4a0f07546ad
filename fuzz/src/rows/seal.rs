//! The two checksums of a row, computed once more than the crate does: whoever can write to the file can make them, too,
//! and only behind a right one the contents are decoded.

use super::row::{Cell, Column, Row};
use sha2::{Digest, Sha256};

/// Makes the reply's checksum right, if the columns that it covers have their types.
pub fn reply(row: &mut Row) {
    if let Some(sum) = of_the_reply(row) {
        row.set(Column::ReplyChecksum, Cell::Blob(sum));
    }
}

/// Makes the checkpoint's checksum right, if the columns that it covers have their types.
pub fn checkpoint(row: &mut Row) {
    if let Some(sum) = of_the_checkpoint(row) {
        row.set(Column::CheckpointChecksum, Cell::Blob(sum));
    }
}

pub fn of_the_reply(row: &Row) -> Option<Vec<u8>> {
    let Cell::Integer(format) = row.cell(Column::Format) else { return None };
    let Cell::Blob(fingerprint) = row.cell(Column::Fingerprint) else { return None };
    let status = match row.cell(Column::Status) {
        Cell::Null => None,
        Cell::Integer(status) => Some(u16::try_from(*status).ok()?.to_be_bytes()),
        _ => return None,
    };
    Some(sum(&[
        Some(b"reply"),
        Some(row.as_text(Column::Scope)??),
        Some(row.as_text(Column::Key)??),
        Some(&[u8::try_from(*format).ok()?]),
        Some(fingerprint),
        Some(row.as_text(Column::Kind)??),
        status.as_ref().map(<[u8; 2]>::as_slice),
        row.as_text(Column::Reference)?,
        row.as_blob(Column::Headers)?,
        row.as_blob(Column::Body)?,
    ]))
}

pub fn of_the_checkpoint(row: &Row) -> Option<Vec<u8>> {
    let bytes = row.as_blob(Column::Checkpoint)??;
    let (scope, key) = (row.as_text(Column::Scope)??, row.as_text(Column::Key)??);
    Some(sum(&[Some(b"checkpoint"), Some(scope), Some(key), Some(bytes)]))
}

impl Row {
    /// None if it is of another type, `Some(None)` if there is nothing.
    pub fn as_text(&self, column: Column) -> Option<Option<&[u8]>> {
        match self.cell(column) {
            Cell::Null => Some(None),
            Cell::Text(bytes) => Some(Some(bytes)),
            _ => None,
        }
    }

    /// As [`as_text`](Self::as_text).
    pub fn as_blob(&self, column: Column) -> Option<Option<&[u8]>> {
        match self.cell(column) {
            Cell::Null => Some(None),
            Cell::Blob(bytes) => Some(Some(bytes)),
            _ => None,
        }
    }
}

/// The first 16 bytes of a SHA-256 over the parts, each with its presence and its length in front.
fn sum(parts: &[Option<&[u8]>]) -> Vec<u8> {
    let mut hashed = Vec::new();
    for part in parts {
        let bytes = part.unwrap_or_default();
        hashed.push(u8::from(part.is_some()));
        hashed.extend((bytes.len() as u64).to_be_bytes());
        hashed.extend(bytes);
    }
    Sha256::digest(&hashed)[..16].to_vec()
}
