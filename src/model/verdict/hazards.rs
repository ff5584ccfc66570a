//! What of a server's settings can cost a lock, as far as a verdict needs it.

use serde::{Deserialize, Serialize};

use crate::base::serial;
use crate::base::server_text::ServerText;

/// What happens to keys when the server's memory is full.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Eviction {
    /// Not known, or nothing is ever dropped.
    #[default]
    None,
    /// Keys are dropped by this policy. The second value is the share of the allowed memory that is used, 0 to 1.
    By {
        policy: ServerText,
        #[serde(with = "serial::float")]
        full: f64,
    },
}

/// The hazards of one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Hazards {
    pub eviction: Eviction,
}

impl Hazards {
    /// For a server with this policy, `used` bytes in use, and a limit of `max` bytes; 0: no limit.
    pub fn of_memory(policy: &ServerText, used: u64, max: u64) -> Hazards {
        let drops = max > 0 && *policy != "noeviction";
        let full = used as f64 / max.max(1) as f64;
        Hazards { eviction: if drops { Eviction::By { policy: policy.clone(), full } } else { Eviction::None } }
    }
}
