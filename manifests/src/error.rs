//! Formatting of errors.

use std::{error, fmt::Write as _};

/// Formats an error and its sources on one line. A source whose text is part of the preceding text is omitted.
pub fn chain(error: &dyn error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            let _ = write!(text, ": {next}");
        }
        cause = error.source();
    }
    text
}
