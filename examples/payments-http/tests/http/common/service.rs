//! A server in the test's own process: [`Running`].

use super::client::Client;
use super::provider::Ledger;
use super::{TOKEN_A, TOKEN_B};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;
use idempotency::testing::FaultyBackend;
use idempotency::{IdempotencyKey, IdempotencyStore, Policy, Record, Scope, SqliteBackend, SqliteOptions};
use payments_http::accounts::{Accounts, authenticate};
use payments_http::app::Service;
use payments_http::idempotent::{AnyStore, Idempotent, Principal, idempotent};
use payments_http::provider::Provider;
use payments_http::rate_limit::RateLimit;
use payments_http::server::serve;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// A store on a file that counts its calls, and fails when it is told to.
type TestStore = IdempotencyStore<FaultyBackend<SqliteBackend>>;

/// A server that listens, and all that is behind it. Stops when it is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub store: TestStore,
    pub ledger: Ledger,
    pub operations: TaskTracker,
    clients: [Client; 2],
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Running {
    /// The service as it is.
    pub fn service() -> Self {
        Self::with(Policy::new(), |service| service.router().expect("a router"))
    }

    /// `handlers` at `/op`, marked, behind the authentication.
    pub fn marked(policy: Policy, handlers: MethodRouter) -> Self {
        Self::with(policy, |service| {
            let layer = Idempotent::new(service.store.clone(), "op", service.operations.clone());
            let layer = from_fn_with_state(layer.expect("a layer"), idempotent);
            Router::new()
                .route("/op", handlers.route_layer(layer))
                .layer(DefaultBodyLimit::max(payments_http::app::MAX_BODY_LEN))
                .layer(from_fn_with_state(service.accounts.clone(), authenticate))
        })
    }

    /// What `router` makes of the service, on a store with `policy`.
    pub fn with(policy: Policy, router: impl FnOnce(&Service) -> Router) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let backend = SqliteBackend::open(folder.path().join("payments.db"), SqliteOptions::new());
        let store = IdempotencyStore::new(FaultyBackend::new(backend.expect("a store")));
        let store = store.with_policy(policy).expect("a policy");
        let runtime = Runtime::new().expect("a runtime");
        let account = |name| Principal::new(name).expect("a principal");
        let service = Service {
            store: AnyStore::new(store.erase(), runtime.handle().clone()),
            provider: Provider::new(folder.path(), Duration::ZERO),
            accounts: Accounts::default().with(account("acct_a"), TOKEN_A).with(account("acct_b"), TOKEN_B),
            rate_limit: RateLimit::new(u32::MAX, Duration::from_secs(3_600)),
            operations: TaskTracker::new(),
        };
        let router = router(&service);
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let operations = service.operations;
        let serving = serve(listener, router, operations.clone(), stopped);
        let serving = runtime.spawn(async { serving.await.expect("a server that ends well") });
        Self {
            address,
            store,
            ledger: Ledger::new(folder.path()),
            operations,
            clients: [TOKEN_A, TOKEN_B].map(|token| Client::new(address, token)),
            runtime,
            stop: Some(stop),
            serving: Some(serving),
            _folder: folder,
        }
    }

    /// Account A's.
    pub fn client(&self) -> &Client {
        &self.clients[0]
    }

    /// Account B's.
    pub fn other_client(&self) -> &Client {
        &self.clients[1]
    }

    /// How often the store's backend was called.
    pub fn store_calls(&self) -> usize {
        self.store.backend().calls()
    }

    /// The record of account A's payment `key`.
    pub fn record(&self, key: &str) -> Option<Record> {
        self.record_of("acct_a/payments", key)
    }

    pub fn record_of(&self, scope: &str, key: &str) -> Option<Record> {
        let scope = Scope::new(scope).expect("a scope");
        let key = IdempotencyKey::new(key).expect("a key");
        self.store.lookup(&scope, &key).expect("a look-up")
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            self.runtime.block_on(serving).expect("a server that ends well");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
