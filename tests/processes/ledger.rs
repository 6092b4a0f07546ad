//! What killed processes were answered, held against the file that they left.

use crate::common::scope;
use crate::doomed::{KEYS, ROUNDS_KEPT, checkpoint_of, key_of_claim, key_of_work, open};
use crate::report::reply_of;
use idempotency::rusqlite::Connection;
use idempotency::{FencingToken, Record, State};
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// What is known of a call that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Write {
    #[default]
    NotTried,
    Tried,
    Acknowledged,
}

/// A claim whose grant was heard.
#[derive(Debug)]
struct Grant {
    key: usize,
    round: usize,
    attempt: u32,
    saved: bool,
    has_row: bool,
    completion: Write,
    end: Write,
}

/// A piece of work that shares a transaction with its completion.
#[derive(Debug)]
struct Work {
    key: usize,
    round: usize,
    is_acknowledged: bool,
}

/// How often what happened, so that a test can ask for enough of it.
#[derive(Debug, Default)]
pub struct Counts {
    pub granted: usize,
    pub takeovers: usize,
    pub recorded: usize,
    pub worked: usize,
    pub replayed: usize,
    pub swept: usize,
    /// Calls that a kill kept from being answered, and what became of them.
    pub cut_off: usize,
    pub cut_off_and_done: usize,
    pub cut_off_and_not_done: usize,
}

#[derive(Default)]
pub struct Ledger {
    round: usize,
    grants: BTreeMap<FencingToken, Grant>,
    works: BTreeMap<String, Work>,
    /// The highest token of the rounds before.
    highest: Option<FencingToken>,
    pub counts: Counts,
}

/// The word at `place` of a line.
#[track_caller]
fn read<T: FromStr>(line: &str, place: usize) -> T {
    let word = line.split(' ').nth(place).and_then(|word| word.parse().ok());
    word.unwrap_or_else(|| panic!("what is said here? {line}"))
}

#[track_caller]
fn token_in(line: &str) -> FencingToken {
    FencingToken::new(read(line, 2)).expect("a token")
}

impl Ledger {
    /// From here on it is round `round`.
    pub fn begin(&mut self, round: usize) {
        self.round = round;
        self.highest = self.grants.keys().next_back().copied();
    }

    /// All that one process said, from its start to its death.
    #[track_caller]
    pub fn hear_all(&mut self, lines: &[String]) {
        let mut last = None;
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with("granted") {
                let token = token_in(line);
                assert!(last < Some(token), "{line} after {last:?}");
                last = Some(token);
            }
            self.hear(line);
            if line.starts_with("work-replayed") {
                // What it had tried was not to be run: a row of it would be one that nobody wrote.
                self.works.remove(&read::<String>(&lines[at - 1], 2));
            }
        }
        self.counts.cut_off += usize::from(lines.last().is_some_and(|line| line.starts_with("tries")));
    }

    #[track_caller]
    fn hear(&mut self, line: &str) {
        let (key, round) = (read(line, 1), self.round);
        match line.split(' ').next() {
            Some("tries-claim" | "running") => {}
            // Judged when all have been heard.
            Some("replayed" | "work-replayed") => self.counts.replayed += 1,
            Some("swept") => self.counts.swept += read::<usize>(line, 2),
            Some("granted") => self.granted(line, key),
            Some("saved") => self.grant(line).saved = true,
            Some("tries-end") => self.grant(line).end = Write::Tried,
            Some("ended") => self.grant(line).end = Write::Acknowledged,
            Some("tries-completion") => self.grant(line).completion = Write::Tried,
            Some("tries-completion-and-row") => {
                let grant = self.grant(line);
                (grant.completion, grant.has_row) = (Write::Tried, true);
            }
            Some("recorded") => {
                self.grant(line).completion = Write::Acknowledged;
                self.counts.recorded += 1;
            }
            Some("tries-work") => {
                let before = self.works.insert(read(line, 2), Work { key, round, is_acknowledged: false });
                assert!(before.is_none(), "{line}");
            }
            Some("worked") => {
                let name: String = read(line, 2);
                self.works.get_mut(&name).unwrap_or_else(|| panic!("{line}")).is_acknowledged = true;
                self.counts.worked += 1;
            }
            _ => panic!("{line}"),
        }
    }

    #[track_caller]
    fn granted(&mut self, line: &str, key: usize) {
        let (token, attempt) = (token_in(line), read(line, 3));
        assert!(self.highest < Some(token), "{line}, and before this round {:?}", self.highest);
        let (saved, has_row) = (false, false);
        let (completion, end) = (Write::NotTried, Write::NotTried);
        let grant = Grant { key, round: self.round, attempt, saved, has_row, completion, end };
        let before = self.grants.insert(token, grant);
        assert!(before.is_none(), "{line}, and before {before:?}");
        self.counts.granted += 1;
        self.counts.takeovers += usize::from(attempt > 1);
    }

    #[track_caller]
    fn grant(&mut self, line: &str) -> &mut Grant {
        let key: usize = read(line, 1);
        let grant = self.grants.get_mut(&token_in(line)).filter(|grant| grant.key == key);
        grant.unwrap_or_else(|| panic!("{line}, which was not granted"))
    }

    /// Now that all of them are dead: each replay is of what somebody recorded, or was about to.
    #[track_caller]
    pub fn check_replays(&mut self, lines: &[String]) {
        for line in lines {
            if line.starts_with("replayed") {
                let round = self.round;
                let grant = self.grant(line);
                assert!(grant.completion != Write::NotTried, "{line} of {grant:?}");
                assert!(round < grant.round + ROUNDS_KEPT, "{line} of {grant:?}");
                grant.completion = Write::Acknowledged;
            }
            if line.starts_with("work-replayed") {
                let work = self.works.get_mut(&read::<String>(line, 2)).unwrap_or_else(|| panic!("{line}"));
                assert!(
                    work.key == read::<usize>(line, 1) && self.round < work.round + ROUNDS_KEPT,
                    "{line} of {work:?}"
                );
                work.is_acknowledged = true;
            }
        }
    }

    /// Whether the file has what was acknowledged, and of the rest all or nothing.
    #[track_caller]
    pub fn check_file(&mut self, file: &Path) {
        let store = open(file, self.round);
        let connection = Connection::open(file).expect("the file");
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
        assert_eq!(sound, "ok");
        let rows = rows(&connection);
        let look = |key| store.lookup(&scope("tenant"), &key).expect("a look-up");
        for key in 0..KEYS {
            self.one_owner_at_a_time(key);
            let record = look(key_of_claim(key));
            self.check_claim(key, record.as_ref(), &rows);
            self.check_work(key, look(key_of_work(key)).as_ref(), &rows);
        }
        for ((key, name), times) in &rows {
            assert_eq!(*times, 1, "rows of {name}, key {key}");
            let token = name.parse().ok().and_then(FencingToken::new);
            let is_known = match token.and_then(|token| self.grants.get(&token)) {
                Some(grant) => grant.key == *key && grant.has_row && grant.completion != Write::NotTried,
                None => self.works.get(name).is_some_and(|work| work.key == *key),
            };
            assert!(is_known, "nobody wrote {name}, key {key}");
        }
    }

    fn grants_of(&self, key: usize) -> Vec<(FencingToken, &Grant)> {
        let of_key = self.grants.iter().filter(|(_, grant)| grant.key == key);
        of_key.map(|(token, grant)| (*token, grant)).collect()
    }

    /// Time stands still in a round, so nothing lapses there: who comes second comes after an end.
    #[track_caller]
    fn one_owner_at_a_time(&self, key: usize) {
        for pair in self.grants_of(key).windows(2) {
            let [(_, one), (_, next)] = pair else { continue };
            let what = format!("key {key}: {one:?}, then {next:?}");
            assert!(next.round > one.round || one.end != Write::NotTried, "{what}");
            let is_kept = next.round < one.round + ROUNDS_KEPT;
            assert!(one.completion != Write::Acknowledged || !is_kept, "{what}");
            let continues = is_kept && one.completion == Write::NotTried && one.end == Write::NotTried;
            assert!(!continues || next.attempt > one.attempt, "{what}");
        }
    }

    #[track_caller]
    fn check_claim(&mut self, key: usize, record: Option<&Record>, rows: &Rows) {
        let round = self.round;
        let newest = self.grants_of(key).pop().map(|(token, _)| token);
        let Some((token, grant)) = newest.and_then(|token| Some((token, self.grants.get_mut(&token)?)))
        else {
            let is_empty = record.is_none_or(|record| record.state == State::InProgress);
            return assert!(is_empty, "key {key}: {record:?}, and nobody was granted it");
        };
        let what = format!("key {key}, {token}: {grant:?}, {record:?}");
        let is_kept = round < grant.round + ROUNDS_KEPT;
        let (is_recorded, has_row) = match record {
            Some(record) if record.token == token => {
                assert_eq!(record.attempt, grant.attempt, "{what}");
                let is_saved = record.checkpoint.as_deref() == Some(&checkpoint_of(token)[..]);
                let is_recorded = record.state == State::Completed;
                assert!(is_saved || is_recorded || !grant.saved, "{what}");
                assert_eq!(record.reply, is_recorded.then(|| reply_of(token)), "{what}");
                (is_recorded, rows.contains_key(&(key, token.to_string())))
            }
            // Somebody died who had just been granted it.
            Some(record) => {
                assert!(record.token > token && record.state == State::InProgress, "{what}");
                assert!(grant.round < round || grant.end != Write::NotTried, "{what}");
                (false, false)
            }
            None => {
                // A claim is there for its lease, too.
                let is_over = match grant.completion {
                    Write::NotTried => round > grant.round + ROUNDS_KEPT,
                    _ => !is_kept,
                };
                assert!(is_over || grant.end != Write::NotTried, "{what}");
                (false, false)
            }
        };
        assert!(is_recorded || grant.completion != Write::Acknowledged || !is_kept, "{what}");
        assert!(!is_recorded || grant.completion != Write::NotTried, "{what}");
        if is_kept {
            assert_eq!(has_row, is_recorded && grant.has_row, "{what}: row and completion");
        }
        if grant.completion == Write::Tried && grant.round == round {
            // Whoever asks next is told the same.
            if is_recorded {
                grant.completion = Write::Acknowledged;
                self.counts.cut_off_and_done += 1;
            } else {
                grant.completion = Write::NotTried;
                self.counts.cut_off_and_not_done += 1;
            }
        }
    }

    #[track_caller]
    fn check_work(&mut self, key: usize, record: Option<&Record>, rows: &Rows) {
        let round = self.round;
        let recorded = record.and_then(|record| record.reply.as_ref());
        let recorded = recorded.map(|reply| reply.reference().expect("a name").to_owned());
        assert_eq!(
            record.is_some(),
            recorded.is_some(),
            "key {key}: work has no claim of its own, {record:?}"
        );
        let mut written: Vec<usize> = Vec::new();
        for (name, work) in self.works.iter_mut().filter(|(_, work)| work.key == key) {
            let is_written = rows.contains_key(&(key, name.clone()));
            let is_recorded = recorded.as_ref() == Some(name);
            let what = format!("key {key}, {name}: {work:?}, {recorded:?}");
            assert!(is_written || !work.is_acknowledged, "{what}");
            if round < work.round + ROUNDS_KEPT {
                assert_eq!(is_written, is_recorded, "{what}: row and completion");
            }
            if is_written {
                written.push(work.round);
            }
            if work.round == round && !work.is_acknowledged {
                self.counts.cut_off_and_done += usize::from(is_written);
                self.counts.cut_off_and_not_done += usize::from(!is_written);
                work.is_acknowledged = is_written;
            }
        }
        written.sort_unstable();
        let twice = written.windows(2).find(|pair| pair[1] < pair[0] + ROUNDS_KEPT);
        assert_eq!(twice, None, "key {key}: rounds in which it was done anew while its reply was kept");
        if let Some(name) = recorded {
            assert!(self.works.contains_key(&name), "key {key}: nobody tried {name}");
        }
    }
}

type Rows = BTreeMap<(usize, String), usize>;

/// How often each row is there.
fn rows(connection: &Connection) -> Rows {
    let mut statement = connection.prepare("SELECT key, name FROM orders").expect("a table");
    let all = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).expect("rows");
    let mut rows = Rows::new();
    for row in all {
        let (key, name) = row.expect("a row");
        *rows.entry((usize::try_from(key).expect("a small number"), name)).or_default() += 1;
    }
    rows
}

/// Whether somebody was told something by this line, and is not only about to ask.
pub fn is_acknowledgement(line: &str) -> bool {
    !line.starts_with("tries")
}
