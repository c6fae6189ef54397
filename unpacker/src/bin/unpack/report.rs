//! Output of the program: standard error, and the termination message of the container.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Default path of the termination message in Kubernetes.
const DEFAULT_PATH: &str = "/dev/termination-log";
/// Maximum size of a termination message in bytes; the kubelet reads no more.
const MAX_MESSAGE: usize = 4096;

/// Destination of failure reports, in addition to standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct TerminationLog {
    /// File for the termination message; `None` uses the default path if it exists.
    pub(crate) file: Option<PathBuf>,
}

impl TerminationLog {
    /// Reports a failure on standard error and in the termination message.
    pub(crate) fn failure(&self, reason: &str, message: &str) {
        line(&format!("failed: {reason}: {message}"));
        let text = truncate(&format!("{reason}: {message}"), MAX_MESSAGE).to_owned();
        let written = match &self.file {
            Some(path) => OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .open(path),
            // Outside of Kubernetes, no file is created in /dev.
            None if !Path::new(DEFAULT_PATH).is_file() => return,
            None => OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(DEFAULT_PATH),
        };
        if let Err(error) = written.and_then(|mut file| file.write_all(text.as_bytes())) {
            let path = self.file.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
            line(&format!("failed to write {}: {error}", path.display()));
        }
    }
}

/// Prints one line on standard error. Errors are ignored, because no other output exists.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "unpack: {text}");
}

/// Truncates a text to `limit` bytes at a character boundary.
fn truncate(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_splits_no_character() {
        ::tests::assert_each!(|text, limit, expected| truncate(text, limit) => expected;
            "abc", 4 => "abc";
            "abc", 2 => "ab";
            "aé", 2 => "a";
            "é", 1 => "";
        );
    }
}
