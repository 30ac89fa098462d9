//! Files of the web page that are embedded in the binary.

use libdeflater::Decompressor;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Embedded file of the web page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmbeddedFile {
    /// Media type of the file.
    pub(crate) kind: &'static str,
    /// Content of the file, compressed with gzip.
    pub(crate) compressed: &'static [u8],
}

impl EmbeddedFile {
    /// Decompresses the content of the file.
    pub(crate) fn content(&self) -> Vec<u8> {
        // The last 4 bytes of a gzip file are the size of its content.
        let size = self.compressed.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
        let mut content = vec![0; size as usize];
        let decompressed = Decompressor::new().gzip_decompress(self.compressed, &mut content);
        decompressed
            .unwrap_or_else(|error| unreachable!("embedded file is not valid gzip: {error}"));
        content
    }
}

/// Looks up an embedded file by its path, such as `index.html`.
pub(crate) fn file(name: &str) -> Option<EmbeddedFile> {
    let (name, compressed) = FILES.iter().find(|(known, ..)| *known == name)?;
    let kind = match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    };
    Some(EmbeddedFile { kind, compressed })
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
        let text = String::from_utf8(index.content()).unwrap();
        let assets: Vec<&str> =
            text.split('"').filter(|part| part.starts_with("/assets/")).collect();
        assert!(assets.len() >= 2, "{text}");
        for path in assets {
            let found = file(&path[1..]).unwrap();
            assert!(found.compressed.len() < found.content().len(), "{path}");
        }
        // The server's content security policy forbids inline scripts and styles.
        assert!(!text.contains("<style") && !text.contains(" style="), "{text}");
        assert_eq!(
            text.matches("<script").count(),
            text.matches("<script type=\"module\" crossorigin src=").count()
        );
    }
}
