//! A connection to a node as a plain byte stream, for what no client crate can read: TCP, TLS or a socket file, with
//! the same address, certificates and login as every other connection.

use std::io;
use std::sync::Arc;

use redis::{ConnectionAddr, TlsCertificates};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::{CONNECT, Node};

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The credentials for AUTH. Never printed.
pub struct Login {
    pub username: Option<String>,
    pub password: Option<String>,
}

impl Node {
    /// Opens a byte stream to the node. The caller must log in.
    pub async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        tokio::time::timeout(CONNECT, self.open()).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    pub fn login(&self) -> Login {
        let settings = self.client.get_connection_info().redis_settings();
        Login { username: settings.username().map(String::from), password: settings.password().map(String::from) }
    }

    async fn open(&self) -> io::Result<Box<dyn Stream>> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
            ConnectionAddr::TcpTls { host, port, insecure, .. } => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let connector = TlsConnector::from(Arc::new(config(self.tls.as_ref(), *insecure)?));
                Ok(Box::new(connector.connect(name, tcp(host, *port).await?).await?))
            }
            _ => Err(io::Error::other("no stream can be opened to an address of this kind")),
        }
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// How TLS is spoken: with the authority and the certificate of ours that the user named.
pub fn config(certificates: Option<&TlsCertificates>, insecure: bool) -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder().with_root_certificates(roots(certificates)?);
    let client = certificates.and_then(|certificates| certificates.client_tls.as_ref());
    let mut config = match client {
        Some(client) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&client.client_cert).collect();
            let key = PrivateKeyDer::from_pem_slice(&client.client_key).map_err(io::Error::other)?;
            builder.with_client_auth_cert(chain.map_err(io::Error::other)?, key).map_err(io::Error::other)?
        }
        None => builder.with_no_client_auth(),
    };
    if insecure {
        config.enable_sni = false;
        let provider = config.crypto_provider().clone();
        config.dangerous().set_certificate_verifier(Arc::new(AnyCertificate(provider)));
    }
    Ok(config)
}

/// The authority that the user named, else those the system trusts.
fn roots(certificates: Option<&TlsCertificates>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match certificates.and_then(|certificates| certificates.root_cert.as_ref()) {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// `--insecure`: accepts any certificate, as the user asked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
