//! What happens, step by step: made by chance from a seed, and shortened once it has shown a fault.

use std::fmt;

/// One thing that somebody does. Numbers are taken modulo what there is, so that any part of a sequence makes sense.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Acquire {
        client: u8,
        mode: u8,
        lease: u8,
        salt: u8,
    },
    Renew {
        client: u8,
        lease: u8,
    },
    Release {
        client: u8,
    },
    Promote {
        client: u8,
    },
    /// The time of the client's hold is over.
    Expire {
        client: u8,
    },
    /// The client never comes back; another process has its place.
    Crash {
        client: u8,
    },
    /// The operator looks and is asked for confirmation.
    Preview {
        slot: u8,
        key: u8,
        intent: Intent,
    },
    /// The operator confirms.
    Confirm {
        slot: u8,
    },
    /// Until the lease of everything that was freed is over, if that is soon.
    Wait,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    FreeAll,
    FreeOne(u8),
    Extend(u8, Option<u8>),
    /// Of what was freed, which; and whether the operator consents although nobody watched.
    Undo(u8, bool),
}

/// Numbers by chance, the same for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    fn small(&mut self) -> u8 {
        self.below(256) as u8
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Rounds of: clients at work, a look, clients at work, a confirmation, and often the same once more to undo it.
pub fn sequence(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    let taken = 1 + dice.below(3);
    (0..taken).for_each(|_| steps.push(acquire(dice)));
    for _ in 0..1 + dice.below(2) {
        let slot = dice.below(2) as u8;
        library(dice, &mut steps, 2);
        steps.push(Step::Preview { slot, key: dice.small(), intent: intent(dice) });
        library(dice, &mut steps, 4);
        if dice.chance(10) {
            steps.push(Step::Confirm { slot: 1 - slot });
        }
        steps.push(Step::Confirm { slot });
        if dice.chance(70) {
            library(dice, &mut steps, 4);
            let intent = Intent::Undo(if dice.chance(80) { 0 } else { dice.small() }, dice.chance(50));
            steps.push(Step::Preview { slot, key: 0, intent: intent.clone() });
            // Two of them ask for the same.
            if dice.chance(10) {
                steps.push(Step::Preview { slot: 1 - slot, key: 0, intent });
                steps.push(Step::Confirm { slot: 1 - slot });
            }
            library(dice, &mut steps, 2);
            if dice.chance(15) {
                steps.push(Step::Wait);
            }
            steps.push(Step::Confirm { slot });
        }
    }
    library(dice, &mut steps, 2);
    steps
}

fn intent(dice: &mut Dice) -> Intent {
    match dice.below(10) {
        0..=3 => Intent::FreeAll,
        4..=6 => Intent::FreeOne(dice.small()),
        7..=8 => Intent::Extend(dice.small(), dice.chance(30).then(|| dice.small())),
        _ => Intent::Undo(dice.small(), dice.chance(50)),
    }
}

/// Mostly the same one, so that what it holds comes into it again.
fn client(dice: &mut Dice) -> u8 {
    if dice.chance(50) { 0 } else { dice.small() }
}

fn acquire(dice: &mut Dice) -> Step {
    Step::Acquire { client: client(dice), mode: dice.small(), lease: dice.small(), salt: dice.small() }
}

fn library(dice: &mut Dice, steps: &mut Vec<Step>, most: u64) {
    for _ in 0..dice.below(most + 1) {
        let client = client(dice);
        steps.push(match dice.below(100) {
            0..=34 => acquire(dice),
            35..=54 => Step::Release { client },
            55..=66 => Step::Renew { client, lease: dice.small() },
            67..=76 => Step::Promote { client },
            77..=88 => Step::Expire { client },
            89..=93 => Step::Wait,
            _ => Step::Crash { client },
        });
    }
}

/// The shortest part of the sequence that still fails in the same way, found by leaving out and making plainer.
pub fn shrink(mut steps: Vec<Step>, mut fails: impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    loop {
        let before = steps.clone();
        let mut size = steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < steps.len() {
                let mut shorter = steps.clone();
                shorter.drain(at..(at + size).min(steps.len()));
                if fails(&shorter) {
                    steps = shorter;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        for at in 0..steps.len() {
            for plainer in plainer(&steps[at]) {
                let mut changed = steps.clone();
                changed[at] = plainer;
                if fails(&changed) {
                    steps = changed;
                    break;
                }
            }
        }
        if steps == before {
            return steps;
        }
    }
}

/// The same step with smaller numbers.
fn plainer(step: &Step) -> Vec<Step> {
    match *step {
        Step::Acquire { client, mode, lease, salt } => {
            let mut all = Vec::new();
            let changed = |client, mode, lease, salt| Step::Acquire { client, mode, lease, salt };
            all.extend((client > 2).then(|| changed(client % 3, mode, lease, salt)));
            all.extend((salt > 0).then(|| changed(client, mode, lease, 0)));
            all.extend((lease > 1).then(|| changed(client, mode, 1, salt)));
            all.extend((mode > 0).then(|| changed(client, 0, lease, salt)));
            all
        }
        Step::Preview { slot, key, intent: Intent::FreeOne(which) } if which > 0 => {
            vec![Step::Preview { slot, key, intent: Intent::FreeOne(0) }]
        }
        _ => Vec::new(),
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Intent::FreeAll => f.write_str("free it"),
            Intent::FreeOne(which) => write!(f, "free one holder ({which})"),
            Intent::Extend(..) => f.write_str("extend it"),
            Intent::Undo(_, true) => f.write_str("undo, watched or not"),
            Intent::Undo(_, false) => f.write_str("undo"),
        }
    }
}
