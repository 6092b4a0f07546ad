//! How a child reports what it saw: one line a call.

use crate::common::{key, scope};
use crate::history::{Done, Perhaps, Seen, What};
use idempotency::{FencingToken, Fingerprint, LostReason, RecordId, Reply, StoredResponse, Timestamp};
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::Path;
use std::str::{FromStr, SplitWhitespace};

/// One counter for all processes: a file that only grows, whose writers each learn where their byte landed.
pub struct Ticks(File);

impl Ticks {
    /// The counter that goes with the store in `file`.
    pub fn beside(file: &Path) -> Self {
        let path = file.with_extension("ticks");
        Self(OpenOptions::new().append(true).create(true).open(path).expect("a counter"))
    }

    pub fn tick(&mut self) -> u64 {
        self.0.write_all(b".").expect("a counter that grows");
        self.0.stream_position().expect("a place in the file")
    }
}

/// What a key can be asked for: requests 0 and 1.
pub fn request(number: usize) -> Fingerprint {
    Fingerprint::from_bytes([u8::from(number == 1); 32])
}

pub fn id(number: usize) -> RecordId {
    RecordId::new(scope("tenant"), key(&format!("key {number}")))
}

/// A reply that names the claim which recorded it, and has bytes that are no text.
pub fn reply_of(token: FencingToken) -> Reply {
    let mut body = vec![0, b'\n', 0xff];
    body.extend(token.get().to_be_bytes());
    StoredResponse::new(201).with_header("x-token", token.to_string()).with_body(body).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("hex digits"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("two hex digits")).collect()
}

fn reason(word: &str) -> LostReason {
    let all =
        [LostReason::Gone, LostReason::Running, LostReason::Completed, LostReason::CompletedByThisClaim];
    all.into_iter().find(|reason| format!("{reason:?}") == word).expect("a reason")
}

fn request_number(asked: Fingerprint) -> usize {
    [0, 1].into_iter().find(|number| request(*number) == asked).expect("a request that is asked for here")
}

/// Every part of it, so that a replay is compared as it arrived.
fn words_of_done(done: &Done) -> String {
    let response = done.reply.response().expect("a response");
    let headers = response.headers().map(|(name, value)| format!("{name}={};", hex(value)));
    let (created, completed, expires) = (done.created_at, done.completed_at, done.expires_at);
    format!(
        "{} {} {} {} headers:{} body:{}",
        created.as_millis(),
        completed.as_millis(),
        expires.as_millis(),
        response.status(),
        headers.collect::<String>(),
        hex(response.body()),
    )
}

/// The reply is the one that the token goes with.
fn words_of_perhaps(perhaps: &Perhaps) -> String {
    match perhaps {
        Perhaps::Granted { asked } => format!("granted {}", request_number(*asked)),
        Perhaps::Extended { token } => format!("extended {token}"),
        Perhaps::Recorded { token, reply } => {
            assert_eq!(*reply, reply_of(*token));
            format!("recorded {token}")
        }
        Perhaps::GivenUp { token } => format!("given-up {token}"),
        Perhaps::Forgotten => "forgotten".to_owned(),
    }
}

pub fn line(seen: &Seen) -> String {
    let Seen { began, ended, key, what } = seen;
    let what = match what {
        What::Granted { token, attempt, until, asked } => {
            format!("granted {token} {attempt} {} {}", until.as_millis(), request_number(*asked))
        }
        What::Extended { token, until } => format!("extended {token} {}", until.as_millis()),
        What::Recorded { token, done } => format!("recorded {token} {}", words_of_done(done)),
        What::RecordedBefore { token, done } => format!("recorded-before {token} {}", words_of_done(done)),
        What::Replayed { done, asked } => {
            format!("replayed {} {}", request_number(*asked), words_of_done(done))
        }
        What::Running { attempt, until, asked } => {
            format!("running {attempt} {} {}", until.as_millis(), request_number(*asked))
        }
        What::Mismatched { asked } => format!("mismatched {}", request_number(*asked)),
        What::GivenUp { token } => format!("given-up {token}"),
        What::Forgotten => "forgotten".to_owned(),
        What::Lost { token, reason } => format!("lost {token} {reason:?}"),
        What::Nothing => "nothing".to_owned(),
        What::Found { token, attempt, until, asked } => {
            format!("found {token} {attempt} {} {}", until.as_millis(), request_number(*asked))
        }
        What::Perhaps(perhaps) => format!("perhaps {}", words_of_perhaps(perhaps)),
    };
    format!("{began} {ended} {key} {what}")
}

/// The words of a line, each read as what it must be.
struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> &'a str {
        self.0.next().expect("one more word")
    }

    fn number<T: FromStr<Err: Display>>(&mut self) -> T {
        let word = self.word();
        word.parse().unwrap_or_else(|error| panic!("{word}: {error}"))
    }

    fn time(&mut self) -> Timestamp {
        Timestamp::from_millis(self.number())
    }

    fn token(&mut self) -> FencingToken {
        FencingToken::new(self.number()).expect("a token")
    }

    fn request(&mut self) -> Fingerprint {
        request(self.number())
    }

    fn done(&mut self) -> Done {
        let (created_at, completed_at, expires_at) = (self.time(), self.time(), self.time());
        let mut response = StoredResponse::new(self.number());
        let headers = self.word().strip_prefix("headers:").expect("headers");
        for header in headers.split_terminator(';') {
            let (name, value) = header.split_once('=').expect("a header");
            response = response.with_header(name, bytes(value));
        }
        let body = bytes(self.word().strip_prefix("body:").expect("a body"));
        Done { reply: response.with_body(body).into(), created_at, completed_at, expires_at }
    }
}

fn parse_perhaps(words: &mut Words<'_>) -> Perhaps {
    match words.word() {
        "granted" => Perhaps::Granted { asked: words.request() },
        "extended" => Perhaps::Extended { token: words.token() },
        "recorded" => {
            let token = words.token();
            Perhaps::Recorded { token, reply: reply_of(token) }
        }
        "given-up" => Perhaps::GivenUp { token: words.token() },
        "forgotten" => Perhaps::Forgotten,
        other => panic!("what is perhaps {other}?"),
    }
}

pub fn parse(line: &str) -> Seen {
    let mut words = Words(line.split_whitespace());
    let (began, ended, key) = (words.number(), words.number(), words.number());
    let what = match words.word() {
        "granted" => What::Granted {
            token: words.token(),
            attempt: words.number(),
            until: words.time(),
            asked: words.request(),
        },
        "extended" => What::Extended { token: words.token(), until: words.time() },
        "recorded" => What::Recorded { token: words.token(), done: words.done() },
        "recorded-before" => What::RecordedBefore { token: words.token(), done: words.done() },
        "replayed" => {
            let asked = words.request();
            What::Replayed { done: words.done(), asked }
        }
        "running" => What::Running { attempt: words.number(), until: words.time(), asked: words.request() },
        "mismatched" => What::Mismatched { asked: words.request() },
        "given-up" => What::GivenUp { token: words.token() },
        "forgotten" => What::Forgotten,
        "lost" => What::Lost { token: words.token(), reason: reason(words.word()) },
        "nothing" => What::Nothing,
        "found" => What::Found {
            token: words.token(),
            attempt: words.number(),
            until: words.time(),
            asked: words.request(),
        },
        "perhaps" => What::Perhaps(parse_perhaps(&mut words)),
        other => panic!("what is {other}? {line}"),
    };
    Seen { began, ended, key, what }
}

/// Every line that the children said, as calls; errors are among them, and are refused.
#[track_caller]
pub fn parse_all(said: &[String]) -> Vec<Seen> {
    let errors: Vec<_> = said.iter().filter(|line| line.starts_with("error")).collect();
    assert!(errors.is_empty(), "{} errors, such as {:?}", errors.len(), errors.first());
    said.iter().map(|line| parse(line)).collect()
}
