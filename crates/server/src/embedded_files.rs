//! Files of the web page that are embedded in the binary.

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Embedded file of the web page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmbeddedFile {
    /// Media type of the file.
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
    /// Content of the file, compressed with gzip.
    pub(crate) packed: &'static [u8],
}

/// Looks up an embedded file by its path, such as `index.html`.
pub(crate) fn file(name: &str) -> Option<EmbeddedFile> {
    let (name, bytes, packed) = FILES.iter().find(|(known, ..)| *known == name)?;
    let kind = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    };
    Some(EmbeddedFile { kind, bytes, packed })
}

/// Why the web page is not embedded in this binary; `None` if the page is embedded.
pub fn page_missing() -> Option<&'static str> {
    MISSING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_that_the_web_page_loads_are_embedded() {
        let Some(index) = file("index.html") else {
            assert!(page_missing().is_some());
            return;
        };
        let text = String::from_utf8(index.bytes.to_vec()).unwrap();
        let assets: Vec<&str> =
            text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert!(assets.len() >= 2, "{text}");
        for path in assets {
            let found = file(&path[1..]).unwrap();
            assert!(found.packed.len() < found.bytes.len(), "{path}");
        }
        // The server's content security policy forbids inline scripts and styles.
        assert!(!text.contains("<style") && !text.contains(" style="), "{text}");
        assert_eq!(
            text.matches("<script").count(),
            text.matches("<script type=\"module\" crossorigin src=").count()
        );
    }
}
