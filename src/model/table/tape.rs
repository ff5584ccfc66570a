//! Keeps the observations that the table gets, for a recorder. Nothing is kept until somebody asks for it.
//!
//! Bounded: an observation that finds no room is left out and counted. A replay applies them to another table in the same
//! order. That table reads no keys, since the answers are among the observations; in a long replay, drop what its
//! `to_read` returns now and then.

use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::Observation;
use crate::model::table::Table;

#[derive(Debug)]
pub(in crate::model) struct Tape {
    most: usize,
    kept: Vec<Observation>,
    left_out: u64,
}

impl Tape {
    pub fn push(&mut self, observation: Observation) {
        if self.kept.len() < self.most {
            self.kept.push(observation);
        } else {
            self.left_out += 1;
        }
    }
}

impl Table {
    /// Records from now on, at most this many observations until somebody takes them. The record begins with the nodes that
    /// are known; locks that are known already come with the next scan.
    pub fn record(&mut self, most: usize) {
        let known = self.nodes.iter().zip(0..).filter_map(|(state, node)| Some((state.as_ref()?, NodeId(node))));
        let owners = self.owners.iter().map(|owners| owners.observation(Time(i64::MIN)));
        let kept = known
            .flat_map(|(state, node)| state.observations(node))
            .chain(owners)
            .chain(self.deposed_observations())
            .collect();
        self.tape = Some(Tape { most, kept, left_out: 0 });
    }

    /// The observations since the last call, and how many were left out.
    pub fn take_recorded(&mut self) -> (Vec<Observation>, u64) {
        let Some(tape) = &mut self.tape else { return (Vec::new(), 0) };
        (std::mem::take(&mut tape.kept), std::mem::take(&mut tape.left_out))
    }
}
