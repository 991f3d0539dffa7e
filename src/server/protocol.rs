//! What a request speaks, by its method and content type, and what is told to
//! one that speaks nothing of ours.
//!
//! Such a request is no call of gRPC: it is answered in the terms of HTTP,
//! which every client knows.

use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use tonic::body::Body;

const TEXT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    /// gRPC-Web, its messages as bytes.
    Web,
    /// gRPC-Web, all of it in base64.
    WebText,
}

/// Why a request is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Method,
    /// HEAD: another method whose answer must have no body, which hyper sees to
    /// over HTTP/1.1 alone.
    Head,
    ContentType,
    /// gRPC over HTTP/1.1.
    Version,
}

/// What a request speaks, where gRPC is served and, if `with_web`, gRPC-Web.
///
/// # Errors
/// Where it speaks neither.
pub(super) fn of<B>(request: &Request<B>, with_web: bool) -> Result<Protocol, Refusal> {
    match *request.method() {
        Method::POST => {}
        Method::HEAD => return Err(Refusal::Head),
        _ => return Err(Refusal::Method),
    }
    let protocol = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| protocol(kind.as_bytes()))
        .filter(|protocol| *protocol == Protocol::Grpc || with_web)
        .ok_or(Refusal::ContentType)?;
    if protocol == Protocol::Grpc && request.version() != Version::HTTP_2 {
        return Err(Refusal::Version);
    }
    Ok(protocol)
}

/// Reads a content type: one of these names, then nothing, `+` and how messages
/// are written, or `;` and parameters.
///
/// What stands behind `+` is not looked at. gRPC wants 415 only for what does
/// not begin with `application/grpc`, and grpc-go, which knows no JSON either,
/// reads `application/grpc+json` as protobuf.
fn protocol(kind: &[u8]) -> Option<Protocol> {
    // The longer name of two that begin alike comes first.
    const NAMES: [(&[u8], Protocol); 3] = [
        (b"application/grpc-web-text", Protocol::WebText),
        (b"application/grpc-web", Protocol::Web),
        (b"application/grpc", Protocol::Grpc),
    ];
    NAMES.into_iter().find_map(|(name, protocol)| {
        let (start, rest) = kind.split_at_checked(name.len())?;
        (start.eq_ignore_ascii_case(name) && matches!(rest, [] | [b'+' | b';' | b' ', ..]))
            .then_some(protocol)
    })
}

impl Refusal {
    /// The answer. `with_web` says what else would have been taken.
    pub(super) fn into_response(self, with_web: bool) -> Response<Body> {
        let (status, text) = match (self, with_web) {
            (Refusal::Method, _) => (
                StatusCode::METHOD_NOT_ALLOWED,
                "a call of gRPC is a POST request\n",
            ),
            (Refusal::Head, _) => (StatusCode::METHOD_NOT_ALLOWED, ""),
            (Refusal::ContentType, false) => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the content type of a call is application/grpc\n",
            ),
            (Refusal::ContentType, true) => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the content type of a call is application/grpc, or application/grpc-web or \
                 application/grpc-web-text\n",
            ),
            (Refusal::Version, _) => (
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                "application/grpc is spoken over HTTP/2, over HTTP/1.1 application/grpc-web\n",
            ),
        };
        let body = match text {
            "" => Body::empty(),
            text => Body::new(text.to_owned()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, TEXT_TYPE);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(
        method: Method,
        version: Version,
        kind: &str,
        web: bool,
    ) -> Result<Protocol, Refusal> {
        let mut request = Request::builder().method(method).version(version);
        if !kind.is_empty() {
            request = request.header(CONTENT_TYPE, kind);
        }
        of(&request.body(()).unwrap(), web)
    }

    #[test]
    fn the_content_type_tells_what_is_spoken() {
        for (kind, protocol) in [
            ("application/grpc", Ok(Protocol::Grpc)),
            ("application/grpc+proto", Ok(Protocol::Grpc)),
            ("application/grpc+json", Ok(Protocol::Grpc)),
            ("application/grpc;charset=utf-8", Ok(Protocol::Grpc)),
            ("application/grpc ; a=b", Ok(Protocol::Grpc)),
            ("Application/GRPC", Ok(Protocol::Grpc)),
            ("application/grpc-web", Ok(Protocol::Web)),
            ("application/grpc-web+proto", Ok(Protocol::Web)),
            ("application/grpc-web-text", Ok(Protocol::WebText)),
            ("application/grpc-web-text+proto", Ok(Protocol::WebText)),
            ("application/grpc-web-texts", Err(Refusal::ContentType)),
            ("application/grpcweb", Err(Refusal::ContentType)),
            ("application/grp", Err(Refusal::ContentType)),
            ("application/json", Err(Refusal::ContentType)),
            ("text/plain", Err(Refusal::ContentType)),
            ("", Err(Refusal::ContentType)),
        ] {
            assert_eq!(
                spoken(Method::POST, Version::HTTP_2, kind, true),
                protocol,
                "{kind}"
            );
            let without_web = match protocol {
                Ok(Protocol::Grpc) => Ok(Protocol::Grpc),
                _ => Err(Refusal::ContentType),
            };
            assert_eq!(
                spoken(Method::POST, Version::HTTP_2, kind, false),
                without_web,
                "{kind}"
            );
        }
    }

    #[test]
    fn grpc_is_a_post_over_http_2() {
        const GRPC: &str = "application/grpc";
        for method in [Method::GET, Method::PUT, Method::OPTIONS] {
            let refused = spoken(method, Version::HTTP_2, GRPC, true);
            assert_eq!(refused, Err(Refusal::Method));
        }
        let refused = spoken(Method::HEAD, Version::HTTP_2, GRPC, true);
        assert_eq!(refused, Err(Refusal::Head));
        let refused = spoken(Method::POST, Version::HTTP_11, GRPC, true);
        assert_eq!(refused, Err(Refusal::Version));
        let web = spoken(Method::POST, Version::HTTP_11, "application/grpc-web", true);
        assert_eq!(web, Ok(Protocol::Web));
    }
}
