//! Small wrongs in the evaluator, by name, so that a test can show that it would see them.
//!
//! A comparison with promtool proves nothing if it passes with a wrong evaluator too. Only debug builds have the switch,
//! and only code of the same thread reaches it; a release build is always right.

/// One thing that the evaluator does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// `for` must be passed, not reached.
    For,
    /// An alert is kept one evaluation too long.
    Keep,
    /// The recovery level is not looked at.
    Recovery,
    /// A series that ended counts until the lookback is over.
    Stale,
    /// An increase is not extrapolated.
    Extrapolation,
    /// An alert does not stay while its target is out of sight.
    Stay,
    /// A counter that fell is not seen.
    Reset,
    /// A replay passes over one evaluation too many. The evaluator itself does not do that.
    Passing,
}

impl Mutation {
    /// Those of the evaluator.
    pub const ALL: [Mutation; 7] = [
        Mutation::For,
        Mutation::Keep,
        Mutation::Recovery,
        Mutation::Stale,
        Mutation::Extrapolation,
        Mutation::Stay,
        Mutation::Reset,
    ];
}

#[cfg(debug_assertions)]
thread_local! {
    static WRONG: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Does this one thing wrong from now on, in this thread; `None` does everything right again.
#[cfg(debug_assertions)]
pub fn mutate(wrong: Option<Mutation>) {
    WRONG.with(|cell| cell.set(wrong));
}

/// Whether this is done wrong.
#[cfg(debug_assertions)]
pub(super) fn is(wrong: Mutation) -> bool {
    WRONG.with(|cell| cell.get() == Some(wrong))
}

#[cfg(not(debug_assertions))]
pub(super) fn is(_wrong: Mutation) -> bool {
    false
}
