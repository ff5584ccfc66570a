//! What we may do on a server, asked with ACL DRYRUN in advance, and the ACL lines that would allow it.
//!
//! No command is run. Where DRYRUN is missing or not permitted, the answer is "unknown", never "allowed".

mod acl;
mod needs;
mod pattern;

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisError, RedisResult, Value};

pub use acl::{CLUSTER, Scope, sampling_line};
pub use needs::{Need, Party};
pub use pattern::sample_key;

use crate::base::server_text::ServerText;
use crate::base::text;
use crate::server::channels;
use crate::server::{Fact, Product, refusal};
use needs::{Arg, SAMPLING};

/// Whether something is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Permission {
    Allowed,
    Denied { by: Denial, reason: String },
    Unknown(String),
}

/// What forbids it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    Command,
    Key,
    Channel,
    /// The server has no such command.
    Absent,
}

/// A command and whether we may run it.
#[derive(Clone, PartialEq, Debug)]
pub struct Granted {
    pub need: &'static Need,
    pub permission: Permission,
}

/// What this connection's user may do.
#[derive(Clone, PartialEq, Debug)]
pub struct Permissions {
    pub user: Fact<ServerText>,
    pub observer: Vec<Granted>,
    /// What an operator needs beyond that.
    pub operator: Vec<Granted>,
    /// Whether attempts may be sampled, by MONITOR.
    pub sampling: Permission,
    /// For each pattern, whether keys under it may be read, judged by GETRANGE.
    pub readable: Vec<(String, Permission)>,
    /// For each pattern, whether keys under it may be written, judged by SET.
    pub writable: Vec<(String, Permission)>,
}

impl Permissions {
    /// At most this many patterns are asked about.
    const PATTERNS: usize = 64;

    /// Whether a command may be run; `None` if lockscope never runs it.
    pub fn permission(&self, command: &str) -> Option<&Permission> {
        let mut all = self.observer.iter().chain(&self.operator);
        all.find(|granted| granted.need.command == command).map(|granted| &granted.permission)
    }

    pub fn allows(&self, command: &str) -> bool {
        self.permission(command) == Some(&Permission::Allowed)
    }

    /// Nothing was asked, so every permission is unknown.
    pub fn unknown(user: Fact<ServerText>, scope: &Scope, why: &str) -> Permissions {
        let probes = probes(scope, None);
        Permissions::sorted(user, &probes, probes.iter().map(|_| Permission::Unknown(why.into())))
    }

    fn allow(&mut self, command: &str) {
        let known = self.observer.iter_mut().filter(|granted| granted.need.command == command);
        known.for_each(|granted| granted.permission = Permission::Allowed);
    }

    fn sorted(user: Fact<ServerText>, asked: &[Probe<'_>], answers: impl Iterator<Item = Permission>) -> Permissions {
        let sampling = Permission::Unknown("it was not asked".into());
        let (observer, operator, readable, writable) = (vec![], vec![], vec![], vec![]);
        let mut sorted = Permissions { user, observer, operator, sampling, readable, writable };
        for (probe, permission) in asked.iter().zip(answers) {
            match probe {
                Probe::Command(Party::Observer, need) => sorted.observer.push(Granted { need, permission }),
                Probe::Command(Party::Operator, need) => sorted.operator.push(Granted { need, permission }),
                Probe::Key(Party::Observer, pattern, _) => sorted.readable.push((pattern.to_string(), permission)),
                Probe::Key(Party::Operator, pattern, _) => sorted.writable.push((pattern.to_string(), permission)),
                Probe::Sampling => sorted.sampling = permission,
                Probe::Wider(_) if permission == Permission::Allowed => sorted.allow("psubscribe"),
                Probe::Wider(_) => {}
            }
        }
        sorted
    }
}

/// One thing to ask DRYRUN about.
enum Probe<'a> {
    Command(Party, &'static Need),
    Key(Party, &'a str, Vec<u8>),
    Sampling,
    /// A wider pattern to subscribe with, where the narrow ones are refused.
    Wider(String),
}

/// Asks in one round trip, as `user`. An error means that the connection is lost.
pub async fn ask(
    conn: &mut impl ConnectionLike,
    scope: &Scope,
    user: Fact<ServerText>,
    product: Option<&Product>,
) -> RedisResult<Permissions> {
    let Fact::Known(name) = &user else {
        let why = format!("which user we are is not known, since {}", user.why().unwrap_or_default());
        return Ok(Permissions::unknown(user, scope, &why));
    };
    let probes = probes(scope, product);
    let mut pipe = redis::pipe();
    for probe in &probes {
        pipe.cmd("ACL").arg("DRYRUN").arg(name.as_bytes());
        put(&mut pipe, probe, scope);
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    Ok(Permissions::sorted(user, &probes, answers.into_iter().map(permission)))
}

/// Asks whether this connection's user may run exactly these commands. An error means that the connection is lost.
pub async fn dry_run(conn: &mut impl ConnectionLike, commands: &[Vec<Vec<u8>>]) -> RedisResult<Vec<Permission>> {
    let mut who = redis::pipe();
    let answers: Vec<RedisResult<Value>> = who.cmd("ACL").arg("WHOAMI").ignore_errors().query_async(conn).await?;
    let name = match answers.into_iter().next() {
        Some(Ok(Value::BulkString(name))) => name,
        _ => return Ok(vec![Permission::Unknown("which user we are is not known".into()); commands.len()]),
    };
    let mut pipe = redis::pipe();
    for command in commands {
        pipe.cmd("ACL").arg("DRYRUN").arg(&name).arg(command);
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    Ok(answers.into_iter().map(permission).collect())
}

fn probes<'a>(scope: &'a Scope, product: Option<&Product>) -> Vec<Probe<'a>> {
    let exists = |need: &&Need| product.is_none_or(|product| need.exists_in(product.compatible));
    let mut probes = Vec::new();
    for party in [Party::Observer, Party::Operator] {
        probes.extend(party.own_needs().iter().filter(exists).map(|need| Probe::Command(party, need)));
        let keys = scope.patterns.iter().take(Permissions::PATTERNS);
        probes.extend(keys.map(|glob| Probe::Key(party, glob.as_str(), sample_key(glob))));
    }
    probes.push(Probe::Sampling);
    probes.extend(channels::wider_channels(scope.db).map(Probe::Wider));
    probes
}

fn put(pipe: &mut Pipeline, probe: &Probe<'_>, scope: &Scope) {
    let first = scope.patterns.iter().next();
    match probe {
        Probe::Wider(channel) => {
            pipe.arg("psubscribe").arg(channel);
        }
        Probe::Sampling => {
            pipe.arg(SAMPLING.command);
        }
        Probe::Key(Party::Observer, _, key) => {
            pipe.arg("getrange").arg(key).arg(0).arg(0);
        }
        Probe::Key(Party::Operator, _, key) => {
            pipe.arg("set").arg(key).arg("v");
        }
        Probe::Command(_, need) => {
            for word in need.command.split('|') {
                pipe.arg(word);
            }
            let key = first.map(sample_key).unwrap_or_else(|| b"lock".to_vec());
            for arg in need.example {
                match arg {
                    Arg::Word(word) => pipe.arg(*word),
                    Arg::Db => pipe.arg(scope.db),
                    Arg::Key => pipe.arg(&key),
                    Arg::Prefix => pipe.arg(first.map(|glob| glob.literal_prefix()).unwrap_or_default()),
                    Arg::Events => pipe.arg(&scope.subscriptions),
                    Arg::Wake => pipe.arg("redisson_lock__channel:{x}"),
                };
            }
        }
    }
}

/// Reads a reply to DRYRUN.
fn permission(answer: RedisResult<Value>) -> Permission {
    match answer {
        Ok(Value::Okay) => Permission::Allowed,
        Ok(Value::SimpleString(text)) if text == "OK" => Permission::Allowed,
        Ok(Value::BulkString(bytes)) => denied(&text::visible(&bytes)),
        Ok(Value::SimpleString(text)) => denied(&text::visible(text.as_bytes())),
        Ok(other) => Permission::Unknown(format!("ACL DRYRUN was answered with {other:?}")),
        Err(error) => failed(&error),
    }
}

fn denied(reason: &str) -> Permission {
    let by = if reason.ends_with("channel") {
        Denial::Channel
    } else if reason.ends_with("key") || reason.contains("keys") {
        Denial::Key
    } else {
        Denial::Command
    };
    Permission::Denied { by, reason: reason.into() }
}

fn failed(error: &RedisError) -> Permission {
    let detail = error.detail().unwrap_or_default();
    if detail.starts_with("Command") && detail.contains("not found") {
        return Permission::Denied { by: Denial::Absent, reason: "this server has no such command".into() };
    }
    if detail.to_ascii_lowercase().starts_with("unknown subcommand") {
        return Permission::Unknown("this server has no ACL DRYRUN".into());
    }
    Permission::Unknown(refusal(error, "ACL DRYRUN"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::glob::{Glob, Globs};

    #[test]
    fn refusals_of_redis_and_valkey_are_understood() {
        for (reason, by) in [
            ("This user has no permissions to run the 'set' command", Denial::Command),
            ("User w has no permissions to run the 'set' command", Denial::Command),
            ("This user has no permissions to access the 'foo' key", Denial::Key),
            ("User w has no permissions to access the '__key*' channel", Denial::Channel),
        ] {
            assert_eq!(denied(reason), Permission::Denied { by, reason: reason.into() });
        }
    }

    #[test]
    fn without_a_name_nothing_is_claimed() {
        let scope = Scope::new(Globs::new(vec![Glob::new("lock:*").unwrap()]), 0);
        let user = Fact::Unknown("this user may not run ACL WHOAMI".into());
        let permissions = Permissions::unknown(user, &scope, "not known");
        assert!(permissions.observer.len() > 30 && permissions.readable.len() == 1);
        assert!(
            !permissions.allows("getrange")
                && permissions.permission("getrange").is_some()
                && permissions.permission("keys").is_none()
        );
    }
}
