//! "Did you mean": the known word nearest to the one that was typed.

/// The known word with the fewest slips between it and `word`. `known` must not be empty.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> &'a str {
    let word = word.to_lowercase();
    let distance = |other: &&str| strsim::damerau_levenshtein(&word, other);
    known.into_iter().min_by_key(distance).unwrap_or_default()
}

/// The same, but only for a single slip.
pub fn nearly<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = nearest(word, known);
    (strsim::damerau_levenshtein(&word.to_lowercase(), found) <= 1).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        assert_eq!(nearest("orphn", ["held", "orphan"]), "orphan");
        assert_eq!(nearly("Satte", ["state", "lib"]), Some("state"));
        assert_eq!(nearly("lock", ["state", "lib"]), None);
    }
}
