//! The columns of the table: the text of a cell, and its colour.

use super::TextStyle;
use crate::base::server_text::ServerText;
use crate::base::text::short_duration;
use crate::base::time::Ttl;
use crate::dialects::Claim;
use crate::lock::{Holder, Kind};
use crate::model::{Column, HeldIs, LockView, Presence, State};

/// A terminal this wide has room for the client beside the holder.
const WIDE: usize = 130;

impl Column {
    pub(super) fn is_number(self) -> bool {
        matches!(self, Column::Held | Column::Ttl | Column::Lease | Column::Fail | Column::Wait)
    }

    /// The text of a lock's cell.
    pub(super) fn cell(self, lock: &LockView, style: &TextStyle) -> String {
        let text = match self {
            Column::State if lock.stale => format!("{} stale", lock.state_label()),
            Column::State => lock.state_label().into_owned(),
            Column::Key => lock.key.to_string(),
            Column::Library => library(lock),
            Column::Holder => holders(lock, style),
            Column::Held => held(lock),
            Column::Ttl => ttl(lock),
            Column::Lease => lease(lock),
            Column::Renewals => renewals(lock),
            Column::Fail => fail(lock),
            Column::Wait => wait(lock),
        };
        style.plain(text).into_owned()
    }
}

/// The colour of a state, as SGR parameters; the word itself says the same.
pub(super) fn paint(state: State) -> &'static str {
    match state {
        State::Split | State::Lost | State::Orphan => "1;31",
        State::NoTtl => "1;35",
        State::Stalled => "1;33",
        State::Contended | State::Long | State::Expiring => "33",
        State::Held => "32",
        State::Test => "36",
        State::Done | State::Free => "2",
    }
}

/// The library, with a `?` if it is a guess.
pub fn library(lock: &LockView) -> String {
    let mark = if lock.dialect_confidence < Claim::SURE { "?" } else { "" };
    format!("{}{mark}", lock.dialect)
}

pub(super) fn holders(lock: &LockView, style: &TextStyle) -> String {
    if let Some(lost) = &lock.lost {
        return lost.holder.as_ref().map_or("-".into(), |token| format!("was {}", style.token(&token.to_string())));
    }
    let Some(first) = lock.holders.first() else {
        return if lock.kind == Kind::Marker { "—" } else { "?" }.to_string();
    };
    let more = lock.holders.len() - 1;
    let mut first = holder(first, style);
    // Which client it is, where there is room for it.
    if style.width.is_none_or(|width| width >= WIDE)
        && let Some(client) = lock.presence.first().and_then(Presence::connection)
    {
        let client = client.name.as_ref().map_or_else(|| client.address.to_string(), ServerText::visible);
        if !first.contains(&client) {
            first = format!("{first} {client}");
        }
    }
    if more == 0 { first } else { format!("{first} +{more}") }
}

/// The token, then the client and host, which show an operator where to look.
fn holder(holder: &Holder, style: &TextStyle) -> String {
    let whole = holder.token.to_string();
    let mut parts = vec![style.token(&whole)];
    for text in [&holder.client, &holder.host].into_iter().flatten() {
        let text = text.visible();
        if !whole.contains(&text) {
            parts.push(text);
        }
    }
    if let Some(pid) = holder.pid.filter(|pid| !whole.contains(&pid.to_string())) {
        parts.push(format!("pid {pid}"));
    }
    parts.join(" ")
}

/// The age, with how exactly it is known. "At least 0" is shown as unknown; what nobody holds has none.
pub fn held(lock: &LockView) -> String {
    match (lock.held_ms, lock.held_is) {
        (None, _) if lock.verdict.state.is_free() => "-".to_string(),
        (None, _) | (Some(0..1000), Some(HeldIs::AtLeast)) => "?".to_string(),
        (Some(ms), Some(HeldIs::AtLeast)) => format!("≥{}", short_duration(ms)),
        (Some(ms), Some(HeldIs::Estimated)) => format!("~{}", short_duration(ms)),
        (Some(ms), Some(HeldIs::Exact) | None) => short_duration(ms),
    }
}

/// The whole lease: `30.0s`, `≥1d00h` where it may be more.
pub fn lease(lock: &LockView) -> String {
    match (lock.lease_ms, lock.lease_is) {
        (None, _) => "?".to_string(),
        (Some(ms), Some(HeldIs::AtLeast)) => format!("≥{}", short_duration(ms)),
        (Some(ms), Some(HeldIs::Estimated)) => format!("~{}", short_duration(ms)),
        (Some(ms), Some(HeldIs::Exact) | None) => short_duration(ms),
    }
}

/// The remaining TTL; none for a lock that is free.
pub fn ttl(lock: &LockView) -> String {
    match lock.ttl {
        Ttl::Never if lock.verdict.state.is_free() => "-".to_string(),
        // Nobody knows whether it was renewed since.
        Ttl::In(left) if left.is_zero() && lock.stale => "?".to_string(),
        ttl => left(ttl),
    }
}

pub(super) fn left(ttl: Ttl) -> String {
    match ttl {
        Ttl::Never => "never".to_string(),
        Ttl::In(left) => short_duration(left.as_millis().min(u128::from(u64::MAX)) as u64),
    }
}

fn renewals(lock: &LockView) -> String {
    match &lock.renewals {
        None if lock.verdict.state.is_free() => "-".to_string(),
        None => "?".to_string(),
        Some(renewals) => match renewals.missed {
            Some(missed) if missed > 0 => format!("{}, {missed} missed", renewals.count),
            _ => renewals.count.to_string(),
        },
    }
}

/// How many clients wait for it, as far as the server shows them.
pub fn wait(lock: &LockView) -> String {
    // Polling clients can't be counted, but these were seen.
    if let Some(seen) = lock.tried_by() {
        return format!("≥{seen}");
    }
    match lock.waits {
        None if lock.wanted.is_some() => "some".to_string(),
        None if lock.gives_up() => "0".to_string(),
        None => "?".to_string(),
        Some(waits) if waits.is_at_most() => format!("≤{}", waits.count),
        Some(waits) if waits.at_least => format!("≥{}", waits.count),
        Some(waits) => waits.count.to_string(),
    }
}

/// Attempts a second, with the source of the number: `4.2~m`, `4.2=c`; `?` if unknown.
pub fn attempts(lock: &LockView) -> String {
    let known = lock.tries.and_then(|tries| Some((tries.known_attempts_per_s()?, tries.from)));
    known.map_or("?".into(), |(per_s, from)| format!("{}{}", rate(per_s), from.mark()))
}

/// Refused attempts a second, with the source of the number: `4.2~m`; `?` if unknown.
pub fn fail(lock: &LockView) -> String {
    let known = lock.tries.and_then(|tries| Some((tries.known_failures_per_s()?, tries.from)));
    known.map_or("?".into(), |(per_s, from)| format!("{}{}", rate(per_s), from.mark()))
}

/// A rate a second, in three or four digits. A rate above zero is never shown as 0.
pub fn rate(per_s: f64) -> String {
    match per_s {
        ..=0.0 => "0".into(),
        ..0.1 => "<0.1".into(),
        ..100.0 => format!("{per_s:.1}"),
        _ => format!("{per_s:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::order::sort;
    use crate::testkit::sample;

    #[test]
    fn ages_say_how_well_they_are_known() {
        let mut lock = sample::redisson();
        for (is, ms, expected) in [
            (HeldIs::Exact, 842_000, "14m02s"),
            (HeldIs::AtLeast, 842_000, "≥14m02s"),
            (HeldIs::Estimated, 842_000, "~14m02s"),
            (HeldIs::AtLeast, 3, "?"),
            (HeldIs::Exact, 3, "3ms"),
        ] {
            (lock.held_is, lock.held_ms) = (Some(is), Some(ms));
            assert_eq!(held(&lock), expected);
        }
        assert_eq!(held(&sample::unknown()), "?");
        assert_eq!(
            Column::Held.cell(&sample::forever(), &TextStyle { ascii: true, ..TextStyle::default() }),
            ">=1m00s"
        );
    }

    #[test]
    fn a_guess_is_marked() {
        assert_eq!(library(&sample::forever()), "plain?");
        assert_eq!(library(&sample::redisson()), "redisson");
    }

    #[test]
    fn holders_are_told_by_what_is_known() {
        let full = TextStyle::default();
        assert_eq!(Column::Holder.cell(&sample::forever(), &full), "worker-7\\u{1b}[2J 10.0.3.7 pid 4242");
        assert_eq!(Column::Holder.cell(&sample::unknown(), &full), "?");
        let mut lock = sample::redisson();
        lock.holders.push(Holder::new(b"b"));
        let narrow = TextStyle { width: Some(80), ..full };
        assert_eq!(Column::Holder.cell(&lock, &narrow), "3f2a8c00…6:57 +1");
        lock.kind = Kind::Marker;
        lock.holders.clear();
        assert_eq!(Column::Holder.cell(&lock, &full), "—");
    }

    #[test]
    fn unknown_is_never_a_zero() {
        let lock = sample::unknown();
        for column in [Column::Held, Column::Lease, Column::Renewals] {
            assert_eq!(column.cell(&lock, &TextStyle::default()), "?");
        }
    }

    #[test]
    fn no_zero_stands_for_a_lease_that_may_have_been_renewed_since() {
        let mut lock = sample::redisson();
        lock.ttl = Ttl::In(std::time::Duration::ZERO);
        assert_eq!(ttl(&lock), "0ms");
        lock.stale = true;
        assert_eq!(ttl(&lock), "?");
        lock.ttl = Ttl::In(std::time::Duration::from_secs(3));
        assert_eq!(ttl(&lock), "3.0s");
    }

    #[test]
    fn the_worst_comes_first() {
        let mut longer = sample::redisson();
        longer.held_ms = Some(1_000_000);
        let mut locks = [sample::unknown(), sample::redisson(), longer, sample::forever()];
        sort(&mut locks, None);
        let held: Vec<_> = locks.iter().map(|lock| (lock.verdict.state, lock.held_ms)).collect();
        assert_eq!(
            held,
            [
                (State::NoTtl, Some(60_000)),
                (State::Held, Some(1_000_000)),
                (State::Held, Some(842_000)),
                (State::Held, None)
            ]
        );
        sort(&mut locks, Some(Column::Ttl));
        assert_eq!(locks[3].ttl, Ttl::Never);
        sort(&mut locks, Some(Column::Renewals));
        assert!(locks[0].renewals.is_some() && locks[3].renewals.is_none());
        for column in Column::ALL {
            sort(&mut locks, Some(column));
        }
    }
}
