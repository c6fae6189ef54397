//! Formatting of errors.

use std::error::Error;

/// Formats an error and its sources on one line. A source whose text is part of the preceding text is omitted.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_until(error, |_| None)
}

/// Formats an error and its sources like [`chain`]. The first error for which `message` returns a text is the last one, and has
/// this text, also where an outer error contains its own text.
pub fn chain_until(
    error: &(dyn Error + 'static),
    message: impl Fn(&(dyn Error + 'static)) -> Option<String>,
) -> String {
    let mut text: Option<String> = None;
    let mut next = Some(error);
    while let Some(error) = next {
        let mut part = error.to_string();
        next = error.source();
        if let Some(message) = message(error) {
            text = text.map(|text| text.replace(&part, &message));
            part = message;
            next = None;
        }
        text = Some(match text {
            None => part,
            Some(text) if text.contains(&part) => text,
            Some(text) => format!("{text}: {part}"),
        });
    }
    text.unwrap_or_default()
}
