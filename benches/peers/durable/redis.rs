//! Redis: `SET key value NX PX`, each synced before it is answered (`appendfsync always`).
//!
//! It does less than a claim: it draws no fencing token and compares no fingerprint.

use crate::claimant::{Claimant, Tasks, by_threads};
use crate::common::request::Request;
use crate::contest::Way;
use crate::server::{Missing, Place, Server, find};
use idempotency::{IdempotencyKey, Policy};
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, Connection, RedisResult, Value};
use rustix::process::Signal;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The server, empty.
pub struct Redis {
    /// Kept for its end.
    _server: Server,
    client: Client,
    pub version: String,
}

impl Redis {
    /// With its append-only file, synced with each answer, and nothing else that it would save.
    pub fn start() -> Result<Self, Missing> {
        let program = find("redis-server", &[])?;
        let place = Place::new()?;
        let socket = place.sockets().join("redis.sock");
        let client = Client::open(format!("redis+unix://{}", socket.display()))
            .map_err(|error| format!("{}: {error}", socket.display()))?;
        let mut command = place.command(&program)?;
        command
            .args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"])
            // A rewriting of the file in the background would fall into a repeat.
            .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
            .arg(place.data())
            .arg("--unixsocket")
            .arg(&socket);
        let server = Server::start(place, command, Signal::TERM, |_| answers(&client).is_ok())?;
        let mut connection = client.get_connection().map_err(|error| error.to_string())?;
        for (setting, value) in [("appendonly", "yes"), ("appendfsync", "always")] {
            let (_, is) = command_of(&["CONFIG", "GET", setting])
                .query::<(String, String)>(&mut connection)
                .expect("a setting");
            assert_eq!(is, value, "{setting}");
        }
        let server_information: String =
            command_of(&["INFO", "server"]).query(&mut connection).expect("words");
        let number = server_information.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let version = format!("Redis {}", number.unwrap_or("of no version"));
        Ok(Self { _server: server, client, version })
    }

    /// As many ways to drive it as may be the best: a connection for each caller, and one that all share, on
    /// which they send without waiting for one another.
    pub fn ways(self, tasks: &[Rc<Tasks>], callers: usize) -> Vec<Box<dyn Way>> {
        let server = Rc::new(self);
        let connections =
            (0..callers).map(|_| Mutex::new(server.client.get_connection().expect("a connection"))).collect();
        let mut ways: Vec<Box<dyn Way>> =
            vec![Box::new(Connected { server: Rc::clone(&server), connections })];
        for tasks in tasks {
            let shared = tasks.runtime.block_on(server.client.get_multiplexed_async_connection());
            let (server, tasks) = (Rc::clone(&server), Rc::clone(tasks));
            ways.push(Box::new(Multiplexed { server, tasks, shared: shared.expect("a connection") }));
        }
        ways
    }

    /// Forgets all, in the file, too.
    fn empty(&self) {
        let mut connection = self.client.get_connection().expect("a connection");
        command_of(&["FLUSHALL"]).exec(&mut connection).expect("an empty server");
    }
}

fn answers(client: &Client) -> RedisResult<()> {
    command_of(&["PING"]).exec(&mut client.get_connection()?)
}

fn command_of(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

/// A claim: the value is what tells a retry from a reused key.
fn claim(request: &Request, key: &IdempotencyKey) -> Cmd {
    let policy = Policy::new();
    let millis = u64::try_from((policy.lease() + policy.retention()).as_millis()).expect("a period");
    let mut command = Cmd::new();
    command
        .arg("SET")
        .arg(format!("{}:{}", request.scope.as_str(), key.as_str()))
        .arg(request.fingerprint.digest())
        .arg("NX")
        .arg("PX")
        .arg(millis);
    command
}

fn check(answer: RedisResult<Value>) {
    assert_eq!(answer.expect("a claim"), Value::Okay, "a claim that is granted");
}

/// Callers that are threads, each with a connection.
struct Connected {
    server: Rc<Redis>,
    connections: Vec<Mutex<Connection>>,
}

impl Claimant for Connected {
    fn way(&self) -> String {
        "blocking calls, a connection for each caller".into()
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        self.server.empty();
        let (request, connections) = (Request::new(), &self.connections);
        by_threads(callers, keys, |caller, key| {
            // Nobody else's; the lock costs next to nothing.
            let mut connection = connections[caller].lock().expect("no panic");
            check(claim(&request, key).query(&mut *connection));
        })
    }
}

/// Callers that are tasks, on one connection.
struct Multiplexed {
    server: Rc<Redis>,
    tasks: Rc<Tasks>,
    shared: MultiplexedConnection,
}

impl Claimant for Multiplexed {
    fn way(&self) -> String {
        format!("{}, pipelined on one connection", self.tasks.name)
    }

    fn claim_all(&mut self, callers: usize, keys: &Arc<[IdempotencyKey]>) -> Duration {
        self.server.empty();
        let (shared, request) = (self.shared.clone(), Arc::new(Request::new()));
        self.tasks.claim_all(callers, keys, move |_, key| {
            let (mut shared, request) = (shared.clone(), Arc::clone(&request));
            async move { check(claim(&request, &key).query_async(&mut shared).await) }
        })
    }
}
