//! Detects the modules that a Python program imports. This is needed if the model's answer is only a code block,
//! without the field `dependencies`.

use std::collections::BTreeSet;

use super::{PackageSource, PythonVersion, Requirement};

impl PackageSource {
    /// Returns the names of the modules that a Python program imports and whose packages are allowed.
    pub(crate) fn imported_by(&self, code: &str, python: &PythonVersion) -> Vec<String> {
        let allowed = |name: &String| {
            let read = Requirement::read(name, python, &[]);
            matches!(read, Ok(Some(one)) if self.allowed.contains(one.name()))
        };
        imports(code).into_iter().filter(allowed).collect()
    }
}

/// Returns the top-level modules that a Python program imports. The lines are scanned, without a Python parser.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for statement in code.lines().flat_map(|line| line.split(';')) {
        let statement = statement.split('#').next().unwrap_or_default().trim();
        if let Some(modules) = statement.strip_prefix("import ") {
            found.extend(modules.split(',').filter_map(top_level));
        } else if let Some(rest) = statement.strip_prefix("from ")
            && let Some((module, _)) = rest.split_once(" import")
        {
            found.extend(top_level(module));
        }
    }
    found
}

/// Returns the top-level module of an import, such as `numpy` for `numpy.linalg as la`; `None` for a relative or
/// invalid import.
fn top_level(module: &str) -> Option<String> {
    let name = module.split_whitespace().next()?.split('.').next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_a_program_are_reduced_to_top_level_modules() {
        let code = "import os, numpy as np\nfrom sklearn.linear_model import Ridge  # fits\n\
                    def f():\n    import matplotlib.pyplot as plt; from PIL import Image\n\
                    from . import own\nfrom .near import other\nimport\nimport $x\nprint('import pandas')";
        let found: Vec<String> = imports(code).into_iter().collect();
        assert_eq!(found, ["PIL", "matplotlib", "numpy", "os", "sklearn"]);
    }

    #[test]
    fn imported_modules_of_allowed_packages_become_dependencies() {
        let packages = PackageSource {
            folder: "/nowhere".into(),
            allowed: ["pillow", "scikit-learn", "attrs"].map(str::to_owned).into(),
            pip: Vec::new(),
            wheels: None,
            env: Vec::new(),
        };
        let python = PythonVersion::of("3.11.2").unwrap();
        let code = "import os\nimport numpy\nfrom PIL import Image\nimport sklearn\nimport attr\nimport evil";
        let declared = packages.imported_by(code, &python);
        assert_eq!(declared, ["PIL", "attr", "sklearn"]);
        // The names of imported modules are mapped to the names of their packages.
        let names: Vec<String> = packages
            .allow(&declared, &python)
            .unwrap()
            .iter()
            .map(|one| one.name().to_owned())
            .collect();
        assert_eq!(names, ["attrs", "pillow", "scikit-learn"]);
    }
}
