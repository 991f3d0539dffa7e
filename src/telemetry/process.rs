//! What the system says of this process, under the names that every process
//! has for Prometheus. Where there is no `/proc`, it says nothing.

use std::fs;

use prometheus::{Counter, Gauge, IntGauge, Registry};

use super::metrics::Describe;

/// What `/proc` counts a process's CPU time in: hundredths of a second, on every
/// architecture that we build for (`USER_HZ`, proc(5)).
const TICKS_PER_SECOND: f64 = 100.0;

/// The metrics of the process.
pub(super) struct Process {
    cpu_seconds: Counter,
    start_time: Gauge,
    resident_bytes: IntGauge,
    virtual_bytes: IntGauge,
    open_fds: IntGauge,
    max_fds: IntGauge,
    threads: IntGauge,
}

impl Process {
    pub(super) fn new(registry: &Registry) -> Process {
        let all = Describe(registry);
        Process {
            cpu_seconds: all.registered(Counter::new(
                "process_cpu_seconds_total",
                "CPU time of the process, user and system.",
            )),
            start_time: all.registered(Gauge::new(
                "process_start_time_seconds",
                "When the process began, since the Unix epoch.",
            )),
            resident_bytes: all.gauge(
                "process_resident_memory_bytes",
                "Memory of the process that is in RAM.",
            ),
            virtual_bytes: all.gauge(
                "process_virtual_memory_bytes",
                "Memory of the process, in RAM or not.",
            ),
            open_fds: all.gauge("process_open_fds", "Open file descriptors."),
            max_fds: all.gauge(
                "process_max_fds",
                "The most file descriptors that may be open.",
            ),
            threads: all.gauge("process_threads", "Threads of the process."),
        }
    }

    /// Looks again. What can't be read stays as it was.
    pub(super) fn update(&mut self) {
        if let Some((cpu_seconds, started)) = read("self/stat").as_deref().and_then(times) {
            let more = cpu_seconds - self.cpu_seconds.get();
            self.cpu_seconds.inc_by(more.max(0.0));
            if let Some(boot) = number(&read("stat").unwrap_or_default(), "btime ") {
                self.start_time.set(boot as f64 + started);
            }
        }
        let status = read("self/status").unwrap_or_default();
        set(&self.resident_bytes, kibibytes(&status, "VmRSS:"));
        set(&self.virtual_bytes, kibibytes(&status, "VmSize:"));
        set(&self.threads, number(&status, "Threads:"));
        set(&self.max_fds, max_files());
        // Less the one that this opens.
        let open = fs::read_dir("/proc/self/fd").map(|fds| fds.count().saturating_sub(1));
        set(&self.open_fds, open.ok().map(|open| open as u64));
    }
}

/// The most files that the process may have open, connections among them.
#[must_use]
pub fn max_files() -> Option<u64> {
    number(&read("self/limits")?, "Max open files")
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{path}")).ok()
}

fn set(gauge: &IntGauge, value: Option<u64>) {
    if let Some(value) = value.and_then(|value| i64::try_from(value).ok()) {
        gauge.set(value);
    }
}

/// CPU seconds used, and seconds from the system's boot to the process's start.
fn times(stat: &str) -> Option<(f64, f64)> {
    // The second field, a name in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |field: usize| -> Option<f64> {
        // Fields are numbered from 1, and the rest begins with the third.
        fields.split_whitespace().nth(field - 3)?.parse().ok()
    };
    let cpu = ticks(14)? + ticks(15)?;
    Some((cpu / TICKS_PER_SECOND, ticks(22)? / TICKS_PER_SECOND))
}

/// The first number of the line that begins so.
fn number(text: &str, begin: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(begin))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn kibibytes(text: &str, begin: &str) -> Option<u64> {
    number(text, begin)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a ) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 4 0 1000 0 0";
        assert_eq!(times(stat), Some((2.0, 10.0)));
        assert_eq!(times("7 (a) S 1"), None);
    }

    #[test]
    fn numbers_are_found_by_their_line() {
        let text = "a 1\nVmRSS:\t  12 kB\nMax open files            1024    4096    files\n";
        assert_eq!(kibibytes(text, "VmRSS:"), Some(12 << 10));
        assert_eq!(number(text, "Max open files"), Some(1024));
        assert_eq!(number(text, "btime "), None);
    }
}
