//! Which clients may call, by the names in their certificates.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// A client by a subject alternative name of its certificate. What kind of
/// name it is, its form tells, so that a name of one kind never passes for one
/// of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIdentity {
    /// A host name: `batch.example.com`. Kept in lower case.
    Dns(String),
    /// What has a colon: `spiffe://example.com/batch`.
    Uri(String),
    /// What has an `@` and no colon: `ops@example.com`.
    Email(String),
}

/// What names no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a name of a certificate: write one host name, URI such as spiffe://example.com/batch, or e-mail address"
)]
pub struct ClientIdentityError;

impl FromStr for ClientIdentity {
    type Err = ClientIdentityError;

    fn from_str(text: &str) -> Result<ClientIdentity, ClientIdentityError> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            Err(ClientIdentityError)
        } else if text.contains(':') {
            Ok(ClientIdentity::Uri(text.to_owned()))
        } else if text.contains(',') {
            // Several names where one is meant, or none that a client has.
            Err(ClientIdentityError)
        } else if text.contains('@') {
            Ok(ClientIdentity::Email(text.to_owned()))
        } else {
            Ok(ClientIdentity::Dns(text.to_ascii_lowercase()))
        }
    }
}

impl fmt::Display for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientIdentity::Dns(name) | ClientIdentity::Uri(name) | ClientIdentity::Email(name) => {
                f.write_str(name)
            }
        }
    }
}

/// The names of a certificate; none where it can't be read.
fn identities(certificate: &CertificateDer<'_>) -> Vec<ClientIdentity> {
    let names = Certificate::from_der(certificate)
        .and_then(|certificate| certificate.tbs_certificate.get::<SubjectAltName>());
    let Ok(Some((_, SubjectAltName(names)))) = names else {
        return Vec::new();
    };
    names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DnsName(name) => {
                Some(ClientIdentity::Dns(name.as_str().to_ascii_lowercase()))
            }
            GeneralName::UniformResourceIdentifier(name) => {
                Some(ClientIdentity::Uri(name.to_string()))
            }
            GeneralName::Rfc822Name(name) => Some(ClientIdentity::Email(name.to_string())),
            _ => None,
        })
        .collect()
}

/// Asks another verifier first, then whether the client is among those that
/// may call.
#[derive(Debug)]
pub(super) struct AllowedClients {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) allowed: Vec<ClientIdentity>,
}

impl ClientCertVerifier for AllowedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .verifier
            .verify_client_cert(certificate, intermediates, now)?;
        let named = identities(certificate);
        if named.iter().any(|name| self.allowed.contains(name)) {
            return Ok(verified);
        }
        tracing::debug!(
            ?named,
            "a client that is not among those allowed is refused"
        );
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
