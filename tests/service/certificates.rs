//! Certificates to test with, made anew each time.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Who signs certificates.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority {
            pem: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, names: Vec<SanType>, usage: ExtendedKeyUsagePurpose) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        params.extended_key_usages = vec![usage];
        Pair {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// A server's, for the loopback address and the name `loyd.test`.
    pub fn server(&self) -> Pair {
        let names = vec![
            SanType::IpAddress("127.0.0.1".parse().unwrap()),
            SanType::DnsName("loyd.test".try_into().unwrap()),
        ];
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub fn client(&self, name: SanType) -> Pair {
        self.issue(vec![name], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// What a client needs that trusts this authority.
    pub fn trusted(&self) -> ClientTlsConfig {
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.pem))
    }
}

impl Pair {
    pub fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate, &self.key)
    }
}

pub fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

pub fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

pub fn email(name: &str) -> SanType {
    SanType::Rfc822Name(name.try_into().unwrap())
}

/// The files of a server, in a directory that goes with them.
pub struct Files {
    pub directory: tempfile::TempDir,
}

impl Files {
    pub fn new(pair: &Pair) -> Files {
        let files = Files {
            directory: tempfile::tempdir().unwrap(),
        };
        files.put(pair);
        files
    }

    pub fn put(&self, pair: &Pair) {
        self.write("cert.pem", &pair.certificate);
        self.write("key.pem", &pair.key);
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        text(&self.path(name))
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
