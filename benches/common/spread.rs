//! What several repeats came to.

/// The median of some repeats, and the two furthest from it.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub repeats: usize,
}

impl Spread {
    /// Of an even number, the mean of the middle two is the median.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let repeats = values.len();
        assert!(repeats > 0 && values.iter().all(|value| value.is_finite()), "no measurement: {values:?}");
        let median = f64::midpoint(values[(repeats - 1) / 2], values[repeats / 2]);
        Self { median, min: values[0], max: values[repeats - 1], repeats }
    }
}
