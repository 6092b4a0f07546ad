//! Clients: one that knows HTTP, and one that sends the bytes it is told to.

use super::answer::Answer;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use ureq::Agent;

/// No answer of a sound server takes that long.
const GIVE_UP: Duration = Duration::from_secs(60);

/// A client of one account.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    address: SocketAddr,
    token: String,
}

impl Client {
    pub fn new(address: SocketAddr, token: &str) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(1024 * 1024)
            .timeout_global(Some(GIVE_UP));
        Self { agent: config.build().into(), address, token: token.to_owned() }
    }

    pub fn post(&self, path: &str, key: &str, body: impl AsRef<[u8]>) -> Answer {
        self.try_post(path, key, body).expect("an answer")
    }

    /// As `post`, where the server may be gone.
    pub fn try_post(&self, path: &str, key: &str, body: impl AsRef<[u8]>) -> Result<Answer, ureq::Error> {
        let request = self.agent.post(format!("http://{}{path}", self.address));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        request.header("idempotency-key", key).send(body.as_ref()).and_then(read)
    }

    pub fn get(&self, path: &str) -> Answer {
        let request = self.agent.get(format!("http://{}{path}", self.address));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        request.call().and_then(read).expect("an answer")
    }

    /// The answers to as many identical requests, sent at the same moment.
    pub fn post_at_once(&self, copies: usize, path: &str, key: &str, body: &str) -> Vec<Answer> {
        let all_are_ready = Barrier::new(copies);
        thread::scope(|threads| {
            let send = || {
                all_are_ready.wait();
                self.post(path, key, body)
            };
            let senders: Vec<_> = (0..copies).map(|_| threads.spawn(send)).collect();
            senders.into_iter().map(|sender| sender.join().expect("an answer")).collect()
        })
    }

    /// A request with these `headers` besides the credential, byte for byte. Framing is the caller's.
    pub fn raw(&self, line: &str, headers: &[&[u8]], body: &[u8]) -> Answer {
        let authorization = format!("authorization: Bearer {}", self.token);
        let headers: Vec<&[u8]> =
            [authorization.as_bytes()].into_iter().chain(headers.iter().copied()).collect();
        raw(self.address, line, &headers, body)
    }

    /// Sends a whole payment, and gives the connection: nobody has read the answer.
    pub fn send_payment(&self, key: &str, body: &str) -> TcpStream {
        let authorization = format!("authorization: Bearer {}", self.token);
        let key = format!("idempotency-key: {key}");
        let length = format!("content-length: {}", body.len());
        let headers = [authorization.as_bytes(), key.as_bytes(), length.as_bytes()];
        connect_and_send(self.address, "POST /payments HTTP/1.1", &headers, body.as_bytes())
    }
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let headers = response.headers().iter().map(|(n, v)| (n.to_string(), v.as_bytes().to_vec())).collect();
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
    Ok(Answer { status, headers, body })
}

/// The answer to a request of just these bytes.
pub fn raw(address: SocketAddr, line: &str, headers: &[&[u8]], body: &[u8]) -> Answer {
    let headers: Vec<&[u8]> = headers.iter().copied().chain([b"connection: close".as_slice()]).collect();
    let stream = connect_and_send(address, line, &headers, body);
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while reader.read_until(b'\n', &mut head).expect("a head") > 2 {}
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().and_then(|line| str::from_utf8(line.get(9..12)?).ok()?.parse().ok());
    let headers = lines.filter(|line| !line.is_empty()).map(|line| {
        let at = line.iter().position(|byte| *byte == b':').expect("a colon");
        (String::from_utf8_lossy(&line[..at]).to_lowercase(), line[at + 1..].trim_ascii().to_vec())
    });
    let mut answer =
        Answer { status: status.expect("a status"), headers: headers.collect(), body: Vec::new() };
    assert_eq!(answer.header("transfer-encoding"), None, "this client reads no chunks");
    reader.read_to_end(&mut answer.body).expect("a body");
    answer
}

fn connect_and_send(address: SocketAddr, line: &str, headers: &[&[u8]], body: &[u8]) -> TcpStream {
    let mut request = format!("{line}\r\nhost: {address}\r\n").into_bytes();
    for header in headers {
        request.extend_from_slice(header);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(GIVE_UP)).expect("a time-out");
    stream.write_all(&request).expect("a request sent");
    stream
}

/// Closes both ways, as a client does that is killed.
pub fn hang_up(stream: &TcpStream) {
    stream.shutdown(Shutdown::Both).expect("a connection to close");
}
