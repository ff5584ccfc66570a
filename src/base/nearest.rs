//! "Did you mean": the known words that a wrong one may stand for, or none. A wrong guess costs more than no guess.

/// At most this many words are offered.
const OFFERED: usize = 3;

/// The known words that begin with `word`; if there are none, those that a few slips away from it.
pub fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let known: Vec<&str> = known.into_iter().collect();
    let longer = |other: &&&str| !word.is_empty() && other.to_lowercase().starts_with(&word);
    let begun: Vec<&str> = known.iter().filter(longer).copied().collect();
    if !begun.is_empty() {
        return if begun.len() <= OFFERED { begun } else { Vec::new() };
    }
    let slips = |other: &str| strsim::damerau_levenshtein(&word, &other.to_lowercase());
    // A short word is near to every other short word.
    let most = (word.chars().count() / 3).max(1);
    let near = known.into_iter().map(|other| (slips(other), other)).filter(|(slips, _)| *slips <= most);
    let mut near: Vec<(usize, &str)> = near.collect();
    near.sort_by_key(|(slips, _)| *slips);
    let best = near.first().map(|(slips, _)| *slips);
    let near: Vec<&str> = near.iter().filter(|(slips, _)| Some(*slips) == best).map(|(_, other)| *other).collect();
    if near.len() <= OFFERED { near } else { Vec::new() }
}

/// `; did you mean "orphan"?`, or nothing if no word is near.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = meant(word, known).iter().map(|word| format!("{word:?}")).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [others @ .., last] => format!("; did you mean {} or {last}?", others.join(", ")),
    }
}

/// The known word that is a single slip away.
pub fn nearly<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known.into_iter().find(|other| strsim::damerau_levenshtein(&word, other) <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        assert_eq!(meant("orphn", ["held", "orphan"]), ["orphan"]);
        assert_eq!(meant("dead", ["held", "orphan"]), [""; 0]);
        assert_eq!(nearly("Satte", ["state", "lib"]), Some("state"));
        assert_eq!(nearly("lock", ["state", "lib"]), None);
    }

    #[test]
    fn the_beginning_of_a_word_means_that_word_and_no_other() {
        let commands = ["copy", "contend", "contention", "locks"];
        assert_eq!(meant("con", commands), ["contend", "contention"]);
        assert_eq!(hint("con", commands), "; did you mean \"contend\" or \"contention\"?");
        assert_eq!(hint("conten", ["contention"]), "; did you mean \"contention\"?");
        assert_eq!(hint("frobnicate", commands), "");
        assert_eq!(meant("c", ["ca", "cb", "cc", "cd"]), [""; 0], "too many to be a help");
    }
}
