//! Seeded random numbers: the fleet's names, tokens, durations and choices, the same in each run.
//!
//! Each worker has its own dice, seeded with the seed and its name, so that it does not depend on how others were
//! scheduled. Only the times inside some tokens come from the clock.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::time::Time;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    pub fn new(seed: u64, name: &str) -> Dice {
        let start = name.bytes().fold(seed ^ STEP, |state, byte| Dice(state ^ u64::from(byte)).roll());
        Dice(start)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number from `low` up to but not including `high`.
    pub fn number(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low).max(1)
    }

    pub fn duration(&mut self, (low, high): (Duration, Duration)) -> Duration {
        Duration::from_millis(self.number(low.as_millis() as u64, high.as_millis() as u64 + 1))
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.number(0, from.len() as u64) as usize]
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll() as u8).collect()
    }

    pub fn hex(&mut self, bytes: usize) -> String {
        hex(&self.bytes(bytes))
    }

    pub fn base64(&mut self, bytes: usize) -> String {
        STANDARD.encode(self.bytes(bytes))
    }

    pub fn alphanumeric(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..length).map(|_| *self.pick(LETTERS) as char).collect()
    }

    /// A random UUID.
    pub fn uuid4(&mut self) -> String {
        let mut bytes = self.bytes(16);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let text = hex(&bytes);
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }

    /// A UUID of this time and network card, as Python's `uuid1().hex` writes it.
    pub fn uuid1_hex(&mut self, now: Time, card: &[u8; 6]) -> String {
        // In steps of 100 ns since 1582-10-15.
        let ticks = now.0 as u64 * 10_000 + 0x01b2_1dd2_1381_4000;
        let clock = self.number(0, 0x4000) | 0x8000;
        let (low, middle, high) = (ticks & 0xffff_ffff, ticks >> 32 & 0xffff, ticks >> 48 & 0xfff);
        format!("{low:08x}{middle:04x}1{high:03x}{clock:04x}{}", hex(card))
    }

    /// A locally administered network card address, which no vendor uses.
    pub fn network_card(&mut self) -> [u8; 6] {
        let mut card = [0x02, 0, 0, 0, 0, 0];
        card[1..].copy_from_slice(&self.bytes(5));
        card
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::shape;

    #[test]
    fn the_same_seed_and_name_throw_the_same_and_others_do_not() {
        let throws = |seed, name| Dice::new(seed, name).hex(16);
        assert_eq!(throws(7, "orders-1"), throws(7, "orders-1"));
        assert_ne!(throws(7, "orders-1"), throws(8, "orders-1"));
        assert_ne!(throws(7, "orders-1"), throws(7, "orders-2"));
    }

    #[test]
    fn tokens_have_the_shapes_that_the_libraries_give_them() {
        let mut dice = Dice::new(1, "shapes");
        for _ in 0..200 {
            assert!(shape::is_uuid4(dice.uuid4().as_bytes()));
            assert!(shape::is_base64(dice.base64(18).as_bytes(), 18));
            assert!(shape::is_alphanumeric(dice.alphanumeric(16).as_bytes()));
            let now = Time(1_760_000_000_123);
            let card = dice.network_card();
            assert_eq!(shape::uuid1_hex_time(dice.uuid1_hex(now, &card).as_bytes()), Some(now));
        }
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut dice = Dice::new(1, "range");
        assert!((0..1000).all(|_| (3..7).contains(&dice.number(3, 7))));
        let (low, high) = (Duration::from_millis(5), Duration::from_millis(9));
        assert!((0..1000).all(|_| (low..=high).contains(&dice.duration((low, high)))));
    }
}
