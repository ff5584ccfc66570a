//! Keeps what the table was told, for whoever records it. Nothing is kept until somebody asks for it.
//!
//! Bounded: what finds no room is left out and counted. A table that is told the same in the same order shows the same
//! locks; it need not ask for looks, since the answers are among what it is told.

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
    /// Keeps what it is told from now on, at most this much until somebody takes it. Begins with the nodes that are known;
    /// locks that are known already come with the next walk.
    pub fn record(&mut self, most: usize) {
        let known = self.nodes.iter().zip(0..).filter_map(|(state, node)| Some((state.as_ref()?, NodeId(node))));
        let kept = known.flat_map(|(state, node)| state.observations(node)).collect();
        self.tape = Some(Tape { most, kept, left_out: 0 });
    }

    /// What it was told since the last call, and how much more was left out.
    pub fn take_recorded(&mut self) -> (Vec<Observation>, u64) {
        let Some(tape) = &mut self.tape else { return (Vec::new(), 0) };
        (std::mem::take(&mut tape.kept), std::mem::take(&mut tape.left_out))
    }
}
