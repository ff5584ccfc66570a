//! Sentences on how the nodes are watched, each time that changes. For `watch` and the daemon, which have no screen.

use std::collections::BTreeMap;

use super::{Engine, Stream};
use crate::lock::NodeId;

/// What was told already.
#[derive(Debug)]
pub struct News {
    /// The last sentence, and whether it was that the node is away.
    said: BTreeMap<NodeId, (String, bool)>,
    /// Reported as lost; `None`: some, and nobody counted them.
    lost: Option<u64>,
}

impl Default for News {
    fn default() -> News {
        News { said: BTreeMap::new(), lost: Some(0) }
    }
}

impl News {
    /// Tells what changed since the last call.
    pub fn tell(&mut self, engine: &Engine, mut say: impl FnMut(&str)) {
        for node in engine.nodes() {
            let note = node.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
            let (away, sentence) = match &node.stream {
                Stream::Reconnecting { why, .. } => (true, format!("lost {}, reconnecting: {why}", node.name)),
                Stream::Silent { since, .. } => {
                    (true, format!("{} does not answer since {}", node.name, since.rfc3339()))
                }
                Stream::Refusing { .. } => {
                    let why = node.refusal().unwrap_or_default();
                    (true, format!("{why}; what is shown of its locks is from before"))
                }
                Stream::Live(_) => (false, format!("watching {} by {}{note}", node.name, node.stream.name())),
                Stream::Off | Stream::Starting => continue,
            };
            match self.said.insert(node.id, (sentence.clone(), away)) {
                Some((before, _)) if before == sentence => {}
                Some((_, true)) if !away => say(&format!("{} answers again: {sentence}", node.name)),
                _ => say(&sentence),
            }
        }
        let lost: Option<u64> = engine.nodes().map(|node| node.lost).sum();
        // Less are known when a node has left.
        let new = lost.zip(self.lost).map(|(lost, before)| lost.saturating_sub(before));
        if lost != self.lost && new != Some(0) {
            let new = new.map(|new| format!("{new} ")).unwrap_or_default();
            say(&format!("{new}events came too fast and were lost; reading everything again"));
        }
        self.lost = lost;
    }
}
