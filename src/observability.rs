//! What a store tells those who operate it: counters, durations, spans and events.
//!
//! [`metrics`](crate::IdempotencyStore::metrics) counts, always, in every build. The feature `metrics`
//! publishes the same counts and how long commands take, through the [`metrics`](https://docs.rs/metrics)
//! facade; the feature `tracing` gives spans and events to [`tracing`](https://docs.rs/tracing). Neither is
//! in the default build.
//!
//! A recorder or a subscriber is called on the caller's thread (or the store's own, for what the store does
//! in the background), outside of the store's locks, but for what the work inside
//! [`atomically`](crate::IdempotencyStore#method.atomically) itself causes. If it panics, that goes to the
//! caller of the store, whose command may have been executed.
//!
//! # What to watch
//! | a rise of | says |
//! | --- | --- |
//! | `errors` | the store fails; the kind says how, and whom to call |
//! | `failed_completions` | work whose reply is not on record: it may run again |
//! | `lost_claims` | leases are shorter than the work, or an operator has intervened |
//! | `takeovers`, without failing work | processes die, or leases are too short |
//! | `dropped_unfinished` | a code path forgets its claim, and blocks the key until the lease ends |
//! | `mismatches` | a client uses one key for different requests |
//! | `renewal_failures` | the store is out of reach for work that is kept alive |
//! | `in_progress` | clients retry before the first attempt is over |
//!
//! # Published metrics
//! The names do not change. A counter is called after its field of [`Metrics`], and counts what that says.
//!
//! | name | type | unit | label |
//! | --- | --- | --- | --- |
//! | `idempotency_claims_total` | counter | count | |
//! | `idempotency_takeovers_total` | counter | count | |
//! | `idempotency_replays_total` | counter | count | |
//! | `idempotency_in_progress_total` | counter | count | |
//! | `idempotency_mismatches_total` | counter | count | |
//! | `idempotency_completions_total` | counter | count | |
//! | `idempotency_failed_completions_total` | counter | count | |
//! | `idempotency_releases_total` | counter | count | |
//! | `idempotency_abandons_total` | counter | count | |
//! | `idempotency_failed_runs_total` | counter | count | |
//! | `idempotency_lost_claims_total` | counter | count | |
//! | `idempotency_dropped_unfinished_total` | counter | count | |
//! | `idempotency_renewals_total` | counter | count | |
//! | `idempotency_renewal_failures_total` | counter | count | |
//! | `idempotency_checkpoints_total` | counter | count | |
//! | `idempotency_forgotten_total` | counter | count | |
//! | `idempotency_swept_total` | counter | count | |
//! | `idempotency_errors_total` | counter | count | `kind`: [`ErrorKind::as_str`] |
//! | `idempotency_command_duration_seconds` | histogram | seconds | `command` |
//!
//! `command` is `claim`, `complete`, `renew`, `checkpoint`, `release`, `abandon`, `forget`, `read`, `sweep`,
//! `stats`, `stuck`, `batch` (all claims of a [`try_claim_many`](crate::IdempotencyStore::try_claim_many), up
//! to 1,000, or all renewals that [`keep_alive`](crate::Claim::keep_alive) makes at a time) or `atomically`.
//! Each call of the backend is one sample, from the call to the answer, failed ones included: with the wait
//! for other writers and the commit. `atomically` is one sample as a whole, with the application's work in
//! it. In a transaction of the application's own, `claim` and `complete` are without its commit.
//!
//! **No label has a value of a caller's**: neither scopes nor keys. There is none for the store either, so
//! the stores of one program add up; [`metrics`](crate::IdempotencyStore::metrics) tells them apart.
//!
//! Install the recorder before the stores are opened: an opening describes the metrics, and begins each
//! counter at zero. With one that is installed later, a counter appears with its first event, undescribed,
//! and what came before is missing. Commands take microseconds in memory, and milliseconds where a disk
//! syncs: choose buckets for both. Without a recorder a command costs two readings of the clock and a few
//! atomic loads more.
//!
//! # Spans and events
//! All have the target `idempotency`. Spans are named after what was asked: the commands above at `DEBUG`;
//! `run` and `atomically` at `INFO`, since the application's own work is inside them. `run` has the spans of
//! its commands inside it, too. What is done for a task of a runtime (feature `tokio`) is in the span of the
//! task.
//!
//! | field of a span | what it is |
//! | --- | --- |
//! | `scope`, `key` | their digests; none for `sweep`, `stats`, `stuck` and `batch` |
//! | `token`, `attempt` | of the claim that was granted |
//! | `outcome` | of a claim: `claimed`, `taken_over`, `replayed`, `in_progress`, `mismatch`; of the other commands: `recorded`, `already_recorded`, `renewed`, `released`, `abandoned`, `gone`, `lost`, `forgotten`, `absent`, `found`, `swept`, `looked`; of a run: `executed`, `failed`, `replayed`, `in_progress`, `mismatch`; of any: `error` |
//!
//! | level | event | fields |
//! | --- | --- | --- |
//! | `ERROR` | `failed`: the store could not do it | `command`, `scope`, `key`, `kind`, `error` with all that caused it |
//! | `WARN` | `failed`, for the kinds `refused`, `busy` and `unavailable` | the same |
//! | `WARN` | `refused: the key is another request's` | `scope`, `key` |
//! | `WARN` | `the claim is lost` | `scope`, `key`, `reason` |
//! | `WARN` | `the reply was not recorded, or may not be` | `scope`, `key` |
//! | `WARN` | `a claim was dropped without being ended` | `scope`, `key` |
//! | `WARN` | `not renewed, to be tried again`, by [`keep_alive`](crate::Claim::keep_alive) | `scope`, `key` |
//! | `INFO` | `taken over: an earlier attempt ended without a reply` | `scope`, `key`, `token`, `attempt` |
//! | `INFO` | `forgotten: an operator deleted the record` | `scope`, `key` |
//! | `DEBUG` | all that is in the order of things: `claimed`, `replayed`, `in progress elsewhere`, `completed`, `released`, `abandoned`, `the work failed`, `renewed`, `checkpoint saved`, `swept` | `scope`, `key`; of `claimed` also `token`, `attempt`; of `swept` only `removed` |
//!
//! So at `INFO` an operation in which nothing is wrong says nothing.
//!
//! # What is shown of scopes and keys
//! Only a short digest, as their `Display` shows it: `IdempotencyKey(#1a2b3c4d)`, the first four bytes of the
//! SHA-256. It finds the lines of one operation in a log: [`Scope`](crate::Scope) and
//! [`IdempotencyKey`](crate::IdempotencyKey) of the value that you look for print the same. **It is no
//! secret**: of a value that can be guessed (an e-mail address, a running number) the digest can be computed,
//! and recognised. Random keys can't be. Fingerprints, replies, checkpoints and references are in no span,
//! event or label. An `error` says what failed and where, file names included, and nothing of what is stored;
//! that of a [`Backend`](crate::Backend) of your own says what you put into it.

pub use crate::error::ErrorKind;
pub use crate::metrics::{ErrorCounts, Metrics};
