//! Plays a sequence on a server: each step of the libraries and of the operator, and a check after each.

use std::time::Duration;

use lockscope::actions::{Action, Outcome, Plan};
use lockscope::model::LockView;

use super::invariants::{self, Freed};
use super::operator::Operator;
use super::sequence::{Intent, Step};
use super::snapshot::Snapshot;
use super::stall::Stall;
use super::{Held, Hold, Ledger, Library, Proof, Subject, Wake, Wire, Wish};
use crate::common::Server;

const CLIENTS: usize = 3;
/// Shorter leases are waited for.
pub const SHORT_MS: u64 = 60;
const EXTENSIONS: [Duration; 3] = [Duration::from_secs(100), Duration::from_secs(5), Duration::from_secs(100_000)];

/// A server, the connections to it, and the operator: one for each thread.
pub struct Stage {
    pub server: Server,
    pub runtime: tokio::runtime::Runtime,
    pub operator: Operator,
    pub wire: Wire,
    ears: Ears,
}

/// What was done in a run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub sequences: u64,
    pub freed: u64,
    pub extended: u64,
    pub refused: u64,
    pub undone: u64,
    pub undo_refused: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.sequences += other.sequences;
        self.freed += other.freed;
        self.extended += other.extended;
        self.refused += other.refused;
        self.undone += other.undone;
        self.undo_refused += other.undo_refused;
    }
}

/// What must not happen, and what led to it.
#[derive(Debug)]
pub struct Fault {
    pub what: String,
    pub transcript: Vec<String>,
    /// Time passed where the models have none pass: it may be the cause.
    pub stall: Option<Stall>,
}

struct Client {
    process: u64,
    /// What it took last, whether it still has it or not.
    hold: Option<Hold>,
}

/// What the operator looks at while asked for confirmation.
struct Preview {
    plan: Plan,
    shown: Vec<Hold>,
    /// All the holds there were, by their ids.
    around: Vec<u64>,
    snapshot: Snapshot,
    /// Those who waited then.
    waiting: usize,
    /// Nothing but renewals happened since.
    only_renewed: bool,
    consents: bool,
}

struct Play<'a> {
    subject: &'a Subject,
    library: Box<dyn Library>,
    stage: &'a mut Stage,
    ledger: Ledger,
    clients: Vec<Client>,
    processes: u64,
    slots: [Option<Preview>; 2],
    freed: Vec<Freed>,
    tally: Tally,
    transcript: Vec<String>,
    /// When the last step ended, by the server's clock.
    now: i64,
    stall: Option<Stall>,
}

impl Stage {
    pub fn new(number: usize) -> Stage {
        let server = Server::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let operator = runtime.block_on(Operator::on(&server, number));
        let (wire, ears) = (Wire::new(server.connection()), Ears::new(server.connection()));
        Stage { server, runtime, operator, wire, ears }
    }

    /// Plays it from an empty server.
    pub fn play(&mut self, subject: &Subject, steps: &[Step]) -> Result<Tally, Fault> {
        self.wire.run::<String>(&[b"FLUSHALL"]);
        let library = subject.library(&self.server);
        let clients = (0..CLIENTS).map(|number| Client { process: number as u64, hold: None }).collect();
        let mut play = Play {
            subject,
            library,
            stage: self,
            ledger: Ledger::default(),
            clients,
            processes: CLIENTS as u64,
            slots: [None, None],
            freed: Vec::new(),
            tally: Tally { sequences: 1, ..Tally::default() },
            transcript: Vec::new(),
            now: 0,
            stall: None,
        };
        play.library.set_up(&mut play.stage.wire);
        play.now = play.stage.wire.now();
        let mut result = steps.iter().try_for_each(|step| play.step(step));
        if result.is_ok() && play.library.knows_its_own() {
            result = (0..CLIENTS).try_for_each(|client| play.step(&Step::Release { client: client as u8 }));
        }
        let Play { tally, transcript, stall, .. } = play;
        let books = self.operator.close_the_books();
        result.and(books).map(|()| tally).map_err(|what| Fault { what, transcript, stall })
    }
}

impl Play<'_> {
    fn tell(&mut self, line: String) {
        self.transcript.push(line);
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let from = self.now;
        let freed = self.freed.iter().flat_map(|freed| &freed.holds);
        let ends: Vec<i64> = self.ledger.holds.iter().chain(freed).filter_map(|hold| hold.until).collect();
        let done = self.tally.freed;
        let mut result = self.act(step);
        self.now = self.stage.wire.now();
        if *step != Step::Wait {
            self.stall = self.stall.take().or_else(|| Stall::of(from, self.now, ends));
        }
        // It takes long where nobody is woken: that is the fault, and no stall.
        if result.is_ok() && self.tally.freed > done {
            result = self.library.wakes();
            self.now = self.stage.wire.now();
        }
        result
    }

    fn act(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Preview { slot, key, intent } => self.preview(*slot as usize % 2, *key, intent),
            Step::Confirm { slot } => self.confirm(*slot as usize % 2),
            Step::Wait => {
                self.wait();
                Ok(())
            }
            step => self.library_step(step),
        }
    }

    fn library_step(&mut self, step: &Step) -> Result<(), String> {
        let before = self.stage.wire.snapshot();
        let took = match *step {
            Step::Acquire { client, mode, lease, salt } => self.acquire(client as usize % CLIENTS, mode, lease, salt),
            Step::Renew { client, lease } => self.renew(client as usize % CLIENTS, lease),
            Step::Release { client } => {
                self.release(client as usize % CLIENTS)?;
                None
            }
            Step::Promote { client } => {
                self.promote(client as usize % CLIENTS);
                None
            }
            Step::Expire { client } => {
                self.expire(client as usize % CLIENTS);
                None
            }
            Step::Crash { client } => {
                self.processes += 1;
                self.clients[client as usize % CLIENTS] = Client { process: self.processes, hold: None };
                self.tell(format!("client {} is gone", client as usize % CLIENTS));
                None
            }
            _ => None,
        };
        let after = self.stage.wire.snapshot();
        let changed = !before.is_same(&after);
        // Where what is over stays in the key, a renewal clears that away too.
        let renewed = matches!(step, Step::Renew { .. }) && took.is_none() && !self.library.keeps_the_dead();
        let harmless = renewed && self.subject.proof == Proof::EachHold && !self.subject.looks_common;
        for preview in self.slots.iter_mut().flatten() {
            preview.only_renewed &= !changed || harmless;
        }
        self.follow(&after, took)
    }

    /// The ledger takes over what a step of a library has brought about.
    fn follow(&mut self, after: &Snapshot, took: Option<Hold>) -> Result<(), String> {
        let held = self.library.held(after);
        if self.library.is_counted() {
            return Ok(());
        }
        self.ledger.rename(&held, |hold, held| self.library.is_still(hold, held));
        self.ledger.follow(&held);
        for client in &mut self.clients {
            let known = client.hold.as_ref().and_then(|hold| self.ledger.find(hold.id));
            client.hold = known.cloned().or(client.hold.take());
        }
        if let Some(mut hold) = took
            && let Some(held) = held.iter().find(|held| hold.is(held))
        {
            (hold.until, hold.mode) = (held.until, held.mode);
            let again = self.ledger.holds.iter().find(|known| known.is(held) && known.process == hold.process);
            match again {
                Some(known) => hold.id = known.id,
                None => {
                    hold.id = self.ledger.next_id();
                    for freed in &mut self.freed {
                        freed.note(&*self.library, &hold);
                    }
                    self.ledger.holds.retain(|known| !known.is(held));
                    self.ledger.holds.push(hold.clone());
                    self.ledger.past.push(hold.clone());
                }
            }
            let line = format!("  which is {}", hold.name());
            self.tell(line);
            let client = hold.client;
            self.clients[client].hold = Some(hold);
        }
        match self.ledger.unknown(&held) {
            Some(held) => Err(format!("the model is wrong: nobody took {held:?}")),
            None => Ok(()),
        }
    }

    fn acquire(&mut self, client: usize, mode: u8, lease: u8, salt: u8) -> Option<Hold> {
        let process = self.clients[client].process;
        let modes = self.library.modes();
        let mode = modes[mode as usize % modes.len()];
        let serial = self.ledger.next_id();
        let token = self.library.token(process, serial, salt);
        let lease = self.subject.lease(lease);
        let wish = Wish { mode, lease, token, process, salt };
        let taken = self.library.acquire(&mut self.stage.wire, &wish);
        let shown = lease.map_or("no TTL".to_string(), |lease| format!("{lease} ms"));
        self.tell(format!("client {client} asks for it ({mode:?}, {shown}): {}", if taken { "taken" } else { "no" }));
        if !taken {
            return None;
        }
        if self.library.is_counted() {
            let key = self.library.keys().remove(0);
            let hold = Hold { id: serial, client, process, key, token: wish.token, mode, until: None };
            self.clients[client].hold = Some(hold.clone());
            self.ledger.holds.push(hold);
            return None;
        }
        // The key and the exact token are those that the library reads.
        let after = self.stage.wire.snapshot();
        let held = self.library.held(&after).into_iter().find(|held| self.library.is_of(held, &wish))?;
        let Held { key, token, mode, until } = held;
        Some(Hold { id: 0, client, process, key, token, mode, until })
    }

    /// A client that lost its lock may ask too; where that takes the lock anew, it is another hold.
    fn renew(&mut self, client: usize, lease: u8) -> Option<Hold> {
        let hold = self.clients[client].hold.clone()?;
        let is_held = self.ledger.holds.iter().any(|known| known.id == hold.id);
        if !is_held && !self.library.has_late_clients() {
            return None;
        }
        let lease = self.subject.lease(lease);
        let renewed = self.library.renew(&mut self.stage.wire, &hold, lease);
        let shown = lease.map_or("no TTL".to_string(), |lease| format!("{lease} ms"));
        self.tell(format!("client {client} renews it ({shown}): {}", if renewed { "yes" } else { "no" }));
        (renewed && !is_held).then_some(hold)
    }

    fn release(&mut self, client: usize) -> Result<(), String> {
        let Some(hold) = self.clients[client].hold.clone() else { return Ok(()) };
        let is_held = self.ledger.holds.iter().any(|known| known.id == hold.id);
        if !is_held && !self.library.has_late_clients() {
            return Ok(());
        }
        let freed = self.library.release(&mut self.stage.wire, &hold);
        if self.library.is_counted() {
            self.ledger.holds.retain(|known| known.id != hold.id);
            self.clients[client].hold = None;
        }
        self.tell(format!("client {client} frees it: {}", if freed { "freed" } else { "it was not its own" }));
        if self.library.knows_its_own() {
            self.clients[client].hold = None;
            if freed != is_held {
                return Err(format!("the library itself says otherwise of {}: {freed}, not {is_held}", hold.name()));
            }
        }
        Ok(())
    }

    fn promote(&mut self, client: usize) {
        let Some(hold) = self.clients[client].hold.clone() else { return };
        if !self.ledger.holds.iter().any(|known| known.id == hold.id) {
            return;
        }
        if let Some((mode, token)) = self.library.promote(&mut self.stage.wire, &hold) {
            let now = Hold { mode, token, ..hold };
            self.ledger.holds.iter_mut().filter(|known| known.id == now.id).for_each(|known| *known = now.clone());
            for freed in &mut self.freed {
                freed.note(&*self.library, &now);
            }
            self.tell(format!("client {client} has it as {mode:?} now"));
            self.clients[client].hold = Some(now);
        }
    }

    fn expire(&mut self, client: usize) {
        let Some(hold) = self.clients[client].hold.clone() else { return };
        let known = self.ledger.holds.iter().find(|known| known.id == hold.id).cloned();
        if let Some(hold) = known.filter(|hold| hold.until.is_some()) {
            self.library.expire(&mut self.stage.wire, &hold);
            self.tell(format!("the time of {} is over", hold.name()));
        }
    }

    /// Waits for short leases of what was freed: whether they are over shows on the server's clock.
    fn wait(&mut self) {
        let now = self.stage.wire.snapshot().now;
        let ends = self.freed.iter().flat_map(|freed| &freed.holds).filter_map(|hold| hold.until);
        let Some(end) = ends.filter(|end| (now..now + SHORT_MS as i64).contains(end)).max() else { return };
        while self.stage.wire.snapshot().now <= end + 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.tell("the lease of what was freed is over".into());
    }

    fn see(&mut self, key: &[u8]) -> Result<(Option<LockView>, Snapshot), String> {
        let told = self.subject.told.then_some(self.subject.dialect);
        loop {
            let before = self.stage.wire.snapshot();
            let view = self.stage.runtime.block_on(self.stage.operator.see(key, told));
            let after = self.stage.wire.snapshot();
            // What runs out in the middle of a look is seen or not.
            if before.difference(&after, |_| true).is_none() && before.keys.len() == after.keys.len() {
                let held: Vec<Held> = self.library.held(&before).into_iter().filter(|held| held.key == key).collect();
                if !self.library.is_counted() {
                    self.ledger.follow(&self.library.held(&before));
                    let read = view.as_ref().map(|view| view.dialect);
                    // With a longer lease, or by chance, it may look like another library's.
                    let certain = self.tally.extended == 0 && !self.subject.is_real();
                    if certain && read.is_some_and(|read| read != self.subject.dialect) {
                        return Err(format!("it reads as {read:?}, not as {}", self.subject.dialect));
                    }
                    invariants::seen(self.subject, view.as_ref(), &held, before.now)?;
                }
                return Ok((view, before));
            }
        }
    }

    fn preview(&mut self, slot: usize, key: u8, intent: &Intent) -> Result<(), String> {
        if let Intent::Undo(which, consents) = intent {
            return self.preview_undo(slot, *which as usize, *consents);
        }
        let keys = self.library.keys();
        let key = keys[key as usize % keys.len()].clone();
        let (Some(view), snapshot) = self.see(&key)? else { return Ok(()) };
        let one = |which: u8| {
            let holders = &view.holders;
            (!holders.is_empty()).then(|| holders[which as usize % holders.len()].token.as_bytes().to_vec())
        };
        let operator = &self.stage.operator;
        let plan = match intent {
            Intent::FreeOne(_) if self.library.is_counted() => operator.give_back(&view),
            Intent::FreeOne(which) => operator.free(&view, one(*which).as_deref()),
            Intent::Extend(by, which) => {
                let by = EXTENSIONS[*by as usize % EXTENSIONS.len()];
                operator.extend(&view, which.and_then(one).as_deref(), by)
            }
            _ => operator.free(&view, None),
        };
        match plan {
            Ok(plan) => {
                let shown = self.shown(&plan);
                let around = self.ledger.holds.iter().map(|hold| hold.id).collect();
                let names: Vec<String> = shown.iter().map(Hold::name).collect();
                self.tell(format!("lockscope: preview: {intent}: {}", names.join(", ")));
                self.slots[slot] = Some(Preview {
                    plan,
                    shown,
                    around,
                    snapshot,
                    waiting: self.library.waiting(),
                    only_renewed: true,
                    consents: false,
                });
            }
            Err(why) => {
                self.tally.refused += 1;
                self.tell(format!("lockscope: preview: {intent}: refused: {why}"));
            }
        }
        Ok(())
    }

    /// The holds that the plan names, as they are at the preview. What is over may still be listed.
    fn shown(&self, plan: &Plan) -> Vec<Hold> {
        let key = plan.key.as_bytes();
        if plan.holders.is_empty() {
            return self.ledger.holds.iter().filter(|hold| hold.key == key).cloned().collect();
        }
        let named = |token: &lockscope::lock::Token| {
            let token = token.as_bytes();
            // Of a long token only the beginning is shown.
            let is = |held: &[u8]| token == held || token.len() >= 512 && held.starts_with(token);
            self.ledger.named(key, is).cloned()
        };
        plan.holders.iter().filter_map(named).collect()
    }

    fn preview_undo(&mut self, slot: usize, which: usize, consents: bool) -> Result<(), String> {
        let Some(newest) = self.freed.len().checked_sub(1) else { return Ok(()) };
        let freed = &self.freed[newest - which % self.freed.len()];
        let snapshot = self.stage.wire.snapshot();
        match self.stage.runtime.block_on(self.stage.operator.undo(&freed.id, consents)) {
            Ok(plan) => {
                let shown = freed.holds.clone();
                self.tell("lockscope: preview: undo".into());
                self.slots[slot] = Some(Preview {
                    plan,
                    shown,
                    around: Vec::new(),
                    snapshot,
                    waiting: self.library.waiting(),
                    only_renewed: true,
                    consents,
                });
            }
            Err(why) => {
                self.tally.undo_refused += 1;
                self.tell(format!("lockscope: preview: undo: refused: {why}"));
            }
        }
        Ok(())
    }

    fn confirm(&mut self, slot: usize) -> Result<(), String> {
        let Some(preview) = self.slots[slot].take() else { return Ok(()) };
        let before = self.stage.wire.snapshot();
        if !self.library.is_counted() {
            self.ledger.follow(&self.library.held(&before));
        }
        self.stage.ears.forget(&mut self.stage.wire);
        let performed = self.stage.runtime.block_on(self.stage.operator.perform(&preview.plan));
        let after = self.stage.wire.snapshot();
        let action = preview.plan.action.name();
        let why = performed.outcome.why().map(|why| format!(": {why}")).unwrap_or_default();
        self.tell(format!("lockscope: {action}: {}{why}", performed.outcome.name()));
        self.slots.iter_mut().flatten().for_each(|other| other.only_renewed = false);
        let is_undo = matches!(preview.plan.action, Action::Undo(_));
        match &performed.outcome {
            Outcome::Unknown(why) => return Err(format!("the outcome is unknown, but the server was there: {why}")),
            Outcome::Refused(_) => {
                *if is_undo { &mut self.tally.undo_refused } else { &mut self.tally.refused } += 1;
                if let Some(what) = before.difference(&after, |_| true) {
                    return Err(format!("it was refused, but something changed: {what}"));
                }
                let blameless =
                    preview.snapshot.is_same(&before) || preview.only_renewed && preview.plan.action == Action::Free;
                let over = preview.shown.iter().any(|hold| hold.is_over(after.now));
                let sound = self.library.is_reachable(&before).is_ok() && self.library.waiting() == preview.waiting;
                if blameless && !is_undo && !over && sound {
                    return Err(format!("it was refused, though nothing but renewals came between{why}"));
                }
                return Ok(());
            }
            Outcome::Done { .. } => {}
        }
        let library = &*self.library;
        if let Some(what) = before.difference(&after, |key| !library.owns(key)) {
            return Err(format!("{action} changed what is not part of the lock: {what}"));
        }
        let scene = invariants::Scene { subject: self.subject, library, before: &before, after: &after };
        match &preview.plan.action {
            Action::Free => {
                scene.freed(&mut self.ledger, &preview.shown)?;
                self.tally.freed += 1;
                let wake = library.wake(&preview.shown, &before, &after);
                self.stage.ears.heard(&wake, &after, &mut self.stage.wire)?;
                let holds = preview.shown.iter().filter_map(|hold| scene.as_freed(hold)).collect();
                self.freed.push(Freed { id: performed.id, holds, taken: None });
            }
            Action::Extend(by) => {
                scene.extended(&mut self.ledger, &preview.shown, &preview.around, *by)?;
                self.tally.extended += 1;
            }
            Action::Undo(id) => {
                let at = self.freed.iter().position(|freed| freed.id == *id).ok_or("it was put back twice")?;
                let freed = self.freed.remove(at);
                scene.undone(&mut self.ledger, freed, preview.consents)?;
                self.tally.undone += 1;
            }
        }
        Ok(())
    }
}

/// Hears every message on the server.
struct Ears {
    connection: redis::Connection,
    count: u64,
}

impl Ears {
    fn new(mut connection: redis::Connection) -> Ears {
        // A waiter of the semaphore that nobody names listens too: it is what tells the counter from a token.
        for (how, what) in [("PSUBSCRIBE", "*"), ("SUBSCRIBE", "redisson_sc:{uploads-lock}")] {
            let listen = redis::cmd(how).arg(what).get_packed_command();
            connection.send_packed_command(&listen).and_then(|()| connection.recv_response()).expect("a subscription");
        }
        Ears { connection, count: 0 }
    }

    /// Everything up to now.
    fn messages(&mut self, wire: &mut Wire) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.count += 1;
        let mark = self.count.to_string();
        wire.run::<i64>(&[b"PUBLISH", b"mark", mark.as_bytes()]);
        let mut all = Vec::new();
        loop {
            let answer = self.connection.recv_response().expect("a message");
            let mut parts: Vec<Vec<u8>> = redis::from_redis_value(answer).expect("a message");
            let (body, channel) = (parts.pop().expect("a body"), parts.pop().expect("a channel"));
            if channel == b"mark" && body == mark.as_bytes() {
                return all;
            }
            all.push((channel, body));
        }
    }

    fn forget(&mut self, wire: &mut Wire) {
        self.messages(wire);
    }

    fn heard(&mut self, wake: &Wake, after: &Snapshot, wire: &mut Wire) -> Result<(), String> {
        match wake {
            Wake::Never => Ok(()),
            Wake::Item(list) if !after.list(list).is_empty() => Ok(()),
            Wake::Item(list) => Err(format!("freed, but nothing wakes those who wait for {}", list.escape_ascii())),
            Wake::Message { channel, body } => {
                let messages = self.messages(wire);
                let fits = |heard: &(Vec<u8>, Vec<u8>)| {
                    heard.0 == *channel && body.as_ref().is_none_or(|body| heard.1 == *body)
                };
                match messages.iter().any(fits) {
                    true => Ok(()),
                    false => Err(format!("freed, but nobody was told on {}", channel.escape_ascii())),
                }
            }
        }
    }
}
