//! Where a target is, with everything that a connection needs: address, credentials, certificates.

use redis::{ConnectionInfo, TlsCertificates};

/// Where a target is, with everything needed to connect. Debug output never shows it: it carries the password.
#[derive(Clone)]
pub struct Endpoint {
    /// The address as it may be shown: without a password.
    pub shown: String,
    pub info: ConnectionInfo,
    pub tls: Option<TlsCertificates>,
}
