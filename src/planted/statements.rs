//! Edits of the store's SQL.
//!
//! Some edits of the claim are left out, since no sound record tells them from the original:
//! - Its conditions from the reply's columns on, one at a time, and `state = 'in_progress'` before them: each does without
//!   the others, since a record is completed if and only if it has a reply and a time of completion, and the table
//!   keeps numbers in their ranges and values to their types. Only damage tells them apart (`tests/sqlite/damage.rs`, and
//!   the fuzz target `rows`).
//! - The highest attempt: four thousand million takeovers away.
//! - `writer`: it is no part of the record.

use crate::planted::{self, Variant};

/// A statement with one edit.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// What is wrong with the store then.
    pub variant: Variant,
    /// The statement's name among the store's.
    pub statement: &'static str,
    /// What is replaced: it stands in the statement once.
    text: &'static str,
    by: &'static str,
}

const fn claim(name: &'static str, wrong: &'static str, text: &'static str, by: &'static str) -> Edit {
    Edit { variant: Variant { name, wrong }, statement: "claim", text, by }
}

/// All of them.
#[rustfmt::skip]
pub const EDITS: &[Edit] = &[
    // When it grants.
    claim("expiry-late", "a record stands at the very moment of its expiry",
        "WHERE stored.expires_at_ms <= ?4", "WHERE stored.expires_at_ms < ?4"),
    claim("expiry-never", "an expired record still stands",
        "WHERE stored.expires_at_ms <= ?4\n  OR (", "WHERE ("),
    claim("lease-late", "a lease stands at the very moment of its end",
        "stored.lease_until_ms <= ?4", "stored.lease_until_ms < ?4"),
    claim("lease-ignored", "a claim is taken over under its lease",
        "AND stored.lease_until_ms <= ?4", ""),
    claim("lease-until-expiry", "a lapsed claim is not taken over before it has expired",
        "OR (stored.state", "AND (stored.state"),
    claim("state-or-lease", "whatever is in progress is taken over",
        "'in_progress' AND stored.lease_until_ms", "'in_progress' OR stored.lease_until_ms"),
    claim("state-turned-round", "completed records are taken for those in progress",
        "stored.state = 'in_progress'", "stored.state <> 'in_progress'"),
    claim("digest-ignored", "a lapsed claim is taken over for another request",
        "AND stored.fingerprint = excluded.fingerprint", ""),
    claim("format-ignored", "a lapsed claim is taken over by a fingerprint of another format",
        "AND stored.fingerprint_format = excluded.fingerprint_format", ""),
    // What it takes over, and from what.
    claim("attempt-stands", "a takeover does not count as an attempt",
        "min(stored.attempt + 1, 4294967295)", "stored.attempt"),
    claim("attempt-always-first", "a takeover is called the first attempt",
        "iif(stored.expires_at_ms <= ?4, 1, min(stored.attempt + 1, 4294967295))", "1"),
    claim("attempt-of-the-expired", "the attempts of an expired record are counted on",
        "iif(stored.expires_at_ms <= ?4, 1, min(stored.attempt + 1, 4294967295))",
        "min(stored.attempt + 1, 4294967295)"),
    claim("attempt-late", "the attempts of a record are counted on at the moment of its expiry",
        "attempt = iif(stored.expires_at_ms <= ?4", "attempt = iif(stored.expires_at_ms < ?4"),
    claim("first-time-lost", "a takeover forgets when the operation was first claimed",
        "iif(stored.expires_at_ms <= ?4, ?4, stored.created_at_ms)", "?4"),
    claim("first-time-of-the-expired", "the first time of an expired record is kept",
        "iif(stored.expires_at_ms <= ?4, ?4, stored.created_at_ms)", "stored.created_at_ms"),
    claim("first-time-late", "the first time of a record is kept at the moment of its expiry",
        "created_at_ms = iif(stored.expires_at_ms <= ?4", "created_at_ms = iif(stored.expires_at_ms < ?4"),
    claim("checkpoint-lost", "a takeover loses the checkpoint, not its checksum",
        "checkpoint = iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint)", "checkpoint = NULL"),
    claim("checkpoint-of-the-expired", "the checkpoint of an expired record is kept, not its checksum",
        "checkpoint = iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint)",
        "checkpoint = stored.checkpoint"),
    claim("checkpoint-late", "the checkpoint of a record is kept at the moment of its expiry",
        "checkpoint = iif(stored.expires_at_ms <= ?4", "checkpoint = iif(stored.expires_at_ms < ?4"),
    claim("checksum-lost", "a takeover loses the checkpoint's checksum",
        "iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint_checksum)", "NULL"),
    claim("checksum-of-the-expired", "the checksum of an expired record's checkpoint is kept",
        "iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint_checksum)", "stored.checkpoint_checksum"),
    claim("checksum-late", "the checksum of a checkpoint is kept at the moment of expiry",
        "checkpoint_checksum = iif(stored.expires_at_ms <= ?4",
        "checkpoint_checksum = iif(stored.expires_at_ms < ?4"),
    claim("saved-lost", "a takeover loses the checkpoint and its checksum",
        SAVED, "checkpoint_checksum = NULL, checkpoint = NULL"),
    claim("saved-of-the-expired", "the checkpoint of an expired record is kept with its checksum",
        SAVED, "checkpoint_checksum = stored.checkpoint_checksum, checkpoint = stored.checkpoint"),
    // What it replaces.
    claim("state-kept", "an expired completion stays completed",
        "state = excluded.state", "state = stored.state"),
    claim("token-kept", "a takeover has the token of the one before it",
        "token = excluded.token", "token = stored.token"),
    claim("lease-kept", "the length of the lease is that of the claim before",
        "lease_ms = excluded.lease_ms", "lease_ms = stored.lease_ms"),
    claim("retention-kept", "the retention is that of the claim before",
        "retention_ms = excluded.retention_ms", "retention_ms = stored.retention_ms"),
    claim("lease-end-kept", "a claim starts with the lease of the one before it",
        "lease_until_ms = excluded.lease_until_ms", "lease_until_ms = stored.lease_until_ms"),
    claim("expiry-kept", "a claim expires when the one before it would have",
        "expires_at_ms = excluded.expires_at_ms", "expires_at_ms = stored.expires_at_ms"),
    claim("completion-kept", "a claim keeps the time of an expired completion",
        "completed_at_ms = NULL", "completed_at_ms = stored.completed_at_ms"),
    claim("format-kept", "a claim over an expired record keeps the format of its fingerprint",
        "fingerprint_format = excluded.fingerprint_format,",
        "fingerprint_format = stored.fingerprint_format,"),
    claim("digest-kept", "a claim over an expired record is bound to that one's request",
        "fingerprint = excluded.fingerprint,", "fingerprint = stored.fingerprint,"),
    claim("reply-kept", "a claim keeps what kind of reply an expired completion had",
        "reply_kind = NULL", "reply_kind = stored.reply_kind"),
    claim("reply-status-kept", "a claim keeps the status of an expired completion's reply",
        "reply_status = NULL", "reply_status = stored.reply_status"),
    claim("reply-reference-kept", "a claim keeps the reference of an expired completion's reply",
        "reply_reference = NULL", "reply_reference = stored.reply_reference"),
    claim("reply-headers-kept", "a claim keeps the headers of an expired completion's reply",
        "reply_headers = NULL", "reply_headers = stored.reply_headers"),
    claim("reply-body-kept", "a claim keeps the body of an expired completion's reply",
        "reply_body = NULL", "reply_body = stored.reply_body"),
    claim("reply-checksum-kept", "a claim keeps the checksum of an expired completion's reply",
        "reply_checksum = NULL", "reply_checksum = stored.reply_checksum"),
    // What a first claim writes.
    claim("terms-swapped", "a first claim takes its lease for its retention",
        "?5, ?6,", "?6, ?5,"),
    claim("first-time-is-the-leases-end", "a first claim is dated to the end of its lease",
        "1, ?4, ?5", "1, ?7, ?5"),
    Edit {
        variant: Variant {
            name: "token-of-the-live-rows",
            wrong: "the next token is one more than the highest that stands, so it is granted again after a sweep",
        },
        statement: "read_last_token", text: "last_token FROM main.{p}meta",
        by: "ifnull(max(token), 0) FROM main.{p}record",
    },
];

/// What is said where an edit can't be made.
pub const NOT_ONCE: &str = "its text does not stand once in the statement";

/// The checkpoint with its checksum, and the columns between them.
const SAVED: &str = "checkpoint_checksum = iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint_checksum),
  reply_reference = NULL,
  reply_headers = NULL,
  reply_body = NULL,
  checkpoint = iif(stored.expires_at_ms <= ?4, NULL, stored.checkpoint)";

/// The SQL of `statement`, with the planted edit if that is one of this statement.
pub(crate) fn edit(statement: &str, sql: &str) -> String {
    let planted = EDITS.iter().find(|edit| edit.statement == statement && planted::is(edit.variant.name));
    let Some(Edit { variant, text, by, .. }) = planted else { return sql.to_owned() };
    assert_eq!(sql.matches(text).count(), 1, "{}: {NOT_ONCE}", variant.name);
    sql.replace(text, by)
}
