//! gRPC-Web: what a browser can speak, and which pages may.

use std::convert::Infallible;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Uri, Version};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic_web::GrpcWebLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tower_layer::Layer;

use super::call::Handler;
use super::protocol::{Protocol, Refusal};
use super::web_request::{AwaitedBody, TextBody};

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

/// What the translation knows, among others.
const WEB_TYPE: HeaderValue = HeaderValue::from_static("application/grpc-web");

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

    /// Answers a request of a page, or says why it is none. A call over
    /// HTTP/1.1 waits no longer than `request_timeout` for what it asks.
    pub(super) async fn answer(
        &self,
        handler: Handler,
        mut request: Request<Body>,
        spoken: Result<Protocol, Refusal>,
        request_timeout: Duration,
    ) -> Result<Response<Body>, Infallible> {
        if let Ok(Protocol::Web | Protocol::WebText) = spoken {
            // The text is read here, by `Call`.
            request.headers_mut().insert(CONTENT_TYPE, WEB_TYPE);
        }
        // HTTP/2 asks by pings whether the client is there.
        let timeout = (request.version() != Version::HTTP_2).then_some(request_timeout);
        let call = Call {
            handler,
            spoken,
            timeout,
        };
        // A refusal too is for pages to read. And the layer answers their
        // questions (OPTIONS) before anything is refused.
        self.cors.layer(call).call(request).await
    }
}

/// A request past the questions of CORS.
struct Call {
    handler: Handler,
    spoken: Result<Protocol, Refusal>,
    timeout: Option<Duration>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Service<Request<Body>> for Call {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let protocol = match self.spoken {
            Ok(protocol) => protocol,
            Err(refusal) => return Box::pin(std::future::ready(Ok(refusal.into_response(true)))),
        };
        let untranslated = Untranslated {
            handler: self.handler.clone(),
            is_text: protocol == Protocol::WebText,
            timeout: self.timeout,
        };
        Box::pin(GrpcWebLayer::new().layer(untranslated).call(request))
    }
}

/// A call as gRPC has it, but for how its request is written. What goes wrong
/// with that is told by our words and codes, which the translation around it
/// would make `INTERNAL`.
struct Untranslated {
    handler: Handler,
    is_text: bool,
    timeout: Option<Duration>,
}

impl Service<Request<Body>> for Untranslated {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Answering {
        if let Some(timeout) = self.timeout {
            request = request.map(|body| Body::new(AwaitedBody::new(body, timeout)));
        }
        if self.is_text {
            request = request.map(|body| Body::new(TextBody::new(body)));
        }
        Box::pin(self.handler.clone().answer(request))
    }
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
