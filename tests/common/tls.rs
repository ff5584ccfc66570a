//! Certificates for one test: an authority, a server certificate that it signed, and a client's.
//!
//! The server does not use the authority's certificate: rustls refuses a CA certificate in that place.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use redis::{Client, ClientTlsConfig, RedisResult, TlsCertificates};

/// PEM texts.
#[derive(Clone)]
pub struct Certificates {
    pub ca: String,
    pub server: String,
    pub server_key: String,
    pub client: String,
    pub client_key: String,
}

impl Certificates {
    /// For `localhost` and `127.0.0.1`.
    pub fn generate() -> Certificates {
        let mut params = CertificateParams::new([]).expect("no names to get wrong");
        params.distinguished_name.push(DnType::CommonName, "lockscope test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key pair");
        let ca = params.self_signed(&key).expect("a certificate of our own").pem();
        let authority = Issuer::new(params, key);
        let names = ["localhost".to_string(), "127.0.0.1".to_string()];
        let (server, server_key) = issue(&authority, &names, ExtendedKeyUsagePurpose::ServerAuth);
        let (client, client_key) = issue(&authority, &["client".to_string()], ExtendedKeyUsagePurpose::ClientAuth);
        Certificates { ca, server, server_key, client, client_key }
    }

    /// Writes `ca.pem`, `server.pem`, `server.key`, `client.pem` and `client.key`.
    pub fn write_to(&self, directory: &Path) {
        let files = [
            ("ca.pem", &self.ca),
            ("server.pem", &self.server),
            ("server.key", &self.server_key),
            ("client.pem", &self.client),
            ("client.key", &self.client_key),
        ];
        for (name, text) in files {
            std::fs::write(directory.join(name), text).expect("a file in a directory of our own");
        }
    }

    /// A client that trusts this authority and shows the client certificate.
    pub fn client(&self, url: &str) -> RedisResult<Client> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = TlsCertificates {
            client_tls: Some(ClientTlsConfig {
                client_cert: self.client.clone().into_bytes(),
                client_key: self.client_key.clone().into_bytes(),
            }),
            root_cert: Some(self.ca.clone().into_bytes()),
        };
        Client::build_with_tls(url, certificates)
    }
}

fn issue(authority: &Issuer<'_, KeyPair>, names: &[String], purpose: ExtendedKeyUsagePurpose) -> (String, String) {
    let mut params = CertificateParams::new(names).expect("valid names");
    // A distinct name: OpenSSL takes a certificate with its issuer's name for a self-signed one.
    params.distinguished_name.push(DnType::CommonName, names[0].as_str());
    params.extended_key_usages = vec![purpose];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().expect("a key pair");
    let certificate = params.signed_by(&key, authority).expect("a signed certificate");
    (certificate.pem(), key.serialize_pem())
}
