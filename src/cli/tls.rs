//! The options of TLS, of a server and of a client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::options::parse_positive_duration;
use crate::server::{Address, ClientIdentity, TlsError, TlsSettings, file, tls};

/// How `loyd serve` speaks TLS.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ServerTlsArgs {
    /// Speak TLS on TCP, by this certificate chain (PEM). Unix sockets stay
    /// plain: their permissions say who may call. The files of TLS are looked
    /// at every few seconds, and on SIGHUP; where they changed, new connections
    /// get the new ones
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Refuse clients without a certificate signed by one of these (PEM)
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,

    /// Of those refuse all but this one, by a subject alternative name of its
    /// certificate: a host name, a URI or an e-mail address. May be given
    /// several times (in LOYD_TLS_ALLOW_CLIENT with commas between)
    #[arg(long, value_name = "NAME")]
    tls_allow_client: Vec<ClientIdentity>,

    /// How long a TLS handshake may take
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "10s")]
    tls_handshake_timeout: Duration,
}

impl ServerTlsArgs {
    /// The settings, if TLS is asked for.
    pub(super) fn settings(&self, listen: &[Address]) -> Result<Option<TlsSettings>, String> {
        if !self.tls_allow_client.is_empty() && self.tls_client_ca.is_none() {
            return Err("--tls-allow-client needs --tls-client-ca, to know clients by".to_owned());
        }
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (Some(_), None) => return Err("--tls-cert needs --tls-key, its key".to_owned()),
            (None, Some(_)) => {
                return Err("--tls-key needs --tls-cert, its certificate".to_owned());
            }
            (None, None) if self.tls_client_ca.is_some() => {
                return Err("--tls-client-ca needs --tls-cert and --tls-key".to_owned());
            }
            (None, None) => return Ok(None),
        };
        if !listen
            .iter()
            .any(|address| matches!(address, Address::Tcp(_)))
        {
            return Err("--tls-cert is for TCP addresses, and --listen names none".to_owned());
        }
        Ok(Some(TlsSettings {
            certificate,
            key,
            client_ca: self.tls_client_ca.clone(),
            allowed_clients: self.tls_allow_client.clone(),
            handshake_timeout: self.tls_handshake_timeout,
        }))
    }
}

/// How commands with --connect speak TLS.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ClientTlsArgs {
    /// Who signs the certificates of servers (PEM); needed for https://
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// Our own certificate chain (PEM), where the server asks for one
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// The name in the server's certificate [default: the host in the address]
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
}

impl ClientTlsArgs {
    /// Whether any is given.
    pub(super) fn is_given(&self) -> bool {
        self.tls_ca.is_some()
            || self.tls_cert.is_some()
            || self.tls_key.is_some()
            || self.tls_server_name.is_some()
    }

    /// Reads the files.
    pub(super) fn load(&self) -> Result<ClientTlsConfig, String> {
        let ca = self.tls_ca.as_deref().ok_or(
            "https:// needs --tls-ca, the file of who signed the server's certificate, \
             such as /etc/ssl/certs/ca-certificates.crt",
        )?;
        // What holds none would only show as a server that nobody knows.
        let ca = read_with(ca, tls::certificates)?;
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let certificate = read_with(certificate, tls::certificates)?;
                let key = read_with(key, tls::private_key)?;
                config = config.identity(Identity::from_pem(certificate, key));
            }
            (Some(_), None) => return Err("--tls-cert needs --tls-key, its key".to_owned()),
            (None, Some(_)) => {
                return Err("--tls-key needs --tls-cert, its certificate".to_owned());
            }
            (None, None) => {}
        }
        if let Some(name) = &self.tls_server_name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}

/// Reads a file that has to be what this function finds in it.
fn read_with<T>(
    path: &Path,
    find: impl Fn(&Path, &[u8]) -> Result<T, TlsError>,
) -> Result<Vec<u8>, String> {
    let bytes =
        file::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    find(path, &bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
