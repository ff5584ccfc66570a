//! One test lock, from the attempt to take it until nothing of it is left: a task beside the loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisError;
use tokio::sync::{mpsc, watch};

use super::contenders::Contenders;
use super::record::Record;
use super::{Board, Order, Phase, Report, TestId};
use crate::actions::Admission;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::rate::Growth;
use crate::base::text::short_duration;
use crate::test_lock::{Held, Loss, Released, Request, Taken, Turn, take};
use crate::topology::Topology;

/// The window of the failure rate.
pub const WINDOW: Duration = Duration::from_secs(5);
/// There is no rate before this time has passed.
const LEAST: Duration = Duration::from_secs(1);
/// How often the counts of contenders are reported.
const COUNTED: Duration = Duration::from_millis(250);
/// How long a release may take: less than the console waits for it.
const GIVING_BACK: Duration = Duration::from_millis(1_500);
/// How long a lock that a contender could not give back may exist.
const CONTENDED: Duration = Duration::from_secs(2);

pub struct Bench {
    report: Report,
    request: Request,
    topology: Topology,
    shown: String,
    record: Record,
    board: Arc<watch::Sender<Board>>,
    held: Option<Held>,
    /// When it was taken.
    began: Instant,
    /// Until when it is surely ours, or may exist.
    ends: Option<Instant>,
    contenders: Contenders,
    clock: Clock,
    failures: Growth<1>,
}

impl Bench {
    pub fn new(
        report: Report,
        request: Request,
        admission: Admission,
        topology: &Topology,
        shown: &str,
        record: Record,
        board: &Arc<watch::Sender<Board>>,
    ) -> Bench {
        let contenders = Contenders::new(topology, admission, request.form());
        let (topology, shown, board) = (topology.clone(), shown.to_string(), Arc::clone(board));
        let (began, clock, failures) = (Instant::now(), Clock::start(), Growth::over(WINDOW));
        board.send_modify(|board| drop(board.insert(report.id, (report.clone(), None))));
        Bench {
            report,
            request,
            topology,
            shown,
            record,
            board,
            held: None,
            began,
            ends: None,
            contenders,
            clock,
            failures,
        }
    }

    /// Runs until it is over, or until nobody can send orders any more; then removes everything.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>) -> TestId {
        let stop = async { while orders.recv().await.is_some_and(|order| order != Order::GiveBack) {} };
        let taken = take(&self.topology, self.request.clone(), None, stop).await;
        self.begin(taken).await;
        self.tell();
        let mut counted = tokio::time::interval(COUNTED);
        while self.held.is_some() || self.contenders.count() > 0 {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => break,
                },
                () = due(self.held.as_ref(), self.report.watchdog) => self.watch().await,
                _ = counted.tick(), if self.contenders.count() > 0 => {}
            }
            self.tell();
        }
        // Stop the contenders before the lock is free, or they would take it.
        let contended = self.contenders.count() > 0;
        let _ = self.contenders.become_so_many(0);
        self.give_back().await;
        self.clear().await;
        if contended {
            let written = self.record.contended_enough(self.contenders.counts());
            self.note(written);
        }
        self.tell();
        self.report.id
    }

    async fn begin(&mut self, taken: Taken) {
        let key = self.request.key().clone();
        self.report.phase = match taken {
            Taken::Held(mut held) => match self.record.taken(&held) {
                Ok(()) => {
                    self.began = Instant::now();
                    self.held = Some(*held);
                    Phase::Held
                }
                // If it can't be recorded, it is not done.
                Err(why) => {
                    held.release().await;
                    Phase::Refused(format!("the audit file can't be written: {why}"))
                }
            },
            Taken::Refused(other) => self.refused(format!("{key} is {other}")),
            Taken::Failed(error) => self.refused(self.sentence(&error)),
            Taken::Stopped => self.refused("given up before it was taken".into()),
            Taken::Unknown(error) => {
                self.ends = Some(Instant::now() + self.request.ttl());
                let lasts = short_duration(self.request.ttl().as_millis() as u64);
                let why = format!("{}; if it was taken, it ends by itself in {lasts}", self.sentence(&error));
                let written = self.record.unknown(&why);
                self.note(written);
                Phase::Unknown(why)
            }
        };
    }

    fn refused(&mut self, why: String) -> Phase {
        let written = self.record.refused(&why);
        self.note(written);
        Phase::Refused(why)
    }

    async fn obey(&mut self, order: Order) {
        match order {
            // A renewal checks the holder, and changes nothing that is not ours.
            Order::Renew | Order::Check => {
                if let Some(held) = &mut self.held {
                    let turn = held.renew_now().await;
                    self.judge(turn).await;
                }
            }
            Order::Watchdog(on) => self.report.watchdog = on,
            Order::Contend(wanted) => self.contend(wanted).await,
            Order::GiveBack => self.give_back().await,
            Order::Take(_) | Order::Forget => {}
        }
    }

    /// The renewal is due, or the lease of a lock without a watchdog has ended.
    async fn watch(&mut self) {
        let Some(held) = &mut self.held else { return };
        let turn = if self.report.watchdog { held.renew_now().await } else { Turn::Lost(held.run_out().await) };
        self.judge(turn).await;
    }

    async fn judge(&mut self, turn: Turn) {
        match turn {
            Turn::Renewed => self.report.trouble = None,
            Turn::Trouble(error) => {
                self.report.trouble = Some(format!("could not renew it, trying again: {}", self.sentence(&error)));
            }
            Turn::Lost(loss) => {
                let Some(mut held) = self.held.take() else { return };
                if matches!(loss, Loss::Unconfirmed { .. }) {
                    // It may still exist.
                    let _ = tokio::time::timeout(GIVING_BACK, held.release()).await;
                }
                self.end(&held, "lost", Phase::Lost(loss.to_string()));
            }
        }
    }

    async fn give_back(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        let released = tokio::time::timeout(GIVING_BACK, held.release()).await;
        let (way, phase) = match released {
            Ok(Released::Done { .. }) => ("released", Phase::Released),
            Ok(Released::Lost(loss)) => ("lost", Phase::Lost(loss.to_string())),
            Ok(Released::Unknown(error)) => ("unknown", Phase::Unknown(self.sentence(&error))),
            Err(_) => ("unknown", Phase::Unknown("the server did not answer".into())),
        };
        self.end(&held, way, phase);
    }

    fn end(&mut self, held: &Held, way: &str, phase: Phase) {
        self.ends = matches!(phase, Phase::Unknown(_)).then(|| held.lease().ends() + self.request.ttl() / 100);
        let why = match &phase {
            Phase::Lost(why) | Phase::Unknown(why) => Some(why.as_str()),
            _ => None,
        };
        let kept = self.began.elapsed().as_millis() as u64;
        let written = self.record.ended(way, why, kept, held.renewals());
        self.report.renewals = held.renewals();
        self.report.phase = phase;
        self.report.trouble = None;
        self.note(written);
    }

    async fn contend(&mut self, wanted: usize) {
        let before = self.contenders.count();
        if wanted == before {
            return;
        }
        if wanted > before
            && let Err(why) = self.record.contended(wanted)
        {
            return self.note(Err(why));
        }
        let done = self.contenders.become_so_many(wanted);
        self.note(done);
        if self.contenders.count() == 0 {
            self.failures = Growth::over(WINDOW);
            self.clear().await;
            let written = self.record.contended_enough(self.contenders.counts());
            self.note(written);
        }
    }

    /// Waits for contenders that were stopped.
    async fn clear(&mut self) {
        if let Err(error) = self.contenders.gone().await
            && self.report.phase.is_over()
        {
            self.report.phase = Phase::Unknown(format!("a contender got no answer: {}", self.sentence(&error)));
            self.ends = Some(Instant::now() + CONTENDED);
        }
    }

    fn note(&mut self, written: std::io::Result<()>) {
        if let Err(why) = written {
            self.report.trouble = Some(format!("the audit file can't be written: {why}"));
        }
    }

    fn sentence(&self, error: &RedisError) -> String {
        Fault::from_redis(error, &self.shown).to_string()
    }

    /// Posts the newest report on the board.
    fn tell(&mut self) {
        if let Some(held) = &self.held {
            self.ends = Some(held.lease().ends());
            self.report.renewals = held.renewals();
        }
        let report = &mut self.report;
        (report.contenders, report.counts) = (self.contenders.count(), self.contenders.counts());
        if report.contenders > 0 {
            self.failures.note(self.clock.now(), [report.counts.failures]);
        }
        let grown = self.failures.added().filter(|(time, _)| *time >= LEAST);
        report.failures_per_s = grown.map(|(time, [failures])| failures as f64 / time.as_secs_f64());
        let (report, ends) = (self.report.clone(), self.ends.map(tokio::time::Instant::from_std));
        self.board.send_modify(|board| {
            // A forgotten lock stays forgotten.
            if let Some(entry) = board.get_mut(&report.id) {
                *entry = (report, ends);
            }
        });
    }
}

/// Resolves when something has to be done about the lease.
async fn due(held: Option<&Held>, watchdog: bool) {
    match held {
        None => std::future::pending().await,
        Some(held) if watchdog => tokio::time::sleep_until(held.lease().next_renewal().into()).await,
        Some(held) => tokio::time::sleep_until(held.lease().ends().into()).await,
    }
}
