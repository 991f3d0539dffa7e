//! Where lines of the log wait until standard error takes them.
//!
//! A pipe that nobody reads is full after 64 KiB, and whoever writes to it then
//! waits for its reader. So calls only put their lines down here, and a thread
//! of its own writes them. Lines that there is no room for are lost, counted,
//! and told of once the log can be written again.

use std::any::Any;
use std::io::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// The most bytes of lines that wait: some thousand lines, seconds of the most
/// that is logged of calls by default. As many may be at being written.
const MOST_WAITING: usize = 1 << 20;

/// How long the end of the process waits for a log that is not read.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines that were lost: there is one standard error.
static LOST: AtomicU64 = AtomicU64::new(0);

/// How many lines of the log were lost since the process began.
pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// The log of this process. What waits is written when this is dropped, for a
/// bounded time.
#[derive(Debug)]
pub struct Log {
    queue: Queue,
}

impl Log {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Log> {
        let queue = Queue(Arc::new(Shared::default()));
        let written = queue.clone();
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || written.write_to(out))?;
        Ok(Log { queue })
    }

    pub(super) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Tells of panics in the log. The standard library would write them to
    /// standard error itself, and wait where that is full.
    pub fn tell_panics(&self) {
        panic::set_hook(Box::new(|panicked| {
            let thread = thread::current();
            let backtrace = std::backtrace::Backtrace::capture();
            let is_captured = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
            tracing::error!(
                thread = thread.name().unwrap_or("unnamed"),
                location = panicked.location().map(tracing::field::display),
                reason = reason(panicked.payload()),
                backtrace = is_captured.then(|| tracing::field::display(&backtrace)),
                "panic"
            );
        }));
    }
}

/// What a panic says.
fn reason(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

impl Drop for Log {
    fn drop(&mut self) {
        let queue = &self.queue.0;
        let mut state = queue.state();
        state.closing = true;
        queue.changed.notify_all();
        let ends = Instant::now() + FLUSH_TIMEOUT;
        while !state.closed {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = queue
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// Takes lines; clones take them for the same log.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Lines,
    /// Lines that there was no room for since the last were taken.
    lost: u64,
    closing: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves nothing half done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Puts down a line, or loses it. Never waits for the reader of the log.
    fn put(&self, line: &[u8]) {
        let mut state = self.0.state();
        if state.waiting.bytes.len() + line.len() > MOST_WAITING || state.closed {
            state.lost += 1;
            LOST.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.waiting.bytes.extend_from_slice(line);
        state.waiting.count += 1;
        drop(state);
        self.0.changed.notify_all();
    }

    /// Waits for lines and takes them all, with how many are missing after
    /// them; `None` once there will be no more.
    fn take(&self, emptied: Lines) -> Option<(Lines, u64)> {
        let mut state = self.0.state();
        while state.waiting.bytes.is_empty() {
            if state.closing {
                state.closed = true;
                self.0.changed.notify_all();
                return None;
            }
            state = self
                .0
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let lines = std::mem::replace(&mut state.waiting, emptied);
        Some((lines, std::mem::take(&mut state.lost)))
    }

    fn write_to(&self, mut out: impl Write) {
        let mut emptied = Lines::default();
        let mut untold = 0;
        let mut writable = true;
        while let Some((mut lines, lost)) = self.take(emptied) {
            untold += lost;
            // Where writing fails at once, as on a full disk, each line of ours
            // would be lost as well and ask for the next.
            if writable && untold > 0 {
                tracing::warn!(lost = untold, "lines of the log were lost");
                untold = 0;
            }
            writable = out.write_all(&lines.bytes).is_ok();
            if !writable {
                untold += lines.count;
                LOST.fetch_add(lines.count, Ordering::Relaxed);
            }
            lines.bytes.clear();
            lines.count = 0;
            emptied = lines;
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = &'a Queue;

    fn make_writer(&'a self) -> &'a Queue {
        self
    }
}

impl Write for &Queue {
    /// A whole line: the subscriber writes each at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes nothing until it is told to.
    struct Stuck {
        unstuck: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error: the test lets all through from now on.
            let _ = self.unstuck.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_not_read_is_bounded_and_the_rest_comes_in_order() {
        let (unstick, unstuck) = mpsc::channel();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let out = Stuck {
            unstuck,
            written: Arc::clone(&written),
        };
        let log = Log::start(out).unwrap();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let lost_before = lost();
        // As much as may wait, twice, and more: none of it waits for `out`.
        for _ in 0..3 * (MOST_WAITING / line.len()) {
            log.queue().put(&line);
        }
        let lines_lost = lost() - lost_before;
        assert!(lines_lost >= (MOST_WAITING / line.len()) as u64);
        drop(unstick);
        drop(log);
        let written = written.lock().unwrap().len() / line.len();
        assert_eq!(
            written as u64 + lines_lost,
            3 * (MOST_WAITING / line.len()) as u64
        );
    }

    #[test]
    fn the_end_does_not_wait_for_ever() {
        let (_unstick, unstuck) = mpsc::channel();
        let out = Stuck {
            unstuck,
            written: Arc::default(),
        };
        let log = Log::start(out).unwrap();
        log.queue().put(b"one\n");
        // Comes back, or this test never ends.
        drop(log);
    }
}
