//! Limits our share of the server's time.
//!
//! All readers of one node share a [`Budget`]: they work in turns, and after each turn we pause so that our share holds. The
//! share is measured by the time replies take, so on a busy server, where replies queue, we take less. [`CallSize`] finds
//! the COUNT at which one SCAN call stays short.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The share of the server's time that reading may take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// No pauses; each call short.
    Fast,
    /// A share from 0 to 1, in short calls with pauses between them.
    Share(f64),
}

impl Pace {
    pub const POLITE: Pace = Pace::Share(0.10);

    /// The server time that one call may take.
    fn call_us(self) -> f64 {
        match self {
            Pace::Fast => 800.0,
            // Other clients wait while a call runs; this is far below what a polite call may take.
            Pace::Share(_) => 60.0,
        }
    }
}

/// The longest pause. A server that hung for a while must not cause a pause of minutes.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Turns at one node.
pub struct Budget {
    pace: Pace,
    /// When the pause ends.
    free_at: Mutex<Instant>,
    spent_us: AtomicU64,
    /// Shared by all walkers: the server counts their calls together.
    call_size: std::sync::Mutex<CallSize>,
}

/// One turn. It ends when dropped; a longer turn causes a longer pause.
pub struct Turn<'a> {
    budget: &'a Budget,
    began: Instant,
    free_at: Option<MutexGuard<'a, Instant>>,
}

impl Budget {
    pub fn new(pace: Pace) -> Budget {
        Budget {
            pace,
            free_at: Mutex::new(Instant::now()),
            spent_us: AtomicU64::new(0),
            call_size: std::sync::Mutex::new(CallSize::new(pace)),
        }
    }

    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Waits until it is our turn.
    pub async fn turn(&self) -> Turn<'_> {
        let free_at = match self.pace {
            Pace::Fast => None,
            Pace::Share(_) => {
                let free_at = self.free_at.lock().await;
                tokio::time::sleep_until(*free_at).await;
                Some(free_at)
            }
        };
        Turn { budget: self, began: Instant::now(), free_at }
    }

    /// The size of SCAN calls. Drop the guard before an await.
    pub fn call_size(&self) -> std::sync::MutexGuard<'_, CallSize> {
        self.call_size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The total time of all turns, including waiting: at least what they cost the server.
    pub fn spent(&self) -> Duration {
        Duration::from_micros(self.spent_us.load(Ordering::Relaxed))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let busy = self.began.elapsed();
        self.budget.spent_us.fetch_add(busy.as_micros() as u64, Ordering::Relaxed);
        if let (Pace::Share(share), Some(free_at)) = (self.budget.pace, &mut self.free_at) {
            let rest = busy.mul_f64(1.0 / share.clamp(0.001, 1.0) - 1.0).min(LONGEST_REST);
            **free_at = Instant::now() + rest;
        }
    }
}

/// The COUNT of the next SCAN call, from what the server says its calls cost.
#[derive(Clone, Debug)]
pub struct CallSize {
    target_us: f64,
    count: usize,
    /// Server time for each key, smoothed.
    key_us: Option<f64>,
    /// The server's last figures: SCAN calls of all clients, and their time.
    counted: Option<(u64, u64)>,
    /// Our own calls since then, and the keys they walked over.
    calls: u64,
    walked: u64,
    /// The least time for each key, measured on our side.
    fastest_key: Option<f64>,
    /// After how many calls the server is asked for its figures.
    ask_at: u64,
}

impl CallSize {
    pub const LEAST: usize = 10;
    pub const MOST: usize = 20_000;
    const FIRST: usize = 100;

    pub fn new(pace: Pace) -> CallSize {
        let target_us = pace.call_us();
        CallSize {
            target_us,
            count: Self::FIRST,
            key_us: None,
            counted: None,
            calls: 0,
            walked: 0,
            fastest_key: None,
            ask_at: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Records one call of ours. Its time on our side is used where the server gives no figures.
    pub fn called(&mut self, count: usize, took: Duration) {
        self.calls += 1;
        self.walked += count as u64;
        let key_us = took.as_micros() as f64 / count as f64;
        self.fastest_key = Some(self.fastest_key.map_or(key_us, |fastest| fastest.min(key_us)));
    }

    /// Whether the caller should ask the server what SCAN has cost: often at first, rarely later. A caller that gets `true`
    /// asks and calls [`CallSize::figures`]; until then others get `false`, for a while.
    pub fn wants_figures(&mut self) -> bool {
        let wants = self.calls >= self.ask_at;
        if wants {
            self.ask_at = self.calls + 16;
        }
        wants
    }

    /// The server's count of SCAN calls and their microseconds; `None` where it is not known.
    pub fn figures(&mut self, now: Option<(u64, u64)>) {
        let key_us = match (self.counted, now) {
            (Some((calls, us)), Some((calls_now, us_now))) if self.calls > 0 && calls_now > calls => {
                let of_others = (calls_now - calls).saturating_sub(self.calls);
                // Others scan too, so use our own fastest reply instead of the mean. One extra call may be our own, still
                // running.
                if of_others > self.calls / 10 + 1 {
                    self.fastest_key
                } else {
                    Some((us_now - us) as f64 / self.walked as f64)
                }
            }
            (None, Some(_)) => None,
            _ => self.fastest_key,
        };
        if now.is_some() || self.counted.is_none() {
            self.counted = Some(now.unwrap_or((0, 0)));
        }
        if let Some(key_us) = key_us.filter(|us| us.is_finite() && *us > 0.0) {
            let smoothed = self.key_us.map_or(key_us, |before| before * 0.5 + key_us * 0.5);
            self.key_us = Some(smoothed);
            let fitting = (self.target_us / smoothed) as usize;
            // Grow in steps: a small sample must not cause a long call.
            self.count = fitting.clamp(Self::LEAST, (self.count * 4).min(Self::MOST));
        }
        self.ask_at = if self.key_us.is_none() { 4 } else { 128 };
        (self.calls, self.walked, self.fastest_key) = (0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_grow_to_the_target_and_no_further() {
        let mut size = CallSize::new(Pace::Fast);
        let (mut calls, mut us) = (0, 0);
        size.figures(Some((0, 0)));
        for _ in 0..20 {
            size.called(size.count(), Duration::from_micros(300));
            calls += 1;
            us += size.count() as u64 * 6 / 10;
            size.figures(Some((calls, us)));
        }
        assert!((1200..=1450).contains(&size.count()), "{}", size.count());
    }

    #[test]
    fn a_slow_server_gets_small_calls() {
        let mut size = CallSize::new(Pace::POLITE);
        size.figures(None);
        for _ in 0..10 {
            size.called(size.count(), Duration::from_millis(5));
            size.figures(None);
        }
        assert_eq!(size.count(), CallSize::LEAST);
    }

    #[test]
    fn another_scanner_does_not_mislead_us() {
        let mut size = CallSize::new(Pace::Fast);
        size.figures(Some((0, 0)));
        size.called(size.count(), Duration::from_micros(100));
        // A thousand tiny calls of somebody else: the mean says nothing of ours.
        size.figures(Some((1001, 2000)));
        assert!(size.count() <= 900, "{}", size.count());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_turn_the_server_rests() {
        let budget = Budget::new(Pace::Share(0.1));
        let began = Instant::now();
        {
            let _turn = budget.turn().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        {
            let _turn = budget.turn().await;
            assert_eq!(began.elapsed().as_millis(), 100);
            tokio::time::sleep(Duration::from_secs(15)).await;
        }
        let _turn = budget.turn().await;
        assert_eq!(began.elapsed().as_millis(), 16_100, "a server that hung is looked at again soon");
    }
}
