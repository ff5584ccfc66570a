//! Connects the app and the world: events go in, effects come out.
//!
//! The loop, the pictures of the docs and the stage of the unit tests all drive the app through here, so that tests get
//! the same answers as the console. Effects that the table can answer are answered at once; the world does the rest
//! ([`World::carry_out`]).

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::actions::{Action, Kept, Performed, Plan, Refusal};
use crate::app::scene::Others;
use crate::app::{App, Effect, Event, Gathered, LockId, Since, Wish};
use crate::base::text::visible;
use crate::base::time::Time;
use crate::console::chronicle::Chronicle;
use crate::daemon::Own;
use crate::engine::{Engine, NodeStatus, Reader};
use crate::lock::KeyspaceId;
use crate::model::{LockView, Notable, Table};
use crate::output::node_json;
use crate::views;

/// What is known about the locks now.
#[derive(Clone)]
pub struct Known<'a> {
    pub table: &'a Table,
    pub nodes: Vec<&'a NodeStatus>,
    pub now: Time,
}

impl Known<'_> {
    pub fn of(engine: &Engine) -> Known<'_> {
        Known { table: engine.table(), nodes: engine.nodes().collect(), now: engine.clock.now() }
    }

    pub fn lock(&self, id: &LockId) -> Option<LockView> {
        self.table.view(self.table.lock_named(id.space, id.key.as_bytes())?, self.now)
    }

    /// What is known about a lock, to be handed over.
    fn gather(&self, id: &LockId) -> Option<Gathered> {
        let lock = self.lock(id)?;
        let timeline = self.table.timeline();
        let own = |entry: &&Notable| entry.space == id.space && entry.key.as_ref() == Some(&id.key);
        let story = timeline.from(timeline.first()).map(|(_, entry)| entry).filter(own).cloned().collect();
        let nodes = self.nodes.iter().map(|node| (node.id, node.name.clone())).collect();
        let db = self.nodes.iter().find(|node| node.id == lock.node).map_or(0, |node| node.db);
        let servers = self.nodes.iter().map(|node| node_json(node)).collect();
        Some(Gathered { lock, story, nodes, db: u32::try_from(db).unwrap_or(0), servers })
    }

    fn since(&self, kept: &Kept) -> Since {
        let lock = self.table.lock_named(KeyspaceId::FIRST, &kept.key.0);
        let node = lock.and_then(|lock| self.nodes.iter().find(|node| node.id == lock.node));
        Since::of(kept, self.table, node.and_then(|node| node.watched_since), self.now)
    }

    /// Why this undo must not be: others have held its lock since it was freed, perhaps while the question was open.
    fn spoiled(&self, plan: &Plan, recalled: &[Kept]) -> Option<String> {
        let kept = recalled.iter().find(|kept| plan.action == Action::Undo(kept.id().to_string()))?;
        match self.since(kept) {
            Since::Held(why) => Some(why),
            Since::Nobody | Since::Unwatched(_) => None,
        }
    }
}

/// Carries out what the app asks for.
pub trait World {
    fn known(&self) -> Known<'_>;

    /// Reads what a write to these locks will be compared with. Returns the result if it is known at once.
    fn prove(&mut self, wish: Wish, locks: Vec<LockView>) -> Option<Event>;

    /// Carries out the effect, and returns the result if it is known at once; a break ends the console.
    fn carry_out(&mut self, effect: Effect, app: &App) -> io::Result<ControlFlow<(), Option<Event>>>;
}

/// Carries out the effects, and all that the app asks for in response. A break ends the console.
pub fn drive(app: &mut App, effects: Vec<Effect>, world: &mut impl World) -> io::Result<ControlFlow<()>> {
    let mut effects = VecDeque::from(effects);
    while let Some(effect) = effects.pop_front() {
        let known = world.known();
        let mut events = Vec::new();
        match effect {
            Effect::See(wish, ids) => {
                let locks = ids.iter().filter_map(|id| known.lock(id));
                let held = locks.filter(|lock| !lock.verdict.state.is_free()).collect();
                events.extend(world.prove(wish, held));
            }
            Effect::Gather(id, form) => {
                let found = known.gather(&id).map(Box::new);
                events.push(Event::Gathered(id, found, form));
            }
            Effect::Retrace(batch) => {
                let since = batch.kept.iter().map(|kept| known.since(kept)).collect();
                events.push(Event::Retraced(batch, since));
            }
            Effect::Perform(mut plans, reason) => {
                plans.retain(|plan| match known.spoiled(plan, &app.writing.recalled) {
                    Some(why) => {
                        let refused = Performed::refused(String::new(), Refusal::Moved(why));
                        events.push(Event::Performed(Box::new(plan.clone()), Box::new(refused)));
                        false
                    }
                    None => true,
                });
                if plans.is_empty() {
                    events.push(Event::AllPerformed);
                } else {
                    match world.carry_out(Effect::Perform(plans, reason), app)? {
                        ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
                        ControlFlow::Continue(event) => events.extend(event),
                    }
                }
            }
            other => match world.carry_out(other, app)? {
                ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
                ControlFlow::Continue(event) => events.extend(event),
            },
        }
        let now = world.known().now;
        effects.extend(events.into_iter().flat_map(|event| app.update(event, now)).collect::<Vec<_>>());
    }
    Ok(ControlFlow::Continue(()))
}

/// Gives the app what the engine has seen since the last call.
pub fn take_news(app: &mut App, engine: &mut Engine, reader: &mut Reader) -> Vec<Effect> {
    let (changes, left_out) = reader.take();
    let mut effects = app.update(Event::Changes(changes, left_out), engine.clock.now());
    if let Some((space, key, found)) = engine.take_inspected() {
        effects.extend(app.update(Event::Inspected(LockId { space, key }, found), engine.clock.now()));
    }
    effects
}

/// The value of the label `target`, which is the name of the target in a store too.
pub fn target_label(app: &App) -> Arc<str> {
    visible(app.title.target.as_bytes()).into()
}

/// Measures for the alert rules, and for the store.
pub struct Meter {
    target: Arc<str>,
    own: Own,
}

impl Meter {
    pub fn of(app: &App) -> Meter {
        Meter { target: target_label(app), own: Own::new() }
    }

    /// Measures everything once, and records it if that was asked for.
    pub fn measure(&self, app: &mut App, engine: &Engine, chronicle: &mut Chronicle) -> Vec<Effect> {
        let mut moment = engine.moment(&self.target);
        if !chronicle.is_recording() {
            self.own.add_build(&mut moment);
            return app.update(Event::Moment(Box::new(moment)), engine.clock.now());
        }
        self.own.add(&mut moment);
        app.alerting.add(&mut moment);
        chronicle.add(&mut moment);
        let mut effects = app.update(Event::Moment(Box::new(moment.clone())), engine.clock.now());
        if let Some(event) = chronicle.write(engine, moment, app.alerting.changes()) {
            effects.extend(app.update(event, engine.clock.now()));
        }
        effects
    }
}

/// Composes the scene before it is drawn.
pub fn compose(app: &mut App, known: Known<'_>, others: Others) {
    let rows = views::list_rows(app);
    if !app.display.paused {
        app.scene.others = others;
    }
    app.compose(known.table, known.nodes.iter().copied(), known.now, rows);
    app.bound_scrolling(views::scroll_most(app), views::help_most(app));
}
