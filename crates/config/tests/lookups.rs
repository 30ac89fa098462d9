//! Checks that the code of all crates except `config` reads settings by field or by
//! [`SettingKey`](assize_config::SettingKey), never by a literal key such as `"sandbox.memory"`.

use std::fs;
use std::path::Path;

#[test]
fn no_crate_except_config_looks_up_settings_by_literal_key() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(own.parent().unwrap()).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path()).filter(|folder| folder != own);
    let mut folders: Vec<_> =
        crates.map(|folder| folder.join("src")).filter(|folder| folder.is_dir()).collect();
    // Keys without a section, such as `model`, are not checked, because other crates use these words in other ways.
    let keys = assize_config::all().iter().map(|setting| setting.key.name());
    let mut forbidden: Vec<String> =
        keys.filter(|key| key.contains('.')).map(|key| format!("\"{key}\"")).collect();
    forbidden.push("Setting::named(\"".to_owned());
    let (mut files, mut found) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = fs::read_to_string(&path).unwrap_or_default();
            // Unit tests of `config set` pass literal keys, as users do.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            // Files that do not use settings are not checked, because they mention keys only in messages.
            if !code.contains("Setting") {
                continue;
            }
            for line in code.lines() {
                if forbidden.iter().any(|key| line.contains(key.as_str())) {
                    found.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(files > 100, "expected more than 100 source files, but found only {files}");
    let lines = found.join("\n");
    assert!(
        found.is_empty(),
        "settings are read by literal key; use a field or a `SettingKey`:\n{lines}"
    );
}
