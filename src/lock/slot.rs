//! The slot of a key: which part of a cluster's keyspace it belongs to.
//!
//! The first part between braces is hashed alone if it is not empty, so that keys with the same tag share a slot.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// CRC16 as XMODEM defines it, for each byte.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The slot of a key.
pub fn slot_of(key: &[u8]) -> u16 {
    let crc = hashed(key).iter().fold(0_u16, |crc, byte| (crc << 8) ^ CRC[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let tag = &key[open + 1..];
    match tag.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &tag[..length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_servers_say() {
        // By CLUSTER KEYSLOT of a server.
        for (key, slot) in [
            ("123456789", 12_739),
            ("lock:orders", 9_244),
            ("lock-signal:orders", 2_714),
            ("{orders}", slot_of(b"orders")),
            ("a{orders}b{c}", slot_of(b"orders")),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_ne!(slot_of(b"{}a"), slot_of(b""), "an empty tag is none");
        assert_ne!(slot_of(b"a{b"), slot_of(b"b"));
    }
}
