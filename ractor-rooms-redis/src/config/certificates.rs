//! The certificates of a configuration.

use redis::TlsCertificates;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::RedisConfig;
use crate::error::ConnectErr;

impl RedisConfig {
    /// What the client library shall use; none when the Mozilla store serves.
    pub(crate) fn certificates(&self) -> Option<TlsCertificates> {
        if self.root_certificate.is_none() && self.client_certificate.is_none() {
            return None;
        }
        let client_tls = self
            .client_certificate
            .clone()
            .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key });
        Some(TlsCertificates { client_tls, root_cert: self.root_certificate.clone() })
    }

    /// Whether they can be read. The client library would say so only in its own words, or would take a
    /// text without any certificate for an authority that nobody trusts.
    pub(super) fn check_certificates(&self) -> Result<(), ConnectErr> {
        let wrong = |option, reason: &str| {
            Err(ConnectErr::InvalidOption { option, reason: reason.to_owned() })
        };
        if let Some(pem) = &self.root_certificate
            && !certificates(pem).is_some_and(|found| {
                let mut store = RootCertStore::empty();
                found.into_iter().all(|certificate| store.add(certificate).is_ok())
            })
        {
            return wrong("root_certificate", "it must be one or more certificates in PEM");
        }
        if let Some((certificate, key)) = &self.client_certificate {
            if certificates(certificate).is_none() {
                return wrong(
                    "client_certificate",
                    "the certificate must be one or more certificates in PEM",
                );
            }
            if PrivateKeyDer::from_pem_slice(key).is_err() {
                return wrong("client_certificate", "the key must be a private key in PEM");
            }
        }
        Ok(())
    }
}

/// All certificates of a text, if there is one and each can be read.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}
