//! Connecting to a server: over TCP, with or without TLS, or a Unix socket.

use std::time::Duration;

use hyper::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use super::remote::{RemoteError, root};
use super::tls::ClientTlsArgs;

/// How long a server may take to accept a connection, and to say that it
/// speaks TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before the server is pinged, and how
/// long that may take: finds out that it is gone or frozen.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Connects to a server.
pub(super) async fn connect(uri: &str, tls: &ClientTlsArgs) -> Result<Channel, RemoteError> {
    let failed = |reason| RemoteError::Connect {
        uri: uri.to_owned(),
        reason,
    };
    let endpoint = endpoint(uri, tls)?
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .tcp_nodelay(true);
    // The endpoint's own timeout is over before the handshake of TLS begins.
    match tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect()).await {
        Ok(connected) => connected.map_err(|error| failed(root(&error))),
        Err(_) => Err(failed(format!("no answer within {CONNECT_TIMEOUT:?}"))),
    }
}

fn endpoint(uri: &str, tls: &ClientTlsArgs) -> Result<Endpoint, RemoteError> {
    let bad = || RemoteError::BadUri {
        uri: uri.to_owned(),
    };
    let is_unix = uri.starts_with("unix:");
    let full = if is_unix || uri.contains("://") {
        uri.to_owned()
    } else {
        format!("http://{uri}")
    };
    let endpoint = Endpoint::from_shared(full).map_err(|_| bad())?;
    let scheme = endpoint.uri().scheme_str();
    if is_unix {
        if matches!(uri, "unix:" | "unix://") {
            return Err(bad());
        }
    } else if !matches!(scheme, Some("http" | "https"))
        || !endpoint.uri().authority().is_some_and(is_host_and_port)
        // It would not be asked for: the path of a call is its method.
        || !matches!(endpoint.uri().path_and_query().map(PathAndQuery::as_str), None | Some("/"))
    {
        return Err(bad());
    }
    if !is_unix && scheme == Some("https") {
        let config = tls.load().map_err(RemoteError::Tls)?;
        return endpoint.tls_config(config).map_err(|error| {
            RemoteError::Tls(format!("cannot use the TLS options: {}", root(&error)))
        });
    }
    if tls.is_given() {
        return Err(RemoteError::Tls(format!(
            "the TLS options are for https:// addresses, which `{uri}` is not"
        )));
    }
    Ok(endpoint)
}

/// Whether it is `HOST` or `HOST:PORT`; a port that is no number, or too large
/// a one, would be taken for the default.
pub(super) fn is_host_and_port(authority: &hyper::http::uri::Authority) -> bool {
    let host = authority.host();
    !host.is_empty()
        && (authority.as_str() == host
            || authority
                .port_u16()
                .is_some_and(|port| authority.as_str() == format!("{host}:{port}")))
}
