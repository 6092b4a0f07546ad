//! The story, one scenario a function.

use crate::Result;
use crate::provider::{Charge, Manner};
use crate::shop::{Answer, Order, Shop, connect, enter};
use crate::story::{Table, count};
use idempotency::rusqlite::TransactionBehavior;
use idempotency::{
    Claim, ClaimOutcome, Clock, Error as StoreError, ManualClock, Reply, StoredResponse, SystemClock,
};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

impl Shop {
    /// What there is for the account of `order`, at the provider and in the table.
    fn by_then(&self, order: &Order) -> Result<String> {
        let select = "SELECT count(*) FROM orders WHERE account = ?1";
        let orders: u32 = connect(&self.database)?.query_row(select, [&order.account], |row| row.get(0))?;
        Ok(format!("{}, {}", self.provider.tally(&order.account), count(usize::try_from(orders)?, "order")))
    }
}

struct Story<W> {
    shop: Shop,
    clock: ManualClock,
    folder: PathBuf,
    table: Table<W>,
}

/// Plays every scenario, each with an account of its own; says whether all went as expected.
pub fn play(out: impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    // Stands still but where a scenario moves it, so nobody has to wait for the end of a lease.
    let clock = ManualClock::new(SystemClock.now());
    let shop = Shop::open(folder.path().join("shop.db"), clock.clone())?;
    let table = Table::new(
        out,
        "Calls, charges and orders: what the provider and the table have for that account by then.",
    )?;
    let mut story = Story { shop, clock, folder: folder.path().to_owned(), table };
    retried(&mut story)?;
    slow(&mut story)?;
    failed(&mut story)?;
    declined(&mut story)?;
    not_written(&mut story)?;
    too_large(&mut story)?;
    dead(&mut story)?;
    overtaken(&mut story)?;
    won_by_another(&mut story)?;
    twice(&mut story)?;
    rolled_back(&mut story)?;
    refused(&mut story)?;
    story.table.end()
}

impl<W: Write> Story<W> {
    fn row(&mut self, what: &str, order: &Order, expected: &str, happened: impl fmt::Display) -> Result<()> {
        let happened = format!("{happened}; {}", self.shop.by_then(order)?);
        self.table.row(what, expected, happened)
    }

    /// A claim of `order` and the charge for it: an owner that has come as far as that.
    fn owner(&self, order: &Order) -> Result<(Claim, Charge)> {
        let ClaimOutcome::Claimed(claim) = self.shop.claim(order)? else {
            return Err("the claim was not granted".into());
        };
        let charge = self.shop.provider.charge(&claim.downstream_key("charge"), order, || Ok(()))?;
        Ok((claim, charge))
    }

    fn let_the_lease_end(&self) {
        self.clock.advance(self.shop.store.policy().lease());
    }
}

fn order_of(account: &str) -> Order {
    Order { account: account.to_owned(), key: "cart-7".to_owned(), cents: 500, note: "ring twice".to_owned() }
}

/// Whether `again` says what `first` said: status, headers and body, byte for byte.
fn compared(again: &Answer, first: &Answer) -> String {
    let same = again.reply().is_some() && again.reply() == first.reply();
    format!("{again}, {} bytes", if same { "same" } else { "OTHER" })
}

fn retried(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_retried");
    let first = story.shop.place(&order)?;
    story.row("an order", &order, "201 executed; 1 call, 1 charge, 1 order", &first)?;
    let again = story.shop.place(&order)?;
    let expected = "201 replayed, same bytes; 1 call, 1 charge, 1 order";
    story.row("its retry", &order, expected, compared(&again, &first))?;
    let other = Order { cents: 900, ..order_of("acct_retried") };
    let answer = story.shop.place(&other)?;
    story.row("its key, another amount", &order, "422 key reused; 1 call, 1 charge, 1 order", answer)
}

fn slow(story: &mut Story<impl Write>) -> Result<()> {
    let (order, elsewhere) = (order_of("acct_slow"), order_of("acct_elsewhere"));
    let Story { shop, table, .. } = story;
    let executed = "201 executed; 1 call, 1 charge, 1 order";
    let answer = shop.place_while(&order, || {
        let in_progress = "409 in progress; 1 call, 0 charges, 0 orders";
        for (what, order, expected) in [
            ("another order, during a slow call", &elsewhere, executed),
            ("a second caller, during that call", &order, in_progress),
        ] {
            let heard = shop.place(order).map_or_else(|error| error.to_string(), |it| it.to_string());
            table.row(what, expected, format_args!("{heard}; {}", shop.by_then(order)?))?;
        }
        Ok(())
    })?;
    story.row("the slow one itself", &order, executed, answer)
}

fn failed(story: &mut Story<impl Write>) -> Result<()> {
    for (account, manner, what, expected) in [
        (
            "acct_502",
            Manner::Breaks,
            "the provider says 502",
            "503 provider said 502; 1 call, 0 charges, 0 orders",
        ),
        (
            "acct_silent",
            Manner::FallsSilent,
            "its answer is lost",
            "503 no answer came; 1 call, 1 charge, 0 orders",
        ),
    ] {
        let order = order_of(account);
        story.shop.provider.next.set(manner);
        let answer = story.shop.place(&order)?;
        story.row(what, &order, expected, answer)?;
        let answer = story.shop.place(&order)?;
        let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
        story.row("a retry, at once", &order, expected, answer)?;
    }
    Ok(())
}

fn declined(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_declined");
    story.shop.provider.next.set(Manner::Declines);
    let first = story.shop.place(&order)?;
    story.row("the provider declines", &order, "402 executed; 1 call, 0 charges, 0 orders", &first)?;
    let again = story.shop.place(&order)?;
    let expected = "402 replayed, same bytes; 1 call, 0 charges, 0 orders";
    story.row("a retry, though now it would not", &order, expected, compared(&again, &first))
}

fn not_written(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_not_written");
    let connection = connect(&story.shop.database)?;
    connection.execute_batch(
        "CREATE TRIGGER broken BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'the table broke'); END",
    )?;
    let answer = story.shop.place(&order)?;
    connection.execute_batch("DROP TRIGGER broken")?;
    let expected = "503 the table broke; 1 call, 1 charge, 0 orders";
    story.row("charged, and the row is not written", &order, expected, answer)?;
    let answer = story.shop.place(&order)?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("a retry, at once", &order, expected, answer)
}

fn too_large(story: &mut Story<impl Write>) -> Result<()> {
    let order = Order { note: "x".repeat(2000), ..order_of("acct_too_large") };
    let first = story.shop.place(&order)?;
    let response = first.reply().and_then(Reply::response);
    let len = response.map_or(0, |response| response.body().len());
    let expected = "201 executed, 0 bytes; 1 call, 1 charge, 1 order";
    story.row("a reply that is too large", &order, expected, format_args!("{first}, {len} bytes"))?;
    let again = story.shop.place(&order)?;
    let expected = "201 replayed, same bytes; 1 call, 1 charge, 1 order";
    story.row("its retry", &order, expected, compared(&again, &first))
}

fn dead(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_dead");
    // Dropping a claim does nothing, so this owner has died after its charge.
    drop(story.owner(&order)?);
    let answer = story.shop.place(&order)?;
    story.row("its owner died: a retry", &order, "409 in progress; 1 call, 1 charge, 0 orders", answer)?;
    story.let_the_lease_end();
    let answer = story.shop.place(&order)?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("a retry after the lease", &order, expected, answer)
}

fn overtaken(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_overtaken");
    let (slow, slow_charge) = story.owner(&order)?;
    story.let_the_lease_end();
    let (newer, newer_charge) = story.owner(&order)?;
    let answer = story.shop.record(&slow, &order, &slow_charge)?;
    let expected = "lost: another runs; 2 calls, 1 charge, 0 orders";
    story.row("an owner that was taken over commits", &order, expected, answer)?;
    let answer = story.shop.record(&newer, &order, &newer_charge)?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("the one that took over commits", &order, expected, answer)?;
    let answer = story.shop.record(&slow, &order, &slow_charge)?;
    let expected = "lost: another completed; 2 calls, 1 charge, 1 order";
    story.row("the slow one tries again", &order, expected, answer)
}

fn won_by_another(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_won");
    let mut winner = None;
    let slow = story.shop.place_while(&order, || {
        story.let_the_lease_end();
        winner = Some(story.shop.place(&order)?);
        Ok(())
    })?;
    let winner = winner.ok_or("nobody took over")?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("one that takes over during a call", &order, expected, &winner)?;
    let expected = "201 replayed, same bytes; 2 calls, 1 charge, 1 order";
    story.row("and the one that was slow", &order, expected, compared(&slow, &winner))?;

    let order = order_of("acct_winning");
    let mut winner = None;
    let slow = story.shop.place_while(&order, || {
        story.let_the_lease_end();
        winner = Some(story.owner(&order)?);
        Ok(())
    })?;
    let (winner, charge) = winner.ok_or("nobody took over")?;
    let expected = "409 in progress; 2 calls, 1 charge, 0 orders";
    story.row("a slow one, while another runs", &order, expected, slow)?;
    let answer = story.shop.record(&winner, &order, &charge)?;
    let expected = "201 executed, attempt 2; 2 calls, 1 charge, 1 order";
    story.row("that other one", &order, expected, answer)?;

    let order = order_of("acct_nobody_won");
    let slow = story.shop.place_while(&order, || {
        story.let_the_lease_end();
        story.shop.provider.next.set(Manner::FallsSilent);
        story.shop.place(&order).map(drop)
    })?;
    let expected = "503 nobody has a reply; 2 calls, 1 charge, 0 orders";
    story.row("a slow one, after another that failed", &order, expected, slow)?;
    let answer = story.shop.place(&order)?;
    let expected = "201 executed, attempt 4; 3 calls, 1 charge, 1 order";
    story.row("a retry, at once", &order, expected, answer)
}

fn twice(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_twice");
    let (claim, charge) = story.owner(&order)?;
    let first = story.shop.record(&claim, &order, &charge)?;
    story.row("an owner commits", &order, "201 executed; 1 call, 1 charge, 1 order", &first)?;
    let again = story.shop.record(&claim, &order, &charge)?;
    let expected = "201 from before, same bytes; 1 call, 1 charge, 1 order";
    story.row("and once more, with the same ticket", &order, expected, compared(&again, &first))
}

fn rolled_back(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_rolled_back");
    let (claim, charge) = story.owner(&order)?;
    let mut connection = connect(&story.shop.database)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let reply = enter(&transaction, &order, &charge)?;
    story.shop.store.complete_in(&transaction, &claim.ticket(), reply)?;
    transaction.rollback()?;
    let answer = story.shop.place(&order)?;
    let expected = "409 in progress; 1 call, 1 charge, 0 orders";
    story.row("completed, then rolled back: a retry", &order, expected, answer)?;
    let answer = story.shop.record(&claim, &order, &charge)?;
    story.row("its owner tries again", &order, "201 executed; 1 call, 1 charge, 1 order", answer)
}

fn refused(story: &mut Story<impl Write>) -> Result<()> {
    let order = order_of("acct_refused");
    let (claim, charge) = story.owner(&order)?;
    let reply = StoredResponse::new(201);

    // rusqlite's default: it takes the write lock at its first write only, and what it read before may be
    // over by then.
    let mut connection = connect(&story.shop.database)?;
    let deferred = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let done = story.shop.store.complete_in(&deferred, &claim.ticket(), reply.clone());
    drop(deferred);
    let happened = match done {
        Err(StoreError::NoWriteLock) => "refused: no write lock".to_owned(),
        other => format!("{other:?}"),
    };
    let expected = "refused: no write lock; 1 call, 1 charge, 0 orders";
    story.row("in a deferred transaction", &order, expected, happened)?;

    let other = Shop::open(story.folder.join("other.db"), story.clock.clone())?;
    let mut connection = connect(&other.database)?;
    let elsewhere = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = story.shop.store.complete_in(&elsewhere, &claim.ticket(), reply);
    drop(elsewhere);
    let happened = match done {
        Err(StoreError::OtherDatabase(_)) => "refused: another database".to_owned(),
        other => format!("{other:?}"),
    };
    let expected = "refused: another database; 1 call, 1 charge, 0 orders";
    story.row("in a transaction on another database", &order, expected, happened)?;

    let answer = story.shop.record(&claim, &order, &charge)?;
    story.row("as it should be", &order, "201 executed; 1 call, 1 charge, 1 order", answer)
}
