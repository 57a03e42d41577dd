//! Encrypted connections.

use super::support::{Fixture, SCALED};
use crate::{Models, Repository, RepositoryOptions, Server, ServerOptions, TlsFiles};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

#[test]
fn connections_are_encrypted_with_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificates: folder.path().join("certificate.pem"),
        key: folder.path().join("key.pem"),
    };
    std::fs::write(&files.certificates, certified.cert.pem()).unwrap();
    std::fs::write(&files.key, certified.signing_key.serialize_pem()).unwrap();
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.tls = Some(files.clone());
    });
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(fixture.http()).unwrap());
    stream
        .write_all(b"GET /v2/health/ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = Vec::new();
    // The server may close the connection without a TLS closing message.
    let _ended = stream.read_to_end(&mut text);
    assert!(
        text.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&text)
    );
    // Plain text is not a valid request here.
    let mut plain = TcpStream::connect(fixture.http()).unwrap();
    plain.write_all(b"GET /v2 HTTP/1.1\r\n\r\n").unwrap();
    let mut text = Vec::new();
    let _ended = plain.read_to_end(&mut text);
    assert!(!text.starts_with(b"HTTP"));
}

#[test]
fn certificates_and_keys_that_cannot_be_used_are_typed_errors() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        certificates: folder.path().join("none.pem"),
        key: folder.path().join("none.pem"),
    };
    super::support::runtime().block_on(async {
        let models = Models::Folder(folder.path().to_owned());
        let repository = Repository::open(RepositoryOptions::new(models)).unwrap();
        let options = ServerOptions {
            tls: Some(files),
            ..ServerOptions::default()
        };
        assert_eq!(
            Server::start(repository, options).await.unwrap_err().code(),
            "E1532"
        );
    });
}
