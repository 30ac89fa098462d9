//! Messages to the user while something runs.

/// Shows messages to the user while something runs.
pub trait Reporter: std::fmt::Debug + Send + Sync {
    /// Something the user must know.
    fn warn(&self, text: &str);

    /// Progress, such as what is waited for.
    fn note(&self, text: &str);
}
