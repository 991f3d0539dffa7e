//! How long a call may take: its deadline, and whether anyone still waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use tonic::Extensions;

use crate::search::Budget;
use crate::telemetry::call::CallRecord;

/// The deadline of a call and the flag that tells its searches to stop.
#[derive(Clone)]
pub(super) struct Call {
    deadline: Option<Instant>,
    cancelled: Arc<AtomicBool>,
    /// Where the server counts the boards of a call, if it does.
    record: Option<CallRecord>,
}

/// Sets the call's flag when dropped: whoever owned it has stopped waiting.
pub(super) struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// When a call's answer is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// The deadline that a call which begins now asks for.
    pub fn of(headers: &HeaderMap) -> Option<Deadline> {
        let timeout = parse_timeout(headers.get("grpc-timeout")?.to_str().ok()?)?;
        Instant::now().checked_add(timeout).map(Deadline)
    }
}

impl Call {
    /// A call with the deadline that the server found in its headers.
    pub(super) fn begin(extensions: &Extensions) -> (Call, CancelOnDrop) {
        let deadline = extensions.get::<Deadline>().map(|deadline| deadline.0);
        let cancelled = Arc::new(AtomicBool::new(false));
        (
            Call {
                deadline,
                cancelled: Arc::clone(&cancelled),
                record: extensions.get::<CallRecord>().cloned(),
            },
            CancelOnDrop(cancelled),
        )
    }

    /// So many more boards have their answers.
    pub(super) fn answered(&self, boards: u64) {
        if let Some(record) = &self.record {
            record.answered(boards);
        }
    }

    pub(super) fn budget(&self) -> Budget<'_> {
        Budget::new(self.deadline, &self.cancelled)
    }
}

/// Reads `grpc-timeout`: at most eight digits and a unit (gRPC over HTTP/2,
/// "Requests"). Anything else is no deadline, as in other servers.
fn parse_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_digits_and_a_unit() {
        assert_eq!(parse_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(
            parse_timeout("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(parse_timeout("100m"), Some(Duration::from_millis(100)));
        assert_eq!(parse_timeout("7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse_timeout("0n"), Some(Duration::ZERO));
        for bad in ["", "S", "5", "5s", "-1S", "1.5S", "123456789S", "5 S", "5é"] {
            assert_eq!(parse_timeout(bad), None, "{bad:?}");
        }
    }
}
