//! Tokens in the shapes that the libraries give them, always the same for the same number.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bytes without any order in them.
pub fn random(number: u64, len: usize) -> Vec<u8> {
    let block = |at: usize| {
        let mut hasher = DefaultHasher::new();
        (number, at, "token").hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    (0..).flat_map(block).take(len).collect()
}

pub fn hex(number: u64, bytes: usize) -> String {
    random(number, bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn base64(number: u64, bytes: usize) -> String {
    STANDARD.encode(random(number, bytes))
}

pub fn base64_url(number: u64, bytes: usize) -> String {
    URL_SAFE_NO_PAD.encode(random(number, bytes))
}

pub fn alphanumeric(number: u64, len: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    random(number, len).iter().map(|byte| LETTERS[*byte as usize % LETTERS.len()] as char).collect()
}

pub fn uuid4(number: u64) -> String {
    let mut text: Vec<char> = hex(number, 16).chars().collect();
    text[12] = '4';
    text[16] = '8';
    let text: String = text.into_iter().collect();
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// A day in 2025, in milliseconds of Unix time.
pub const EPOCH_MS: u64 = 1_763_000_000_000;

/// As Python's `uuid1().hex`: the time of `number` milliseconds after [`EPOCH_MS`], and a machine's address.
pub fn uuid1_hex(number: u64) -> String {
    let ticks = (EPOCH_MS + number) * 10_000 + 0x01b2_1dd2_1381_4000;
    let clock = &hex(number, 2)[1..];
    format!("{:08x}{:04x}1{:03x}8{clock}0242ac110005", ticks & 0xffff_ffff, ticks >> 32 & 0xffff, ticks >> 48)
}

/// A thread of a Redisson instance.
pub fn thread(process: u64) -> String {
    format!("{}:{}", uuid4(process), 50 + process % 40)
}

/// `<machine>_<pid>_<guid>`.
pub fn medallion(process: u64, serial: u64) -> String {
    format!("WEB-{:02}_{}_{}", process % 90, 900 + process, hex(serial, 16))
}
