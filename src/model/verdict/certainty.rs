//! How sure something is, in the word that people read. JSON has the number.

/// The three words, the weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Certainty {
    Guess,
    Likely,
    Certain,
}

impl Certainty {
    /// The one place where a number from 0 to 1 becomes a word.
    pub fn of(confidence: f32) -> Certainty {
        match confidence {
            0.95.. => Certainty::Certain,
            0.75.. => Certainty::Likely,
            _ => Certainty::Guess,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::Guess => "guess",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::{Claim, Strength};

    #[test]
    fn each_number_has_one_word() {
        let words = [1.0, 0.95, 0.94, 0.75, 0.74, 0.0].map(|number| Certainty::of(number).word());
        assert_eq!(words, ["certain", "certain", "likely", "likely", "guess", "guess"]);
        assert_eq!(Certainty::of(f32::NAN), Certainty::Guess, "no number is no reason");
    }

    #[test]
    fn a_library_that_tables_mark_as_a_guess_is_called_one() {
        use Strength::*;
        for strength in [Remote, Faint, Possible, Likely, Sure, Certain, Mapped] {
            let marked = strength.number() < Claim::SURE;
            assert_eq!(Certainty::of(strength.number()) == Certainty::Guess, marked, "{strength:?}");
        }
    }
}
