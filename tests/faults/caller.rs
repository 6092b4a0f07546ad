//! A caller that writes down what it was told, and works through every kind of operation: [`Caller`].

use crate::common::{Answer as _, asks_for, key, scope, secs};
use crate::lane::{Belongings, Known, Lane, Step};
use crate::vfs::Disk;
use idempotency::{Claim, Clock, ManualClock, Ran, Reply, SqliteStore, StoredResponse};
use rusqlite::{Connection, TransactionBehavior};
use std::collections::BTreeMap;

/// Beyond lease and retention.
const EXPIRED: u64 = 90 + 24 * 60 * 60;

/// Longer than a page, and of its own for each operation.
pub fn reply(of: &str) -> Reply {
    StoredResponse::new(201).with_header("of", of).with_body(of.repeat(6_000 / of.len())).into()
}

/// Longer than a page, too.
fn order(name: &str) -> String {
    format!("{name:>40}{}", "7".repeat(6_000))
}

pub struct Caller<'d> {
    disk: &'d Disk,
    clock: ManualClock,
    lane: Lane,
    held: BTreeMap<String, Claim>,
}

impl<'d> Caller<'d> {
    pub fn new(scope: &str, disk: &'d Disk, clock: &ManualClock) -> Self {
        let lane = Lane::new(scope, clock.now());
        Self { disk, clock: clock.clone(), lane, held: BTreeMap::new() }
    }

    pub fn into_lane(self) -> Lane {
        self.lane
    }

    /// Does what changes the belongings as it says.
    pub fn step<T>(
        &mut self,
        name: &'static str,
        operation: impl FnOnce(&mut Self, &mut Belongings) -> T,
    ) -> T {
        let began = self.disk.recorded();
        let mut after = self.lane.last().after.clone();
        let done = operation(self, &mut after);
        let granted = after.records.values().map(|known| known.token.get()).max();
        let step = Step {
            name,
            began,
            acknowledged: self.disk.recorded(),
            now: self.clock.now(),
            highest_token: self.lane.last().highest_token.max(granted.unwrap_or(0)),
            after,
        };
        self.lane.steps.push(step);
        done
    }

    fn keep(&mut self, after: &mut Belongings, name: &str, claim: Claim) {
        after.records.insert(name.to_owned(), Known::granted(&claim));
        self.lane.tickets.insert(claim.token().get(), claim.ticket());
        self.held.insert(name.to_owned(), claim);
    }

    fn taken(&mut self, name: &str) -> Claim {
        self.held.remove(name).expect("it is held")
    }

    /// Claims, over whatever there is.
    pub fn claim(&mut self, store: &SqliteStore, what: &'static str, name: &str, attempt: u32) {
        self.step(what, |caller, after| {
            let scope = scope(&caller.lane.scope);
            let claim = store.try_claim(&scope, &key(name), &asks_for("x")).expect("a sound disk").claimed();
            assert_eq!(claim.attempt(), attempt, "{what}");
            caller.keep(after, name, claim);
        });
    }

    pub fn complete(&mut self, name: &str) {
        self.step("complete", |caller, after| {
            let completed = caller.taken(name).complete(reply(name)).expect("held");
            let known = after.records[name].completed(&completed);
            assert_eq!(known.reply, Some(reply(name)));
            after.records.insert(name.to_owned(), known);
        });
    }

    pub fn atomically(&mut self, store: &SqliteStore, name: &str) {
        self.step("atomically", |caller, after| {
            let (lane, mut token) = (caller.lane.scope.clone(), None);
            let ran = store.atomically(&scope(&lane), &key(name), &asks_for("x"), |transaction| {
                insert_order(transaction, &lane, name)?;
                // The answer does not say which token it had.
                token = transaction
                    .query_row("SELECT last_token FROM idempotency_meta", [], |row| row.get(0))
                    .map(idempotency::FencingToken::new)?;
                Ok::<_, rusqlite::Error>(reply(name))
            });
            let Ok(Ran::Executed(completed)) = ran else { panic!("wanted Executed, got {ran:?}") };
            let known = Known {
                token: token.expect("a token"),
                attempt: 1,
                lease_until: caller.clock.now().saturating_add(secs(90)),
                checkpoint: None,
                reply: Some(completed.reply),
            };
            after.records.insert(name.to_owned(), known);
            after.orders.insert(order(name)[..40].to_owned());
        });
    }

    fn checkpoint(&mut self, name: &str) {
        self.step("checkpoint", |caller, after| {
            let claim = caller.held.get_mut(name).expect("it is held");
            claim.save_checkpoint(name.repeat(6_000)).expect("held");
            let known = after.records.get_mut(name).expect("it is held");
            known.checkpoint = Some(name.repeat(6_000).into_bytes());
            known.lease_until = claim.lease_until();
        });
    }

    fn renew(&mut self, name: &str) {
        self.step("renew", |caller, after| {
            let claim = caller.held.get_mut(name).expect("it is held");
            claim.renew().expect("held");
            after.records.get_mut(name).expect("it is held").lease_until = claim.lease_until();
        });
    }

    fn claim_many(&mut self, store: &SqliteStore, names: &[&str]) {
        self.step("claim of many", |caller, after| {
            let one = |name: &&str| (scope(&caller.lane.scope), key(name), asks_for("x"));
            let many: Vec<_> = names.iter().map(one).collect();
            for (name, answer) in names.iter().zip(store.try_claim_many(&many)) {
                caller.keep(after, name, answer.expect("a sound disk").claimed());
            }
        });
    }

    /// The reply and an order, in a transaction of the application's own.
    fn complete_in(&mut self, store: &SqliteStore, shell: &mut Connection, name: &str) {
        self.step("complete in a transaction", |caller, after| {
            let transaction =
                shell.transaction_with_behavior(TransactionBehavior::Immediate).expect("no other writer");
            insert_order(&transaction, &caller.lane.scope, name).expect("an order");
            let ticket = caller.taken(name).into_ticket();
            let completed = store.complete_in(&transaction, &ticket, reply(name)).expect("held");
            transaction.commit().expect("a sound disk");
            let known = after.records[name].completed(&completed);
            after.records.insert(name.to_owned(), known);
            after.orders.insert(order(name)[..40].to_owned());
        });
    }

    /// Every kind of operation that writes, on keys that start with `round`.
    pub fn work(&mut self, store: &SqliteStore, shell: &mut Connection, round: &str) {
        let names = ["a", "b", "c", "d", "e", "f", "g"].map(|name| format!("{round}{name}"));
        let [a, b, c, d, e, f, g] = names.each_ref().map(String::as_str);
        self.claim(store, "claim", a, 1);
        self.claim(store, "claim", b, 1);
        self.checkpoint(b);
        self.complete(a);
        self.atomically(store, c);
        self.claim_many(store, &[d, e, f]);
        self.step("release", |caller, after| {
            caller.taken(d).release().expect("held");
            after.records.remove(d);
        });
        self.clock.advance(secs(30));
        self.renew(f);
        self.step("abandon", |caller, after| {
            caller.taken(e).abandon().expect("held");
            after.records.get_mut(e).expect("it was held").lease_until = caller.clock.now();
        });
        self.claim(store, "takeover of what was abandoned", e, 2);
        self.complete_in(store, shell, f);
        self.clock.advance(secs(90));
        self.claim(store, "takeover", b, 2);
        self.complete(b);
        self.claim(store, "claim", g, 1);
        self.step("forget", |caller, after| {
            assert!(store.forget(&scope(&caller.lane.scope), &key(c)).expect("a sound disk"));
            after.records.remove(c);
        });
        self.complete(e);
        self.clock.advance(secs(2 * EXPIRED));
        self.claim(store, "claim over an expired record", a, 1);
        self.step("sweep", |_, after| {
            let swept = store.sweep(100).expect("a sound disk");
            let before = after.records.len();
            after.records.retain(|name, _| name == a);
            assert_eq!((swept.removed, swept.more), (before - 1, false));
        });
        self.complete(a);
        // What was swept is held no more: a claim keeps its store open.
        self.held.clear();
    }
}

fn insert_order(connection: &Connection, scope: &str, name: &str) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO orders (scope, id) VALUES (?1, ?2)", [scope, &order(name)])
}
