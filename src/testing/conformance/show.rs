//! Answers and records as a breach shows them: replies and checkpoints with their contents, which `Debug` keeps
//! out of logs. Here they are the suite's own.

use crate::key::RecordId;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::reply::Reply;
use crate::transition::Command;
use bytes::Bytes;

/// As many bytes of a content as tell it from others.
const SHOWN: usize = 48;

pub(super) trait Show {
    fn show(&self) -> String;
}

macro_rules! show_as_debug {
    ($($type:ty),*) => {$(
        impl Show for $type {
            fn show(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

show_as_debug!(
    usize,
    u64,
    bool,
    (u64, u64, u64, u64, u64),
    crate::backend::StoreId,
    crate::backend::Swept,
    crate::time::Timestamp,
    Vec<crate::inspection::Stuck>
);

impl Show for Outcome {
    fn show(&self) -> String {
        let contents = match self {
            Self::Completed(done) | Self::Recorded(done) | Self::AlreadyRecorded(done) => reply(&done.reply),
            Self::Claimed(grant) => grant.checkpoint.as_ref().map_or_else(String::new, bytes),
            _ => return format!("{self:?}"),
        };
        with(format!("{self:?}"), &contents)
    }
}

impl Show for Record {
    fn show(&self) -> String {
        let reply = self.reply.as_ref().map(reply).unwrap_or_default();
        let checkpoint = self.checkpoint.as_ref().map(bytes).unwrap_or_default();
        with(format!("{self:?}"), &format!("{reply}{checkpoint}"))
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), Show::show)
    }
}

/// What is asked of which record, as a line of a history begins.
pub(super) fn asked(id: &RecordId, command: &Command) -> String {
    let contents = match command {
        Command::Complete { reply: sent, .. } => reply(sent),
        Command::Checkpoint { bytes: saved, .. } => bytes(saved),
        _ => String::new(),
    };
    let (scope, key) = (id.scope.as_str(), id.key.as_str());
    with(format!("({scope:?}, {key:?}) {command:?}"), &contents)
}

fn with(shown: String, contents: &str) -> String {
    if contents.is_empty() { shown } else { format!("{shown} = {contents}") }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Marker => "a marker".to_owned(),
        Reply::Reference(reference) => {
            format!("a reference {:?}", reference.chars().take(SHOWN).collect::<String>())
        }
        Reply::Response(response) => {
            let headers = response.headers().take(4);
            let headers: Vec<_> = headers
                .map(|(name, value)| (name.chars().take(SHOWN).collect::<String>(), cut(value)))
                .collect();
            let (status, body) = (response.status(), bytes(response.body()));
            format!("status {status}, headers {headers:?}, body {body}")
        }
    }
}

fn bytes(bytes: &Bytes) -> String {
    format!("{:?} of {} bytes", cut(bytes), bytes.len())
}

fn cut(bytes: &[u8]) -> Bytes {
    bytes.iter().copied().take(SHOWN).collect()
}
