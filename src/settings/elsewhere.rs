//! The targets that a running console can go to, and the settings for one of them.
//!
//! Options of the command line that concern a server (user, password, TLS, patterns, pace, …) belong to the server that the
//! console was started with. They are never used for another one, and neither is `LOCKSCOPE_PASSWORD`: a password must not
//! reach a server that it was not given for. What concerns the person or the terminal holds everywhere.

use super::cli::{Environment, Global};
use super::config::{Config, Target};
use super::login::PASSWORD;
use super::{Outside, Settings};
use crate::base::fault::Fault;
use crate::base::text::visible;

/// A target of the config, as it is offered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    pub name: String,
    pub environment: Option<Environment>,
    pub read_only: bool,
}

impl Offered {
    /// `orders (prod, read-only)`.
    pub fn sentence(&self, here: bool) -> String {
        let mut words = Vec::new();
        words.extend(here.then_some("here"));
        words.extend(self.environment.map(Environment::name));
        words.extend(self.read_only.then_some("read-only"));
        let name = visible(self.name.as_bytes());
        if words.is_empty() { name } else { format!("{name} ({})", words.join(", ")) }
    }
}

/// The targets of the config, by name.
pub(super) fn offered(config: &Config) -> Vec<Offered> {
    let one = |(name, target): (&String, &Target)| Offered {
        name: name.clone(),
        environment: target.environment,
        read_only: target.read_only,
    };
    config.targets.iter().map(one).collect()
}

impl Global {
    /// The same person and terminal at another target. Writing is asked for again.
    fn at(&self, name: &str) -> Global {
        Global {
            target: Some(name.to_string()),
            dialects: self.dialects.clone(),
            read_only: self.read_only,
            config: self.config.clone(),
            no_color: self.no_color,
            ascii: self.ascii,
            quiet: self.quiet,
            verbose: self.verbose,
            ..Global::default()
        }
    }

    /// The server that the console was started with, as it was started; but writing is asked for again.
    fn again(&self) -> Global {
        Global { write: false, ..self.clone() }
    }
}

impl Settings {
    /// Those of the target `name`, for a console that was started by `cli` and was called `start` then.
    pub fn elsewhere(cli: &Global, start: &str, name: &str) -> Result<Settings, Fault> {
        if name == start {
            return Settings::load(&cli.again());
        }
        let there = cli.at(name);
        let config = Config::load(there.config.as_deref())?;
        let env = |variable: &str| std::env::var_os(variable).filter(|_| variable != PASSWORD);
        Settings::resolve(&there, &Outside { env: &env, ..Outside::real() }, &config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_of_one_server_is_not_said_to_another() {
        let cli = Global {
            urls: vec!["rediss://here".into()],
            user: Some("anna".into()),
            password_file: Some("/run/pw".into()),
            insecure: true,
            single_node: true,
            map_hosts: vec!["a=b".into()],
            env: Some(Environment::Dev),
            patterns: vec!["job:*".into()],
            dialects: vec!["redsync=job:*".into()],
            write: true,
            config: Some("c.toml".into()),
            ascii: true,
            ..Global::default()
        };
        let there = cli.at("billing");
        assert_eq!((there.target.as_deref(), there.urls.len(), there.write), (Some("billing"), 0, false));
        assert_eq!((there.user.is_none(), there.password_file.is_none(), there.insecure), (true, true, false));
        assert_eq!((there.single_node, there.map_hosts.len(), there.patterns.len()), (false, 0, 0));
        assert_eq!((there.env, there.ascii, there.dialects.len()), (None, true, 1));
        assert_eq!(there.config, cli.config);
        let read_only = Global { read_only: true, ..Global::default() };
        assert!(read_only.at("billing").read_only, "a promise for the whole run");
        assert_eq!((cli.again().user, cli.again().write), (Some("anna".into()), false));
    }
}
