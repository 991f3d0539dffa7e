//! How long a connection lives that nothing is wrong with.
//!
//! A client keeps to the connection it has: without an end, replicas that are
//! added get no load, and idle clients keep what they hold for ever.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// A time of up to 10 % more or less, another for each connection: those that
/// began together, as after a restart, do not end together.
pub(super) fn jittered(age: Duration) -> Duration {
    // The standard library's source of randomness; nothing depends on its quality.
    let random = RandomState::new().hash_one(());
    let thousandths = 900 + u32::try_from(random % 201).unwrap_or(0);
    age.saturating_mul(thousandths) / 1000
}

/// Resolves after this time, or never.
pub(super) async fn after(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

/// The calls of a connection that are running.
#[derive(Clone)]
pub(super) struct Calls(Arc<Counts>);

struct Counts {
    /// The running calls of all connections.
    server: Arc<AtomicUsize>,
    began: Instant,
    running: AtomicUsize,
    /// When the last call ended, in milliseconds from `began`.
    last_end: AtomicU64,
}

impl Calls {
    /// The calls of a new connection, which are counted in `server` too.
    pub(super) fn new(server: Arc<AtomicUsize>) -> Calls {
        Calls(Arc::new(Counts {
            server,
            began: Instant::now(),
            running: AtomicUsize::new(0),
            last_end: AtomicU64::new(0),
        }))
    }

    /// A call, which runs until it is dropped.
    pub(super) fn begin(&self) -> Call {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        self.0.server.fetch_add(1, Ordering::Relaxed);
        Call(self.clone())
    }

    /// Whether a call is running.
    pub(super) fn are_running(&self) -> bool {
        self.0.running.load(Ordering::Acquire) > 0
    }

    /// Resolves once no call was running for this time; never without one.
    pub(super) async fn idle_for(&self, time: Option<Duration>) {
        let Some(time) = time else {
            return std::future::pending().await;
        };
        loop {
            let running = self.are_running();
            let since = if running {
                // A call that ends from now on is seen at the next look, which
                // comes no later than it has been over for this time.
                Instant::now()
            } else {
                self.0.began + Duration::from_millis(self.0.last_end.load(Ordering::Relaxed))
            };
            let ends = since + time;
            if !running && ends <= Instant::now() {
                return;
            }
            sleep_until(ends).await;
        }
    }
}

/// A running call.
pub(super) struct Call(Calls);

impl Drop for Call {
    fn drop(&mut self) {
        let counts = &self.0.0;
        let since = counts.began.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        counts.last_end.fetch_max(since, Ordering::Relaxed);
        counts.server.fetch_sub(1, Ordering::Relaxed);
        counts.running.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_a_tenth_at_most() {
        let age = Duration::from_secs(100);
        let ages: Vec<Duration> = (0..100).map(|_| jittered(age)).collect();
        assert!(ages.iter().all(|age| (90..=110).contains(&age.as_secs())));
        assert!(ages.iter().any(|other| *other != ages[0]), "{ages:?}");
    }

    #[tokio::test]
    async fn idle_is_counted_from_the_end_of_the_last_call() {
        const TIME: Duration = Duration::from_millis(100);
        let calls = Calls::new(Arc::default());
        let call = calls.begin();
        let other = calls.clone();
        let idle = tokio::spawn(async move { other.idle_for(Some(TIME)).await });
        sleep(3 * TIME).await;
        assert!(!idle.is_finished(), "a call is running");
        let ended = Instant::now();
        drop(call);
        idle.await.unwrap();
        // To the millisecond that is kept of a call's end.
        assert!(ended.elapsed() + Duration::from_millis(1) >= TIME);
    }
}
