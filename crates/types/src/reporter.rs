//! Interface through which libraries show messages to the user during an operation.

/// Shows messages to the user during an operation, for example on the terminal.
pub trait Reporter: std::fmt::Debug + Send + Sync {
    /// Shows a warning.
    fn warn(&self, text: &str);

    /// Shows a progress message, such as which resource the operation is waiting for.
    fn note(&self, text: &str);
}
