//! `lockscope bundle`: an incident as one HTML page and JSON, of a lock as it is now or of an alert that fired.

use std::io::Write;
use std::path::Path;

use super::session::Session;
use super::{fencing, one_lock, roster};
use crate::actions::audit;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::talk;
use crate::base::text::visible;
use crate::console::chronicle;
use crate::model::Notable;
use crate::output::Place;
use crate::output::incident::{Account, Bundle, Recorded, write_files};
use crate::settings::Settings;
use crate::settings::cli::{Bundle as Options, Global};
use crate::store::History;

pub async fn run(global: &Global, options: &Options) -> Result<u8, Fault> {
    let bundle = match (&options.key, options.episode, &options.store) {
        (Some(key), _, store) => of_lock(&Session::open(global).await?, key, store.as_deref(), options).await?,
        (None, Some(number), Some(store)) => of_episode(global, number, store, options)?,
        (None, _, _) => return Err(Fault::usage("name a lock, or an episode with --episode N --store FILE")),
    };
    let page = write_files(&options.out, &bundle.document(options.reveal))?;
    super::print(|out| writeln!(out, "{}", visible(page.as_os_str().as_encoded_bytes())))
}

/// A lock as it is now, with what a store has of it. One that is gone needs a store that knows it.
async fn of_lock(session: &Session, typed: &str, store: Option<&Path>, options: &Options) -> Result<Bundle, Fault> {
    let key = one_lock::key(typed)?;
    let began = Clock::start().now();
    let found = one_lock::find(session, &key, options.observe).await;
    let recorded = store.map(|path| {
        let history = chronicle::open(path, &session.target_label())?;
        Recorded::of_lock(&history, &key, Clock::start().now())
    });
    // The page of the lock is worth more now than what was recorded of it.
    let (recorded, unread) = match recorded.transpose() {
        Ok(recorded) => (recorded, None),
        Err(why) => (None, Some(why)),
    };
    let (mut lock, mut engine) = match (found, &recorded) {
        (Ok(found), _) => found,
        (Err(why), Some(recorded)) if why.exit_code() == 1 && !recorded.story.is_empty() => {
            talk::say(&format!("{why}; the page has what was recorded of it"));
            let server = serde_json::json!({ "target": recorded.target, "server": recorded.server });
            let mut bundle = Bundle::of_gone(&key, recorded, server, Clock::start().now());
            bundle.add_recorded(recorded, &session.place(), None);
            bundle.add_actions_of(&actions(), &key);
            return Ok(bundle);
        }
        (Err(why), _) => {
            unread.iter().for_each(|unread| talk::say(&unread.to_string()));
            return Err(why);
        }
    };
    if options.observe.is_none() {
        roster::read(session, &mut engine).await;
        one_lock::look_again(&engine, &mut lock);
    }
    fencing::read(session, &mut engine, std::slice::from_mut(&mut lock)).await?;
    let found = one_lock::look_closer(session, &lock, &engine).await;
    let timeline = engine.table().timeline();
    let own = |entry: &&Notable| entry.key.as_ref() == Some(&key);
    let story: Vec<Notable> = timeline.from(timeline.first()).map(|(_, entry)| entry).filter(own).cloned().collect();
    let (place, server) = (session.place(), session.describe(&engine));
    let target = session.target_label();
    let account = Account {
        lock: &lock,
        story: &story,
        target: &target,
        environment: session.settings.environment.map(|environment| environment.name()),
        node: place.node(lock.node),
        waiters: Some(found.waiters.beside(&lock)),
        again: &session.settings.again,
        at: engine.clock.now(),
    };
    let mut bundle = Bundle::of_lock(&account, Some(&found), &place, server);
    if let Some(why) = unread {
        talk::say(&format!("{why}; the page has nothing that was recorded"));
        bundle.leave_out(&why);
    }
    bundle.add_actions_of(&actions(), &key);
    if let Some(recorded) = &recorded {
        bundle.add_recorded(recorded, &place, Some(began));
    }
    Ok(bundle)
}

/// A firing of the alert log.
fn of_episode(global: &Global, number: u64, store: &Path, options: &Options) -> Result<Bundle, Fault> {
    let rules = Settings::load(global)?.rules_of(options.rules.as_deref())?;
    let recorded = Recorded::of_firing(&History::open(store)?, number, &rules)?;
    let mut bundle = Bundle::of_episode(&recorded, Clock::start().now());
    let nodes = recorded.story.iter().map(|entry| (entry.node, recorded.target.clone())).collect();
    bundle.add_recorded(&recorded, &Place { nodes, db: 0 }, None);
    Ok(bundle)
}

/// The audit file; one that can't be read is reported by the commands that are about it.
fn actions() -> Vec<serde_json::Value> {
    audit::state_directory()
        .and_then(|directory| audit::read(&directory))
        .map_or_else(|_| Vec::new(), |(entries, _)| entries)
}
