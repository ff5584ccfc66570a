//! `--dry-run --eval`: the command by which a person does what a plan does, with the same comparisons.
//!
//! It is a text for a runbook: lines of comment that explain the answer, then one `redis-cli` line that any POSIX shell
//! takes. A password is never part of it.

use std::io::Write;
use std::path::Path;

use super::{Actor, in_doubt};
use crate::actions::Plan;
use crate::base::fault::Fault;
use crate::base::shell;
use crate::commands::print;
use crate::settings::{Login, Settings};
use crate::topology::url::Address;

/// What the first number of an answer means.
const ANSWERS: [&str; 4] = [
    "1: everything was done; the second number is how many waiters were notified",
    "0: nothing was done, because a comparison failed; the second number says which one (see below), the third which of \
     several alike, counted from 0, and the rest is what is there instead",
    "2: an error stopped it half-way; the rest says why",
    "3 or 4: nothing was done, because a command would fail or is not permitted",
];
/// At most this many comparisons of one kind are explained.
const EXPLAINED: usize = 3;

impl Actor<'_> {
    /// Prints the command for each plan. A plan that may not be performed is an error.
    pub fn print_evals<'p>(&self, plans: impl IntoIterator<Item = &'p Plan>) -> Result<(), Fault> {
        let mut lines = vec!["# The answer begins with".to_string()];
        lines.extend(ANSWERS.map(|answer| format!("#   {answer}")));
        for plan in plans {
            lines.extend(self.eval_of(plan)?);
        }
        print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
        self.session.say("what it does is not recorded here and can't be undone");
        Ok(())
    }

    fn eval_of(&self, plan: &Plan) -> Result<Vec<String>, Fault> {
        if let Some(why) = self.refusal(plan) {
            return Err(Fault::finding(why.to_string()));
        }
        if let Some(why) = in_doubt(plan) {
            return Err(Fault::finding(why));
        }
        let line = |eval: Vec<Vec<u8>>| -> Option<String> {
            let words = [redis_cli(&self.session.settings, plan.clustered), eval].concat();
            Some(words.iter().map(|word| shell::word(word)).collect::<Option<Vec<String>>>()?.join(" "))
        };
        let evals = plan.evals().map_err(|why| Fault::finding(why.to_string()))?;
        let Some(evals) = evals.into_iter().map(line).collect::<Option<Vec<String>>>() else {
            let why = format!("{} or its holder has a zero byte, which no command line can carry", plan.key);
            return Err(Fault::finding(why));
        };
        let mut lines = vec![format!("# {} {}", plan.action.name(), plan.key)];
        lines.extend((1..).zip(plan.compared()).map(|(which, alike)| {
            let more = match alike.len().saturating_sub(EXPLAINED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let some: Vec<String> = alike.into_iter().take(EXPLAINED).collect();
            format!("# comparison {which}: {}{more}", some.join(", "))
        }));
        if matches!(self.session.settings.login, Login::Password(_) | Login::User { .. }) {
            lines.push("# needs the password in REDISCLI_AUTH".into());
        }
        for (number, eval) in evals.into_iter().enumerate() {
            if number > 0 {
                lines.push("# then, only if that answered 1: wakes the waiters, whose key is in another slot".into());
            }
            lines.push(eval);
        }
        Ok(lines)
    }
}

/// `redis-cli` and how it gets to this server: all but the password. In a cluster it goes where the nodes send it.
fn redis_cli(settings: &Settings, clustered: bool) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = vec![b"redis-cli".to_vec()];
    let mut add = |option: &str, value: Option<&[u8]>| {
        words.push(option.as_bytes().to_vec());
        words.extend(value.map(<[u8]>::to_vec));
    };
    if clustered {
        add("-c", None);
    }
    let path = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    if let Some(server) = settings.servers.first() {
        match &server.address {
            Address::Tcp { host, port } => {
                add("-h", Some(host.as_bytes()));
                add("-p", Some(port.to_string().as_bytes()));
            }
            Address::Unix(socket) => add("-s", Some(&path(socket))),
        }
        if server.tls {
            add("--tls", None);
            if settings.tls.insecure {
                add("--insecure", None);
            }
            if let Some(ca) = &settings.tls.ca {
                add("--cacert", Some(&path(ca)));
            }
            if let Some((cert, key)) = &settings.tls.client {
                add("--cert", Some(&path(cert)));
                add("--key", Some(&path(key)));
            }
        }
    }
    if let Login::User { name, .. } = &settings.login {
        add("--user", Some(name.as_bytes()));
    }
    add("-n", Some(settings.db.to_string().as_bytes()));
    words
}
