//! A recorder that keeps all it is told.

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit,
};
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Series are written as in Prometheus: `name{label="value"}`.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub counters: BTreeMap<String, u64>,
    pub samples: BTreeMap<String, Vec<f64>>,
    pub descriptions: BTreeMap<String, (Option<Unit>, String)>,
    pub targets: Vec<String>,
}

struct Series {
    name: String,
    recorder: Recorder,
}

fn series(key: &Key) -> String {
    let labels: Vec<_> = key.labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
    if labels.is_empty() { key.name().to_owned() } else { format!("{}{{{}}}", key.name(), labels.join(",")) }
}

impl Recorder {
    /// Runs `play` with a recorder, and gives what was recorded.
    pub fn of<T>(play: impl FnOnce() -> T) -> (T, Recorded) {
        let recorder = Self::default();
        let played = metrics::with_local_recorder(&recorder, play);
        (played, recorder.recorded())
    }

    /// Has all that is recorded by this thread, until its end, told to this recorder.
    pub fn keep_for_this_thread(&self) {
        mem::forget(metrics::set_default_local_recorder(Box::leak(Box::new(self.clone()))));
    }

    pub fn recorded(&self) -> Recorded {
        self.state().clone()
    }

    fn state(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn series(&self, key: &Key, metadata: &Metadata<'_>) -> Arc<Series> {
        self.state().targets.push(metadata.target().to_owned());
        Arc::new(Series { name: series(key), recorder: self.clone() })
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, description: &SharedString) {
        let described = (unit, description.to_string());
        let before = self.state().descriptions.insert(name.as_str().to_owned(), described.clone());
        assert!(before.is_none_or(|before| before == described), "{} is two things", name.as_str());
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&name, unit, &description);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("a gauge: {}", name.as_str());
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&name, unit, &description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let series = self.series(key, metadata);
        self.state().counters.entry(series.name.clone()).or_default();
        Counter::from_arc(series)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("a gauge: {}", key.name());
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key, metadata))
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        *self.recorder.state().counters.entry(self.name.clone()).or_default() += value;
    }

    fn absolute(&self, _: u64) {
        panic!("a counter is set: {}", self.name);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.recorder.state().samples.entry(self.name.clone()).or_default().push(value);
    }
}
