//! Which answers are compressed.
//!
//! Many clients offer gzip on every call, and compression costs small messages
//! far more than it saves: an offer alone does not turn it on. An answer is
//! compressed where its call's request was, in the same way, or where the
//! operator wants all of them to be.

use std::convert::Infallible;
use std::task::{Context, Poll};

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Service;
use tonic::server::NamedService;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The encodings that are understood, both ways.
pub const ENCODINGS: &[CompressionEncoding] = &[
    CompressionEncoding::Gzip,
    #[cfg(feature = "zstd")]
    CompressionEncoding::Zstd,
];

/// A service that compresses an answer only where that was asked for.
#[derive(Clone)]
pub struct Compression<S> {
    pub(super) inner: S,
    /// Compress whatever a client can read compressed.
    pub(super) always: bool,
}

impl<S: NamedService> NamedService for Compression<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Compression<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if !self.always {
            narrow_offer(request.headers_mut());
        }
        self.inner.call(request)
    }
}

/// Leaves of what a client can read the one encoding that its answer should
/// have: tonic takes the first it knows of what is left.
fn narrow_offer(headers: &mut HeaderMap) {
    let asked = headers.get(ENCODING).and_then(known).filter(|encoding| {
        let offers = headers.get_all(ACCEPT_ENCODING).iter();
        let mut offered = offers
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        offered.any(|name| name.trim() == *encoding)
    });
    match asked {
        Some(encoding) => headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding)),
        None => headers.remove(ACCEPT_ENCODING),
    };
}

fn known(value: &HeaderValue) -> Option<&'static str> {
    ["gzip", "zstd"]
        .into_iter()
        .find(|name| value.as_bytes() == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of an offer, for a request of this encoding.
    fn left(encoding: Option<&'static str>, offers: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        if let Some(encoding) = encoding {
            headers.insert(ENCODING, HeaderValue::from_static(encoding));
        }
        for offer in offers {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(offer));
        }
        narrow_offer(&mut headers);
        let mut left = headers.get_all(ACCEPT_ENCODING).iter();
        let first = left.next()?.to_str().unwrap().to_owned();
        assert_eq!(left.next(), None);
        Some(first)
    }

    #[test]
    fn an_offer_alone_asks_for_nothing() {
        assert_eq!(left(None, &["identity, deflate, gzip"]), None);
        assert_eq!(left(Some("identity"), &["gzip", "zstd"]), None);
        assert_eq!(left(Some("snappy"), &["gzip"]), None);
    }

    #[test]
    fn an_answer_is_encoded_like_its_request() {
        let zstd = Some("zstd".to_owned());
        assert_eq!(left(Some("zstd"), &["gzip, zstd ,identity"]), zstd);
        assert_eq!(left(Some("zstd"), &["gzip", "zstd"]), zstd);
        assert_eq!(left(Some("gzip"), &["gzip"]), Some("gzip".to_owned()));
        // One that can't read what it writes is answered plainly.
        assert_eq!(left(Some("gzip"), &["zstd"]), None);
        assert_eq!(left(Some("gzip"), &[]), None);
    }
}
