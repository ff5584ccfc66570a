//! Who we log in as: the one place that merges users and passwords from all sources.
//!
//! A given user or password is used as given, or refused here before anything is sent. Neither is ever dropped: a
//! client that drops a user without a password logs in as `default`, which may have more rights.

use super::{Outside, first_line, set};
use crate::base::fault::Fault;
use crate::base::secret::Secret;
use crate::base::text;
use crate::settings::cli::Global;
use crate::settings::config::Target;
use crate::topology::url::ServerUrl;

/// The variable with the password of the server that the command line names.
pub(super) const PASSWORD: &str = "LOCKSCOPE_PASSWORD";

/// What is sent to the server first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Login {
    /// Nothing: the server treats us as its `default` user.
    Default,
    /// The password of the `default` user.
    Password(Secret),
    User {
        name: String,
        password: Secret,
    },
}

impl Login {
    pub fn user(&self) -> Option<&str> {
        match self {
            Login::User { name, .. } => Some(name),
            Login::Default | Login::Password(_) => None,
        }
    }

    pub fn password(&self) -> Option<&Secret> {
        match self {
            Login::Default => None,
            Login::Password(password) | Login::User { password, .. } => Some(password),
        }
    }

    /// The login at sentinels, which have users and passwords of their own; `None` if none was given.
    pub(super) fn of_sentinels(cli: &Global, outside: &Outside<'_>, target: &Target) -> Result<Option<Login>, Fault> {
        let user = cli.sentinel_user.as_ref().or(target.sentinel_user.as_ref());
        let password = match &cli.sentinel_password_file {
            Some(path) => Some(first_line(outside, path)?),
            None => match set(outside, "LOCKSCOPE_SENTINEL_PASSWORD")? {
                Some(password) => Some(Secret::new(password)),
                None => target.sentinel_password_file.as_ref().map(|path| first_line(outside, path)).transpose()?,
            },
        };
        match (user, password) {
            (None, None) => Ok(None),
            (None, Some(password)) => Ok(Some(Login::Password(password))),
            (Some(name), Some(password)) => Ok(Some(Login::User { name: name.clone(), password })),
            (Some(name), None) => Err(Fault::usage(format!(
                "there is no password for the user {} at the sentinels; give it in LOCKSCOPE_SENTINEL_PASSWORD, with \
                 --sentinel-password-file, or as sentinel_password_file of the target in the config",
                text::visible(name.as_bytes())
            ))),
        }
    }

    /// The more explicit source wins, for the user as for the password.
    pub(super) fn of(cli: &Global, outside: &Outside<'_>, server: &ServerUrl, target: &Target) -> Result<Login, Fault> {
        if cli.user.as_deref() == Some("") {
            return Err(Fault::usage("--user is empty; leave it out, or name the ACL user to log in as"));
        }
        let user = cli.user.as_ref().or(server.username.as_ref()).or(target.user.as_ref());
        // The URL's password belongs to the URL's user.
        let is_the_urls = server.username.is_none() || server.username.as_ref() == user;
        let password = match &cli.password_file {
            Some(path) => Some(first_line(outside, path)?),
            None => match server.password.clone().filter(|_| is_the_urls) {
                Some(password) => Some(password),
                None => match set(outside, PASSWORD)? {
                    Some(password) => Some(Secret::new(password)),
                    None => target.password_file.as_ref().map(|path| first_line(outside, path)).transpose()?,
                },
            },
        };
        match (user, password) {
            (None, None) => Ok(Login::Default),
            (None, Some(password)) => Ok(Login::Password(password)),
            (Some(name), Some(password)) => Ok(Login::User { name: name.clone(), password }),
            // A client that does not log in is the `default` user anyway.
            (Some(name), None) if name == "default" => Ok(Login::Default),
            (Some(name), None) => {
                // The user part of a URL may be a password without its colon, so it is not printed.
                let named = cli.user.is_some() || server.username.is_none();
                let name = if named { text::visible(name.as_bytes()) } else { "in the URL".into() };
                Err(Fault::usage(format!(
                    "there is no password for the user {name}; give it in LOCKSCOPE_PASSWORD, with --password-file, or as \
                     password_file of the target in the config (a user that has none is written redis://user:@host, a \
                     password without a user redis://:password@host)"
                )))
            }
        }
    }
}
