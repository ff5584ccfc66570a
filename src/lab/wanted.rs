//! A test lock as the user describes it in a line: `lock:test ttl=30s plain watchdog`. Pure.

use std::time::Duration;

use crate::base::text;
use crate::base::time::duration;
use crate::lock::{Key, Token};
use crate::test_lock::Form;

/// The line that the prompt suggests.
pub const USUAL: &str = "lock:test ttl=30s plain watchdog";

/// The shortest and longest lease for a test: if we die, it must end by itself.
const LEASES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3_600));
const TTL: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub key: Key,
    pub form: Form,
    pub ttl: Duration,
    /// The user's choice; `None`: a unique one.
    pub token: Option<Token>,
    pub watchdog: bool,
}

/// The mistake in a line, and its column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    pub why: String,
    pub column: usize,
}

impl Wanted {
    /// The key comes first. The defaults are plain, 30 s, no watchdog.
    pub fn parse(line: &str) -> Result<Wanted, BadLine> {
        let mut words = words(line);
        let bad = |column: usize, why: String| Err(BadLine { why, column });
        let Some((column, key)) = words.next() else {
            return bad(1, format!("name a key, such as in: {USUAL}"));
        };
        let mut wanted = Wanted {
            key: Key::from(unescaped(column, key)?),
            form: Form::Plain,
            ttl: TTL,
            token: None,
            watchdog: false,
        };
        if setting(&mut wanted, column, key)? {
            return bad(column, format!("the key comes first, such as in: {USUAL}"));
        }
        for (column, word) in words {
            if !setting(&mut wanted, column, word)? {
                let known = "after the key come ttl=30s, plain or reentrant, watchdog or no-watchdog, and token=NAME";
                return bad(column, format!("{known}; a space in a name is written \\x20"));
            }
        }
        Ok(wanted)
    }
}

/// Reads one word after the key; `false` if it is unknown.
fn setting(wanted: &mut Wanted, column: usize, word: &str) -> Result<bool, BadLine> {
    let bad = |why: String| Err(BadLine { why, column });
    match word.split_once('=') {
        None if word == "plain" => wanted.form = Form::Plain,
        None if word == "reentrant" => wanted.form = Form::Reentrant,
        None if word == "watchdog" => wanted.watchdog = true,
        None if word == "no-watchdog" => wanted.watchdog = false,
        Some(("ttl", ttl)) => match duration(ttl) {
            Ok(ttl) if ttl >= LEASES.0 && ttl <= LEASES.1 => wanted.ttl = ttl,
            Ok(_) => return bad("a test lock's ttl is between 100ms and 1h: it must end by itself".into()),
            Err(why) => return bad(format!("{why}, such as in ttl=30s")),
        },
        Some(("token", "")) => {
            return bad("the token is empty: nobody could see who holds the lock; leave it out".into());
        }
        Some(("token", token)) => {
            wanted.token = Some(Token::from(&unescaped(column + "token=".len(), token)?[..]));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn unescaped(column: usize, word: &str) -> Result<Vec<u8>, BadLine> {
    text::unescape(word).map_err(|bad| BadLine { why: bad.to_string(), column: column + bad.column - 1 })
}

/// The words with their columns, counted from 1.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let column = |word: &str| {
        let before = word.as_ptr() as usize - line.as_ptr() as usize;
        line[..before].chars().count() + 1
    };
    line.split(' ').filter(|word| !word.is_empty()).map(move |word| (column(word), word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_understood() {
        let wanted = Wanted::parse(USUAL).unwrap();
        assert_eq!((wanted.key.to_string().as_str(), wanted.form), ("lock:test", Form::Plain));
        assert_eq!((wanted.ttl, wanted.token, wanted.watchdog), (TTL, None, true));
    }

    #[test]
    fn everything_can_be_chosen() {
        let wanted = Wanted::parse("lock:a\\x20b  token=w\\n1 reentrant ttl=500ms no-watchdog").unwrap();
        assert_eq!((wanted.key.as_bytes(), wanted.form), (&b"lock:a b"[..], Form::Reentrant));
        assert_eq!(wanted.token, Some(Token::from(&b"w\n1"[..])));
        assert_eq!((wanted.ttl, wanted.watchdog), (Duration::from_millis(500), false));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_the_way_out() {
        let cases = [
            ("", 1, "name a key"),
            ("ttl=3s lock:a", 1, "the key comes first"),
            ("lock:a ttl=soon", 8, "such as in ttl=30s"),
            ("lock:a ttl=2h", 8, "between 100ms and 1h"),
            ("锁:a ttl=1ms", 5, "between 100ms and 1h"),
            ("lock:a plain watchdogs", 14, "watchdog or no-watchdog"),
            ("lock:a token=", 8, "leave it out"),
            ("lock:a token=a\\q", 15, ""),
            ("lock:\\q", 6, ""),
        ];
        for (line, column, why) in cases {
            let bad = Wanted::parse(line).unwrap_err();
            assert!(bad.column == column && bad.why.contains(why), "{line}: {bad:?}");
        }
    }
}
