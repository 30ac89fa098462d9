//! Messages to the user during an operation.

/// Shows messages to the user during an operation.
pub trait Reporter: std::fmt::Debug + Send + Sync {
    /// Shows a warning.
    fn warn(&self, text: &str);

    /// Shows progress, such as which resource the operation waits for.
    fn note(&self, text: &str);
}
