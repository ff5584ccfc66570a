//! redlock-py: the caller's key, 22 random letters and digits, always a TTL, never extended.
//!
//! bsm/redislock has 22 characters too, from a wider alphabet; a token that can be either is more likely that one's.

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, shape};

pub struct RedlockPy;

impl Dialect for RedlockPy {
    fn name(&self) -> &'static str {
        "redlock-py"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            let random = token.len() == 22 && shape::is_alphanumeric(token) && shape::is_mixed_case(token);
            if !random || !sight.has_ttl() {
                return None;
            }
            sight.guess(if shape::ends_as_16_bytes(token) { Strength::Faint } else { Strength::Likely })
        })?;
        Some(Claim::exclusive(strength, token))
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Unnoticed
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(200)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key).warn_of_copies()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    #[test]
    fn twenty_two_letters_and_digits_are_a_guess() {
        let best = found("import-lock", "q83kLX0pZtY1xYbW7mNcRz", seconds(5));
        assert!(perhaps(&best, "redlock-py"));
        assert_eq!(names(&best).1, "plain");
    }

    #[test]
    fn other_tokens_are_not_taken() {
        for value in
            ["q83kLX0pZt-1xYbW7mNcRz", "q83kLX0pZtY1xYbW7mNcR", "internationalization22", "1234567890123456789012"]
        {
            assert_ne!(names(&found("import-lock", value, seconds(5))).0, "redlock-py", "{value}");
        }
        assert_ne!(names(&found("import-lock", "q83kLX0pZtY1xYbW7mNcRz", Ttl::Never)).0, "redlock-py");
        assert_no_garbage("redlock-py", "import-lock");
    }
}
