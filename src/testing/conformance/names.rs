//! Which names are the same record.

use super::stage::{LEASE, REQUEST, Stage, Step, claim, claimed, id, key, moment};
use crate::key::{MAX_KEY_LEN, RecordId};
use crate::outcome::{Grant, Outcome};
use crate::reply::Reply;

/// Each of `ids` must be a record of its own: claimed anew, with a lease of its own, and ended by itself.
fn apart(stage: &mut Stage<'_>, ids: &[RecordId]) -> Step {
    let mut grants: Vec<(RecordId, i64, Grant)> = Vec::new();
    for (at, id) in (0..).zip(ids) {
        stage.at(at);
        let grant = stage.granted_first(id, &claim(REQUEST)?)?;
        grants.push((id.clone(), at, grant));
    }
    let Some((first, _, grant)) = grants.first().cloned() else { return Ok(()) };
    stage.complete(&first, grant.token, Reply::Marker)?;
    for (id, at, grant) in grants.iter().skip(1) {
        stage.holds(id, Some(&claimed(grant, *at, *at)?))?;
        let now = stage.clock().shown();
        let lease_until = moment(at.saturating_add(LEASE));
        stage.wants(id, &claim(REQUEST)?, &Outcome::InProgress { lease_until, attempt: 1, now })?;
    }
    Ok(())
}

pub(super) fn scopes_are_apart(stage: &mut Stage<'_>) -> Step {
    apart(
        stage,
        &[id("tenant", "key")?, id("other tenant", "key")?, id("key", "tenant")?, id("tenant", "other")?],
    )
}

pub(super) fn scope_and_key_do_not_run_into_one_another(stage: &mut Stage<'_>) -> Step {
    let mut ids = vec![id("ab", "c")?, id("a", "bc")?];
    let separators = (b' '..=b'~').map(|byte| char::from(byte).to_string());
    for separator in separators.chain(["::".to_owned()]) {
        ids.extend([id(&format!("a{separator}b"), "c")?, id("a", &format!("b{separator}c"))?]);
    }
    apart(stage, &ids)
}

pub(super) fn names_are_compared_byte_by_byte(stage: &mut Stage<'_>) -> Step {
    let names = [
        "Key-A",
        "key-a",
        "KEY-A",
        "key-a ",
        " key-a",
        "key\u{a0}a",
        "é",
        "e\u{301}",
        "ß",
        "ss",
        "SS",
        "ﬁ",
        "fi",
        "İ",
        "i",
        "I",
        "1",
        "01",
        "1.0",
    ];
    let ids = names.iter().map(|name| key(name)).collect::<Step<Vec<_>>>()?;
    apart(stage, &ids)?;
    let ids = names.iter().map(|name| id(name, "the same")).collect::<Step<Vec<_>>>()?;
    apart(stage, &ids)
}

pub(super) fn the_longest_and_the_oddest_names_are_kept(stage: &mut Stage<'_>) -> Step {
    let (longest, almost) =
        ("x".repeat(MAX_KEY_LEN), format!("{}y", "x".repeat(MAX_KEY_LEN.saturating_sub(1))));
    let wide = "é".repeat(MAX_KEY_LEN / 2);
    let names = [
        &longest,
        &almost,
        &wide,
        ".",
        "..",
        "../x",
        "/",
        "a/b",
        "a\\b",
        "~",
        "-",
        "--help",
        "*",
        "%",
        "%2F",
        "_",
        "?",
        "'",
        "\"",
        "';--",
        "NULL",
        "null",
        "con",
        "nul.txt",
        "$(x)",
        "`x`",
        "{}",
        "\u{1f600}",
        "\u{202e}",
        "\u{feff}x",
        "日本語",
        "a.tmp",
        "a.lock",
        "#",
        "&",
        "a=b",
        "0",
        "-1",
    ];
    let mut ids = Vec::new();
    for name in names {
        ids.extend([key(name)?, id(name, "key")?, id(name, name)?]);
    }
    apart(stage, &ids)
}
