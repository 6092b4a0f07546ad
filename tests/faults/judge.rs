//! Whether a folder that a crash has left is what was acknowledged: [`judge`].

use crate::bench::{open, shell, sound_disk};
use crate::common::{Answer as _, asks_for, key, scope};
use crate::dice::Dice;
use crate::lane::{Belongings, Lane};
use crate::tape::Folder;
use idempotency::{Clock, Error, ManualClock, Reply, SqliteOptions, SqliteStore, Timestamp};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

/// Writes the folder's files to `path`.
pub fn restore(folder: &Folder, path: &Path) {
    for (name, bytes) in folder {
        fs::write(path.join(name), bytes).expect("a file");
    }
}

/// A folder that a crash has left, opened again; the clock stands where nothing has expired.
pub struct Image {
    pub store: SqliteStore,
    pub clock: ManualClock,
    shell: Connection,
    _folder: tempfile::TempDir,
}

impl Image {
    pub fn open(files: &Folder) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        restore(files, folder.path());
        let path = folder.path().join("store.db");
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let options = SqliteOptions::new().with_clock(clock.clone()).with_vfs(sound_disk());
        let store = open(&path, options).map_err(|error| format!("not opened: {error:?}"))?;
        let shell = shell(&path);
        match shell.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)) {
            Ok(verdict) if verdict == "ok" => Ok(Self { store, clock, shell, _folder: folder }),
            other => Err(format!("integrity: {other:?}")),
        }
    }

    pub fn find(&self, lane: &Lane) -> Result<Belongings, String> {
        lane.find(&self.store, &self.shell)
    }
}

/// What was found in a folder that is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that was acknowledged.
    Whole,
    /// What was acknowledged up to some moment, less so many operations.
    Lost(usize),
}

/// Opens what is left of the disk after change number `at`, and looks at it as every caller would; then at how the
/// store goes on. An error says that it is damaged, or holds what nobody has done.
pub fn judge(files: &Folder, lanes: &[Lane], at: usize, dice: &mut Dice) -> Result<Verdict, String> {
    let image = Image::open(files)?;
    let mut lost = 0;
    let mut found = Vec::new();
    for lane in lanes {
        let belongings = image.find(lane)?;
        lost += lane.acknowledged(at).saturating_sub(lane.judge(&belongings, at)?);
        found.push(belongings);
    }
    // One of them goes on.
    let one = dice.between(0, lanes.len() - 1);
    let lane = &lanes[one];
    image.clock.set(lane.steps[lane.begun(at)].now);
    goes_on(&image, lane, &found[one], dice).map_err(|error| format!("{error:?}"))??;
    let granted = lanes.iter().map(|lane| lane.steps[lane.acknowledged(at)].highest_token).max();
    let fresh = image.store.try_claim(&scope("s"), &key("fresh"), &asks_for("x"));
    let token = fresh.map_err(|error| format!("{error:?}"))?.claimed().token().get();
    if Some(token) <= granted {
        return Err(format!("token {token} after {granted:?}"));
    }
    Ok(if lost > 0 { Verdict::Lost(lost) } else { Verdict::Whole })
}

/// One of the records is claimed again, and ended by its owner: of the two one must be the owner.
fn goes_on(
    image: &Image,
    lane: &Lane,
    found: &Belongings,
    dice: &mut Dice,
) -> Result<Result<(), String>, Error> {
    let of_an_owner: Vec<_> = found.records.iter().filter(|(_, known)| known.reply.is_none()).collect();
    if of_an_owner.is_empty() {
        return Ok(Ok(()));
    }
    let (name, known) = of_an_owner[dice.between(0, of_an_owner.len() - 1)];
    let again = image.store.try_claim(&scope(&lane.scope), &key(name), &asks_for("x"))?;
    let expected = if known.lease_until.is_over(image.clock.now()) { "claimed" } else { "in progress" };
    if again.name() != expected {
        return Ok(Err(format!("{name}: wanted {expected}, got {again:?}")));
    }
    let Some(ticket) = lane.tickets.get(&known.token.get()) else {
        return Ok(Ok(())); // its claim was not acknowledged
    };
    let ended = image.store.complete(ticket, Reply::Marker);
    let is_owner = expected == "in progress";
    Ok(match ended {
        Ok(_) if is_owner => Ok(()),
        Err(Error::ClaimLost(_)) if !is_owner => Ok(()),
        other => Err(format!("{name}: {expected}, and its owner hears {other:?}")),
    })
}
