//! Random documents. A failure is shrunk, printed, and kept in `tests/json/regressions.txt`, which is tried
//! first in every run; `IDEMPOTENCY_TEST_SEED`, `PROPTEST_CASES` and the like work as for `tests/model`.

use crate::dice::Dice;
use crate::documents::{changed, documents, pointers, small_documents, spelt};
use crate::seed::seed;
use idempotency::{CanonicalJson, Fingerprint, JsonError};
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestRunner};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Checks as many values as proptest is configured for, and gives their number.
fn for_all<T: Debug>(strategy: impl Strategy<Value = T>, check: impl Fn(T)) -> usize {
    let mut config = Config::default();
    let cases = usize::try_from(config.cases).expect("a number of cases");
    if config.failure_persistence.is_some() {
        let file = "tests/json/regressions.txt";
        config.failure_persistence = Some(Box::new(FileFailurePersistence::Direct(file)));
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(seed());
    }
    let outcome = TestRunner::new(config).run(&strategy, |value| {
        check(value);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    cases
}

/// How often something happened, to show that a property was tested.
#[derive(Default)]
struct Tally(Cell<usize>);

impl Tally {
    fn add(&self, count: usize) {
        self.0.set(self.0.get() + count);
    }

    #[track_caller]
    fn assert_at_least(&self, count: usize) {
        println!("{} times, at least {count}", self.0.get());
        assert!(self.0.get() >= count, "only {} times", self.0.get());
    }
}

fn of(document: &Value) -> Fingerprint {
    Fingerprint::of_json(document).expect("a document")
}

#[test]
fn however_a_document_is_written_it_has_one_fingerprint() {
    let otherwise = Tally::default();
    let cases = for_all((documents(), any::<u64>()), |(document, seed)| {
        let mut dice = Dice::new(seed);
        let texts = [spelt(&document, &mut dice), spelt(&document, &mut dice)];
        for text in &texts {
            let fingerprint = Fingerprint::of_json_slice(text.as_bytes()).expect("a document");
            assert_eq!(fingerprint, of(&document), "{text}");
        }
        otherwise.add(usize::from(texts[0] != texts[1]));
    });
    otherwise.assert_at_least(cases / 2);
}

#[test]
fn whatever_is_changed_in_a_document_changes_its_fingerprint() {
    let changes = Tally::default();
    let cases = for_all(documents(), |document| {
        let fingerprint = of(&document);
        for other in changed(&document) {
            assert_ne!(of(&other), fingerprint, "{other} and {document}");
            changes.add(1);
        }
    });
    changes.assert_at_least(cases * 4);
}

#[test]
fn canonical_bytes_are_the_document_and_canonical() {
    for_all(documents(), |document| {
        let canonical = CanonicalJson::new();
        let bytes = canonical.bytes(&document).expect("a document");
        let read: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert!(alike(&read, &document), "{read} and {document}");
        assert_eq!(canonical.bytes_of_slice(&bytes).as_ref(), Ok(&bytes));
        assert_eq!(canonical.bytes(&read).as_ref(), Ok(&bytes));
    });
}

/// Equal, with all numbers as doubles.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in = |(name, value): (&String, &Value)| other.get(name).is_some_and(|o| alike(value, o));
            one.len() == other.len() && one.iter().all(is_in)
        }
        _ => one == other,
    }
}

#[test]
fn every_double_has_a_fingerprint_that_its_canonical_text_has_too() {
    for_all(any::<u64>().prop_map(f64::from_bits), |double| {
        if double.is_finite() {
            let bytes = CanonicalJson::new().bytes(&Value::from(double)).expect("a double");
            assert_eq!(Fingerprint::of_json_slice(&bytes), Ok(of(&Value::from(double))), "{double:e}");
        }
    });
}

/// Those that are taken are told apart; half of those from 2^53 on are refused, and more further up.
#[test]
fn no_two_integers_have_one_fingerprint() {
    let (taken, refused) = (Tally::default(), Tally::default());
    let cases = for_all((52..64_u32, any::<u64>(), 1..3_000_u64), |(bits, random, step)| {
        let one = (1 << bits) | (random >> (64 - bits));
        let other = one.saturating_add(step);
        let [one, other] = [one, other].map(|n| Fingerprint::of_json_slice(n.to_string().as_bytes()));
        if one.is_ok() && other.is_ok() {
            assert_ne!(one, other, "{bits} {random} {step}");
            taken.add(1);
        }
        refused.add(usize::from(one == Err(JsonError::InexactNumber { at: Some(0) })));
    });
    taken.assert_at_least(cases / 32);
    refused.assert_at_least(cases / 4);
}

/// Texts that are JSON, or nearly.
#[test]
fn what_is_taken_is_what_another_parser_reads_and_what_is_refused_it_refuses() {
    let (taken, refused) = (Tally::default(), Tally::default());
    let cases = for_all((documents(), any::<u64>()), |(document, seed)| {
        let mut dice = Dice::new(seed);
        let mut text = spelt(&document, &mut dice).into_bytes();
        for _ in 0..dice.between(0, 3) {
            edit(&mut text, &mut dice);
        }
        let read = serde_json::from_slice::<Value>(&text);
        let shown = text.escape_ascii();
        match Fingerprint::of_json_slice(&text) {
            Ok(fingerprint) => {
                let value = read.unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert_eq!(of(&value), fingerprint, "{shown}");
                taken.add(1);
            }
            Err(JsonError::DuplicateMember { .. } | JsonError::InexactNumber { .. }) => {}
            // With `serde_json/arbitrary_precision` the other parser reads what is beyond all doubles.
            Err(error) => {
                let is_taken = read.is_ok_and(|value| Fingerprint::of_json(&value).is_ok());
                assert!(!is_taken, "{shown}: {error}");
                refused.add(1);
            }
        }
    });
    taken.assert_at_least(cases / 8);
    refused.assert_at_least(cases / 8);
}

fn edit(text: &mut Vec<u8>, dice: &mut Dice) {
    const PIECES: &[u8] = b"[]{}:,\"\\/0123456789-+.eEu \n\ttrfalsn\xc3\xa9\x00\xff";
    let at = dice.between(0, text.len());
    let piece = PIECES[dice.between(0, PIECES.len() - 1)];
    match dice.between(0, 2) {
        0 => text.insert(at, piece),
        1 if at < text.len() => text[at] = piece,
        _ if at < text.len() => drop(text.remove(at)),
        _ => {}
    }
}

/// What counts, said in another way: each value with its pointer, be it a container or not, that is at or
/// inside of an included one, and not at or inside of an excluded one.
fn counting(document: &Value, include: &[String], exclude: &[String]) -> BTreeMap<String, String> {
    let holds = |outer: &String, pointer: &String| {
        pointer.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let counts = |pointer: &String| {
        include.iter().any(|outer| holds(outer, pointer))
            && !exclude.iter().any(|outer| holds(outer, pointer))
    };
    let shown = |pointer: String| {
        let shown = match document.pointer(&pointer).expect("a pointer of this document") {
            Value::Array(_) => "[]".to_owned(),
            Value::Object(_) => "{}".to_owned(),
            leaf => leaf.to_string(),
        };
        (pointer, shown)
    };
    pointers(document).into_iter().filter(counts).map(shown).collect()
}

#[test]
fn two_documents_are_one_to_a_selection_if_what_counts_of_them_is_the_same() {
    let (same, other) = (Tally::default(), Tally::default());
    let cases =
        for_all((small_documents(), small_documents(), any::<u64>()), |(document, stranger, seed)| {
            let mut dice = Dice::new(seed);
            let all = pointers(&document);
            let mut some = |most: usize| -> Vec<String> {
                (0..dice.between(0, most)).map(|_| all[dice.between(0, all.len() - 1)].clone()).collect()
            };
            let (mut include, exclude) = (some(2), some(3));
            let selected =
                include.iter().try_fold(CanonicalJson::new(), |made, pointer| made.include(pointer));
            let selected = selected.and_then(|made| exclude.iter().try_fold(made, |made, p| made.exclude(p)));
            let Ok(selected) = selected else { return };
            if include.is_empty() {
                include.push(String::new());
            }
            let mine = counting(&document, &include, &exclude);
            for neighbour in changed(&document).iter().chain([&stranger]) {
                let is_same = counting(neighbour, &include, &exclude) == mine;
                let fingerprints = [&document, neighbour].map(|d| match selected.fingerprint(d) {
                    Ok(fingerprint) => Some(fingerprint),
                    Err(JsonError::NothingIncluded) => {
                        assert!(counting(d, &include, &exclude).is_empty(), "{d}");
                        None
                    }
                    Err(error) => panic!("{d}: {error}"),
                });
                let about = format!("{document} and {neighbour}, {include:?} without {exclude:?}");
                assert_eq!(fingerprints[0] == fingerprints[1], is_same, "{about}");
                if is_same { &same } else { &other }.add(1);
            }
        });
    same.assert_at_least(cases);
    other.assert_at_least(cases);
}
