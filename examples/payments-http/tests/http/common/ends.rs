//! When the server is done with a request: [`Ends`].

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Hears of every request that is not served any more, whether it was answered, or dropped because its client
/// has gone.
pub struct Ends {
    tell: Sender<()>,
    hear: Receiver<()>,
}

impl Ends {
    pub fn new() -> Self {
        let (tell, hear) = channel();
        Self { tell, hear }
    }

    /// `router`, watched.
    pub fn watch(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.tell.clone(), serve))
    }

    /// Waits for the next one.
    #[track_caller]
    pub fn wait(&self) {
        self.hear.recv_timeout(Duration::from_secs(60)).expect("a request that ends");
    }
}

async fn serve(State(tell): State<Sender<()>>, request: Request, next: Next) -> Response {
    struct Tell(Sender<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            // Where nobody listens any more, that is fine.
            let _ = self.0.send(());
        }
    }
    let _tell = Tell(tell);
    next.run(request).await
}
