//! A subscriber that keeps all it is told.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_core::span::Current;

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
    /// Of each span.
    metadata: Vec<&'static Metadata<'static>>,
    /// Those that each thread is in, as numbers of spans.
    entered: HashMap<ThreadId, Vec<usize>>,
}

impl Log {
    /// What was logged during `play`, at `level` and above, on this thread.
    pub fn of<T>(level: Level, play: impl FnOnce() -> T) -> (T, Self) {
        let log = Arc::new(Mutex::new(Self::default()));
        let writer = Writer { level, log: Arc::clone(&log) };
        let played = tracing::subscriber::with_default(writer, play);
        let log = locked(&log).clone();
        assert!(log.entered.values().all(Vec::is_empty), "a span was not left");
        (played, log)
    }

    /// Has all further lines of this thread, until its end, kept in `log`.
    pub fn keep_for_this_thread(level: Level, log: &Arc<Mutex<Self>>) {
        let writer = Writer { level, log: Arc::clone(log) };
        mem::forget(tracing::subscriber::set_default(writer));
    }

    /// The span that this thread is in.
    fn current(&self) -> Option<usize> {
        self.entered.get(&thread::current().id())?.last().copied()
    }

    fn line(&self, metadata: &'static Metadata<'static>, is_root: bool, fields: Fields) -> Line {
        let inside = self.current().filter(|_| !is_root).map(|number| self.spans[number].name);
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
fn id(number: usize) -> Id {
    Id::from_u64(number as u64 + 1)
}

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
        log.metadata.push(span.metadata());
        id(log.spans.len() - 1)
    }

    fn current_span(&self) -> Current {
        let log = self.log();
        log.current().map_or_else(Current::none, |number| Current::new(id(number), log.metadata[number]))
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
        self.log().entered.entry(thread::current().id()).or_default().push(number(span));
    }

    fn exit(&self, span: &Id) {
        let left = self.log().entered.entry(thread::current().id()).or_default().pop();
        assert_eq!(left, Some(number(span)), "spans are left in order");
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
