//! A payment provider that charges once for each key.

use crate::Result;
use crate::shop::Order;
use crate::story::count;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// A definite answer of the provider.
pub enum Charge {
    /// By this name.
    Made(String),
    Declined,
}

/// What the provider does when it is called.
#[derive(Clone, Copy, Default)]
pub enum Manner {
    #[default]
    Charges,
    Declines,
    /// Says 502 before it has charged.
    Breaks,
    /// Charges, and its answer is lost.
    FallsSilent,
}

#[derive(Default)]
pub struct Provider {
    /// For the next call only.
    pub next: Cell<Manner>,
    /// The account and the key of every call.
    calls: RefCell<Vec<(String, String)>>,
    charges: RefCell<BTreeSet<(String, String)>>,
}

impl Provider {
    /// Charges, unless `key` was charged before. It takes as long as `meanwhile`.
    ///
    /// An `Err` says nothing of whether it has charged.
    pub fn charge(&self, key: &str, order: &Order, meanwhile: impl FnOnce() -> Result<()>) -> Result<Charge> {
        let (manner, call) = (self.next.take(), (order.account.clone(), key.to_owned()));
        self.calls.borrow_mut().push(call.clone());
        meanwhile()?;
        match manner {
            Manner::Declines => return Ok(Charge::Declined),
            Manner::Breaks => return Err("provider said 502".into()),
            Manner::Charges | Manner::FallsSilent => self.charges.borrow_mut().insert(call),
        };
        match manner {
            Manner::FallsSilent => Err("no answer came".into()),
            _ => Ok(Charge::Made(format!("ch_{}", &key[key.len() - 8..]))),
        }
    }

    /// How often it was called for `account`, and how often it charged. One order has one key.
    pub fn tally(&self, account: &str) -> String {
        let (calls, charges) = (self.calls.borrow(), self.charges.borrow());
        let keys: Vec<_> = calls.iter().filter(|(by, _)| by == account).map(|(_, key)| key).collect();
        let charges = charges.iter().filter(|(by, _)| by == account).count();
        let different = keys.iter().collect::<BTreeSet<_>>().len();
        let under = if different > 1 { format!(" under {different} KEYS") } else { String::new() };
        format!("{}{under}, {}", count(keys.len(), "call"), count(charges, "charge"))
    }
}
