//! Several that do the same work, each in the way that is the best for it, measured in turns.

use crate::common::measured::{Bound, Row};
use crate::common::plan::Plan;
use crate::common::sides::Sides;
use crate::common::spread::Spread;

/// A way to drive a contender.
pub trait Way {
    /// In words.
    fn name(&self) -> String;

    /// Operations a second, when `callers` do so many of them, each waiting for its answer before it goes on.
    /// Begins with nothing in the store; the preparation does not count.
    fn rate(&mut self, plan: Plan, callers: usize, operations: usize) -> f64;
}

/// How much is done, and by how many.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Numbers of callers, the last of which is the largest.
    pub callers: &'static [usize],
    /// How many operations of each caller find out which way is the best.
    pub tried_each: usize,
    /// How long a measurement takes, as far as the trial foretells it.
    pub seconds: f64,
    /// How many operations a measurement has at most.
    pub most: usize,
}

/// One of those that are compared.
pub struct Contender {
    pub name: String,
    ways: Vec<Box<dyn Way>>,
    /// For each number of callers.
    best: Vec<Best>,
}

/// The best way for a number of callers, and what it came to.
struct Best {
    callers: usize,
    way: usize,
    operations: usize,
    rates: Vec<f64>,
}

impl Contender {
    pub fn new(name: impl Into<String>, ways: Vec<Box<dyn Way>>) -> Self {
        Self { name: name.into(), ways, best: Vec::new() }
    }

    /// Tries each way twice for each number of callers; in a quick run, once.
    fn find_best(&mut self, plan: Plan, extent: Extent) {
        for &callers in extent.callers {
            let tried = plan.size((extent.tried_each * callers).min(extent.most), 2 * callers);
            let rates = self.ways.iter_mut().map(|way| {
                let rate = (0..plan.size(2, 1)).map(|_| way.rate(plan, callers, tried)).fold(0.0, f64::max);
                eprintln!("{}, {callers} callers, {}: {rate:.0}/s", self.name, way.name());
                rate
            });
            let (way, rate) =
                rates.enumerate().max_by(|one, other| one.1.total_cmp(&other.1)).expect("a way to drive it");
            let operations = plan.size(whole(rate * extent.seconds).min(extent.most), tried);
            self.best.push(Best { callers, way, operations, rates: Vec::new() });
        }
    }

    fn measure(&mut self, plan: Plan) {
        for best in &mut self.best {
            best.rates.push(self.ways[best.way].rate(plan, best.callers, best.operations));
        }
    }

    fn best(&self, callers: usize) -> &Best {
        self.best.iter().find(|best| best.callers == callers).expect("a number of callers that was measured")
    }

    /// The way that was the best for so many callers.
    pub fn way(&self, callers: usize) -> String {
        self.ways[self.best(callers).way].name()
    }

    /// How often as many operations a second this has as `peer`.
    pub fn against(&self, peer: &Self, callers: usize, id: &'static str, what: &str, bound: Bound) -> Row {
        let mut sides = Sides::default();
        for (own, peer) in self.best(callers).rates.iter().zip(&peer.best(callers).rates) {
            sides.push(*own, *peer);
        }
        let what = format!("{what} ({}; {})", peer.name, peer.way(callers));
        Row::of_sides(id, what, &sides, "operations/s", Some(bound))
    }

    /// Its name, and what it came to for each number of callers.
    pub fn line(&self) -> (String, Vec<(f64, f64)>) {
        let point = |best: &Best| (number(best.callers), Spread::of(best.rates.iter().copied()).median);
        (self.name.clone(), self.best.iter().map(point).collect())
    }
}

/// Measures all `contenders`; who begins changes with each repeat.
pub fn measure(plan: Plan, extent: Extent, contenders: &mut [&mut Contender]) {
    contenders.iter_mut().for_each(|contender| contender.find_best(plan, extent));
    for _ in 0..plan.repeats {
        contenders.iter_mut().for_each(|contender| contender.measure(plan));
        contenders.rotate_left(1);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
const fn number(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of operations")]
const fn whole(count: f64) -> usize {
    count.ceil() as usize
}
