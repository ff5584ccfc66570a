//! Connects the app and the world: events go in, effects come out.
//!
//! The loop, the README's pictures and the stage of the unit tests all drive the app through here, so that tests get
//! the same answers as the console. Effects that the table can answer are answered at once; the world does the rest
//! ([`World::carry_out`]).

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;

use crate::actions::{Action, Kept, Performed, Plan, Refusal};
use crate::app::{App, Effect, Event, LockId, Since, Wish};
use crate::base::time::Time;
use crate::engine::{Engine, NodeStatus, Reader};
use crate::lock::KeyspaceId;
use crate::model::{LockView, State, Table};
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

    fn since(&self, kept: &Kept) -> Since {
        let lock = self.table.lock_named(KeyspaceId::FIRST, &kept.key.0);
        let node = lock.and_then(|lock| self.nodes.iter().find(|node| node.id == lock.node));
        Since::of(kept, self.table, node.and_then(|node| node.watched_since), self.now)
    }

    /// The first undo whose lock was held by others since its release, perhaps while the question was open.
    fn spoiled(&self, plans: &[Plan], recalled: Option<&Kept>) -> Option<(Plan, String)> {
        plans.iter().find_map(|plan| {
            let kept = recalled.filter(|kept| plan.action == Action::Undo(kept.id().to_string()))?;
            match self.since(kept) {
                Since::Held(why) => Some((plan.clone(), why)),
                Since::Nobody | Since::Unwatched(_) => None,
            }
        })
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
                let held = locks.filter(|lock| lock.verdict.state != State::Free).collect();
                events.extend(world.prove(wish, held));
            }
            Effect::Retrace(kept) => {
                let since = known.since(&kept);
                events.push(Event::Retraced(kept, since));
            }
            Effect::Perform(plans, reason) => match known.spoiled(&plans, app.writing.recalled.as_deref()) {
                Some((plan, why)) => {
                    let refused = Performed::refused(String::new(), Refusal::Moved(why));
                    events.extend([Event::Performed(Box::new(plan), Box::new(refused)), Event::AllPerformed]);
                }
                None => match world.carry_out(Effect::Perform(plans, reason), app)? {
                    ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
                    ControlFlow::Continue(event) => events.extend(event),
                },
            },
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

/// Composes the scene before it is drawn.
pub fn compose(app: &mut App, known: Known<'_>) {
    let rows = views::list_rows(app);
    app.compose(known.table, known.nodes.iter().copied(), known.now, rows);
    app.bound_scrolling(views::scroll_most(app), views::help_most(app));
}
