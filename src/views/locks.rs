//! The list of locks.
//!
//! ```text
//!   STATE   KEY                    LIBRARY    HOLDER           HELD    TTL             RENEWALS
//!  ▌NO-TTL  job:nightly            redis-py   worker-7         3d04h   never           -
//!   HELD    lock:invoice:17        redisson   9c1e…0b          41s     █████░░ 19.7s   │││││·  1 missed
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::paint;
use super::part::{self, fit, fit_right};
use super::row::Row;
use super::wrap::wrap;
use crate::app::App;
use crate::lock::Kind;
use crate::model::Column;
use crate::model::LockView;
use crate::output::columns;
use crate::settings::keys::Command;

/// The widths of the columns. A column of width 0 is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Widths {
    state: usize,
    key: usize,
    library: usize,
    holder: usize,
    bar: usize,
    renewals: usize,
    fail: usize,
    wait: usize,
}

const STATE: usize = 9;
/// ` !2`: how many findings there are beside the state.
const FINDINGS: usize = 3;
const HELD: usize = 8;
const TTL: usize = 7;
const FAIL: usize = 7;
const WAIT: usize = 4;
/// A key gets this much before anything that can be done without.
const KEY: usize = 30;
/// In a narrower window even what is known of waiters and failures can be done without.
const NARROW: usize = 80;

/// What the rows in sight have to show.
#[derive(Clone, Copy, Default)]
struct Wants {
    findings: bool,
    /// Not all of them are of one library.
    libraries: bool,
    fail: bool,
    wait: bool,
}

impl Wants {
    fn of(rows: &[LockView]) -> Wants {
        Wants {
            findings: rows.iter().any(|lock| !lock.findings.is_empty()),
            libraries: rows.windows(2).any(|pair| columns::library(&pair[0]) != columns::library(&pair[1])),
            fail: rows.iter().any(|lock| lock.tries.is_some()),
            wait: rows.iter().any(|lock| lock.waits.is_some() || lock.wanted.is_some() || lock.demand.is_any()),
        }
    }
}

impl Widths {
    fn of(width: usize, wants: Wants) -> Widths {
        let state = STATE + if wants.findings { FINDINGS } else { 0 };
        // Where there is room enough, it is also told that nothing is known.
        let always = width >= NARROW;
        let fail = if wants.fail && always || width >= 130 { FAIL } else { 0 };
        let wait = if wants.wait && always || width >= 100 { WAIT } else { 0 };
        let mut widths = Widths { state, key: 0, library: 0, holder: 8, bar: 0, renewals: 0, fail, wait };
        let mut room = width.saturating_sub(widths.taken() + KEY + 1);
        // Widens a column by this much, if there is room.
        let mut give = |column: &mut usize, to: usize| {
            let costs = (to - *column) + usize::from(*column == 0);
            if costs <= room {
                (*column, room) = (to, room - costs);
            }
        };
        if wants.wait && !always {
            give(&mut widths.wait, WAIT);
        }
        if wants.fail && !always {
            give(&mut widths.fail, FAIL);
        }
        if wants.libraries {
            give(&mut widths.library, 9);
        }
        give(&mut widths.holder, 13);
        give(&mut widths.renewals, 10);
        give(&mut widths.bar, 7);
        if widths.library > 0 {
            give(&mut widths.library, 17);
        }
        if widths.renewals > 0 {
            give(&mut widths.renewals, 14);
        }
        // The rest belongs to names: keys first, then whole tokens.
        let spare = room.saturating_sub(12);
        widths.holder += spare.min(WHOLE_TOKEN - widths.holder);
        widths.key = width.saturating_sub(widths.taken());
        widths
    }

    /// Takes a column away and gives its room to the keys. `None`: nothing is left that can be done without.
    fn with_longer_keys(mut self) -> Option<Widths> {
        let others =
            [&mut self.renewals, &mut self.bar, &mut self.library, &mut self.fail, &mut self.wait, &mut self.holder];
        let column = others.into_iter().find(|width| **width > 0)?;
        self.key += std::mem::take(column) + 1;
        Some(self)
    }

    /// What all columns but the key take, each with the space behind it, and the sign in front.
    fn taken(&self) -> usize {
        let others = [self.state, self.library, self.holder, HELD, self.bar, TTL, self.renewals, self.fail, self.wait];
        1 + others.iter().map(|width| width + usize::from(*width > 0)).sum::<usize>()
    }
}

/// The longest tokens that are worth their room: the id and the thread of Redisson.
const WHOLE_TOKEN: usize = 40;

/// The widths, and the keys as they are shown. Where keys look the same, other columns give way to them.
fn fit_keys(app: &App, width: usize) -> (Widths, Vec<String>) {
    let mut widths = Widths::of(width, Wants::of(&app.scene.rows));
    let names: Vec<String> = app.scene.rows.iter().map(|lock| part::key(&lock.key, app.theme)).collect();
    loop {
        let (keys, apart) = part::fit_keys(&names, widths.key, app.theme);
        match widths.with_longer_keys() {
            Some(longer) if !apart => widths = longer,
            _ => return (widths, keys),
        }
    }
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let (widths, keys) = fit_keys(app, usize::from(area.width));
    let mut lines = vec![heading(app, &widths)];
    if app.scene.rows.is_empty() {
        lines.push(Line::raw(""));
        let why = nothing(app);
        let why = why.iter().flat_map(|text| wrap(text, usize::from(area.width).saturating_sub(4)));
        lines.extend(why.map(|text| Line::styled(format!("  {text}"), app.theme.dim())));
    }
    for (index, (lock, key)) in app.scene.rows.iter().zip(keys).enumerate() {
        let selected = app.scene.cursor == Some(app.scene.first + index);
        lines.push(row(app, lock, key, selected, &widths));
    }
    paint::lines(frame, lines, area);
}

/// Why the list is empty, and what to do about it.
fn nothing(app: &App) -> Vec<String> {
    let scene = &app.scene;
    if let Some(why) = scene.nodes.iter().find_map(|node| node.refusal.as_ref()).filter(|_| scene.total == 0) {
        return vec![part::safe(&format!("No lock can be read: {why}."), app.theme)];
    }
    if scene.total > 0 && app.list.filter.is_none() {
        return vec!["Nobody holds any of them right now; '/' and state:free lists them.".into()];
    }
    if scene.total > 0 {
        return vec![format!("No lock matches the filter; {} clears it.", app.key_of(Command::Back))];
    }
    if app.is_ordering() || scene.nodes.iter().any(|node| node.scanned_ago.is_none()) {
        return vec!["Looking for locks.".into()];
    }
    vec![
        "No locks here right now. They appear as soon as somebody takes one.".into(),
        "If there should be some, 'lockscope discover' finds keyspaces that look like locks.".into(),
    ]
}

fn heading(app: &App, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut text = String::new();
    let mut title = |column: Column, width: usize, right: bool| {
        let here = app.list.order.column == column;
        let arrow = if here { theme.order(app.list.order.reversed) } else { "" };
        let title = format!("{}{arrow}", column.title());
        match (width, right) {
            (0, _) => {}
            // The arrow may take the space between the columns.
            (width, true) => text.push_str(&fit_right(&title, width + 1, theme)),
            (width, false) => text.push_str(&format!(" {}", fit(&title, width, theme))),
        }
    };
    title(Column::State, widths.state, false);
    title(Column::Key, widths.key, false);
    title(Column::Library, widths.library, false);
    title(Column::Holder, widths.holder, false);
    title(Column::Held, HELD, true);
    title(Column::Ttl, TTL + widths.bar + usize::from(widths.bar > 0), true);
    title(Column::Renewals, widths.renewals, false);
    title(Column::Fail, widths.fail, true);
    title(Column::Wait, widths.wait, true);
    Line::styled(text, theme.title())
}

fn row(app: &App, lock: &LockView, key: String, selected: bool, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut row = Row::new(app, lock, selected);
    let state = if lock.stale { "stale".into() } else { lock.state_label() };
    let state = match lock.findings.len() {
        0 => state.to_string(),
        count => format!("{state} !{count}"),
    };
    row.styled(fit(&state, widths.state, theme), theme.state(lock.verdict.state));
    row.cell(key);
    row.cell(fit(&columns::library(lock), widths.library, theme));
    // Who holds what is well again matters less than what it was.
    let better = app.scene.was(lock).filter(|was| was.is_worse_than(lock));
    row.cell(match better {
        Some(was) => part::fit_was(was, widths.holder, theme),
        None => part::fit_holders(app, lock, widths.holder),
    });
    row.cell(fit_right(&part::held(lock, theme), HELD, theme));
    let share = part::share_left(lock);
    let bar = share.map_or(" ".repeat(widths.bar), |share| theme.bar(share, widths.bar));
    // Nobody holds a marker: it may end whenever it ends.
    let share = share.filter(|_| lock.kind == Kind::Lock);
    row.styled(bar, share.map_or(Style::new(), |share| theme.lease(share)));
    row.cell(fit_right(&columns::ttl(lock), TTL, theme));
    let (strip, missed) = part::heartbeat(lock, widths.renewals, theme);
    row.styled(fit(&strip, widths.renewals, theme), if missed.is_some() { theme.warning() } else { Style::new() });
    if widths.fail > 0 {
        let failing = lock.tries.is_some_and(|tries| tries.failures > 0);
        let style = if failing { theme.warning() } else { Style::new() };
        row.styled(fit_right(&columns::fail(lock), widths.fail, theme), style);
    }
    if widths.wait > 0 {
        let many = lock.waits.is_some_and(|waits| waits.count > 0);
        let text = part::safe(&columns::wait(lock), theme);
        row.styled(fit_right(&text, widths.wait, theme), if many { theme.warning() } else { Style::new() });
    }
    row.line()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testkit::stage::Stage;

    #[test]
    fn a_key_has_its_room_before_what_can_be_done_without() {
        let busy = Wants { findings: true, libraries: true, fail: true, wait: true };
        for wants in [Wants::default(), busy] {
            for width in 80..240 {
                let widths = Widths::of(width, wants);
                assert_eq!(widths.key + widths.taken(), width, "{widths:?}");
                let more = widths.library + widths.bar + widths.renewals;
                assert!(widths.key >= KEY || more == 0, "{width}: {widths:?}");
                assert!(widths.key + 4 >= KEY, "{width}: {widths:?}");
                assert!(widths.fail > 0 || !wants.fail, "at {width}");
                assert!(widths.wait > 0 || !wants.wait, "at {width}");
            }
        }
    }

    #[test]
    fn a_narrow_screen_keeps_twenty_columns_for_the_key() {
        let busy = Wants { findings: true, libraries: true, fail: true, wait: true };
        for width in 60..80 {
            let widths = Widths::of(width, busy);
            assert_eq!(widths.key + widths.taken(), width, "{widths:?}");
            assert!(widths.key >= 20, "{width}: {widths:?}");
        }
    }

    #[test]
    fn a_library_that_all_share_has_no_column() {
        let mut stage = Stage::new();
        stage.resize(140, 24);
        for key in ["lock:a", "lock:b"] {
            stage.acquire(key, "t", 60_000);
        }
        let screen = stage.screen();
        assert!(!screen.contains("LIBRARY") && screen.contains("HOLDER"), "{screen}");
        stage.acquire_redisson("lock:c", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
        stage.pass(2_000);
        assert!(stage.screen().contains("LIBRARY"), "{}", stage.screen());
    }

    /// One inside the other, to this depth. Equal parts would look the same however they are cut.
    fn nested(deep: usize) -> String {
        let parts: Vec<String> = (0..deep).map(|level| format!("level-{level}:")).collect();
        format!("lock:{}end", parts.concat())
    }

    /// Names as services make them: long, with what differs at the beginning, in the middle, at the end, or nested.
    fn names() -> impl Strategy<Value = BTreeSet<String>> {
        let service = prop::sample::select(&["orders-service", "orders-worker", "billing", "b"][..]);
        let what = prop::sample::select(&["invoice:lock", "invoice:refund:lock", "lock", ""][..]);
        let one = prop_oneof![
                    4 => (service, 0..400u32, what)
                        .prop_map(|(a, id, b)| format!("lock:production:eu-west-1:{a}:tenant:{id:04}:{b}")),
        2 => (0..40usize).prop_map(nested),
                    1 => "lock:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{12}",
                    1 => "lock:锁{0,30}[a-z]",
                ];
        prop::collection::btree_set(one, 2..30)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5, ..ProptestConfig::default() })]
        #[test]
        fn each_row_is_told_from_the_others_at_every_size(names in names(), busy: bool, ascii: bool) {
            let mut stage = Stage::new();
            stage.app.theme.ascii = ascii;
            for (index, name) in names.iter().enumerate() {
                stage.acquire(name, "t", (index % 3 > 0).then_some(600_000));
                if busy && index % 2 > 0 {
                    stage.want(name, 2);
                }
            }
            stage.pass(60_000);
            for height in [12, 24, 40] {
                for width in (60..=100).chain([110, 120, 140, 200]) {
                    stage.resize(width, height);
                    let (widths, keys) = fit_keys(&stage.app, usize::from(width));
                    let different: BTreeSet<&String> = keys.iter().collect();
                    prop_assert_eq!(different.len(), keys.len(), "{}x{}: {:?} {:?}", width, height, widths, keys);
                    // Drawing takes long in comparison.
                    let screen = if width % 10 == 0 { stage.screen() } else { continue };
                    for key in &keys {
                        prop_assert!(screen.contains(key.trim_end()), "{width}x{height}: {key} is not in\n{screen}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_column_that_is_sorted_by_has_its_arrow_at_80_columns() {
        let mut stage = Stage::new();
        stage.resize(80, 24);
        stage.acquire("lock:a", "t", 60_000);
        stage.want("lock:a", 2);
        for (keys, title) in [("s h", "HELD▾"), ("s t", "TTL▾"), ("s w", "WAIT▾"), ("s k", "KEY▾"), ("s o", "HOLDER▾")]
        {
            stage.press(keys);
            let screen = stage.screen().replace('▴', "▾");
            assert!(screen.contains(title), "{title}\n{screen}");
        }
    }

    #[test]
    fn a_wide_screen_shows_whole_tokens() {
        let widths = Widths::of(180, Wants { libraries: true, wait: true, fail: true, findings: true });
        assert!(widths.holder >= 39 && widths.key >= 42, "{widths:?}");
    }
}
