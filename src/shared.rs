//! What all handles and claims of one store share: [`Shared`].

use crate::backend::Backend;
use crate::keep_alive::Renewer;
use crate::observed::Observed;
use std::ops::Deref;
use std::sync::Arc;

/// One store, whatever handles and claims there are of it. It is used as the [`Observed`] backend that it is.
#[derive(Debug)]
pub(crate) struct Shared {
    // Its thread ends before the backend may go.
    renewer: Renewer,
    observed: Arc<Observed>,
}

impl Shared {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        let observed = Arc::new(Observed::new(backend));
        Self { renewer: Renewer::new(Arc::clone(&observed)), observed }
    }

    pub(crate) const fn renewer(&self) -> &Renewer {
        &self.renewer
    }
}

impl Deref for Shared {
    type Target = Observed;

    fn deref(&self) -> &Observed {
        &self.observed
    }
}
