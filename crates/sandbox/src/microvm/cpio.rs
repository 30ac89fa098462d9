//! Writes cpio archives for the initrd. The guest kernel unpacks the initrd before it starts the first process.

/// A cpio archive. An initrd may consist of several archives in a row; the kernel unpacks them all.
#[derive(Debug, Default)]
pub(super) struct CpioArchive {
    bytes: Vec<u8>,
    count: u32,
}

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_666;

impl CpioArchive {
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, b"", (0, 0));
    }

    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, FILE, content, (0, 0));
    }

    pub(super) fn program(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content, (0, 0));
    }

    pub(super) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, DEVICE, b"", (major, minor));
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"", (0, 0));
        self.bytes
    }

    /// Appends an entry: a header of hexadecimal numbers, the path and the content, padded to multiples of four bytes.
    fn entry(&mut self, path: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        self.count += 1;
        let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let numbers = [
            self.count,
            mode,
            // The next four numbers are owner, group, number of links and modification time.
            0,
            0,
            1,
            0,
            size(content.len()),
            // The next two numbers are the device that the file is on.
            0,
            0,
            device.0,
            device.1,
            size(path.len() + 1),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for number in numbers {
            self.bytes.extend_from_slice(format!("{number:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        let missing = self.bytes.len().next_multiple_of(4) - self.bytes.len();
        self.bytes.resize(self.bytes.len() + missing, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpio_entries_have_newc_headers_and_padding() {
        let mut archive = CpioArchive::default();
        archive.file("a/b", b"text");
        let bytes = archive.finish();
        let header = "070701000000010000".to_owned() + "81A4";
        assert_eq!(std::str::from_utf8(&bytes[..22]).unwrap(), header);
        // The header has 110 bytes and the name 4 bytes; both together are padded to 116 bytes.
        assert_eq!(&bytes[110..120], b"a/b\0\0\0text");
        assert_eq!(bytes.len() % 4, 0);
    }
}
