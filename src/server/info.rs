//! The reply to INFO, as fields. Pure; accepts any text.

use std::collections::HashMap;
use std::str::FromStr;

use crate::base::server_text::ServerText;

/// The fields and the section names of an INFO answer.
#[derive(Clone, Debug, Default)]
pub struct InfoText<'a> {
    fields: HashMap<&'a str, &'a str>,
    sections: Vec<&'a str>,
}

impl<'a> InfoText<'a> {
    pub fn parse(text: &'a str) -> InfoText<'a> {
        let mut info = InfoText::default();
        for line in text.lines().map(str::trim_end) {
            if let Some(section) = line.strip_prefix('#') {
                info.sections.push(section.trim());
            } else if let Some((name, value)) = line.split_once(':') {
                info.fields.insert(name, value);
            }
        }
        info
    }

    pub fn has_section(&self, name: &str) -> bool {
        self.sections.contains(&name)
    }

    /// A field to keep or to show.
    pub fn text(&self, name: &str) -> Option<ServerText> {
        self.word(name).map(ServerText::from)
    }

    /// A field to compare with words we know.
    pub(super) fn word(&self, name: &str) -> Option<&'a str> {
        self.fields.get(name).copied()
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.word(name)?.parse().ok()
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.number::<u8>(name).map(|value| value != 0)
    }

    /// One entry of a composite value such as `slave0:ip=10.0.0.1,port=6379,lag=0`.
    pub(super) fn part(&self, name: &str, part: &str) -> Option<&'a str> {
        self.word(name)?.split(',').find_map(|entry| entry.split_once('=').filter(|(key, _)| *key == part)).map(|e| e.1)
    }

    /// The same as a number, such as `calls` of `cmdstat_scan:calls=3,usec=10`.
    pub fn part_number<T: FromStr>(&self, name: &str, part: &str) -> Option<T> {
        self.part(name, part)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_found_whatever_the_line_ends() {
        let info =
            InfoText::parse("# Server\r\nuptime_in_seconds:5\r\n\r\n# Keyspace\ndb0:keys=3,expires=1,avg_ttl=0\n");
        assert_eq!(info.number::<u64>("uptime_in_seconds"), Some(5));
        assert_eq!(info.part("db0", "expires"), Some("1"));
        assert_eq!(info.part("db1", "keys"), None);
        assert!(info.has_section("Keyspace"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).{0,200}", name in ".{0,10}") {
            let info = InfoText::parse(&text);
            let _ = (info.text(&name), info.number::<u64>(&name), info.flag(&name), info.part(&name, "keys"));
        }
    }
}
