//! PostgreSQL: an upsert as careful as the store's own, prepared on each connection, a transaction a claim.

use crate::claimant::{Claimant, Tasks, by_threads};
use crate::common::request::Request;
use crate::contest::Way;
use crate::server::{Missing, Place, Server, find};
use idempotency::{Clock, IdempotencyKey, Policy, SystemClock};
use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement};
use rustix::process::Signal;
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const USER: &str = "idempotency";
/// Up to as many as there are callers.
const POOLS: [usize; 4] = [8, 16, 32, 64];
/// Debian's packages leave the server's programs off the path.
const PACKAGES: &str = "/usr/lib/postgresql";

/// What a claim needs, and the index of its key: no index on the expiry, which a sweep would want. The token
/// comes from a sequence, which reaches the log once in 32 claims.
const TABLE: &str = "
CREATE SEQUENCE token;
CREATE TABLE claim (
  scope text NOT NULL, key text NOT NULL, fingerprint bytea NOT NULL, completed boolean NOT NULL,
  token bigint NOT NULL, attempt bigint NOT NULL, created_at bigint NOT NULL, lease_until bigint NOT NULL,
  expires_at bigint NOT NULL, reply bytea, PRIMARY KEY (scope, key))";

/// Inserts a claim, or takes over what has lapsed or expired.
const UPSERT: &str = "
INSERT INTO claim AS stored (scope, key, fingerprint, completed, token, attempt, created_at, lease_until, expires_at)
VALUES ($1, $2, $3, false, nextval('token'), 1, $4, $5, $6)
ON CONFLICT (scope, key) DO UPDATE SET fingerprint = $3, completed = false, token = nextval('token'), reply = NULL,
  attempt = stored.attempt + 1, created_at = $4, lease_until = $5, expires_at = $6
WHERE stored.expires_at <= $4
  OR (NOT stored.completed AND stored.lease_until <= $4 AND stored.fingerprint = $3)";

/// The server, with an empty table.
pub struct Postgres {
    server: Server,
    pub version: String,
}

impl Postgres {
    /// With the settings of its own, which are durable: `fsync` and `synchronous_commit` are asked for, and
    /// must be on.
    pub fn start() -> Result<Self, Missing> {
        let packages = fs::read_dir(PACKAGES).into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = packages.map(|version| version.path()).collect();
        // 9.6 comes before 17.
        let number = |version: &Path| -> Option<f64> { version.file_name()?.to_str()?.parse().ok() };
        versions.sort_by(|one, other| number(one).partial_cmp(&number(other)).unwrap_or(Ordering::Equal));
        let folders: Vec<PathBuf> = versions.iter().map(|version| version.join("bin")).collect();
        let (initdb, postgres) = (find("initdb", &folders)?, find("postgres", &folders)?);
        let place = Place::of_unprivileged_user(&["postgres", "nobody"])?;
        let cluster = place.data().join("cluster");
        // Only the making of the cluster goes without a sync.
        let made = place
            .command(&initdb)?
            .args(["--no-sync", "--auth=trust", "--no-locale", "--encoding=UTF8", "--username", USER])
            .arg("--pgdata")
            .arg(&cluster)
            .status();
        if !made.is_ok_and(|status| status.success()) {
            return Err(format!("initdb failed: {}", place.last_words()));
        }
        let mut command = place.command(&postgres)?;
        command.arg("-D").arg(&cluster).arg("-k").arg(place.sockets()).args(["-c", "listen_addresses="]);
        // Twice the largest pool: the connections of one measurement may still be closing when the next begins.
        command.args(["-c", "max_connections=150"]);
        let server = Server::start(place, command, Signal::INT, |place| connect(place.sockets()).is_ok())?;
        let mut client = connect(server.place.sockets()).map_err(|error| error.to_string())?;
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            assert_eq!(show(&mut client, setting), "on", "{setting}");
        }
        client.batch_execute(TABLE).expect("a table");
        // Without the packager's own number.
        let version = show(&mut client, "server_version");
        let version = format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default());
        Ok(Self { server, version })
    }

    fn sockets(&self) -> &Path {
        self.server.place.sockets()
    }

    /// As many ways to drive it as may be the best: with blocking calls, where a caller takes a connection from
    /// a pool, and from tasks, where the callers of a connection send without waiting for one another.
    pub fn ways(self, tasks: &[Rc<Tasks>]) -> Vec<Box<dyn Way>> {
        let server = Rc::new(self);
        let mut ways: Vec<Box<dyn Way>> = Vec::new();
        for connections in POOLS {
            ways.push(Box::new(Pooled { server: Rc::clone(&server), connections }));
            for tasks in tasks {
                let (server, tasks) = (Rc::clone(&server), Rc::clone(tasks));
                ways.push(Box::new(Pipelined { server, connections, tasks }));
            }
        }
        ways
    }

    fn empty(&self) {
        let mut client = connect(self.sockets()).expect("a connection");
        client.batch_execute("TRUNCATE claim").expect("an empty table");
    }
}

fn configuration(sockets: &Path) -> tokio_postgres::Config {
    let mut configuration = tokio_postgres::Config::new();
    configuration.user(USER).dbname("postgres").host_path(sockets);
    configuration
}

fn connect(sockets: &Path) -> Result<Client, postgres::Error> {
    Config::from(configuration(sockets)).connect(NoTls)
}

fn show(client: &mut Client, setting: &str) -> String {
    client.query_one(&format!("SHOW {setting}"), &[]).expect("a setting").get(0)
}

/// The parameters of [`UPSERT`] for a claim that is made now.
struct Parameters<'a> {
    scope: &'a str,
    key: &'a str,
    digest: &'a [u8],
    now: i64,
    lease_until: i64,
    expires_at: i64,
}

impl<'a> Parameters<'a> {
    fn new(request: &'a Request, key: &'a IdempotencyKey) -> Self {
        let (policy, now) = (Policy::new(), SystemClock.now());
        let lease_until = now.saturating_add(policy.lease());
        Self {
            scope: request.scope.as_str(),
            key: key.as_str(),
            digest: request.fingerprint.digest(),
            now: now.as_millis(),
            lease_until: lease_until.as_millis(),
            expires_at: lease_until.saturating_add(policy.retention()).as_millis(),
        }
    }

    fn all(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.scope, &self.key, &self.digest, &self.now, &self.lease_until, &self.expires_at]
    }
}

fn check(changed: Result<u64, postgres::Error>) {
    assert_eq!(changed.expect("a claim"), 1, "a claim that is granted");
}

/// Callers that are threads, with a pool that hands over the connection that was used last.
struct Pooled {
    server: Rc<Postgres>,
    connections: usize,
}

impl Pooled {
    /// A connection that has made a claim, so that it has read the tables' descriptions.
    fn open(&self, request: &Request, warm: &IdempotencyKey) -> (Client, Statement) {
        let mut client = connect(self.server.sockets()).expect("a connection");
        let upsert = client.prepare(UPSERT).expect("an upsert");
        check(client.execute(&upsert, &Parameters::new(request, warm).all()));
        (client, upsert)
    }
}

impl Claimant for Pooled {
    fn way(&self) -> String {
        format!("blocking calls, a pool of {}", self.connections)
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        self.server.empty();
        let request = Request::new();
        let opened = warm_keys(self.connections).map(|warm| self.open(&request, &warm));
        let (free, returned) = (Mutex::new(opened.collect::<Vec<_>>()), Condvar::new());
        by_threads(callers, keys, |_, key| {
            let connection = {
                let free = free.lock().expect("no panic");
                returned.wait_while(free, |free| free.is_empty()).expect("no panic").pop()
            };
            let (mut client, upsert) = connection.expect("a free connection");
            check(client.execute(&upsert, &Parameters::new(&request, key).all()));
            free.lock().expect("no panic").push((client, upsert));
            returned.notify_one();
        })
    }
}

/// A connection and its upsert.
type Prepared = (tokio_postgres::Client, Statement);

/// Callers that are tasks, dealt out to the connections.
struct Pipelined {
    server: Rc<Postgres>,
    connections: usize,
    tasks: Rc<Tasks>,
}

impl Pipelined {
    /// As [`Pooled::open`].
    async fn open(&self, request: &Request, warm: &IdempotencyKey) -> (Prepared, JoinHandle<()>) {
        let opened = configuration(self.server.sockets()).connect(NoTls).await;
        let (client, connection) = opened.expect("a connection");
        let ended = tokio::spawn(async { connection.await.expect("a connection that works") });
        let upsert = client.prepare(UPSERT).await.expect("an upsert");
        check(client.execute(&upsert, &Parameters::new(request, warm).all()).await);
        ((client, upsert), ended)
    }
}

impl Claimant for Pipelined {
    fn way(&self) -> String {
        format!("{}, pipelined on {} connections", self.tasks.name, self.connections)
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        self.server.empty();
        let request = Arc::new(Request::new());
        let runtime = &self.tasks.runtime;
        let opened = warm_keys(self.connections).map(|warm| runtime.block_on(self.open(&request, &warm)));
        let (connections, ends): (Vec<Prepared>, Vec<JoinHandle<()>>) = opened.unzip();
        let connections = Arc::new(connections);
        let took = self.tasks.claim_all(callers, keys, move |caller, key| {
            let (connections, request) = (Arc::clone(&connections), Arc::clone(&request));
            async move {
                let (client, upsert) = &connections[caller % connections.len()];
                check(client.execute(upsert, &Parameters::new(&request, &key).all()).await);
            }
        });
        ends.into_iter().for_each(|ended| runtime.block_on(ended).expect("a connection that ends"));
        took
    }
}

fn warm_keys(count: usize) -> impl Iterator<Item = IdempotencyKey> {
    (0..count).map(|n| IdempotencyKey::new(format!("warm-{n}")).expect("a valid key"))
}
