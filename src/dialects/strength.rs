//! How strongly a dialect claims a key: the one scale of all of them.
//!
//! The stronger reading wins; of two equally strong ones, the dialect that is earlier in [`super::all`]. So a dialect
//! need not know the others: it rates its own evidence, and the table breaks the tie.

/// The strength of the evidence, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strength {
    /// Merely not ruled out: a second choice.
    Remote,
    /// Fits, but would fit most libraries: enough only if the user pointed at the keyspace.
    Faint,
    /// The value or the name has a form that several libraries share.
    Possible,
    /// The value has a form that few others have, or the name is the library's and the value fits.
    Likely,
    /// Hardly anything else looks like this.
    Sure,
    /// The name and the value are the library's own.
    Certain,
    /// The user said so.
    Mapped,
}

impl Strength {
    /// The weakest reading that is enough for a key that the user did not point at.
    pub const LEAST: Strength = Strength::Possible;

    /// The number that tables and JSON show, 0 to 1.
    pub fn number(self) -> f32 {
        match self {
            Strength::Remote => 0.2,
            Strength::Faint => 0.3,
            Strength::Possible => 0.5,
            Strength::Likely => 0.7,
            Strength::Sure => 0.85,
            Strength::Certain => 0.95,
            Strength::Mapped => 1.0,
        }
    }

    /// The next weaker one.
    pub fn weaker(self) -> Strength {
        match self {
            Strength::Remote | Strength::Faint => Strength::Remote,
            Strength::Possible => Strength::Faint,
            Strength::Likely => Strength::Possible,
            Strength::Sure => Strength::Likely,
            Strength::Certain => Strength::Sure,
            Strength::Mapped => Strength::Certain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::Claim;

    #[test]
    fn a_stronger_reading_has_a_higher_number_and_only_the_strong_ones_are_no_guess() {
        use Strength::*;
        let scale = [Remote, Faint, Possible, Likely, Sure, Certain, Mapped];
        assert!(scale.is_sorted() && scale.is_sorted_by(|a, b| a.number() < b.number()));
        assert!(scale.iter().all(|strength| (*strength >= Sure) == (strength.number() >= Claim::SURE)));
        assert!(scale[1..].iter().all(|strength| strength.weaker() < *strength));
    }
}
