//! URLs and texts of servers as they may stand in messages.

use std::fmt;

use url::Url;

/// A URL as messages show it: scheme, host, port and path. What else it has may be a secret, as the signature of a
/// storage service in a query is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(String);

impl From<&Url> for Shown {
    fn from(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let port = url
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        let path: String = url.path().chars().take(500).collect();
        Self(format!("{}://{host}{port}{path}", url.scheme()))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of a text from a stranger, on one line and without anything that a terminal could take for an order.
pub(crate) fn printable(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control() || c == '\u{fffd}')
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    let is_shown = |c: &char| !is_invisible(*c);
    let mut shown: String = line.chars().filter(is_shown).take(limit + 1).collect();
    if shown.chars().count() > limit {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// Marks that reorder or hide text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
