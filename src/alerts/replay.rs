//! Replay: what a rule would have done over a history, and what another threshold would have done. Pure.
//!
//! A [`Track`] has the values of one alert at the times of a [`Grid`]; from a store by [`Watched::tracks`], or from what a
//! Prometheus answers. It is made once. [`Tracks::replay`] then runs the one state machine over it for any [`Condition`], and
//! passes over what can't change anything, so that a threshold can be moved by hand: [`Tracks::prepare`] says where to look.
//!
//! [`Watched::tracks`]: super::Watched::tracks
//! [`Condition`]: super::Condition

mod grid;
mod lasting;
mod near;
mod outcome;
mod track;
mod walk;

pub use grid::Grid;
pub use outcome::{Delay, Episode, Kind, MOST_EPISODES, Outcome};
pub(in crate::alerts) use track::Pieces;
pub use track::{Shape, Track, Tracks};

#[cfg(test)]
mod tests;
