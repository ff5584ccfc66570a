//! One thing that is wrong with a lock or with how it is used, with its sentence.

/// What was found, and how sure that is.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The word by which it is tuned and silenced, and which programs read: `dead-heads`.
    pub name: &'static str,
    /// With its numbers.
    pub sentence: String,
    /// 0 to 1.
    pub confidence: f32,
    /// What would settle it, if it is only suspected.
    pub settle: Option<String>,
}
