//! Who keeps a lock when one of its holds is freed, in words: pure.
//!
//! A release that does not end the lock must not read as if it did: a writer would be expected to get in.

use serde::{Deserialize, Serialize};

use crate::base::text;
use crate::lock::{Key, Token};
use crate::model::LockView;

/// Name at most this many.
const NAMED: usize = 5;

/// The holders that keep the lock, as far as they were seen.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Staying {
    pub holders: Vec<Token>,
    /// There are more than were read.
    more: bool,
}

impl Staying {
    /// All but these.
    pub(super) fn beside(lock: &LockView, freed: &[Token]) -> Staying {
        let others = lock.holders.iter().map(|holder| holder.token.clone());
        Staying { holders: others.filter(|token| !freed.contains(token)).collect(), more: !lock.value.is_whole() }
    }

    pub fn is_nobody(&self) -> bool {
        self.holders.is_empty() && !self.more
    }

    /// Their names, for the preview.
    pub fn names(&self) -> String {
        let mut names: Vec<String> = self.holders.iter().take(NAMED).map(Token::to_string).collect();
        let left_out = self.holders.len().saturating_sub(NAMED);
        match (left_out, self.more) {
            (_, true) => names.push("others that were not read".into()),
            (0, false) => {}
            (left_out, false) => names.push(format!("{left_out} more")),
        }
        names.join(", ")
    }

    /// The result for the lock. `whose`: the holder that was freed, where it may be named.
    pub fn freed(&self, whose: Option<&Token>, key: &Key) -> String {
        let share = match whose {
            Some(token) => format!("{}'s share of {key}", text::visible(token.as_bytes())),
            None => format!("one share of {key}"),
        };
        let others = match (self.holders.len(), self.more) {
            (_, true) => "others still hold it".into(),
            (1, false) => "1 other still holds it".into(),
            (count, false) => format!("{count} others still hold it"),
        };
        format!("freed {share}; {others}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staying(count: u8, more: bool) -> Staying {
        Staying { holders: (0..count).map(|number| Token::from(&[b'a' + number][..])).collect(), more }
    }

    #[test]
    fn those_who_stay_are_named_up_to_a_few() {
        assert_eq!(staying(2, false).names(), "a, b");
        assert_eq!(staying(7, false).names(), "a, b, c, d, e, 2 more");
        assert_eq!(staying(6, true).names(), "a, b, c, d, e, others that were not read");
        assert!(staying(0, false).is_nobody() && !staying(0, true).is_nobody());
    }

    #[test]
    fn a_share_is_not_told_as_the_lock() {
        let (key, whose) = (Key::from("lock:a"), Token::from(&b"\x1b[2J"[..]));
        assert_eq!(
            staying(1, false).freed(Some(&whose), &key),
            "freed \\u{1b}[2J's share of lock:a; 1 other still holds it"
        );
        assert_eq!(staying(2, false).freed(None, &key), "freed one share of lock:a; 2 others still hold it");
        assert_eq!(staying(2, true).freed(None, &key), "freed one share of lock:a; others still hold it");
    }
}
