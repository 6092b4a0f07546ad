//! A subscriber that keeps all it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

pub type Fields = BTreeMap<&'static str, String>;

/// A span or an event. `inside` is the name of the span that it is in.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    pub target: String,
    pub level: Level,
    pub inside: Option<&'static str>,
    pub fields: Fields,
}

#[derive(Clone, Debug, Default)]
pub struct Log {
    pub spans: Vec<Line>,
    pub events: Vec<Line>,
    /// Those that the thread is in, as numbers of spans.
    entered: Vec<usize>,
}

impl Log {
    /// What was logged during `play`, at `level` and above, on this thread.
    pub fn of<T>(level: Level, play: impl FnOnce() -> T) -> (T, Self) {
        let log = Arc::new(Mutex::new(Self::default()));
        let writer = Writer { level, log: Arc::clone(&log) };
        let played = tracing::subscriber::with_default(writer, play);
        let log = locked(&log).clone();
        assert!(log.entered.is_empty(), "a span was not left");
        (played, log)
    }

    fn line(&self, metadata: &'static Metadata<'static>, is_root: bool, fields: Fields) -> Line {
        let inside = self.entered.last().filter(|_| !is_root).map(|number| self.spans[*number].name);
        let target = metadata.target().to_owned();
        Line { name: metadata.name(), target, level: *metadata.level(), inside, fields }
    }
}

impl Line {
    pub fn message(&self) -> &str {
        self.field("message").expect("a message")
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

struct Writer {
    level: Level,
    log: Arc<Mutex<Log>>,
}

fn locked(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    fn log(&self) -> MutexGuard<'_, Log> {
        locked(&self.log)
    }
}

/// Ids are numbers of spans, from 1.
fn number(id: &Id) -> usize {
    usize::try_from(id.into_u64()).expect("few spans") - 1
}

impl Subscriber for Writer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.into())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut Kept(&mut fields));
        let mut log = self.log();
        let line = log.line(span.metadata(), span.is_root(), fields);
        log.spans.push(line);
        Id::from_u64(log.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Kept(&mut self.log().spans[number(span)].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut Kept(&mut fields));
        let mut log = self.log();
        let line = log.line(event.metadata(), event.is_root(), fields);
        log.events.push(line);
    }

    fn enter(&self, span: &Id) {
        self.log().entered.push(number(span));
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.log().entered.pop(), Some(number(span)), "spans are left in order");
    }
}

struct Kept<'a>(&'a mut Fields);

impl Visit for Kept<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}
