//! TLS and mutual TLS, by certificates that may change while the server runs.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::client_identity::{AllowedClients, ClientIdentity};
use super::file;
use super::stream::Stream;

/// How often the files are looked at: soon enough for a certificate that is
/// renewed days before its end, seldom enough to cost nothing.
const RELOAD_INTERVAL: Duration = Duration::from_secs(3);

/// What is spoken over TLS. A client that offers protocols, and none of these,
/// is refused by the handshake.
const PROTOCOLS: [&[u8]; 1] = [b"h2"];

/// How to speak TLS.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// The server's certificate chain, in PEM, its own first.
    pub certificate: PathBuf,
    /// The key of that certificate, in PEM.
    pub key: PathBuf,
    /// Who signs the certificates of clients, in PEM. Where it is given, a
    /// client without such a certificate is refused.
    pub client_ca: Option<PathBuf>,
    /// The clients that may call; empty for all with a certificate.
    pub allowed_clients: Vec<ClientIdentity>,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
}

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        reason: io::Error,
    },
    /// A file is no PEM.
    #[error("{} is not in PEM: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        reason: pem::Error,
    },
    /// A file has no certificate.
    #[error("{} holds no certificate (-----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A file has no key.
    #[error("{} holds no private key (-----BEGIN PRIVATE KEY-----)", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The certificate and the key do not go together.
    #[error("cannot use {} with the key {}: {reason}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        #[source]
        reason: rustls::Error,
    },
    /// No client's certificate could be verified.
    #[error("cannot verify clients by {}: {reason}", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        reason: VerifierBuilderError,
    },
}

/// The files, as they were read.
#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

struct Current {
    files: Files,
    server: Arc<ServerConfig>,
}

/// TLS as it is spoken now.
pub struct Tls {
    settings: TlsSettings,
    current: RwLock<Current>,
    reload: Notify,
}

impl fmt::Debug for Tls {
    /// Without the files: one is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Loads the files for the first time.
    ///
    /// # Errors
    /// Where one of them can't be used.
    pub fn load(settings: TlsSettings) -> Result<Tls, TlsError> {
        let files = Files::read(&settings)?;
        let server = server_config(&settings, &files)?;
        Ok(Tls {
            settings,
            current: RwLock::new(Current { files, server }),
            reload: Notify::new(),
        })
    }

    /// Has a server that is running look at the files now.
    pub fn reload_soon(&self) {
        self.reload.notify_one();
    }

    /// Looks at the files every few seconds, and when it is asked to. Never
    /// ends by itself.
    pub(super) async fn keep_fresh(self: Arc<Tls>) {
        // What was said last of files that can't be used: it is said once.
        let mut said = None;
        loop {
            let asked = tokio::select! {
                () = self.reload.notified() => true,
                () = tokio::time::sleep(RELOAD_INTERVAL) => false,
            };
            let tls = Arc::clone(&self);
            // A file system may take its time.
            let Ok(reloaded) = tokio::task::spawn_blocking(move || tls.reload()).await else {
                continue;
            };
            match reloaded {
                Ok(true) => tracing::info!("new certificates are used from now on"),
                Ok(false) if asked => tracing::info!("the certificates have not changed"),
                Ok(false) => {}
                Err(error) => {
                    let error = error.to_string();
                    if asked || said.as_ref() != Some(&error) {
                        tracing::error!(
                            error,
                            "cannot use the changed certificates; the old ones stay"
                        );
                    }
                    said = Some(error);
                    continue;
                }
            }
            said = None;
        }
    }

    /// Loads files that changed. Connections keep what they have.
    fn reload(&self) -> Result<bool, TlsError> {
        let files = Files::read(&self.settings)?;
        if self.current().files == files {
            return Ok(false);
        }
        let server = server_config(&self.settings, &files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { files, server };
        Ok(true)
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        // Nothing panics while it writes; what is there is whole either way.
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shakes hands with a client.
    ///
    /// # Errors
    /// Where the client does not do its part, is not allowed in, or takes
    /// longer than [`TlsSettings::handshake_timeout`].
    pub(super) async fn handshake(&self, stream: TcpStream) -> io::Result<Stream> {
        let server = Arc::clone(&self.current().server);
        let handshake = TlsAcceptor::from(server).accept(stream);
        match tokio::time::timeout(self.settings.handshake_timeout, handshake).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(stream?))),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the TLS handshake took too long",
            )),
        }
    }
}

impl Files {
    fn read(settings: &TlsSettings) -> Result<Files, TlsError> {
        let read = |path: &Path| {
            file::read(path).map_err(|reason| TlsError::Read {
                path: path.to_owned(),
                reason,
            })
        };
        Ok(Files {
            certificate: read(&settings.certificate)?,
            key: read(&settings.key)?,
            client_ca: settings.client_ca.as_deref().map(read).transpose()?,
        })
    }
}

fn server_config(settings: &TlsSettings, files: &Files) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = client_verifier(settings, files, &provider)?;
    let chain = certificates(&settings.certificate, &files.certificate)?;
    let key = private_key(&settings.key, &files.key)?;
    let pair = |reason| TlsError::Pair {
        certificate: settings.certificate.clone(),
        key: settings.key.clone(),
        reason,
    };
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(pair)?;
    server.alpn_protocols = PROTOCOLS.map(Vec::from).to_vec();
    Ok(Arc::new(server))
}

fn client_verifier(
    settings: &TlsSettings,
    files: &Files,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let (Some(path), Some(bytes)) = (&settings.client_ca, &files.client_ca) else {
        return Ok(Arc::new(NoClientAuth));
    };
    let unusable = |reason| TlsError::ClientCa {
        path: path.clone(),
        reason,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        roots
            .add(certificate)
            .map_err(|_| unusable(VerifierBuilderError::NoRootAnchors))?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(unusable)?;
    if settings.allowed_clients.is_empty() {
        return Ok(verifier);
    }
    Ok(Arc::new(AllowedClients {
        verifier,
        allowed: settings.allowed_clients.clone(),
    }))
}

/// The certificates of a file with these bytes.
///
/// # Errors
/// Where it is not PEM, or has none.
pub(crate) fn certificates(
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|reason| TlsError::Pem {
            path: path.to_owned(),
            reason,
        })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(chain)
}

/// The key of a file with these bytes.
///
/// # Errors
/// Where it is not PEM, or has none.
pub(crate) fn private_key(path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|reason| {
        let path = path.to_owned();
        match reason {
            pem::Error::NoItemsFound => TlsError::NoKey { path },
            reason => TlsError::Pem { path, reason },
        }
    })
}
