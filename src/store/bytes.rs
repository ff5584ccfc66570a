//! Numbers as few bytes as possible, and back. Pure.
//!
//! Reading takes nothing for granted: what ends too early or is too large is `None`, never a panic.

/// A number in groups of seven bits, the lowest first.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Small for numbers near zero on either side.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, folded(number));
}

/// A signed number as an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3.
pub fn folded(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub fn unfolded(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn number(&mut self) -> Option<u64> {
        // Nearly all are small.
        if let Some((byte, rest)) = self.0.split_first()
            && *byte < 0x80
        {
            self.0 = rest;
            return Some(u64::from(*byte));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            // The tenth byte has room for one bit.
            if at == 9 && *byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }

    /// Passes over so many numbers.
    pub fn skip(&mut self, count: usize) -> Option<()> {
        if let Some((numbers, rest)) = self.0.split_at_checked(count)
            && numbers.iter().fold(0, |all, byte| all | byte) < 0x80
        {
            self.0 = rest;
            return Some(());
        }
        (0..count).try_for_each(|_| self.number().map(drop))
    }

    pub fn signed(&mut self) -> Option<i64> {
        self.number().map(unfolded)
    }

    /// A count of things of which each takes a byte at least, so that no false one makes anybody reserve memory.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_were() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, number);
            put_signed(&mut out, number as i64);
            let mut bytes = Bytes(&out);
            assert_eq!((bytes.number(), bytes.signed()), (Some(number), Some(number as i64)));
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn what_is_cut_short_or_too_large_is_no_number() {
        assert_eq!(Bytes(&[]).number(), None);
        assert_eq!(Bytes(&[0x80]).number(), None);
        assert_eq!(Bytes(&[0xff; 11]).number(), None);
        assert_eq!(Bytes(&[0xff, 0xff, 0x03, 0, 0]).count(), None, "65,535 things in two bytes");
        assert_eq!(Bytes(&[1, 2]).take(3), None);
        assert_eq!(Bytes(&[1, 0x80]).skip(2), None);
    }

    #[test]
    fn numbers_are_passed_over_whether_they_are_short_or_long() {
        for (bytes, left) in [(&[1, 2, 3][..], 1), (&[1, 0x80, 1, 3], 1), (&[0x80, 1, 0x80, 1], 0)] {
            let mut bytes = Bytes(bytes);
            assert_eq!((bytes.skip(2), bytes.0.len()), (Some(()), left));
        }
    }
}
