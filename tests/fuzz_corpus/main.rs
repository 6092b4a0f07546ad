//! The fuzz targets (`fuzz/src`), on the stable toolchain and without a fuzzer: over the inputs that are kept in
//! `fuzz/corpus`, and over random changes of them.
//!
//! An input that a fuzzer has found to fail goes into the corpus, with the fix.

#[path = "../common/dice.rs"]
#[expect(dead_code, reason = "shared by test files that use different parts of it")]
mod dice;
#[path = "../common/seed.rs"]
mod seed;
#[path = "../common/soak.rs"]
mod soak;
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use dice::Dice;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use targets::{Reached, TARGETS, Target};

/// What the corpus of a target must lead to, or it is not worth its place.
const REACHES: &[(&str, &[&str])] = &[
    (
        "commands",
        &[
            "first claims",
            "takeovers",
            "replays",
            "in progress",
            "mismatches",
            "completions",
            "repeated completions",
            "renewals",
            "releases",
            "abandonments",
            "already gone",
            "lost claims",
            "forgotten records",
            "records swept",
            "jumps to a deadline",
            "reopenings",
        ],
    ),
    (
        "fingerprint",
        &[
            "same lists",
            "other lists",
            "bytes from a value to its name",
            "bytes from a name to its value",
            "bytes from a value to the next name",
            "splits",
            "merges",
            "swaps",
            "repetitions",
            "removals",
            "changed bytes",
        ],
    ),
    (
        "header",
        &[
            "quoted keys",
            "bare keys",
            "keys with parameters",
            "keys that may be bare",
            "malformed",
            "empty",
            "too long",
            "only white space",
        ],
    ),
    (
        "json",
        &[
            "documents",
            "documents in other words",
            "large numbers",
            "same documents",
            "other documents",
            "included parts",
            "excluded parts",
            "nothing included",
            "malformed pointers",
            "too deep",
            "not UTF-8",
            "no JSON",
            "lone surrogates",
            "beyond all doubles",
            "repeated names",
            "inexact numbers",
        ],
    ),
    (
        "rows",
        &[
            "sound rows",
            "damaged rows",
            "damaged checkpoints",
            "expired rows",
            "rows of another name",
            "rows that no table takes",
            "refusals",
            "writes",
            "forgotten damage",
            "swept rows",
        ],
    ),
    (
        "tickets",
        &[
            "tickets",
            "refused JSON",
            "no JSON",
            "calls of the owner",
            "calls of no owner",
            "calls about nothing",
        ],
    ),
];

/// Plays random inputs as well, as many as given; says which of both kinds one was that failed.
fn holds(name: &str, random: usize) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let corpus = corpus(name);
    let mut reached = Reached::default();
    for (file, input) in &corpus {
        reached.add(&play(*target, input, &format!("fuzz/corpus/{name}/{file}")));
    }
    println!("{name}: {} inputs of the corpus led to {reached:?}", corpus.len());
    let (_, wanted) = REACHES.iter().find(|(known, _)| *known == name).expect("what it reaches");
    let missed: Vec<_> = wanted.iter().filter(|what| reached.count(what) == 0).collect();
    assert!(missed.is_empty(), "the corpus of {name} does not lead to {missed:?}");

    let random = soak::times(random);
    let mut dice = Dice::new(seed::seed());
    let mut reached = Reached::default();
    for _ in 0..random {
        let input = changed(&corpus, &mut dice);
        reached.add(&play(*target, &input, "a random input"));
    }
    println!("{name}: {random} random inputs led to {reached:?}");
    let missed = wanted.iter().filter(|what| reached.count(what) == 0).count();
    assert!(missed <= wanted.len() / 2, "random inputs of {name} led to {reached:?} only");
}

/// The committed inputs, by the names of their files.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut corpus: Vec<_> = files
        .map(|file| {
            let file = file.expect("a readable folder");
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).expect("a readable file"))
        })
        .collect();
    corpus.sort();
    assert!(corpus.len() >= 10, "{} has {} inputs only", folder.display(), corpus.len());
    corpus
}

fn play(target: Target, input: &[u8], what: &str) -> Reached {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|panic| {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{what} has failed. To keep it: echo {hex} | xxd -r -p > fuzz/corpus/…/name");
        resume_unwind(panic)
    })
}

/// An input of the corpus with a few bytes changed, or the start of one with the end of another.
fn changed(corpus: &[(String, Vec<u8>)], dice: &mut Dice) -> Vec<u8> {
    let one_of = |dice: &mut Dice| &corpus[dice.between(0, corpus.len() - 1)].1;
    let mut input = one_of(dice).clone();
    if dice.between(0, 3) == 0 {
        let other = one_of(dice);
        input.truncate(dice.between(0, input.len()));
        input.extend(&other[dice.between(0, other.len())..]);
    }
    for _ in 0..dice.between(0, 4) {
        let byte = u8::try_from(dice.between(0, 255)).expect("a byte");
        let at = dice.between(0, input.len());
        match dice.between(0, 2) {
            0 => input.insert(at, byte),
            1 if at < input.len() => input[at] = byte,
            _ if at < input.len() => drop(input.remove(at)),
            _ => {}
        }
    }
    input
}

#[test]
fn command_sequences_do_what_the_model_does_in_memory_and_on_sqlite() {
    holds("commands", 100);
}

#[test]
fn no_two_lists_of_parts_have_one_fingerprint() {
    holds("fingerprint", 1_000);
}

#[test]
fn header_values_are_read_as_a_second_parser_reads_them() {
    holds("header", 5_000);
}

#[test]
fn documents_have_the_canonical_form_that_a_second_writer_gives_them() {
    holds("json", 3_000);
}

#[test]
fn rows_that_no_store_has_written_are_damage_or_a_record_and_change_nothing_else() {
    holds("rows", 100);
}

#[test]
fn tickets_from_outside_are_validated_and_prove_nothing_but_their_claim() {
    holds("tickets", 3_000);
}

#[test]
fn every_target_has_its_binary_and_its_list_of_what_it_reaches() {
    let names = TARGETS.map(|(name, _)| name);
    assert_eq!(REACHES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/Cargo.toml"));
    let manifest = manifest.expect("fuzz/Cargo.toml");
    let binaries: Vec<_> =
        manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")).collect();
    assert_eq!(binaries, names.map(|name| format!("{name}.rs\"")));
}
