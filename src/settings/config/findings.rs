//! The `[findings]` of a config, at the top or in a target: silenced findings and changed thresholds.

use crate::base::fault::Fault;
use crate::base::nearest;
use crate::base::section::Section;
use crate::model::{KNOBS, Knob, Tuning, findings};

pub(super) const KEY: &str = "findings";
const SILENCE: &str = "silence";

/// One change to the default findings.
#[derive(Clone, Copy)]
pub enum Tweak {
    Silence(&'static str),
    Set(&'static Knob, f64),
}

impl std::fmt::Debug for Tweak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tweak::Silence(name) => write!(f, "silence {name}"),
            Tweak::Set(knob, value) => write!(f, "{}.{} = {value}", knob.finding, knob.key),
        }
    }
}

/// The thresholds after applying these in order.
pub fn tuned<'a>(tweaks: impl Iterator<Item = &'a Tweak>) -> Tuning {
    let mut tuning = Tuning::default();
    for tweak in tweaks {
        match tweak {
            Tweak::Silence(name) => tuning.silence(name),
            Tweak::Set(knob, value) => tuning.set(knob, *value),
        }
    }
    tuning
}

/// The table `findings` of this section.
pub(super) fn read(of: &Section<'_>) -> Result<Vec<Tweak>, Fault> {
    let mut known = vec![SILENCE];
    known.extend(KNOBS.iter().map(|knob| knob.finding));
    known.dedup();
    let Some(section) = of.table(KEY, &known)? else { return Ok(Vec::new()) };
    let mut tweaks = section.texts_as(SILENCE, silenced)?;
    for name in section.keys().into_iter().filter(|name| name != SILENCE) {
        let knobs = || KNOBS.iter().filter(|knob| knob.finding == name);
        let keys: Vec<&str> = knobs().map(|knob| knob.key).collect();
        let Some(section) = section.table(&name, &keys)? else { continue };
        for knob in knobs() {
            tweaks.extend(section.number(knob.key)?.map(|value| Tweak::Set(knob, value)));
        }
    }
    Ok(tweaks)
}

fn silenced(name: &str) -> Result<Tweak, String> {
    let known = findings::names().find(|known| *known == name);
    known.map(Tweak::Silence).ok_or_else(|| {
        let hint = nearest::hint(name, findings::names());
        format!("there is no finding {name:?}{hint}")
    })
}
