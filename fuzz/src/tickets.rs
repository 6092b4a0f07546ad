//! Tickets as they come from outside, in JSON: which are taken, and what those can do to a store.

use super::json_text::Outline;
use super::names::is_name;
use super::reached::Reached;
use idempotency::{
    ClaimOutcome, Error, Fingerprint, IdempotencyKey, IdempotencyStore, LostReason, MemoryBackend,
    MemoryOptions, MemoryStore, Reply, Scope, Ticket,
};
use serde_json::{Map, Value, json};

/// As they stand in a ticket, which may be written as an array of their values, too.
const FIELDS: [&str; 9] = [
    "store_id",
    "scope",
    "key",
    "fingerprint_format",
    "fingerprint",
    "token",
    "attempt",
    "lease_ms",
    "retention_ms",
];
const LONGEST_MILLIS: i64 = 36_525 * 86_400_000;

/// Reads the bytes as a ticket.
///
/// # Panics
/// If one is taken that should not be, or the other way round, or comes back changed; if one that proves nothing
/// changes a record.
#[must_use]
pub fn run(data: &[u8]) -> Reached {
    let mut reached = Reached::default();
    let taken = serde_json::from_slice::<Ticket>(data);
    let expected = serde_json::from_slice::<Value>(data).ok().and_then(|value| fields(value, data));
    let shown = data.escape_ascii();
    let Ok(ticket) = taken else {
        assert_eq!(expected, None, "refused: {shown}");
        let is_json = serde_json::from_slice::<Value>(data).is_ok();
        reached.once(if is_json { "refused JSON" } else { "no JSON" });
        return reached;
    };
    let expected = expected.unwrap_or_else(|| panic!("taken: {shown}"));
    reached.once("tickets");
    let written = serde_json::to_value(&ticket).expect("a ticket can be written down");
    assert_eq!(written, Value::Object(expected.clone()), "{shown}");
    derives_keys(&ticket);
    on_a_store(expected, &mut reached);
    reached
}

/// What a ticket says, if `value` is one.
fn fields(value: Value, text: &[u8]) -> Option<Map<String, Value>> {
    let fields = match value {
        // A repeated name is seen in the text only.
        Value::Object(fields) => Some(fields).filter(|_| Outline::of(text).members == FIELDS.len())?,
        Value::Array(values) if values.len() == FIELDS.len() => {
            FIELDS.iter().map(|field| (*field).to_owned()).zip(values).collect()
        }
        _ => return None,
    };
    let field = |name: &str| fields.get(name).unwrap_or(&Value::Null);
    let bytes = |name: &str, len: usize| {
        let bytes = field(name).as_array().filter(|bytes| bytes.len() == len);
        bytes.is_some_and(|bytes| bytes.iter().all(|byte| byte.as_u64().is_some_and(|byte| byte < 256)))
    };
    let number =
        |name: &str, least: i64, most: i64| field(name).as_i64().is_some_and(|n| least <= n && n <= most);
    let is_ticket = fields.len() == FIELDS.len()
        && FIELDS.iter().all(|name| fields.contains_key(*name))
        && bytes("store_id", 16)
        && field("scope").as_str().is_some_and(is_name)
        && field("key").as_str().is_some_and(is_name)
        && number("fingerprint_format", 0, 255)
        && bytes("fingerprint", 32)
        && field("token").as_str().is_some_and(is_token)
        && number("attempt", 1, i64::from(u32::MAX))
        && number("lease_ms", 1, LONGEST_MILLIS)
        && number("retention_ms", 1, LONGEST_MILLIS);
    is_ticket.then_some(fields)
}

/// 1 to 2^63 - 1 in decimal, in the one way to write it.
fn is_token(text: &str) -> bool {
    const MOST: &str = "9223372036854775807";
    text.bytes().all(|byte| byte.is_ascii_digit())
        && text.starts_with(|c| c != '0')
        && (text.len() < MOST.len() || (text.len() == MOST.len() && text <= MOST))
}

/// A key for a provider shows nothing but that it is another one.
fn derives_keys(ticket: &Ticket) {
    let key = ticket.downstream_key("charge");
    assert!(key.len() == 36 && key.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{key}");
    assert_eq!(ticket.downstream_key("charge"), key);
    assert_ne!(ticket.downstream_key(&format!("charge{}", ticket.scope().as_str())), key);
}

/// A store with one claim, of key `k` in scope `s`.
fn store() -> (MemoryStore, Ticket) {
    let store = IdempotencyStore::new(MemoryBackend::new(
        MemoryOptions::new().with_first_token(idempotency::FencingToken::FIRST),
    ));
    let (scope, key) = ids();
    match store.try_claim(&scope, &key, &Fingerprint::builder().finish()) {
        Ok(ClaimOutcome::Claimed(claim)) => (store, claim.into_ticket()),
        other => panic!("wanted a claim, got {other:?}"),
    }
}

fn ids() -> (Scope, IdempotencyKey) {
    (Scope::new("s").expect("a scope"), IdempotencyKey::new("k").expect("a key"))
}

/// What the ticket can do, as it is and with the id of the store that it is shown to.
fn on_a_store(mut fields: Map<String, Value>, reached: &mut Reached) {
    let (scope, key) = ids();
    for is_ours in [false, true] {
        for call in 0..4 {
            let (store, owner) = store();
            if is_ours {
                fields.insert("store_id".to_owned(), json!(store.store_id().as_bytes()));
            }
            let ticket: Ticket = serde_json::from_value(Value::Object(fields.clone())).expect("a ticket");
            let before = store.lookup(&scope, &key).expect("a store in memory");
            let answer = match call {
                0 => store.complete(&ticket, Reply::Marker).map(drop),
                1 => store.release(&ticket),
                2 => store.abandon(&ticket),
                _ => store.resume(ticket.clone()).map(drop),
            };
            let after = store.lookup(&scope, &key).expect("a store in memory");
            let names_the_record = is_ours && ticket.id() == owner.id();
            let lost = match answer {
                Ok(()) => None,
                Err(Error::ClaimLost(reason)) => Some(reason),
                Err(error) => panic!("{ticket:?}: {error:?}"),
            };
            let expected = match (names_the_record, ticket.token() == owner.token(), call) {
                (true, true, _) => None,
                (true, false, _) => Some(LostReason::Running),
                // Nothing is there, so there is nothing to end.
                (false, _, 1 | 2) if is_ours => None,
                (false, _, _) => Some(LostReason::Gone),
            };
            assert_eq!(lost, expected, "{ticket:?}, call {call}");
            let is_owner = names_the_record && ticket.token() == owner.token();
            assert!(is_owner || after == before, "{ticket:?}, call {call}");
            reached.once(match (is_owner, names_the_record) {
                (true, _) => "calls of the owner",
                (false, true) => "calls of no owner",
                (false, false) => "calls about nothing",
            });
        }
    }
}
