//! What people and the Job's controller get to read.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Where the kubelet reads why a container ended, unless the pod says otherwise.
const DEFAULT: &str = "/dev/termination-log";
/// What the kubelet reads of it.
const MOST: usize = 4096;

/// Where a failure is told, beside standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// The file; the kubelet's if there is none.
    pub(crate) file: Option<PathBuf>,
}

impl Report {
    /// Says why the Job failed.
    pub(crate) fn failure(&self, reason: &str, message: &str) {
        line(&format!("failed: {reason}: {message}"));
        let text = cut(&format!("{reason}: {message}"), MOST).to_owned();
        let written = match &self.file {
            Some(path) => OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .open(path),
            // Where there is no kubelet, /dev is no place for a file.
            None if !Path::new(DEFAULT).is_file() => return,
            None => OpenOptions::new().write(true).truncate(true).open(DEFAULT),
        };
        if let Err(error) = written.and_then(|mut file| file.write_all(text.as_bytes())) {
            let path = self.file.as_deref().unwrap_or(Path::new(DEFAULT));
            line(&format!("failed to write {}: {error}", path.display()));
        }
    }
}

/// One line on standard error. There is nobody to tell if that is closed.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "unpack: {text}");
}

/// So many bytes at most, and whole characters.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_kept_whole() {
        let cases = [
            ("abc", 4, "abc"),
            ("abc", 2, "ab"),
            ("aé", 2, "a"),
            ("é", 1, ""),
        ];
        for (text, most, kept) in cases {
            assert_eq!(cut(text, most), kept);
        }
    }
}
