//! A rule with an hour of history, as it is after loading: three episodes and a near miss of one pattern, and a spike of another.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::alerts::replay::{Grid, Shape, Track, Tracks};
use crate::alerts::{Condition, Rules};
use crate::base::time::Time;
use crate::tune::{Coverage, Hole, Labelled, Logged, Subject, Trial};

pub const START: i64 = 1_763_013_600_000;
pub const RULE: &str = "LockManyWaiters";

fn orders(second: u32) -> f64 {
    match second {
        600..780 => 6.0,
        780..900 => 9.0,
        1_500..1_740 => 5.0,
        2_000..2_115 => 6.0,
        2_400..2_760 => 8.0,
        _ => 1.0,
    }
}

/// The rule `LockManyWaiters`: above 4 for 2m.
pub fn trial() -> Trial {
    let grid = Grid::new(Time(START), Duration::from_secs(5), 720);
    let gap = 3_300..3_420;
    let track = |pattern: &str, value: fn(u32) -> f64| {
        let labels =
            [("target", "prod"), ("pattern", pattern)].map(|(name, value)| (name.to_string(), value.to_string()));
        let seconds = (0..grid.count).map(|index| index * 5);
        let numbers = seconds.map(|second| Some(value(second)).filter(|_| !gap.contains(&second)));
        Track::new(BTreeMap::from(labels), Shape::Level, grid, numbers)
    };
    let stock = |second: u32| if (3_000..3_010).contains(&second) { 12.0 } else { 3.0 };
    let tracks = Tracks::new(grid, vec![track("order:*", orders), track("stock:*", stock)]);
    let rules = Rules::default_rules();
    let at = |second: i64| Time(START + second * 1_000);
    Trial::new(Subject {
        rule: RULE.into(),
        severity: "page".into(),
        expression: "lockscope_waiters_max".into(),
        metric: "lockscope_waiters_max".into(),
        condition: Condition::from(rules.named(RULE).expect("a default rule")),
        fixed: None,
        calibration: None,
        labels: Labelled::new(Vec::new(), &tracks.tracks),
        logged: Logged::default(),
        tracks,
        coverage: Coverage {
            from: at(0),
            to: at(3_595),
            recorded: Duration::from_secs(3_475),
            holes: vec![Hole { from: at(3_300), to: at(3_420), why: "lockscope did not run".into() }],
            steps: vec![(at(0), Duration::from_secs(1))],
            measured: None,
            coarser: false,
        },
        unscraped: None,
        warning: None,
    })
}
