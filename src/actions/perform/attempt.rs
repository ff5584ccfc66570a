//! One attempt at a plan: reads what will be taken away, runs the script, and turns its answer into an outcome.

use redis::{ErrorKind, RedisError, ServerErrorKind, cmd};
use tokio::time::timeout;

use super::returned::Returned;
use super::{ANSWER, Outcome};
use crate::actions::audit;
use crate::actions::check::Check;
use crate::actions::comparisons;
use crate::actions::gate::{Admission, Refusal};
use crate::actions::journal::{Context, Journal};
use crate::actions::keep::{self, About, Deed, Kept, State};
use crate::actions::keyspace::Keyspace;
use crate::actions::plan::{Action, Plan};
use crate::actions::program::Program;
use crate::actions::queue::Cleared;
use crate::actions::slots::Scripts;
use crate::actions::write::Write;
use crate::base::clock::Clock;
use crate::base::text;
use crate::dialects::Step;
use crate::lock::Key;
use crate::lock::RawValue;
use crate::model::Seen;
use crate::sources::look::{Wanted, look};
use crate::topology::{Owner, Topology};

/// How often the undo record is read again if the lock changed before it was freed.
const TRIES: usize = 5;
const ADVICE: &str = "'lockscope doctor' prints the ACL line of an operator";

fn moved(what: String) -> Outcome {
    Outcome::Refused(Refusal::Moved(what))
}

fn unreachable(why: String) -> Outcome {
    Outcome::Refused(Refusal::Unreachable(why))
}

fn not_permitted(why: &str) -> Outcome {
    Outcome::Refused(Refusal::NotPermitted(why.into()))
}

/// One attempt at a plan.
pub(super) struct Attempt<'a> {
    pub plan: &'a Plan,
    pub admission: Admission,
    pub topology: &'a Topology,
    /// What can be put back, or why nothing can.
    pub kept: Result<Kept, String>,
    /// The record of an action that leaves nothing to put back.
    pub trace: Option<Kept>,
    /// When its lease ended, in milliseconds of the server's Unix time; negative: never.
    pub ended: Option<i64>,
    /// The last of several holders went.
    pub emptied: bool,
    /// What became of the waiters in its queue.
    pub queue: Cleared,
    /// Waiters may listen at other nodes, which do not count here.
    pub at_least: bool,
}

impl<'a> Attempt<'a> {
    pub fn new(
        plan: &'a Plan,
        admission: Admission,
        topology: &'a Topology,
        kept: Result<Kept, String>,
    ) -> Attempt<'a> {
        let (trace, ended, queue) = (None, None, Cleared::default());
        Attempt { plan, admission, topology, kept, trace, ended, emptied: false, queue, at_least: plan.clustered }
    }

    /// Connects to the owner of the lock, and reads what will be taken away.
    pub async fn prepare(&mut self, id: &str, context: &Context, clock: &Clock) -> Result<Owner, Refusal> {
        let lost =
            |error: RedisError| Refusal::Unreachable(format!("the server could not be asked: {}", text::said(&error)));
        let late = |_| Refusal::Unreachable("the server does not answer; nothing was changed".into());
        self.plan.scripts()?;
        let opening = self.topology.owner(self.plan.space, &self.plan.key);
        let mut conn = timeout(ANSWER, opening).await.map_err(late)?.map_err(lost)?;
        let here = timeout(ANSWER, Keyspace::read(&mut conn)).await.map_err(late)?.map_err(lost)?;
        self.at_least |= here.as_ref().is_ok_and(Keyspace::is_cluster);
        if let Some(then) = self.plan.keyspace.as_ref().filter(|_| comparisons::is_made("keyspace")) {
            here.as_ref().map_err(String::clone).and_then(|here| here.continues(then)).map_err(Refusal::Moved)?;
        }
        let about = About {
            batch: None,
            id: id.to_string(),
            target: context.target.clone(),
            db: conn.node().db,
            keyspace: here.ok(),
            by: audit::user(),
            reason: context.reason.clone(),
            at: clock.now().0,
        };
        match self.plan.action {
            Action::Free => {
                let kept = timeout(ANSWER, keep::read(&mut conn, self.plan, about)).await.map_err(late)?;
                self.kept = kept.map_err(lost)?;
            }
            Action::Extend(_) => self.trace = Some(Kept::nothing(about, self.plan, Deed::Extended)),
            Action::Undo(_) => self.trace = Some(Kept::nothing(about, self.plan, Deed::Undone)),
        }
        Ok(conn)
    }

    /// Records what is known about it by now.
    pub fn settle(&mut self, outcome: &Outcome, id: &str, journal: &mut Journal) {
        match outcome {
            Outcome::Refused(_) => journal.forget(id),
            Outcome::Done { .. } | Outcome::Unknown(_) => {
                let state = if matches!(outcome, Outcome::Done { .. }) { State::Confirmed } else { State::Unknown };
                if let Ok(kept) = &mut self.kept {
                    kept.state = state;
                    if let Err(why) = journal.keep(kept) {
                        self.kept = Err(why.to_string());
                    }
                }
                if let Some(trace) = &mut self.trace {
                    trace.state = state;
                    // It only says what came last, and the audit file has that too, so a failure is ignored.
                    let _ = journal.keep(trace);
                }
            }
        }
    }

    pub async fn write(&mut self, conn: &mut Owner, clock: &Clock) -> Outcome {
        if let Some(write) = self.plan.writes.iter().find(|write| !self.admission.covers(write)) {
            let why = format!("{} was not let through; nothing was changed", write.describe());
            return Outcome::Refused(Refusal::NotSo(why));
        }
        let Scripts { own, wakes } = match self.plan.scripts() {
            Ok(scripts) => scripts,
            Err(why) => return Outcome::Refused(why),
        };
        for _ in 0..TRIES {
            let kept = self.kept.as_ref().map(Kept::checks).unwrap_or_default();
            let checks = [self.plan.checks.clone(), kept].concat();
            let program = Program::new(self.plan.key.as_bytes(), &checks, own.iter().copied());
            let running = self.admission.run(&program.text, conn, &program.keys, &program.args);
            let answer = match timeout(ANSWER, running).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) if is_denied(&error) => return self.without_scripts(conn).await,
                Ok(Err(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) => {
                    return not_permitted(&format!("{}; {ADVICE}", text::said(&error)));
                }
                Ok(Err(error)) if is_lost(&error) => return self.unknown(&text::said(&error)).await,
                Ok(Err(error)) => return unreachable(refused(&error)),
                Err(_) => return self.unknown(&format!("no answer within {}s", ANSWER.as_secs())).await,
            };
            match Returned::of(&answer, &program) {
                Returned::Done { woken, emptied, silent, ended, queue } => {
                    (self.ended, self.emptied) = (ended, emptied);
                    if let Ok(kept) = &mut self.kept {
                        kept.settle(emptied, &queue);
                    }
                    self.queue = queue;
                    if self.at_least {
                        // A client that did not hear it here may listen at another node.
                        self.queue.deaf_head = None;
                    }
                    return Outcome::Done { woken, silent: self.wake(&wakes).await.or(silent) };
                }
                // The holder is the same, but what it holds has changed: keep that instead.
                Returned::Moved(Check::Dump { .. }, _) => {
                    let Ok(before) = &self.kept else { break };
                    let about = About { at: clock.now().0, ..before.about.clone() };
                    match keep::read(conn, self.plan, about).await {
                        Ok(kept) => self.kept = kept,
                        Err(error) => {
                            return unreachable(format!("the server could not be asked: {}", text::said(&error)));
                        }
                    }
                }
                Returned::Moved(check, now) if check.is_another_lease(&now) => {
                    return Outcome::Refused(Refusal::AnotherLease(check.moved(&now)));
                }
                Returned::Moved(check, now) => return moved(check.moved(&now)),
                Returned::Unfit(why) => return unreachable(format!("the server refused it: {why}")),
                Returned::Denied { command, on } => {
                    return not_permitted(&format!("this user may not run {command} on {on}; {ADVICE}"));
                }
                Returned::Half(why) => return self.unknown(&format!("it was stopped half-way: {why}")).await,
                Returned::Strange => return self.unknown("the server gave an unexpected answer").await,
            }
        }
        moved("the lock changes too fast to be kept for undoing; nothing was changed".into())
    }

    /// Wakes waiters whose keys are in other slots, now that the lock is free. Returns why that failed, if it did.
    async fn wake(&self, wakes: &[(Key, &Write)]) -> Option<String> {
        let mut failed = None;
        for (key, write) in wakes {
            let program = Program::new(key.as_bytes(), &[], [*write]);
            let waking = async {
                let mut owner = self.topology.owner(self.plan.space, key).await?;
                self.admission.run(&program.text, &mut owner, &program.keys, &program.args).await
            };
            let why = match timeout(ANSWER, waking).await {
                Ok(Ok(answer)) => match Returned::of(&answer, &program) {
                    Returned::Done { silent, .. } => silent,
                    Returned::Denied { command, on } => Some(format!("this user may not run {command} on {on}")),
                    Returned::Unfit(why) | Returned::Half(why) => Some(why),
                    Returned::Moved(..) | Returned::Strange => Some("the server gave an unexpected answer".into()),
                },
                Ok(Err(error)) => Some(text::said(&error)),
                Err(_) => Some(format!("no answer within {}s", ANSWER.as_secs())),
            };
            failed = failed.or(why);
        }
        failed
    }

    /// Without the right to run scripts, the server's own compare-and-delete frees a plain string lock as safely.
    async fn without_scripts(&mut self, conn: &mut Owner) -> Outcome {
        let checks: Vec<&Check> = self.plan.checks.iter().filter(|check| **check != Check::NobodyBlocked).collect();
        let (key, value) = match (checks.as_slice(), self.plan.writes.as_slice()) {
            ([Check::Value { key, value }], [write @ Write::Step(Step::Delete(deleted))])
                if key == deleted && self.admission.covers(write) =>
            {
                (key, value)
            }
            _ => {
                return not_permitted(
                    "scripts (EVAL) can't be run here by this user, so the holder can't be compared and the lock changed in \
                     one step; nothing was changed",
                );
            }
        };
        for command in [cmd("DELEX").arg(key).arg("IFEQ").arg(value), cmd("DELIFEQ").arg(key).arg(value)] {
            match timeout(ANSWER, command.query_async::<i64>(conn)).await {
                Ok(Ok(0)) => return moved(self.there_now().await),
                Ok(Ok(_)) => return Outcome::Done { woken: 0, silent: None },
                Ok(Err(error)) if is_lost(&error) => return self.unknown(&text::said(&error)).await,
                // Not known to this server, or not permitted.
                Ok(Err(_)) => {}
                Err(_) => return self.unknown(&format!("no answer within {}s", ANSWER.as_secs())).await,
            }
        }
        not_permitted(
            "scripts (EVAL) can't be run here by this user, and neither can a compare-and-delete of the server's own (DELEX, \
             DELIFEQ); nothing was changed",
        )
    }

    /// The server may or may not have done it, or may still do it.
    async fn unknown(&self, why: &str) -> Outcome {
        Outcome::Unknown(format!("{why}; {}", self.there_now().await))
    }

    /// What is there now, in a clause.
    async fn there_now(&self) -> String {
        let silent = "the server does not answer: look again before you do anything else".to_string();
        let looked = timeout(ANSWER, async {
            let mut conn = self.topology.reader(self.plan.space, &self.plan.key).await?;
            look(&mut conn, &[Wanted { key: self.plan.key.as_bytes(), hint: None }]).await
        });
        match looked.await {
            Ok(Ok(seen)) => match seen.into_iter().next().flatten() {
                Some(Seen::Absent) => "the lock is gone now".into(),
                Some(Seen::Present { value: RawValue::Str { head, .. }, .. }) => {
                    format!("it is held by {} now", text::visible(&head))
                }
                Some(Seen::Present { .. }) => "the lock is still there".into(),
                None => "the lock changed while we looked".into(),
            },
            Ok(Err(_)) | Err(_) => silent,
        }
    }
}

/// Why the server did none of it. A node of a cluster that can't run a script for its keys has not begun it.
fn refused(error: &RedisError) -> String {
    let why = match error.code() {
        Some("MOVED" | "ASK") => "its slot is moving from node to node; try again",
        Some("TRYAGAIN") => {
            "its slot is on its way to another node, and not all of its keys are there; try again later"
        }
        Some("CLUSTERDOWN") => "the cluster does not serve its slot now, see CLUSTER INFO",
        Some("CROSSSLOT") => "its keys are in different slots of the cluster, and not changed in one step therefore",
        _ => return format!("the server refused it: {}", text::said(error)),
    };
    format!("{why} ({}); nothing was changed", text::said(error))
}

/// The script itself was not permitted, or the server knows no scripts: nothing of it ran.
fn is_denied(error: &RedisError) -> bool {
    let denied = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm);
    error.detail().is_some_and(|detail| {
        denied && detail.contains("run the 'eval") || detail.to_ascii_lowercase().contains("unknown command 'eval")
    })
}

fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.is_connection_dropped()
}
