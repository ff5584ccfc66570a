//! `lockscope discover`: finds keyspaces that look like locks, and the patterns to list them with.
//!
//! Names are sampled by SCAN, whose order is nearly random, and grouped by shape; a few keys of each shape are read and
//! weighed. This file asks the server; `groups`, `evidence` and `weigh` are pure.

mod evidence;
mod groups;
mod render;
mod shape;
mod weigh;
mod words;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use redis::RedisResult;
use tokio::sync::mpsc;

use super::print;
use super::session::Session;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::glob::Glob;
use crate::base::shell::quoted;
use crate::dialects::{LeftOut, Recogniser};
use crate::lock::{Key, NodeId, RawValue};
use crate::model::{Observation, Seen};
use crate::scan::{Pass, Progress, Shortfall, Walk};
use crate::settings::cli::Discover;
use crate::sources::pace::{Budget, Pace};
use crate::topology::Node;
use evidence::{Evidence, Looked};
use groups::{Group, Groups};
use render::{Found, Keyspace};
use shape::Shape;

/// At most this many keys of large groups are read, and of small ones; but at least a few of each group.
const LOOKS: usize = 20_000;
const LOOKS_LEAST: usize = 3;
const EXAMPLES: usize = 3;

pub async fn run(session: &Session, options: &Discover) -> Result<u8, Fault> {
    session.holds_locks()?;
    let mut survey = Survey::new(session)?;
    for node in session.topology.nodes() {
        survey.sample(&node, options.sample).await.map_err(|error| session.fault(&error))?;
    }
    let left_out = survey.groups.left_out();
    let groups = std::mem::take(&mut survey.groups).finish();
    let each = Looks::shared_by(&groups);
    for node in session.topology.nodes() {
        let wanted = groups.iter().flat_map(|(_, group)| group.samples.iter().take(each.share_of(group)));
        let keys: Vec<Key> = wanted.filter(|(id, _)| *id == node.id).map(|(_, key)| key.clone()).collect();
        survey.look(&node, &keys).await.map_err(|error| session.fault(&error))?;
    }
    survey.refuse_if_blind(session)?;
    let found = survey.weigh(groups);
    print(|out| match options.json {
        true => render::document(out, &found),
        false => render::text(out, &found, &server_options(session), &session.style()),
    })?;
    if !options.json {
        session.say(&footer(session, &found));
        found.left_out.sentence().into_iter().for_each(|sentence| session.say(&sentence));
    }
    if left_out > 0 {
        session.say(&format!(
            "{left_out} keys were left out: their names have too many shapes; narrow them with --pattern"
        ));
    }
    if let Some(why) = &survey.shortfall {
        session.say(&format!("only a part of the keyspace was read: {why}"));
    }
    if let Some(why) = &survey.refused {
        session.say(&format!("{} of the keys looked at could not be read: {why}", survey.unread));
    }
    Ok(0)
}

/// How many keys of a group are read. Large and small groups do not share, so that strays do not crowd out keyspaces.
struct Looks {
    large: usize,
    small: usize,
}

impl Looks {
    fn shared_by(groups: &[(Shape, Group)]) -> Looks {
        let large = groups.iter().filter(|(_, group)| Looks::is_large(group)).count();
        let share = |among: usize| (LOOKS / among.max(1)).clamp(LOOKS_LEAST, groups::SAMPLES);
        Looks { large: share(large), small: share(groups.len() - large) }
    }

    fn is_large(group: &Group) -> bool {
        group.keys >= groups::SAMPLES as u64
    }

    fn share_of(&self, group: &Group) -> usize {
        if Looks::is_large(group) { self.large } else { self.small }
    }
}

/// What is learnt about a target, node by node.
struct Survey {
    /// Reads as `ls` does by itself.
    known: Recogniser,
    /// Reads as if the user had named the keyspace; its patterns are the scanned ones.
    asked: Recogniser,
    pace: Pace,
    clock: Clock,
    groups: Groups,
    sampled: u64,
    of: Option<u64>,
    complete: bool,
    /// Why some names were not seen, or some keys not read.
    shortfall: Option<Shortfall>,
    looked: HashMap<(NodeId, Key), Looked>,
    /// Keys under lock-like names that only belong to locks, by their names.
    helpers: u64,
    unread: usize,
    /// Why the first unreadable key could not be read.
    refused: Option<String>,
}

impl Survey {
    fn new(session: &Session) -> Result<Survey, Fault> {
        let settings = &session.settings;
        let mut walked = settings.patterns.clone();
        if walked.is_empty() {
            walked.push(Glob::new("*").map_err(|bad| Fault::usage(bad.to_string()))?);
        }
        Ok(Survey {
            known: Recogniser::new(Vec::new(), settings.extra_patterns.clone(), settings.mappings.clone()),
            asked: Recogniser::new(walked, Vec::new(), settings.mappings.clone()),
            pace: session.pace(Pace::Fast),
            clock: Clock::start(),
            groups: Groups::default(),
            sampled: 0,
            of: Some(0),
            complete: true,
            shortfall: None,
            looked: HashMap::new(),
            helpers: 0,
            unread: 0,
            refused: None,
        })
    }

    /// Gathers the names of up to `most` keys of a node.
    async fn sample(&mut self, node: &Node, most: u64) -> RedisResult<()> {
        let keys = match redis::cmd("DBSIZE").query_async::<u64>(&mut node.connect().await?).await {
            Ok(keys) => Some(keys),
            // Not permitted: the share of keys that was seen is unknown.
            Err(error) if error.code().is_some() => None,
            Err(error) => return Err(error),
        };
        let (out, _) = mpsc::channel::<Vec<Observation>>(1);
        let budget = Budget::new(self.pace);
        let (groups, known, helpers) = (&mut self.groups, &self.known, &mut self.helpers);
        let (mut sampled, mut complete) = (0, true);
        let walk = Walk {
            node,
            names: node,
            recogniser: &self.asked,
            budget: &budget,
            clock: self.clock,
            splittable: false,
            out,
        };
        let mut pass = Pass::new(Arc::new(Progress::default()));
        let take = |name: Vec<u8>| {
            if sampled == most {
                complete = false;
                return ControlFlow::Break(());
            }
            sampled += 1;
            // Helpers are recognised by name, counted and left out.
            if known.is_helper(&name) {
                *helpers += u64::from(known.patterns().matches(&name));
            } else if !name.is_empty() {
                groups.add(node.id, &name);
            }
            ControlFlow::Continue(())
        };
        pass.names(&walk, take).await?;
        self.shortfall = pass.shortfall().or(self.shortfall.take());
        self.sampled += sampled;
        self.complete &= complete && self.shortfall.is_none();
        self.of = self.of.zip(keys).map(|(before, keys)| before + keys);
        Ok(())
    }

    /// Reads keys of a node.
    async fn look(&mut self, node: &Node, keys: &[Key]) -> RedisResult<()> {
        let (out, mut observed) = mpsc::channel::<Vec<Observation>>(4);
        let budget = Budget::new(self.pace);
        let (recogniser, clock) = (self.asked.clone(), self.clock);
        let looking = async move {
            let walk =
                Walk { node, names: node, recogniser: &recogniser, budget: &budget, clock, splittable: false, out };
            let mut pass = Pass::new(Arc::new(Progress::default()));
            pass.visit(&walk, keys).await?;
            RedisResult::Ok(pass.shortfall())
        };
        let taking = async {
            while let Some(observations) = observed.recv().await {
                observations.into_iter().for_each(|observation| self.take(observation));
            }
            Ok(())
        };
        let (shortfall, ()) = futures_util::future::try_join(looking, taking).await?;
        self.shortfall = self.shortfall.take().or(shortfall);
        Ok(())
    }

    fn take(&mut self, observation: Observation) {
        let Observation::Read { node, key, seen: Seen::Present { value, ttl }, .. } = observation else { return };
        match value {
            RawValue::Unread { why, .. } => {
                self.unread += 1;
                self.refused.get_or_insert_with(|| crate::base::text::harmless(&why));
            }
            value => {
                self.looked.insert((node, key.clone()), Looked { key, value, ttl });
            }
        }
    }

    /// Refuses if no value may be read: names alone prove too little.
    fn refuse_if_blind(&self, session: &Session) -> Result<(), Fault> {
        match &self.refused {
            Some(why) if self.looked.is_empty() => Err(Fault::server(format!(
                "{} lets this user read none of {} keys ({why}); 'lockscope doctor' prints the ACL line it needs",
                session.shown, self.unread
            ))),
            _ => Ok(()),
        }
    }

    fn weigh(&self, groups: Vec<(Shape, Group)>) -> Found {
        let now = self.clock.now();
        let (mut locks, mut others) = (Vec::new(), Vec::new());
        let mut left_out = LeftOut::helpers(self.helpers);
        for (shape, group) in groups {
            let keys: Vec<Looked> =
                group.samples.iter().filter_map(|sample| self.looked.get(sample)).cloned().collect();
            let evidence = Evidence::of(&keys, &self.known, &self.asked, now);
            // A pattern of only stars would match everything.
            let named = shape.texts().any(|text| text.chars().any(char::is_alphanumeric));
            match weigh::weigh(&shape.pattern(), &evidence).filter(|_| named) {
                Some(proposal) => locks.push((shape, group, evidence, proposal)),
                None => {
                    if let Some(key) = keys.first().filter(|key| self.known.patterns().matches(key.key.as_bytes())) {
                        left_out.add(key.key.as_bytes(), &key.value, group.keys);
                    }
                    others.push((shape, group));
                }
            }
        }
        let keyspaces = locks.into_iter().map(|(shape, group, evidence, proposal)| {
            let (pattern, also_matches) = apart(&shape, &others);
            Keyspace {
                pattern,
                proposal,
                sampled: group.keys,
                keys_estimated: self.estimate(group.keys),
                ttl_share: evidence.with_ttl as f64 / evidence.looked as f64,
                median_ttl: evidence.median_ttl,
                also_matches,
                examples: group.samples.into_iter().take(EXAMPLES).map(|(_, key)| key).collect(),
            }
        });
        let mut found = Found {
            sampled: self.sampled,
            of: self.of,
            complete: self.complete,
            left_out,
            keyspaces: merged(keyspaces.collect()),
        };
        // New keyspaces first, then the surest, then the largest.
        found.keyspaces.sort_by(|a, b| {
            let sure = |keyspace: &Keyspace| (keyspace.proposal.confidence * 10.0) as u32;
            let order = a.proposal.covered.cmp(&b.proposal.covered).then(sure(b).cmp(&sure(a)));
            order.then(b.sampled.cmp(&a.sampled)).then_with(|| a.pattern.cmp(&b.pattern))
        });
        found
    }

    fn estimate(&self, keys: u64) -> u64 {
        match self.of {
            Some(of) if !self.complete && self.sampled > 0 => {
                let scaled = keys as f64 * of as f64 / self.sampled as f64;
                (scaled.round() as u64).max(keys)
            }
            _ => keys,
        }
    }
}

/// The pattern that matches a keyspace and as few others as possible, and those others.
fn apart(shape: &Shape, others: &[(Shape, Group)]) -> (String, Vec<String>) {
    let matched = |pattern: &str| -> Vec<String> {
        let Ok(glob) = Glob::new(pattern) else { return Vec::new() };
        let hit = |group: &Group| group.samples.iter().any(|(_, key)| glob.matches(key.as_bytes()));
        others.iter().filter(|(_, group)| hit(group)).map(|(other, _)| other.pattern()).collect()
    };
    let wide = shape.pattern();
    let too_many = matched(&wide);
    if too_many.is_empty() {
        return (wide, too_many);
    }
    let narrow = shape.narrow_pattern();
    let left = matched(&narrow);
    if left.len() < too_many.len() { (narrow, left) } else { (wide, too_many) }
}

/// Merges a keyspace into another one with the same reading whose pattern matches it.
fn merged(mut keyspaces: Vec<Keyspace>) -> Vec<Keyspace> {
    // Wider patterns first.
    keyspaces.sort_by_key(|keyspace| keyspace.pattern.len());
    let mut kept: Vec<(Option<Glob>, Keyspace)> = Vec::new();
    for part in keyspaces {
        let reads = |keyspace: &Keyspace| (keyspace.proposal.dialect, keyspace.proposal.covered);
        let whole = kept.iter_mut().find(|(glob, whole)| {
            let matches = |glob: &Glob| part.examples.iter().all(|key| glob.matches(key.as_bytes()));
            reads(whole) == reads(&part) && glob.as_ref().is_some_and(matches)
        });
        match whole {
            Some((_, whole)) => {
                whole.sampled += part.sampled;
                whole.keys_estimated += part.keys_estimated;
            }
            None => kept.push((Glob::new(&part.pattern).ok(), part)),
        }
    }
    kept.into_iter().map(|(_, keyspace)| keyspace).collect()
}

/// How the next command names the same server and user. The password is never shown.
fn server_options(session: &Session) -> Vec<String> {
    let settings = &session.settings;
    let mut options = match &settings.target {
        Some(target) => vec![format!("-t {}", quoted(target))],
        None => vec![format!("-u {}", quoted(&session.shown))],
    };
    let user = settings.login.user().filter(|_| settings.target.is_none());
    options.extend(user.map(|user| format!("--user {}", quoted(&crate::base::text::visible(user.as_bytes())))));
    options
}

fn footer(session: &Session, found: &Found) -> String {
    let nodes: Vec<String> = session.topology.nodes().into_iter().map(|node| node.name).collect();
    let place = format!("database {} of {}", session.settings.db, nodes.join(", "));
    let seen = match found.of {
        Some(of) if !found.complete => format!("{} of {of} keys", found.sampled),
        _ => format!("{} keys", found.sampled),
    };
    match found.keyspaces.len() {
        _ if found.sampled == 0 => format!("there are no keys in {place}"),
        0 => format!("nothing looks like locks among {seen} of {place}"),
        1 => format!("1 keyspace looks like locks among {seen} of {place}"),
        many => format!("{many} keyspaces look like locks among {seen} of {place}"),
    }
}
