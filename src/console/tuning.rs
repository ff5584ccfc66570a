//! What the tuner asks of files: the history, labels, and the file of rules. Each order runs on a thread of its own, and its
//! reply comes back to the loop as an event.

use std::io::Write;
use std::path::Path;

use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;

use crate::actions::audit;
use crate::alerts::{Rule, Rules, edited};
use crate::app::{Event, Proposal, Reply, TuneOrder as Order};
use crate::base::fault::Fault;
use crate::base::text::visible;
use crate::base::time::Time;
use crate::model::Notable;
use crate::prometheus::Prometheus;
use crate::settings::cli::OwnTune;
use crate::store::{History, Label};
use crate::tune::{Asked, Trial, load};

/// Entries before an episode that explain it.
const BEFORE_MS: i64 = 60_000;
/// At most this many entries of an episode are read: the first.
const MOST: usize = 500;

/// Carries out an order.
pub fn carry_out(order: Order, news: Sender<Event>) {
    if let Order::LoadOwn { asked, now } = order {
        tokio::spawn(async move {
            let loaded = own(&asked, now, &news).await.map(Box::new);
            // Nobody listens any more when the console has ended.
            let _ = news.send(Event::Tuned(Box::new(Reply::Loaded(asked.rule, loaded)))).await;
        });
        return;
    }
    spawn_blocking(move || {
        // Nobody listens any more when the console has ended.
        let tell = |reply: Reply| drop(news.blocking_send(Event::Tuned(Box::new(reply))));
        let reply = match order {
            Order::Load { store, rule } => {
                let loaded = loaded(&store, &rule, |done, of| progress(&news, &rule.name, done, of));
                Reply::Loaded(rule.name.clone(), loaded.map(Box::new).map_err(|why| why.to_string()))
            }
            Order::Label { store, label } => {
                let rule = label.rule.clone();
                Reply::Labelled(rule, labelled(&store, label).map_err(|why| why.to_string()))
            }
            Order::Read { store, from, to } => Reply::Read(from, read(&store, from, to).map_err(|why| why.to_string())),
            Order::Propose { file, rule, trial } => Reply::Proposed(
                text_of(&file.path)
                    .and_then(|old| {
                        let new = edited(&old, &rule, &trial.from, &trial.to)?;
                        Ok(Proposal { path: file.path.clone(), old, new })
                    })
                    .map_err(|why| format!("{}: {why}", shown(&file.path))),
            ),
            Order::LoadOwn { .. } => return,
            Order::Write(proposal) => {
                let written = write(&proposal).map_err(|why| format!("{}: {why}", proposal.name()));
                Reply::Written(written.map(|()| proposal))
            }
        };
        tell(reply);
    });
}

/// A rule of the user's own Prometheus over its history.
async fn own(asked: &OwnTune, now: Time, news: &Sender<Event>) -> Result<Trial, String> {
    let (global, options) = asked.options()?;
    let url = options.prometheus.clone().unwrap_or_default();
    let load = async {
        let prometheus = Prometheus::of(&global, &options, &url)?;
        let rules = prometheus.some_rules().await?;
        let rule = prometheus.named(&rules, &asked.rule)?;
        let told = |done: u32, of: u32| progress(news, &asked.rule, done as usize, of as usize);
        prometheus.trial(rule, &options, now, told).await
    };
    load.await.map_err(|why: Fault| why.to_string())
}

fn progress(news: &Sender<Event>, rule: &str, done: usize, of: usize) {
    // An old number is worth nothing: if the loop is busy, this one is dropped.
    let _ = news.try_send(Event::Tuned(Box::new(Reply::Progress(rule.to_string(), done, of))));
}

fn loaded(store: &Path, rule: &Rule, progress: impl FnMut(usize, usize)) -> Result<Trial, Fault> {
    Ok(Trial::new(load(&History::open(store)?, rule, Asked::default(), progress)?))
}

fn labelled(store: &Path, label: Label) -> Result<Vec<Label>, Fault> {
    let history = History::open(store)?;
    let label = Label { by: audit::user(), ..label };
    history.judge(&label)?;
    history.labels(&label.rule)
}

fn read(store: &Path, from: Time, to: Time) -> Result<Vec<Notable>, Fault> {
    let mut found = History::open(store)?.notables(Time(from.0 - BEFORE_MS), to)?;
    found.truncate(MOST);
    Ok(found)
}

fn shown(path: &Path) -> String {
    visible(path.as_os_str().as_encoded_bytes())
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|why| format!("it can't be read: {why}"))
}

/// Writes the file as it was proposed, whole or not at all, with the rights that it has. Refused if it is another by now.
fn write(proposal: &Proposal) -> Result<(), String> {
    if text_of(&proposal.path)? != proposal.old {
        return Err("it was changed meanwhile; look at the difference again".into());
    }
    if Rules::parse(&proposal.old).is_ok() {
        Rules::parse(&proposal.new).map_err(|why| format!("it would not be a file of rules any more: {why}"))?;
    }
    let replaced = || -> std::io::Result<()> {
        // A link stays a link.
        let path = std::fs::canonicalize(&proposal.path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(proposal.new.as_bytes())?;
        new.as_file().set_permissions(std::fs::metadata(&path)?.permissions())?;
        new.as_file().sync_data()?;
        new.persist(&path).map(drop).map_err(|why| why.error)
    };
    replaced().map_err(|why| format!("it can't be written: {why}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_changed_since_it_was_shown_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        let (old, new) = ("default_rules = false\n".to_string(), "default_rules = true\n".to_string());
        std::fs::write(&path, &old).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let proposal = Proposal { path: path.clone(), old, new };
        write(&proposal).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), proposal.new);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(write(&proposal).unwrap_err().contains("changed meanwhile"));
        let broken = Proposal { old: proposal.new.clone(), new: "default_rules = 1".into(), ..proposal };
        assert!(write(&broken).unwrap_err().contains("not be a file of rules"));
    }
}
