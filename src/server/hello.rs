//! What a peer speaks, by the first bytes it sends.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a client of HTTP/2 sends first of all (RFC 9113, section 3.4).
pub(super) const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first byte of TLS: the type of a handshake record (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// How long to wait, and how many bytes to read, until a peer has taken its
/// refusal: a connection closed with bytes unread is reset, refusal and all.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 64 << 10;

/// What a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hello {
    Http2,
    Http1,
    Tls,
    Unknown,
}

/// Reads until it is clear what the peer speaks; also gives what was read.
///
/// # Errors
/// Where the connection ends before.
pub(super) async fn hear(io: &mut (impl AsyncRead + Unpin)) -> io::Result<(Hello, Vec<u8>)> {
    let mut heard = Vec::with_capacity(PREFACE.len());
    loop {
        let room = PREFACE.len().saturating_sub(heard.len());
        if (&mut *io).take(room as u64).read_buf(&mut heard).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(hello) = tell(&heard) {
            return Ok((hello, heard));
        }
    }
}

/// What is spoken, if so many bytes tell.
fn tell(heard: &[u8]) -> Option<Hello> {
    if PREFACE.starts_with(heard) {
        return (heard.len() == PREFACE.len()).then_some(Hello::Http2);
    }
    Some(match heard.first() {
        // Every method's name is of letters, those in use of capitals.
        Some(b'A'..=b'Z') => Hello::Http1,
        Some(&TLS_HANDSHAKE) => Hello::Tls,
        _ => Hello::Unknown,
    })
}

/// Tells a client of HTTP/1.1 that it is wrong here.
pub(super) async fn refuse_http1(mut io: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    const TEXT: &str = "this port speaks gRPC, which is HTTP/2 from the first byte on\n";
    let refusal = format!(
        "HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    let farewell = async {
        io.write_all(refusal.as_bytes()).await?;
        io.shutdown().await?;
        let mut rest = io.take(FAREWELL_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    tokio::time::timeout(FAREWELL, farewell).await??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_what_is_spoken() {
        for (bytes, hello) in [
            (&PREFACE[..], Some(Hello::Http2)),
            (&PREFACE[..23], None),
            (b"P", None),
            (b"PRI", None),
            (b"POST / HTTP/1.1", Some(Hello::Http1)),
            (b"PO", Some(Hello::Http1)),
            (b"G", Some(Hello::Http1)),
            (&[22, 3, 1], Some(Hello::Tls)),
            (b"\0", Some(Hello::Unknown)),
            (b"ssh", Some(Hello::Unknown)),
        ] {
            assert_eq!(tell(bytes), hello, "{bytes:?}");
        }
    }
}
