//! From settings to what a connection needs: address, credentials, certificates.

use std::path::Path;

use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};

use crate::base::fault::Fault;
use crate::settings::{Login, Settings, Tls};
use crate::topology::url::Address;

/// Where a target is, with everything needed to connect. Debug output never shows it: it carries the password.
#[derive(Clone)]
pub struct Endpoint {
    /// The address as it may be shown: without a password.
    pub shown: String,
    pub info: ConnectionInfo,
    pub tls: Option<TlsCertificates>,
}

impl Endpoint {
    pub fn of(settings: &Settings) -> Result<Endpoint, Fault> {
        let server = settings.servers.first().ok_or_else(|| Fault::usage("no server was given; use --url"))?;
        let shown = server.shown();
        let addr = match &server.address {
            Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Address::Tcp { host, port } if server.tls => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: settings.tls.insecure,
                tls_params: None,
            },
            Address::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let mut login = RedisConnectionInfo::default().set_db(i64::from(settings.db));
        login = match &settings.login {
            Login::Default => login,
            Login::Password(password) => login.set_password(password.reveal()),
            Login::User { name, password } => login.set_username(name).set_password(password.reveal()),
        };
        let info =
            addr.into_connection_info().map_err(|error| Fault::from_redis(&error, &shown))?.set_redis_settings(login);
        let tls = if server.tls { Some(certificates(&settings.tls)?) } else { None };
        if server.tls {
            // Where another part of the process has chosen one already, that one stays.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Ok(Endpoint { shown, info, tls })
    }
}

fn certificates(tls: &Tls) -> Result<TlsCertificates, Fault> {
    let client_tls = match &tls.client {
        Some((cert, key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
        None => None,
    };
    let root_cert = tls.ca.as_deref().map(read).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(path)
        .map_err(|why| Fault::usage(format!("could not read the certificate file {}: {why}", path.display())))
}
