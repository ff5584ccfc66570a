//! Turns the settings into what is needed to reach a server and to write there: the endpoint and the gate.

use std::path::Path;

use redis::{ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};

use super::{Login, ReadOnly, Settings, Tls};
use crate::actions::Gate;
use crate::base::fault::Fault;
use crate::topology::Endpoint;
use crate::topology::url::{Address, ServerUrl};

impl Settings {
    /// The gate of a writing command. Running such a command is itself the consent to write.
    pub fn gate(&self) -> Gate {
        let read_only = self.read_only.as_ref().map(|why| match why {
            ReadOnly::Asked => "this is read-only, by --read-only; nothing was written".to_string(),
            ReadOnly::Target(name) => format!(
                "this is read-only: the target {name:?} has this address and is marked read_only in the config; \
                 nothing was written"
            ),
            ReadOnly::Server(why) => format!("{why}; nothing was written"),
        });
        Gate::new(read_only, self.protected.clone())
    }

    /// Everything that a connection to the server needs.
    pub fn endpoint(&self) -> Result<Endpoint, Fault> {
        self.endpoints()?.into_iter().next().ok_or_else(|| Fault::usage("no server was given; use --url"))
    }

    /// The same for each node of a cluster that was named.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, Fault> {
        self.endpoints_as(&self.login, self.db)
    }

    /// The same for each sentinel that was named. A sentinel has no databases. `else_login`: where no login was given.
    pub fn sentinels(&self, else_login: &Login) -> Result<Vec<Endpoint>, Fault> {
        self.endpoints_as(self.sentinel_login.as_ref().unwrap_or(else_login), 0)
    }

    fn endpoints_as(&self, login: &Login, db: u32) -> Result<Vec<Endpoint>, Fault> {
        let endpoint = |server, address| self.endpoint_at(server, address, login, db);
        let servers = self.servers.iter();
        servers.flat_map(|server| server.addresses().map(move |address| endpoint(server, address))).collect()
    }

    fn endpoint_at(&self, server: &ServerUrl, address: &Address, login: &Login, db: u32) -> Result<Endpoint, Fault> {
        let shown = server.shown();
        let addr = match address {
            Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Address::Tcp { host, port } if server.tls => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: self.tls.insecure,
                tls_params: None,
            },
            Address::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let blank = RedisConnectionInfo::default().set_db(i64::from(db));
        let login = match login {
            Login::Default => blank,
            Login::Password(password) => blank.set_password(password.reveal()),
            Login::User { name, password } => blank.set_username(name).set_password(password.reveal()),
        };
        let info =
            addr.into_connection_info().map_err(|error| Fault::from_redis(&error, &shown))?.set_redis_settings(login);
        let tls = if server.tls { Some(certificates(&self.tls)?) } else { None };
        if server.tls {
            // If the process already has a provider, that one stays.
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
