//! What one caller was told, and by when: [`Lane`]. What a disk holds is judged by it.

use crate::common::{asks_for, key, scope};
use idempotency::{Claim, Completed, FencingToken, Record, Reply, SqliteStore, Ticket, Timestamp};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// What a caller knows of a record from the answers that it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub token: FencingToken,
    pub attempt: u32,
    pub lease_until: Timestamp,
    pub checkpoint: Option<Vec<u8>>,
    pub reply: Option<Reply>,
}

impl Known {
    pub fn of(record: &Record) -> Self {
        Self {
            token: record.token,
            attempt: record.attempt,
            lease_until: record.lease_until,
            checkpoint: record.checkpoint.as_ref().map(|bytes| bytes.to_vec()),
            reply: record.reply.clone(),
        }
    }

    pub fn granted(claim: &Claim) -> Self {
        Self {
            token: claim.token(),
            attempt: claim.attempt(),
            lease_until: claim.lease_until(),
            checkpoint: claim.checkpoint().map(|bytes| bytes.to_vec()),
            reply: None,
        }
    }

    /// The record that it becomes by this reply.
    pub fn completed(&self, completed: &Completed) -> Self {
        Self { checkpoint: None, reply: Some(completed.reply.clone()), ..self.clone() }
    }
}

/// What there is of a caller's: its records by key, all of them under its scope, and its orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Belongings {
    pub records: BTreeMap<String, Known>,
    pub orders: BTreeSet<String>,
}

/// One operation: from when to when, counted in the changes to the disk, and what there is after it.
pub struct Step {
    pub name: &'static str,
    pub began: usize,
    pub acknowledged: usize,
    pub now: Timestamp,
    pub highest_token: i64,
    pub after: Belongings,
}

/// The operations of one caller, one after another.
pub struct Lane {
    pub scope: String,
    /// The first is nothing, and acknowledged from the start.
    pub steps: Vec<Step>,
    /// Of every claim that was granted, by token.
    pub tickets: BTreeMap<i64, Ticket>,
}

impl Lane {
    /// A caller with nothing yet.
    pub fn new(scope: &str, now: Timestamp) -> Self {
        let nothing = Step {
            name: "nothing",
            began: 0,
            acknowledged: 0,
            now,
            highest_token: 0,
            after: Belongings::default(),
        };
        Self { scope: scope.to_owned(), steps: vec![nothing], tickets: BTreeMap::new() }
    }

    pub fn last(&self) -> &Step {
        self.steps.last().expect("the first at least")
    }

    /// The number of the last step that was acknowledged before change number `at`.
    pub fn acknowledged(&self, at: usize) -> usize {
        self.steps.partition_point(|step| step.acknowledged <= at) - 1
    }

    /// The number of the last step that had begun by then.
    pub fn begun(&self, at: usize) -> usize {
        self.steps.partition_point(|step| step.began <= at) - 1
    }

    /// All keys that there ever were.
    fn keys(&self) -> BTreeSet<&String> {
        self.steps.iter().flat_map(|step| step.after.records.keys()).collect()
    }

    /// The caller's belongings in a store whose clock stands where nothing has expired.
    pub fn find(&self, store: &SqliteStore, shell: &Connection) -> Result<Belongings, String> {
        let mut found = Belongings::default();
        for name in self.keys() {
            let record =
                store.lookup(&scope(&self.scope), &key(name)).map_err(|error| format!("{error:?}"))?;
            if let Some(record) = record {
                if record.fingerprint != asks_for("x") {
                    return Err(format!("{name} is bound to another request"));
                }
                found.records.insert(name.clone(), Known::of(&record));
            }
        }
        found.orders = orders(shell, &self.scope).map_err(|error| error.to_string())?;
        Ok(found)
    }

    /// The newest step, of those that had begun by then, that leaves what was found; an error if none does: part
    /// of an operation is there without the rest, or what none has made.
    pub fn judge(&self, found: &Belongings, at: usize) -> Result<usize, String> {
        let begun = self.begun(at);
        let is_left_by = |number: &usize| self.steps[*number].after == *found;
        (0..=begun).rev().find(is_left_by).ok_or_else(|| {
            let begun = self.steps[begun].name;
            format!("scope {}, up to {begun:?}, of which no operation leaves {found:?}", self.scope)
        })
    }
}

/// The orders of a scope; none if there is no table for them.
fn orders(shell: &Connection, scope: &str) -> rusqlite::Result<BTreeSet<String>> {
    let is_there = shell.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'orders'")?.exists([])?;
    if !is_there {
        return Ok(BTreeSet::new());
    }
    let mut orders = shell.prepare("SELECT substr(id, 1, 40) FROM orders WHERE scope = ?1")?;
    orders.query_map([scope], |row| row.get(0))?.collect()
}
