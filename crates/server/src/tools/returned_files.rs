//! Converts the files that a program wrote to MCP content: images, text resources and blobs.

use assize_types::text::{grouped, replace_control_chars};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{ContentBlock, ResourceContents};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::files::image_media_type;

/// Maximum number of files that a tool call returns.
const MAX_FILES: usize = 16;

/// Maximum size in bytes of one returned file.
const MAX_FILE: usize = 1 << 20;

/// Maximum size in bytes of all returned files together.
const MAX_ALL: usize = 4 << 20;

/// Maximum number of notes about files that are not returned.
const MAX_NOTES: usize = 20;

/// Returned file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReturnedFile {
    /// Path relative to /workspace.
    name: String,
    bytes: usize,
    mime_type: &'static str,
}

/// Files of a program that a tool call returns, and notes about the files that are not returned.
#[derive(Debug, Default)]
pub(crate) struct ReturnedFiles {
    pub(crate) files: Vec<ReturnedFile>,
    /// MCP content of the returned files: one block for each file, in the same order.
    pub(crate) content: Vec<ContentBlock>,
    /// Notes about files that are not returned, each with the reason.
    pub(crate) left_out: Vec<String>,
}

impl ReturnedFiles {
    /// Selects the files to return, in order. A file that would exceed a limit is left out with a note.
    /// `not_collected` are notes about files that were not copied from the sandbox.
    pub(crate) fn of(files: Vec<(String, Vec<u8>)>, not_collected: Vec<String>) -> ReturnedFiles {
        let mut returned = ReturnedFiles::default();
        let mut notes = not_collected;
        let mut room = MAX_ALL;
        for (name, bytes) in files {
            let shown = replace_control_chars(&name);
            let size = grouped(bytes.len() as u64);
            if bytes.len() > MAX_FILE {
                let max = grouped(MAX_FILE as u64);
                notes
                    .push(format!("`{shown}` has {size} bytes: the limit per file is {max} bytes"));
            } else if returned.files.len() == MAX_FILES {
                notes.push(format!("`{shown}`: the limit of {MAX_FILES} files is reached"));
            } else if bytes.len() > room {
                let max = grouped(MAX_ALL as u64);
                notes.push(format!(
                    "`{shown}` ({size} bytes) would exceed the limit of {max} bytes for all files together"
                ));
            } else {
                room -= bytes.len();
                let mime_type = mime_type(&name, &bytes);
                returned.content.push(block(&name, &bytes, mime_type));
                returned.files.push(ReturnedFile { name, bytes: bytes.len(), mime_type });
            }
        }
        let more = notes.len().saturating_sub(MAX_NOTES);
        notes.truncate(MAX_NOTES);
        if more > 0 {
            notes.push(format!("{more} more files were left out"));
        }
        returned.left_out = notes;
        returned
    }
}

fn block(name: &str, bytes: &[u8], mime_type: &str) -> ContentBlock {
    if image_media_type(bytes).is_some() {
        return ContentBlock::image(STANDARD.encode(bytes), mime_type);
    }
    let uri = format!("sandbox:///workspace/{}", utf8_percent_encode(name, ESCAPED));
    let mime_type = Some(mime_type.to_owned());
    ContentBlock::resource(match text(bytes) {
        Some(text) => {
            let text = text.to_owned();
            ResourceContents::TextResourceContents { uri, mime_type, text, meta: None }
        }
        None => {
            let blob = STANDARD.encode(bytes);
            ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: None }
        }
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Media type of a file: from its first bytes for images and PDF, from the extension of its name for text.
fn mime_type(name: &str, bytes: &[u8]) -> &'static str {
    if let Some(picture) = image_media_type(bytes) {
        return picture;
    }
    if bytes.starts_with(b"%PDF-") {
        return "application/pdf";
    }
    if text(bytes).is_none() {
        return "application/octet-stream";
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("svg") => "image/svg+xml",
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        Some("html" | "htm") => "text/html",
        Some("md") => "text/markdown",
        Some("xml") => "application/xml",
        _ => "text/plain",
    }
}

/// Characters of a path that are percent-encoded in a URI: all but letters, digits and `-._~/`.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    fn file(name: &str, bytes: &[u8]) -> (String, Vec<u8>) {
        (name.to_owned(), bytes.to_vec())
    }

    #[test]
    fn files_of_a_program_are_returned_as_images_text_resources_and_blobs() {
        let files = vec![
            file("a b.csv", b"x,y\n1,2\n"),
            file("plot.png", PNG),
            // The content of this file is not an image, although its name ends in `.png`.
            file("raw.png", &[0, 159, 146, 150]),
        ];
        let returned = ReturnedFiles::of(
            files,
            vec!["`link` was not copied: symbolic links are not copied".to_owned()],
        );
        let json = serde_json::to_value(&returned.content).unwrap();
        assert_eq!(json[0]["type"], "resource");
        assert_eq!(json[0]["resource"]["uri"], "sandbox:///workspace/a%20b.csv");
        assert_eq!(json[0]["resource"]["text"], "x,y\n1,2\n");
        assert_eq!(
            (&json[1]["type"], &json[1]["mimeType"]),
            (&"image".into(), &"image/png".into())
        );
        assert_eq!(json[1]["data"], STANDARD.encode(PNG));
        assert_eq!(json[2]["resource"]["mimeType"], "application/octet-stream");
        assert_eq!(json[2]["resource"]["blob"], STANDARD.encode([0, 159, 146, 150]));
        assert_eq!(returned.left_out, ["`link` was not copied: symbolic links are not copied"]);
    }

    #[test]
    fn returned_files_are_limited_in_number_and_size() {
        let large = vec![b'x'; MAX_FILE + 1];
        let fitting = vec![b'x'; MAX_FILE];
        let mut files = vec![file("large", &large)];
        files.extend((0..6).map(|number| file(&format!("big-{number}"), &fitting)));
        let returned = ReturnedFiles::of(files, Vec::new());
        assert_eq!((returned.files.len(), returned.content.len()), (4, 4));
        assert_eq!(returned.left_out.len(), 3, "{:?}", returned.left_out);
        assert!(
            returned.left_out[0].contains("`large` has 1,048,577 bytes"),
            "{:?}",
            returned.left_out
        );

        let many = (0..100).map(|number| file(&format!("{number}.txt"), b"x")).collect();
        let returned = ReturnedFiles::of(many, Vec::new());
        assert_eq!((returned.files.len(), returned.left_out.len()), (MAX_FILES, MAX_NOTES + 1));
        assert_eq!(returned.left_out[MAX_NOTES], "64 more files were left out");
    }
}
