//! How long threads take for some work, without what prepares it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Into how many pieces the work of each thread is cut: so many that none ends long before the others, so
/// few that nobody waits for the next one.
const PIECES: usize = 64;

/// Now, on the machine's clock: the one place where the benches read it.
#[expect(clippy::disallowed_methods, reason = "a benchmark takes the machine's time")]
pub fn now() -> Instant {
    Instant::now()
}

/// How long `work` takes.
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = now();
    let done = work();
    (now().duration_since(started), done)
}

/// How long it takes, from when the first begins, until each of `workers`, in a thread of its own, has done
/// `work`. They begin together.
pub fn timed<W: Send>(workers: &mut [W], work: impl Fn(&mut W) + Sync) -> Duration {
    let ready = &Barrier::new(workers.len());
    let work = &work;
    let spans: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let run = |worker| {
            move || {
                ready.wait();
                let started = now();
                work(worker);
                (started, now())
            }
        };
        let running: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(run(worker))).collect();
        running.into_iter().map(|thread| thread.join().expect("work that succeeds")).collect()
    });
    let started = spans.iter().map(|(started, _)| *started).min().expect("a worker");
    let ended = spans.iter().map(|(_, ended)| *ended).max().expect("a worker");
    ended.duration_since(started)
}

/// As [`timed`], for the operations 0 to `count`, dealt out to the workers as they get done with them.
pub fn timed_each<W: Send>(
    workers: &mut [W],
    count: usize,
    operation: impl Fn(&mut W, usize) + Sync,
) -> Duration {
    let piece = (count / (workers.len() * PIECES)).max(1);
    let next = AtomicUsize::new(0);
    timed(workers, |worker| {
        loop {
            let first = next.fetch_add(piece, Ordering::Relaxed);
            if first >= count {
                break;
            }
            (first..count.min(first + piece)).for_each(|number| operation(worker, number));
        }
    })
}

/// [`timed_each`] as operations a second, of `threads` threads that need nothing of their own.
pub fn rate(threads: usize, count: usize, operation: impl Fn(usize) + Sync) -> f64 {
    per_second(count, timed_each(&mut vec![(); threads], count, |(), number| operation(number)))
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
pub fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
