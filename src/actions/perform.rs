//! Does what was planned, exactly, and says what came of it.

use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use serde_json::json;
use tokio::time::timeout;

use super::check::Check;
use super::comparisons;
use super::gate::{Admission, Gate, Refusal};
use super::journal::{Context, Journal};
use super::keep::{self, About, Deed, Kept, State};
use super::keyspace::Keyspace;
use super::plan::{Action, Plan};
use super::program::{Operands, Write};
use crate::actions::audit;
use crate::base::clock::Clock;
use crate::base::text;
use crate::dialects::Step;
use crate::dialects::scripts::CHANGE;
use crate::lock::RawValue;
use crate::model::{End, Seen};
use crate::server::permissions::{self, Permission};
use crate::sources::look::{Wanted, look};
use crate::topology::{Node, ServerConnection};

/// How long an answer may take before we say that we do not know.
const ANSWER: Duration = Duration::from_secs(5);
/// How often what is kept is read again, when it has changed before it was taken.
const TRIES: usize = 5;

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// All of it was written. `silent`: why waiters were not told, where that is so.
    Done { woken: u64, silent: Option<String> },
    /// Nothing was written, and why.
    Refused(Refusal),
    /// The server did not answer; what is there now, as far as it can be told.
    Unknown(String),
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done { .. } => "done",
            Outcome::Refused(_) => "refused",
            Outcome::Unknown(_) => "unknown",
        }
    }

    /// Why it was not done, or what is missing of it.
    pub fn why(&self) -> Option<String> {
        match self {
            Outcome::Done { silent, .. } => silent.clone(),
            Outcome::Refused(why) => Some(why.to_string()),
            Outcome::Unknown(why) => Some(why.clone()),
        }
    }
}

/// An action and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Performed {
    pub id: String,
    pub outcome: Outcome,
    /// It can be undone, or why not.
    pub undo: Result<(), String>,
    /// Its lease was not the one that was shown: as a clause.
    pub renewed: Option<String>,
}

/// Passes the gate, puts it on record, writes, and puts the outcome on record.
pub async fn perform(plan: &Plan, gate: &Gate, node: &Node, journal: &mut Journal, context: &Context) -> Performed {
    let clock = Clock::start();
    let id = journal.number(clock.now());
    let refused = Performed::refused;
    let admission = match gate.admit_plan(plan) {
        Ok(admission) => admission,
        Err(why) => return refused(id, why),
    };
    // A question may stand longer than the record: what was put back since was put back once and for all.
    if let Action::Undo(undone) = &plan.action
        && comparisons::is_made("on_record")
        && !matches!(journal.kept(undone), Ok(Some(_)))
    {
        return refused(
            id,
            Refusal::NotSo(format!("nothing is kept under {undone} any more: it was put back already")),
        );
    }
    let kept = Err("only a release can be undone".into());
    let mut attempt = Attempt { plan, admission, node, scripts: true, kept, trace: None, ended: None };
    let began = attempt.prepare(&id, context, &clock).await;
    let record = match &began {
        Ok(_) => json!({ "phase": "intent" }),
        Err(why) => json!({ "phase": "outcome", "outcome": "refused", "why": why.to_string() }),
    };
    // What can be put back comes first: an intent on record means that everything was ready.
    let kept = attempt.kept.as_ref().map_or(Ok(()), |kept| journal.keep(kept));
    if let Err(why) = kept.and_then(|()| journal.write(clock.now(), &id, plan, context, record)) {
        journal.forget(&id);
        return refused(id, Refusal::Audit(why.to_string()));
    }
    let mut conn = match began {
        Ok(conn) => conn,
        Err(why) => {
            journal.forget(&id);
            return refused(id, why);
        }
    };
    let outcome = attempt.write(&mut conn, &clock).await;
    attempt.settle(&outcome, &id, journal);
    if let (Outcome::Done { .. }, Action::Undo(undone)) = (&outcome, &plan.action) {
        journal.forget(undone);
    }
    let record = json!({ "phase": "outcome", "outcome": outcome.name(), "why": outcome.why() });
    // It is done; that the second line can't be written changes nothing of that.
    let _ = journal.write(clock.now(), &id, plan, context, record);
    let undo = match &outcome {
        Outcome::Refused(_) => Err("nothing was changed".into()),
        _ => attempt.kept.map(|_| ()),
    };
    let renewed = attempt.ended.filter(|_| matches!(outcome, Outcome::Done { .. })).and_then(|end| renewed(plan, end));
    Performed { id, outcome, undo, renewed }
}

impl Performed {
    /// Nothing was written.
    pub fn refused(id: String, why: Refusal) -> Performed {
        Performed { id, outcome: Outcome::Refused(why), undo: Err("nothing was changed".into()), renewed: None }
    }
}

/// Asks, for each of these, whether undo will be possible, so that it is in the preview.
pub async fn foresee(node: &Node, plans: impl IntoIterator<Item = &mut Plan>) {
    let mut conn = timeout(ANSWER, node.connect()).await;
    for plan in plans {
        plan.undo = match &mut conn {
            Ok(Ok(conn)) => match timeout(ANSWER, keep::foresee(conn, plan)).await {
                Ok(Ok(foreseen)) => Some(foreseen),
                Ok(Err(error)) => Some(Err(format!("the server could not be asked: {}", text::said(&error)))),
                Err(_) => Some(Err("the server does not answer".into())),
            },
            _ => Some(Err("the server could not be asked".into())),
        };
    }
}

/// Whether the lease was another one than was shown: told, where it is no obstacle.
fn renewed(plan: &Plan, found: i64) -> Option<String> {
    /// Less than this is the grain of two readings of one end.
    const GRAIN_MS: i64 = 50;
    let later = match plan.end? {
        End::Never => found >= 0,
        End::At { ms, within } => found < 0 || (found - ms).abs() > within + GRAIN_MS,
    };
    later.then(|| "it was renewed, or taken anew by the same token, while you decided".into())
}

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
struct Attempt<'a> {
    plan: &'a Plan,
    admission: Admission,
    node: &'a Node,
    /// Scripts may be run, as far as is known.
    scripts: bool,
    /// What can be put back, or why nothing can.
    kept: Result<Kept, String>,
    /// The record of an action that leaves nothing to put back.
    trace: Option<Kept>,
    /// When its lease ended, in milliseconds of the server's Unix time; less than nought: never.
    ended: Option<i64>,
}

impl Attempt<'_> {
    /// Connects, asks whether we may, and reads what will be taken away.
    async fn prepare(&mut self, id: &str, context: &Context, clock: &Clock) -> Result<ServerConnection, Refusal> {
        let lost =
            |error: RedisError| Refusal::Unreachable(format!("the server could not be asked: {}", text::said(&error)));
        let late = |_| Refusal::Unreachable("the server does not answer; nothing was changed".into());
        let mut conn = timeout(ANSWER, self.node.connect_to_write()).await.map_err(late)?.map_err(lost)?;
        let permitted = timeout(ANSWER, self.permitted(&mut conn)).await.map_err(late)?.map_err(lost)?;
        permitted?;
        let here = timeout(ANSWER, Keyspace::read(&mut conn)).await.map_err(late)?.map_err(lost)?;
        if let Some(then) = self.plan.keyspace.as_ref().filter(|_| comparisons::is_made("keyspace")) {
            here.as_ref().map_err(String::clone).and_then(|here| here.continues(then)).map_err(Refusal::Moved)?;
        }
        let about = About {
            id: id.to_string(),
            target: context.target.clone(),
            db: context.db,
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

    /// What is known of it by now, on record.
    fn settle(&mut self, outcome: &Outcome, id: &str, journal: &mut Journal) {
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
                    // It only says what came last; the audit has it all the same.
                    let _ = journal.keep(trace);
                }
            }
        }
    }

    /// Whether each command may be sent: a script that is stopped half-way would leave half of it done.
    async fn permitted(&mut self, conn: &mut ServerConnection) -> RedisResult<Result<(), Refusal>> {
        let script =
            [b"EVALSHA".to_vec(), CHANGE.sha1().into_bytes(), b"1".to_vec(), self.plan.key.as_bytes().to_vec()];
        let mut commands: Vec<Vec<Vec<u8>>> = self.plan.writes.iter().flat_map(Write::commands).collect();
        commands.push(script.to_vec());
        let mut answers = permissions::dry_run(conn, &commands).await?;
        if matches!(answers.pop(), Some(Permission::Denied { .. })) {
            self.scripts = false;
            return Ok(Ok(()));
        }
        let refused = commands.iter().zip(answers).find_map(|(command, answer)| match answer {
            Permission::Denied { reason, .. } => Some((command, reason)),
            _ => None,
        });
        Ok(match refused {
            Some((command, reason)) => Err(Refusal::NotPermitted(format!(
                "this user may not run {}: {reason}; 'lockscope doctor' prints the ACL line of an operator",
                text::visible(&command[0])
            ))),
            None => Ok(()),
        })
    }

    async fn write(&mut self, conn: &mut ServerConnection, clock: &Clock) -> Outcome {
        if !self.scripts {
            return self.without_scripts(conn).await;
        }
        for _ in 0..TRIES {
            let kept = self.kept.as_ref().map(Kept::checks).unwrap_or_default();
            let checks = [self.plan.checks.clone(), kept].concat();
            let operands = match Operands::of(self.plan.key.as_bytes(), &checks, &self.plan.writes, &self.admission) {
                Ok(operands) => operands,
                Err(why) => return Outcome::Refused(why),
            };
            let running = self.admission.run(&CHANGE, conn, &operands.keys, &operands.args);
            let answer = match timeout(ANSWER, running).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) if is_denied(&error) => return self.without_scripts(conn).await,
                Ok(Err(error)) if is_lost(&error) => return self.unknown(&text::said(&error)).await,
                Ok(Err(error)) => return unreachable(format!("the server refused it: {}", text::said(&error))),
                Err(_) => return self.unknown(&format!("no answer within {} s", ANSWER.as_secs())).await,
            };
            match Answer::of(&answer, &checks) {
                Answer::Done { woken, emptied, silent, ended } => {
                    self.ended = ended;
                    if let Ok(kept) = &mut self.kept {
                        kept.settle(emptied);
                    }
                    return Outcome::Done { woken, silent };
                }
                // The holder is the same, but what it holds has changed: keep that instead.
                Answer::Moved(Check::Dump { .. }, _) => {
                    let Ok(before) = &self.kept else { break };
                    let about = About { at: clock.now().0, ..before.about.clone() };
                    match keep::read(conn, self.plan, about).await {
                        Ok(kept) => self.kept = kept,
                        Err(error) => {
                            return unreachable(format!("the server could not be asked: {}", text::said(&error)));
                        }
                    }
                }
                Answer::Moved(check, now) => return moved(check.moved(&now)),
                Answer::Unfit(why) => return unreachable(format!("the server refused it: {why}")),
                Answer::Half(why) => return self.unknown(&format!("it was stopped half-way: {why}")).await,
                Answer::Strange => return self.unknown("an answer that no script of ours gives").await,
            }
        }
        moved("the lock changes too fast to be kept for undoing; nothing was changed".into())
    }

    /// Where scripts are not permitted, the server's own compare-and-delete is as good for a plain string lock.
    async fn without_scripts(&mut self, conn: &mut ServerConnection) -> Outcome {
        let checks: Vec<&Check> = self.plan.checks.iter().filter(|check| **check != Check::NobodyBlocked).collect();
        let (key, value) = match (checks.as_slice(), self.plan.writes.as_slice()) {
            ([Check::Value { key, value }], [write @ Write::Step(Step::Delete(deleted))])
                if key == deleted && self.admission.covers(write) =>
            {
                (key, value)
            }
            _ => {
                return not_permitted(
                    "this user may not run scripts (EVAL), and without one the holder can't be compared and the lock \
                     freed in one step; nothing was changed",
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
                Err(_) => return self.unknown(&format!("no answer within {} s", ANSWER.as_secs())).await,
            }
        }
        not_permitted(
            "this user may not run scripts (EVAL), and the server has no compare-and-delete of its own (DELEX, DELIFEQ) \
             that it may run; nothing was changed",
        )
    }

    /// The server may have done it or not, or may do it yet.
    async fn unknown(&self, why: &str) -> Outcome {
        Outcome::Unknown(format!("{why}; {}", self.there_now().await))
    }

    /// What is there now, in a clause.
    async fn there_now(&self) -> String {
        let silent = "the server does not answer: look again before you do anything else".to_string();
        let looked = timeout(ANSWER, async {
            let mut conn = self.node.connect().await?;
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

/// What the script answered.
enum Answer<'a> {
    Done {
        woken: u64,
        emptied: bool,
        silent: Option<String>,
        ended: Option<i64>,
    },
    Moved(&'a Check, Value),
    /// A write would fail, so that nothing was written, and why.
    Unfit(String),
    /// Some of it was written, and then an error came.
    Half(String),
    Strange,
}

impl Answer<'_> {
    fn of<'a>(answer: &Value, checks: &'a [Check]) -> Answer<'a> {
        let Value::Array(parts) = answer else { return Answer::Strange };
        let number = |index: usize| match parts.get(index) {
            Some(Value::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let text = |index: usize| match parts.get(index) {
            Some(Value::BulkString(text)) => Some(text::harmless(&String::from_utf8_lossy(text))),
            _ => None,
        };
        let name = |index: usize| match parts.get(index) {
            Some(Value::BulkString(name)) => Some(text::visible(name)),
            _ => None,
        };
        match (number(0), number(1)) {
            (Some(3), _) => Answer::Unfit(format!(
                "{}{}{}",
                text(1).unwrap_or_default(),
                name(2).unwrap_or_default(),
                text(3).unwrap_or_default()
            )),
            (Some(2), _) => Answer::Half(text(1).unwrap_or_default()),
            (Some(1), Some(woken)) => {
                let ended = match parts.get(4) {
                    Some(Value::Int(ended)) => Some(*ended),
                    _ => None,
                };
                Answer::Done { woken, emptied: number(2) == Some(1), silent: text(3), ended }
            }
            (Some(0), Some(which)) => match checks.get((which as usize).wrapping_sub(1)) {
                Some(check) => Answer::Moved(check, parts.get(2).cloned().unwrap_or(Value::Nil)),
                None => Answer::Strange,
            },
            _ => Answer::Strange,
        }
    }
}

/// The script itself was not permitted: nothing of it ran.
fn is_denied(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        && error.detail().is_some_and(|detail| detail.contains("run the 'eval"))
}

fn is_lost(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.is_connection_dropped()
}
