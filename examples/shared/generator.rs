//! Events out of nothing, for `webhooks`: as a sender delivers them that has to be sure, and not in order.

use std::error::Error;
use std::io::{BufWriter, Write};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Prints `count` events of two sources, each up to three times, now and then with one that has another's id.
pub fn generate(count: u64, seed: u64, out: impl Write) -> Result<bool> {
    let mut random = Random(seed);
    let mut deliveries = Vec::new();
    for n in 0..count {
        let source = if n % 2 == 0 { "shop" } else { "market" };
        let (id, order) = (n / 2, n / 8);
        let change = ["created", "paid", "paid", "refunded"][usize::try_from(id % 4)?];
        let amount = 1 + random.below(10_000);
        let line = |amount: u64, delivery: u64| {
            let event =
                format!(r#""source":"{source}","id":"evt_{id}","type":"{change}","order":"order_{order}""#);
            format!(r#"{{{event},"amount":{amount},"delivery":{delivery}}}"#)
        };
        for delivery in 1..=1 + random.below(3) {
            // The first comes a little out of order, a repetition perhaps much later.
            let late = random.below(if delivery == 1 { 20 } else { 1_000 });
            deliveries.push((n + late, line(amount, delivery)));
        }
        if random.below(100) == 0 {
            deliveries.push((n + random.below(1_000), line(amount + 1, 1)));
        }
    }
    deliveries.sort_by_key(|(at, _)| *at);
    let mut out = BufWriter::new(out);
    for (_, line) in deliveries {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(true)
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    /// A number below `limit`; that low ones come a little more often does not matter here.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
