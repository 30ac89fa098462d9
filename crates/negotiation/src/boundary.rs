//! The sentence that says that debates ran behind a weaker boundary than a microVM.

use assize_config::Isolation;

/// What users read when `auto` fell back from microVMs; `None` for a microVM.
///
/// Report, JSON flags, page and command line all show this sentence.
pub fn weaker_isolation(used: Isolation, why: &str) -> Option<String> {
    let weaker = match used {
        Isolation::Microvm => return None,
        Isolation::Jail => "in a jail, which shares the kernel of this machine",
        Isolation::Docker => "in a container, which shares the kernel of this machine",
    };
    let why = why.strip_prefix("auto: ").unwrap_or(why);
    Some(format!(
        "debates ran {weaker}, not in a microVM ({why}); `assize image build microvm` prepares microVMs, and \
         `--isolation microvm` insists on them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weaker_isolation_names_the_boundary_the_reason_and_the_command() {
        assert_eq!(weaker_isolation(Isolation::Microvm, "auto: whatever"), None);
        let jail = weaker_isolation(Isolation::Jail, "auto: no image").unwrap();
        assert!(jail.contains("in a jail") && jail.contains("(no image)"), "{jail}");
        assert!(jail.contains("`assize image build microvm`"), "{jail}");
        assert!(weaker_isolation(Isolation::Docker, "x").unwrap().contains("in a container"));
    }
}
