//! The trace that a caller is part of: W3C Trace Context, `traceparent`.

use std::fmt;

use hyper::HeaderMap;

/// A caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceParent {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) flags: u8,
}

impl TraceParent {
    /// The one in these headers. What is not well formed is none, and neither
    /// are two, as the standard asks.
    pub(super) fn of(headers: &HeaderMap) -> Option<TraceParent> {
        let mut given = headers.get_all("traceparent").iter();
        match (given.next(), given.next()) {
            (Some(only), None) => parse(only.to_str().ok()?),
            _ => None,
        }
    }

    /// As it is written.
    pub(super) fn trace_id(&self) -> TraceId {
        TraceId(self.trace)
    }
}

/// A trace's id, in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceId(u128);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

fn parse(text: &str) -> Option<TraceParent> {
    let mut fields = text.split('-');
    let version = hex(fields.next()?, 2)?;
    let trace = hex(fields.next()?, 32)?;
    let span = u64::try_from(hex(fields.next()?, 16)?).ok()?;
    let flags = u8::try_from(hex(fields.next()?, 2)?).ok()?;
    // A later version may have more fields; this one has not.
    let is_version = match version {
        0 => fields.next().is_none(),
        0xff => false,
        _ => true,
    };
    (is_version && trace != 0 && span != 0).then_some(TraceParent { trace, span, flags })
}

/// So many digits in small letters.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (text.len() == digits && is_hex)
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_none() {
        let mut headers = HeaderMap::new();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceParent::of(&headers), None);
        headers.append("traceparent", parent.parse().unwrap());
        assert_eq!(TraceParent::of(&headers), parse(parent));
        headers.append("traceparent", parent.parse().unwrap());
        assert_eq!(TraceParent::of(&headers), None);
    }

    #[test]
    fn what_is_well_formed_is_read() {
        let parent = parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        assert_eq!(
            parent.trace_id().to_string(),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
        assert_eq!((parent.span, parent.flags), (0x00f0_67aa_0ba9_02b7, 1));
        assert!(parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
