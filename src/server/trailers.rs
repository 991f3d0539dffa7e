//! Trailers that every client takes.
//!
//! Clients limit the headers they accept, the strictest to 8 KiB, and drop the
//! whole call beyond. Some errors tell what was asked for, which may be long.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The most bytes of a message, as it is sent: percent-encoded.
const MAX_MESSAGE: usize = 2 << 10;

/// The most bytes of the details, as they are sent. Together with the message
/// and the other headers of an answer they stay under 8 KiB.
const MAX_DETAILS: usize = 5 << 10;

/// Shortens what a client could refuse to take.
pub(super) fn shorten(headers: &mut HeaderMap) {
    if let Some(message) = headers.get_mut(MESSAGE)
        && message.len() > MAX_MESSAGE
        && let Ok(start) = HeaderValue::from_bytes(start_of(message.as_bytes()))
    {
        *message = start;
    }
    // Half of them would be none: they are encoded.
    if let Some(details) = headers.get(DETAILS)
        && details.len() > MAX_DETAILS
    {
        headers.remove(DETAILS);
    }
}

/// As much of a percent-encoded text as may be sent, cut between characters.
fn start_of(encoded: &[u8]) -> &[u8] {
    let mut end = MAX_MESSAGE.min(encoded.len());
    loop {
        let (start, rest) = encoded.split_at(end);
        // Within an escape, or before a continuation byte of UTF-8 (%80 to %BF).
        let within_escape = start.iter().rev().take(2).any(|byte| *byte == b'%');
        let within_character = matches!(rest, [b'%', b'8'..=b'9' | b'A'..=b'B', ..]);
        if !within_escape && !within_character || end == 0 {
            return start;
        }
        end -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(message: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE, message.parse().unwrap());
        shorten(&mut headers);
        headers[MESSAGE].to_str().unwrap().to_owned()
    }

    #[test]
    fn short_messages_stay() {
        let longest = "x".repeat(MAX_MESSAGE);
        assert_eq!(shortened(&longest), longest);
        assert_eq!(shortened("a%20b"), "a%20b");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(shortened(&"x".repeat(9_000)).len(), MAX_MESSAGE);
        for before in 0..12 {
            let text = "x".repeat(before) + &"%E2%82%AC".repeat(1_000);
            let cut = shortened(&text);
            assert!(cut.len() <= MAX_MESSAGE && cut.len() > MAX_MESSAGE - 9);
            assert_eq!((cut.len() - before) % 9, 0, "{before}");
        }
        // What is no UTF-8 is cut all the same.
        assert!(shortened(&"%80".repeat(3_000)).len() <= MAX_MESSAGE);
    }

    #[test]
    fn long_details_are_left_out() {
        let mut headers = HeaderMap::new();
        headers.insert(DETAILS, "x".repeat(MAX_DETAILS).parse().unwrap());
        shorten(&mut headers);
        assert!(headers.contains_key(DETAILS));
        headers.insert(DETAILS, "x".repeat(MAX_DETAILS + 1).parse().unwrap());
        shorten(&mut headers);
        assert!(!headers.contains_key(DETAILS));
    }
}
