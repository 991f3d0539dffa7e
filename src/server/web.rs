//! gRPC-Web: what a browser can speak, and which pages may.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri, Version};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic_web::GrpcWebLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tower_layer::Layer;

use super::call::Handler;

/// How long a browser may remember what a page may do; browsers cap it at two
/// hours.
const REMEMBERED: Duration = Duration::from_secs(2 * 60 * 60);

/// The headers of an answer that a page may see: an error without a body has
/// its status there.
const EXPOSED: [HeaderName; 4] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("grpc-encoding"),
];

/// Where a page comes from that may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Anywhere.
    Any,
    /// This scheme, host and port.
    Only(HeaderValue),
}

/// What is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an origin, such as https://example.org or http://127.0.0.1:8080 (no path), nor `*`")]
pub struct OriginError;

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Origin, OriginError> {
        if text == "*" {
            return Ok(Origin::Any);
        }
        let uri: Uri = text.parse().map_err(|_| OriginError)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(OriginError);
        };
        // Browsers compare byte by byte: no path, no user, in small letters.
        if format!("{scheme}://{authority}") != text
            || text.contains('@')
            || text.contains(|letter: char| letter.is_ascii_uppercase())
        {
            return Err(OriginError);
        }
        HeaderValue::from_str(text)
            .map(Origin::Only)
            .map_err(|_| OriginError)
    }
}

/// gRPC-Web for pages of some origins.
#[derive(Clone)]
pub(super) struct Web {
    cors: CorsLayer,
}

impl Web {
    pub(super) fn new(origins: &[Origin]) -> Web {
        let only = origins.iter().filter_map(|origin| match origin {
            Origin::Any => None,
            Origin::Only(origin) => Some(origin.clone()),
        });
        let allowed = if origins.contains(&Origin::Any) {
            AllowOrigin::any()
        } else {
            AllowOrigin::list(only)
        };
        Web {
            cors: CorsLayer::new()
                .allow_origin(allowed)
                .allow_methods([Method::POST])
                // Whatever metadata a client sends: none of it is trusted.
                .allow_headers(AllowHeaders::mirror_request())
                .expose_headers(EXPOSED)
                .max_age(REMEMBERED),
        }
    }

    /// Answers a request of a browser, or of a client of gRPC itself.
    pub(super) async fn answer(
        &self,
        handler: Handler,
        request: Request<Body>,
    ) -> Result<Response<Body>, Infallible> {
        if is_grpc(&request) {
            return handler.answer(request).await;
        }
        let translated = GrpcWebLayer::new().layer(handler);
        self.cors.layer(translated).call(request).await
    }
}

fn is_grpc(request: &Request<Body>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    request.version() == Version::HTTP_2
        && kind.is_some_and(|kind| {
            kind.as_bytes()
                .strip_prefix(b"application/grpc")
                .is_some_and(|rest| !rest.starts_with(b"-web"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_scheme_host_and_port() {
        assert_eq!("*".parse(), Ok(Origin::Any));
        for text in [
            "https://example.org",
            "http://127.0.0.1:8080",
            "http://[::1]:1",
        ] {
            let origin = Origin::Only(HeaderValue::from_static(text));
            assert_eq!(text.parse(), Ok(origin));
        }
        for text in [
            "",
            "example.org",
            "https://",
            "https://example.org/",
            "https://example.org/page",
            "https://Example.org",
            "https://me@example.org",
            "https://*.example.org/",
            "null",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(OriginError), "{text}");
        }
    }
}
