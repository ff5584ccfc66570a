//! What a request carries so that it is admitted: login, headers, certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use redis::{ClientTlsConfig, TlsCertificates};
use rustls::ClientConfig;

use super::{Base, Trouble};
use crate::base::fault::Fault;
use crate::base::secret::Secret;
use crate::topology;

/// The files and options that the user named.
#[derive(Clone, Default, Debug)]
pub struct Files {
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    pub bearer_file: Option<PathBuf>,
    /// Each as `Name: value`.
    pub headers: Vec<String>,
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub insecure: bool,
}

#[derive(Debug)]
pub struct Access {
    login: Option<(String, Secret)>,
    /// Read again for each request: such tokens change while we run.
    bearer: Option<PathBuf>,
    headers: Vec<(HeaderName, HeaderValue)>,
    tls: Result<Arc<ClientConfig>, String>,
}

impl Access {
    /// Reads the files.
    pub fn read(files: &Files) -> Result<Access, Fault> {
        let login = match (&files.user, &files.password_file) {
            (None, None) => None,
            (Some(user), Some(file)) => Some((user.clone(), secret(file, "the password file")?)),
            (Some(_), None) => {
                return Err(Fault::usage("a user needs a password; name its file (--password-file, password_file)"));
            }
            (None, Some(_)) => return Err(Fault::usage("a password needs a user; name it (--user, user)")),
        };
        if login.is_some() && files.bearer_file.is_some() {
            return Err(Fault::usage("give either a user with a password file or a bearer file, not both"));
        }
        if let Some(file) = &files.bearer_file {
            secret(file, "the bearer file")?;
        }
        let headers = files.headers.iter().map(|text| header(text)).collect::<Result<_, _>>()?;
        let pem = |path: &Path| {
            std::fs::read(path)
                .map_err(|why| Fault::usage(format!("could not read the certificate file {}: {why}", path.display())))
        };
        let client_tls = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig { client_cert: pem(cert)?, client_key: pem(key)? }),
            (None, None) => None,
            _ => return Err(Fault::usage("a client certificate and its key go together; give both")),
        };
        let root_cert = files.ca.as_deref().map(pem).transpose()?;
        if let (Some(path), Some(pem)) = (&files.ca, &root_cert)
            && !String::from_utf8_lossy(pem).contains("BEGIN CERTIFICATE")
        {
            let path = path.display();
            return Err(Fault::usage(format!("{path} is no certificate in PEM form (-----BEGIN CERTIFICATE-----)")));
        }
        let certificates = TlsCertificates { client_tls, root_cert };
        let tls = topology::tls(Some(&certificates), files.insecure).map(Arc::new).map_err(|why| why.to_string());
        if let (Err(why), true) = (&tls, files.ca.is_some() || files.cert.is_some()) {
            return Err(Fault::usage(format!("the certificates can't be used: {why}")));
        }
        Ok(Access { login, bearer: files.bearer_file.clone(), headers, tls })
    }

    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, Trouble> {
        self.tls.clone().map_err(Trouble::Tls)
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.headers.iter()
    }

    /// The value of `Authorization`: the file's, else that of the address.
    pub(super) fn authorization(&self, base: &Base) -> Result<Option<HeaderValue>, Trouble> {
        let text = match (&self.bearer, self.login.as_ref().or(base.login())) {
            (Some(file), _) => {
                let token = secret(file, "the bearer file").map_err(|fault| Trouble::Secret(fault.to_string()))?;
                format!("Bearer {}", token.reveal())
            }
            (None, Some((user, password))) => {
                format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", password.reveal())))
            }
            (None, None) => return Ok(None),
        };
        HeaderValue::from_str(&text)
            .map(Some)
            .map_err(|_| Trouble::Secret("the login has characters that no header carries".into()))
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), Fault> {
    // The value may be a secret: it is not repeated.
    let wrong = || Fault::usage("--header needs 'Name: value', such as 'X-Scope-OrgID: tenant'");
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn secret(path: &Path, what: &str) -> Result<Secret, Fault> {
    let text = std::fs::read_to_string(path)
        .map_err(|why| Fault::usage(format!("can't read {what} {}: {why}", path.display())))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(Secret::new(line)),
        _ => Err(Fault::usage(format!("{what} {} has nothing in its first line", path.display()))),
    }
}
