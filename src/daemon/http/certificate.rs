//! The certificate that `serve` shows, and its key.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::base::fault::Fault;

/// Reads the certificate, with those that lead to its authority, and its key; both are PEM.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Fault> {
    let wrong = |flag: &str, path: &Path, why: String| Fault::usage(format!("{flag} {}: {why}", path.display()));
    let read = |flag: &str, path: &Path| std::fs::read(path).map_err(|why| wrong(flag, path, why.to_string()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read("--listen-cert", certificate)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| {
        wrong("--listen-cert", certificate, "this is no certificate in PEM form (-----BEGIN CERTIFICATE-----)".into())
    })?;
    let private = PrivateKeyDer::from_pem_slice(&read("--listen-key", key)?)
        .map_err(|_| wrong("--listen-key", key, "this is no private key in PEM form without a password".into()))?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private).map_err(|why| {
        wrong("--listen-cert", certificate, format!("the certificate and --listen-key can't be used together: {why}"))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
