//! Flaws in what is kept: replies and checkpoints, and the names they lie under.

use super::store::{Flaw, SOUND};
use idempotency::{IdempotencyKey, Record, RecordId, Reply, Scope, StoredResponse};

/// The record, with its response made anew where it has one.
fn with_response(record: &mut Record, change: impl Fn(&StoredResponse) -> StoredResponse) {
    if let Some(Reply::Response(response)) = &record.reply {
        record.reply = Some(change(response).into());
    }
}

fn with_headers<'h>(
    response: &StoredResponse,
    headers: impl IntoIterator<Item = (String, &'h [u8])>,
) -> StoredResponse {
    let bare = StoredResponse::new(response.status()).with_body(response.body().clone());
    headers.into_iter().fold(bare, |response, (name, value)| response.with_header(name, value.to_vec()))
}

fn renamed(id: &RecordId, name: impl Fn(&str) -> String) -> RecordId {
    RecordId::new(
        Scope::new(name(id.scope.as_str())).expect("a scope"),
        IdempotencyKey::new(name(id.key.as_str())).expect("a key"),
    )
}

fn joined(id: &RecordId, separator: &str) -> RecordId {
    let joined = format!("{}{separator}{}", id.scope.as_str(), id.key.as_str());
    let cut = joined.chars().take(120).collect::<String>();
    RecordId::new(Scope::new("one").expect("a scope"), IdempotencyKey::new(cut).expect("a key"))
}

pub const FLAWS: &[Flaw] = &[
    Flaw {
        name: "keeps only statuses of HTTP",
        refused_by: &["every_status_comes_back", "the_kinds_of_replies_stay_apart"],
        decide: |asked| {
            asked.spoiled(|record| {
                with_response(record, |response| {
                    let status = response.status().clamp(100, 599);
                    let bare = StoredResponse::new(status).with_body(response.body().clone());
                    response
                        .headers()
                        .fold(bare, |bare, (name, value)| bare.with_header(name, value.to_vec()))
                });
            })
        },
        ..SOUND
    },
    Flaw {
        name: "keeps a body as text",
        refused_by: &["a_body_of_any_bytes_comes_back"],
        decide: |asked| {
            asked.spoiled(|record| {
                with_response(record, |response| {
                    response.clone().with_body(String::from_utf8_lossy(response.body()).into_owned())
                });
            })
        },
        ..SOUND
    },
    Flaw {
        name: "keeps no headers",
        refused_by: &[
            "headers_keep_order_repeats_case_and_bytes",
            "the_largest_replies_come_back_whole",
            "what_was_answered_is_there_when_the_store_is_reopened",
        ],
        decide: |asked| asked.spoiled(|record| with_response(record, |response| with_headers(response, []))),
        ..SOUND
    },
    Flaw {
        name: "sorts headers",
        refused_by: &["headers_keep_order_repeats_case_and_bytes"],
        decide: |asked| {
            asked.spoiled(|record| {
                with_response(record, |response| {
                    let mut headers: Vec<_> =
                        response.headers().map(|(name, value)| (name.to_owned(), value)).collect();
                    headers.sort();
                    with_headers(response, headers)
                });
            })
        },
        ..SOUND
    },
    Flaw {
        name: "writes header names in small letters",
        refused_by: &["headers_keep_order_repeats_case_and_bytes"],
        decide: |asked| {
            asked.spoiled(|record| {
                with_response(record, |response| {
                    with_headers(
                        response,
                        response.headers().map(|(name, value)| (name.to_lowercase(), value)),
                    )
                });
            })
        },
        ..SOUND
    },
    Flaw {
        name: "keeps a reference as a response",
        refused_by: &["the_kinds_of_replies_stay_apart", "a_completed_operation_is_replayed"],
        decide: |asked| {
            asked.spoiled(|record| {
                if let Some(Reply::Reference(reference)) = &record.reply {
                    record.reply = Some(StoredResponse::new(200).with_body(reference.clone()).into());
                }
            })
        },
        ..SOUND
    },
    Flaw {
        name: "keeps 64 KiB of a body",
        refused_by: &["the_largest_replies_come_back_whole"],
        decide: |asked| {
            asked.spoiled(|record| {
                with_response(record, |response| {
                    let body = response.body();
                    response.clone().with_body(body.slice(..body.len().min(64 * 1024)))
                });
            })
        },
        ..SOUND
    },
    Flaw {
        name: "keeps an empty checkpoint as none",
        refused_by: &[
            "a_checkpoint_of_any_bytes_comes_back",
            "a_checkpoint_takes_the_place_of_the_one_before_and_renews",
        ],
        decide: |asked| {
            asked.spoiled(|record| {
                record.checkpoint = record.checkpoint.take().filter(|bytes| !bytes.is_empty());
            })
        },
        ..SOUND
    },
    Flaw {
        name: "merges scopes",
        refused_by: &["scopes_are_apart", "the_longest_and_the_oddest_names_are_kept"],
        id: |id| RecordId::new(Scope::new("one").expect("a scope"), id.key.clone()),
        ..SOUND
    },
    Flaw {
        name: "joins scope and key without a separator",
        refused_by: &["scope_and_key_do_not_run_into_one_another"],
        id: |id| joined(id, ""),
        ..SOUND
    },
    Flaw {
        name: "joins scope and key by a colon",
        refused_by: &["scope_and_key_do_not_run_into_one_another"],
        id: |id| joined(id, ":"),
        ..SOUND
    },
    Flaw {
        name: "joins scope and key by two colons",
        refused_by: &["scope_and_key_do_not_run_into_one_another"],
        id: |id| joined(id, "::"),
        ..SOUND
    },
    Flaw {
        name: "joins scope and key by a bar",
        refused_by: &["scope_and_key_do_not_run_into_one_another"],
        id: |id| joined(id, "|"),
        ..SOUND
    },
    Flaw {
        name: "joins scope and key by the last printable character",
        refused_by: &["scope_and_key_do_not_run_into_one_another"],
        id: |id| joined(id, "~"),
        ..SOUND
    },
    Flaw {
        name: "folds case",
        refused_by: &["names_are_compared_byte_by_byte"],
        id: |id| renamed(id, str::to_ascii_lowercase),
        ..SOUND
    },
    Flaw {
        name: "trims names",
        refused_by: &["names_are_compared_byte_by_byte"],
        id: |id| renamed(id, |name| name.trim().to_owned()),
        ..SOUND
    },
    Flaw {
        name: "cuts names to 254 bytes",
        refused_by: &["the_longest_and_the_oddest_names_are_kept"],
        id: |id| renamed(id, |name| name.get(..254).unwrap_or(name).to_owned()),
        ..SOUND
    },
];
