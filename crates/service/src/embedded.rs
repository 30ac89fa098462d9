//! The programs that are embedded in the binary and run inside sandboxes.

use assize_types::Fingerprint;

/// A program that is embedded in the binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedProgram {
    pub name: &'static str,
    pub bytes: usize,
    /// SHA-256 hash of the program, as hexadecimal digits.
    pub hash: String,
}

/// Returns the guest agent and the negotiator.
pub fn embedded_programs() -> [EmbeddedProgram; 2] {
    [
        ("guest", assize_sandbox::guest_program().to_vec()),
        ("negotiator", assize_consult::negotiator_program()),
    ]
    .map(|(name, program)| EmbeddedProgram {
        name,
        bytes: program.len(),
        hash: Fingerprint::of(&program).to_string(),
    })
}
