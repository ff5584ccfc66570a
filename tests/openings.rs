//! lockscope opened at random moments beside a crew that uses the locks of all libraries at once.
//!
//! In health, nothing that it says may be untrue: no orphan, nothing stalled or split, no finding. With accidents, what
//! it says with confidence must be true. The truth is the crew's own book. `make soak` runs ten minutes with 200
//! openings: `LOCKSCOPE_OPENINGS` is their number, `LOCKSCOPE_OPENINGS_SECONDS` the time, `LOCKSCOPE_SEED` the seed.

mod common;
mod crew;
mod models;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Feed;
use crew::{Book, Calibration, Crew, Dice, Fortune, Reals, Said, opening};

/// How large a run is.
struct Size {
    openings: usize,
    time: Duration,
    seed: u64,
}

impl Size {
    fn from_environment() -> Size {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|why| panic!("{name} is a number: {why}")))
        };
        let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
        Size {
            openings: number("LOCKSCOPE_OPENINGS").unwrap_or(20) as usize,
            time: Duration::from_secs(number("LOCKSCOPE_OPENINGS_SECONDS").unwrap_or(12)),
            seed: number("LOCKSCOPE_SEED").unwrap_or_else(clock),
        }
    }

    fn is_short(&self) -> bool {
        self.time < Duration::from_secs(60)
    }
}

/// Runs a crew and opens lockscope beside it: what was said, and the book.
fn open_beside(size: &Size, fortune: Fortune) -> (Vec<Said>, Arc<Book>) {
    println!("LOCKSCOPE_SEED={} plays this again: {} openings in {:?}", size.seed, size.openings, size.time);
    let server = Arc::new(Feed::Notifications.server());
    let began = Instant::now();
    let crew = Crew::start(&server, size.seed, fortune, if size.is_short() { Reals::Few } else { Reals::All });
    let longest = Duration::from_secs(if size.is_short() { 8 } else { 40 });
    let plan = opening::plan(size.openings, size.time, longest, &mut Dice::new(size.seed, 0));
    let url = server.url();
    let said = std::thread::scope(|scope| {
        let threads: Vec<_> = plan
            .iter()
            .map(|opening| {
                std::thread::sleep((began + opening.at).saturating_duration_since(Instant::now()));
                scope.spawn(|| opening.run(&url))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("an opening goes well")).collect::<Vec<_>>()
    });
    let book = crew.book.clone();
    // What real processes did is entered when they end.
    drop(crew);
    println!("{} locks, {} holds, {} things said", book.locks(), book.turns(), said.len());
    (said, book)
}

/// What was said and is not true, each lock and word once, with what the book says.
fn untrue(said: &[Said], book: &Book, counts: impl Fn(&Said) -> bool) -> BTreeMap<String, String> {
    let wrong = said.iter().filter(|one| counts(one) && !book.is_true(&one.key, &one.word, one.window));
    let mut all = BTreeMap::new();
    for one in wrong {
        let when = if one.first { "at first" } else { "later" };
        let tell = || {
            let story = book.story(&one.key, one.window);
            format!("opening {} {when}, {:.2}: {}\n    but: {story}", one.opening, one.confidence, one.sentence)
        };
        all.entry(format!("{} {}", one.key.escape_ascii(), one.word)).or_insert_with(tell);
    }
    all
}

fn check_calibration(said: &[Said], book: &Book) {
    let mut calibration = Calibration::default();
    calibration.add(said, book);
    println!("{calibration}");
    println!("not true: {:#?}", untrue(said, book, |_| true));
    let wrong = calibration.overconfident();
    assert!(wrong.is_empty(), "told with 0.9 or more, and less than nine in ten are true: {wrong:?}\n{:#?}", {
        let mut examples = untrue(said, book, |one| one.confidence >= 0.9);
        examples
            .retain(|name, _| wrong.iter().any(|word| word == "all together" || name.ends_with(&format!(" {word}"))));
        examples
    });
}

#[test]
fn health_opened_at_any_moment_shows_nothing_that_is_not_true() {
    let size = Size::from_environment();
    let (said, book) = open_beside(&size, Fortune::Health);
    assert!(said.len() > size.openings * 10, "only {} things were said", said.len());
    let strangers: Vec<String> =
        said.iter().filter(|one| !book.knows(&one.key)).map(|one| one.key.escape_ascii().to_string()).collect();
    assert!(strangers.is_empty(), "nobody has such locks: {strangers:?}");
    let trouble = |one: &Said| {
        let usual = matches!(one.word.as_str(), "held" | "free" | "done");
        let suspected = one.word == "orphan-suspected" && book.may_be_suspected(&one.key, one.window);
        !usual && !suspected
    };
    let wrong = untrue(&said, &book, trouble);
    assert!(wrong.is_empty(), "seed {}: {wrong:#?}", size.seed);
    check_calibration(&said, &book);
}

#[test]
fn what_is_told_with_confidence_while_processes_die_is_true() {
    let size = Size::from_environment();
    let (said, book) = open_beside(&size, Fortune::Accidents);
    check_calibration(&said, &book);
}
