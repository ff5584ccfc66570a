//! A body as the file has it: compressed where that helps, with a checksum that also covers the place it belongs to.
//!
//! SQLite itself does not notice a flipped bit inside a value. Here it is noticed, and so is a body in another's place.

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zstd::bulk::{Compressor, Decompressor};

use crate::store::bytes::{Bytes, put};

const LEVEL: i32 = 3;
/// Shorter ones gain nothing from compression.
const SHORT: usize = 48;
/// Longer ones are never written.
const LONGEST: usize = 256 << 20;

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// The place of a body: the numbers of its row's key.
pub fn place(table: u8, key: [i64; 3]) -> u64 {
    let mut bytes = [table; 25];
    for (number, to) in key.iter().zip(bytes[1..].chunks_exact_mut(8)) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    xxh3_64_with_seed(&bytes, 0)
}

/// Seals bodies; keeps the memory that compression needs.
pub struct Seal(Compressor<'static>);

impl Seal {
    pub fn new() -> Seal {
        Seal(Compressor::new(LEVEL).expect("level 3 exists"))
    }

    pub fn seal(&mut self, place: u64, plain: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; 4];
        let smaller = if plain.len() < SHORT { None } else { self.0.compress(plain).ok() };
        match smaller.filter(|smaller| smaller.len() + 2 < plain.len()) {
            Some(smaller) => {
                sealed.push(COMPRESSED);
                put(&mut sealed, plain.len() as u64);
                sealed.extend(smaller);
            }
            None => {
                sealed.push(PLAIN);
                sealed.extend(plain);
            }
        }
        let sum = checksum(place, &sealed[4..]);
        sealed[..4].copy_from_slice(&sum);
        sealed
    }
}

/// Opens bodies.
pub struct Opener {
    context: Decompressor<'static>,
    plain: Vec<u8>,
}

impl Opener {
    pub fn new() -> Opener {
        Opener { context: Decompressor::new().expect("memory for decompression"), plain: Vec::new() }
    }

    /// What was sealed there; `None` if it is damaged or belongs elsewhere.
    pub fn open<'a>(&'a mut self, place: u64, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (sum, rest) = sealed.split_at_checked(4)?;
        if sum != checksum(place, rest) {
            return None;
        }
        match rest.split_first()? {
            (&PLAIN, plain) => Some(plain),
            (&COMPRESSED, rest) => {
                let mut rest = Bytes(rest);
                let length = usize::try_from(rest.number()?).ok().filter(|length| *length <= LONGEST)?;
                self.plain.clear();
                self.plain.reserve(length);
                let written = self.context.decompress_to_buffer(rest.0, &mut self.plain).ok()?;
                (written == length).then_some(&self.plain)
            }
            _ => None,
        }
    }
}

fn checksum(place: u64, bytes: &[u8]) -> [u8; 4] {
    (xxh3_64_with_seed(bytes, place) as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_lost_byte_is_noticed() {
        let (mut seal, mut opener) = (Seal::new(), Opener::new());
        for plain in [&b"short"[..], &[7; 500], &[]] {
            let here = place(1, [2, 3, 4]);
            let sealed = seal.seal(here, plain);
            assert_eq!(opener.open(here, &sealed), Some(plain));
            assert_eq!(opener.open(place(1, [2, 3, 5]), &sealed), None, "it belongs elsewhere");
            for bit in 0..sealed.len() * 8 {
                let mut flipped = sealed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opener.open(here, &flipped), None, "bit {bit}");
            }
            for length in 0..sealed.len() {
                assert_eq!(opener.open(here, &sealed[..length]), None, "{length} bytes left");
            }
        }
    }

    #[test]
    fn a_body_that_does_not_get_smaller_stays_as_it_is() {
        let noise: Vec<u8> = (0..300_u64).map(|number| xxh3_64_with_seed(&[], number) as u8).collect();
        assert_eq!(Seal::new().seal(0, &noise).len(), noise.len() + 5);
    }
}
