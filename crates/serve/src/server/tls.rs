//! Encrypted connections: the server's certificate and key.

use super::connections::Front;
use crate::error::ServeError;
use crate::options::TlsFiles;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The configuration of these files.
///
/// # Errors
/// E1532 for a file that cannot be read, or a key that does not match the certificate.
pub(super) fn config(files: &TlsFiles) -> Result<ServerConfig, ServeError> {
    let unusable = |path: &Path, problem: String| ServeError::File {
        path: path.to_owned(),
        problem,
    };
    let certificates = CertificateDer::pem_file_iter(&files.certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&files.certificates, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, key)
        });
    config.map_err(|error| unusable(&files.certificates, error.to_string()))
}

/// The acceptor of encrypted connections for a front end.
pub(super) fn acceptor(mut config: ServerConfig, front: &Front) -> TlsAcceptor {
    let protocol: &[u8] = match front {
        Front::Http(_) => b"http/1.1",
        Front::Grpc(_) => b"h2",
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
