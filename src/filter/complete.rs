//! How the filter that is being typed can go on: names of fields, and their words where they are a closed set.

use super::field::{FIELDS, Field, Measure, Vocabulary};

/// What the last word can become.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The byte where that word begins.
    pub start: usize,
    pub words: Vec<String>,
}

/// The ways to go on after `before`, the text up to the cursor.
pub fn complete(before: &str) -> Completion {
    let start = before.rfind(|c: char| c.is_whitespace() || c == '(').map_or(0, |at| at + 1);
    let word = &before[start..];
    let words = match word.split_once([':', '=']) {
        Some((name, value)) => match Vocabulary::Locks.field(name) {
            Some(Field::Topic(topic)) => words_of(name, value, topic.words().unwrap_or_default()),
            Some(Field::Measure(Measure::Ttl)) => words_of(name, value, vec!["none"]),
            Some(Field::Measure(_)) | None => Vec::new(),
        },
        None => FIELDS.iter().filter(|(name, _)| begins(name, word)).map(|(name, field)| asked(name, *field)).collect(),
    };
    Completion { start, words }
}

fn words_of(name: &str, typed: &str, words: Vec<&str>) -> Vec<String> {
    words.into_iter().filter(|word| begins(word, typed)).map(|word| format!("{name}:{word}")).collect()
}

fn begins(word: &str, typed: &str) -> bool {
    word.get(..typed.len()).is_some_and(|first| first.eq_ignore_ascii_case(typed))
}

/// The field, with the comparison that one asks most often.
fn asked(name: &str, field: Field) -> String {
    match field {
        Field::Topic(_) => format!("{name}:"),
        Field::Measure(Measure::Ttl) => format!("{name}<"),
        Field::Measure(_) => format!("{name}>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    fn words(before: &str) -> Vec<String> {
        complete(before).words
    }

    #[test]
    fn fields_states_and_libraries_are_completed() {
        assert_eq!(words("sta"), ["state:"]);
        assert_eq!(words("l"), ["lib:", "lease>"]);
        assert_eq!(words("state:or"), ["state:orphan"]);
        assert_eq!(words("lib:redisson-p"), ["lib:redisson-permits"]);
        assert_eq!(words("ttl:"), ["ttl:none"]);
        assert_eq!(words("lock:"), [""; 0], "a part of a key is the user's own");
        let inner = complete("lock and (state:stal");
        assert_eq!((inner.start, inner.words), (10, vec!["state:stalled".to_string()]));
    }

    #[test]
    fn every_completed_word_is_a_filter() {
        for field in words("") {
            let Some(name) = field.strip_suffix(':') else {
                assert!(
                    format!("{field}1").parse::<Filter>().is_ok() || format!("{field}1s").parse::<Filter>().is_ok()
                );
                continue;
            };
            for word in words(&format!("{name}:")) {
                assert!(word.parse::<Filter>().is_ok(), "{word}");
            }
        }
    }
}
