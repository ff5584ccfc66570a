//! Many sequences of many subjects on a few threads, each with a server of its own.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::run::{Fault, Stage, Tally};
use super::sequence::{Dice, Step, sequence, shrink};
use super::stall::{self, Stall};
use super::subjects::Subject;

/// How many sequences, and from which seed.
#[derive(Clone, Copy)]
pub struct Size {
    pub sequences: u64,
    pub seed: u64,
}

impl Size {
    /// As many as the variable says, from `LOCKSCOPE_SEED`, where they are given.
    pub fn from_environment(sequences: u64, variable: &str) -> Size {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Size { sequences: number(variable).unwrap_or(sequences), seed: number("LOCKSCOPE_SEED").unwrap_or(1) }
    }
}

/// A fault with the shortest sequence that shows it.
pub struct Found {
    pub subject: &'static str,
    pub seed: u64,
    pub fault: Fault,
    pub steps: Vec<Step>,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.subject, self.fault.what)?;
        self.fault.transcript.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        writeln!(f, "  LOCKSCOPE_SEED={} LOCKSCOPE_SEQUENCES=1 LOCKSCOPE_SUBJECT={:?}", self.seed, self.subject)
    }
}

impl Found {
    pub fn kind(&self) -> String {
        kind(&self.fault)
    }
}

/// What kind of fault it is: its words without the names in it.
fn kind(fault: &Fault) -> String {
    let words = fault.what.split([' ', ',', ':']).filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
    words.take(4).collect::<Vec<_>>().join(" ")
}

/// The steps of one sequence: the same for the same subject and seed.
pub fn steps(subject: &Subject, seed: u64) -> Vec<Step> {
    let name = subject.name.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte as u64));
    sequence(&mut Dice::new(name.wrapping_mul(1_000_003).wrapping_add(seed)))
}

/// A sequence that was played again, since real time passed where the models have none pass.
pub struct Replayed {
    pub subject: &'static str,
    pub seed: u64,
    /// Why each of the runs did not count.
    pub stalls: Vec<Stall>,
}

impl std::fmt::Display for Replayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why: Vec<String> = self.stalls.iter().map(Stall::to_string).collect();
        write!(f, "{} (seed {}: {})", self.subject, self.seed, why.join("; "))
    }
}

/// Plays one sequence. A fault that is not `known` comes back with the shortest sequence that shows it.
pub fn play(
    stage: &mut Stage,
    subject: &'static Subject,
    seed: u64,
    known: impl Fn(&str) -> bool,
) -> (Result<Tally, Option<Found>>, Option<Replayed>) {
    let steps = steps(subject, seed);
    let (played, stalls) = stall::settle(|| stage.play(subject, &steps));
    let replayed = (!stalls.is_empty()).then_some(Replayed { subject: subject.name, seed, stalls });
    let played = played.map_err(|fault| {
        let wanted = kind(&fault);
        if known(&wanted) {
            return None;
        }
        let is_it = |fault: Fault| fault.stall.is_none() && kind(&fault) == wanted;
        let steps = shrink(steps, |steps| stage.play(subject, steps).is_err_and(is_it));
        let fault = stage.play(subject, &steps).err().filter(|fault| fault.stall.is_none()).unwrap_or(fault);
        Some(Found { subject: subject.name, seed, fault, steps })
    });
    (played, replayed)
}

/// What came of a run.
#[derive(Default)]
pub struct Report {
    pub tallies: BTreeMap<&'static str, Tally>,
    pub found: Vec<Found>,
    pub replayed: Vec<Replayed>,
}

/// Runs the sequences of each subject; one fault of a kind for each subject is enough.
pub fn run(subjects: &[&'static Subject], size: Size) -> Report {
    const PORTION: u64 = 50;
    let kinds = |dialect: &str| subjects.iter().filter(|other| other.dialect == dialect).count() as u64;
    let jobs: Vec<(&'static Subject, std::ops::Range<u64>)> = subjects
        .iter()
        .flat_map(|subject| {
            let count = size.sequences.div_ceil(kinds(subject.dialect));
            (0..count).step_by(PORTION as usize).map(move |from| (*subject, from..(from + PORTION).min(count)))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Report::default());
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get()).min(4);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (next, results, jobs) = (&next, &results, &jobs);
            scope.spawn(move || {
                let mut stage = Stage::new(number);
                while let Some((subject, range)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let known = |kind: &str| {
                        let results = results.lock().expect("no panic");
                        results.found.iter().any(|found| found.subject == subject.name && found.kind() == kind)
                    };
                    for number in range.clone() {
                        let (played, replayed) = play(&mut stage, subject, size.seed + number, known);
                        let mut results = results.lock().expect("no panic");
                        results.replayed.extend(replayed);
                        match played {
                            Ok(tally) => results.tallies.entry(subject.name).or_default().add(&tally),
                            Err(found) => results.found.extend(found),
                        }
                    }
                }
            });
        }
    });
    results.into_inner().expect("no panic")
}
