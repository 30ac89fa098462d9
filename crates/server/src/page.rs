//! The web page, as it was built into this program.

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    /// Its media type.
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
    /// The same, packed by gzip.
    pub(crate) packed: &'static [u8],
}

/// The file of that name, such as `index.html`.
pub(crate) fn file(name: &str) -> Option<File> {
    let (name, bytes, packed) = FILES.iter().find(|(known, ..)| *known == name)?;
    let kind = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    };
    Some(File { kind, bytes, packed })
}

/// Why the page is not part of this program, if it is not.
pub fn page_missing() -> Option<&'static str> {
    MISSING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_page_asks_for_first_is_there() {
        let Some(index) = file("index.html") else {
            assert!(page_missing().is_some());
            return;
        };
        let text = String::from_utf8(index.bytes.to_vec()).unwrap();
        let asked: Vec<&str> =
            text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert!(asked.len() >= 2, "{text}");
        for path in asked {
            let found = file(&path[1..]).unwrap();
            assert!(found.packed.len() < found.bytes.len(), "{path}");
        }
        // The server's policy lets nothing in line run.
        assert!(!text.contains("<style") && !text.contains(" style="), "{text}");
        assert_eq!(
            text.matches("<script").count(),
            text.matches("<script type=\"module\" crossorigin src=").count()
        );
    }
}
