//! Printable forms of URLs and of texts from servers.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use url::Url;

use crate::trust::Secret;

/// A URL for messages: scheme, host, port and path. Other parts may contain secrets, such as the signature of a
/// storage service in the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedUrl {
    text: Box<str>,
    /// Text that replaces `text` where errors must not repeat texts of servers; `None` if the caller wrote the URL.
    written: Option<Box<str>>,
}

impl RedactedUrl {
    /// Sets the text that replaces a URL which a server chose.
    pub(crate) fn with_written(self, written: Option<Box<str>>) -> Self {
        Self { written, ..self }
    }

    /// Replaces a URL that a server chose.
    pub(crate) fn withhold(&mut self) {
        if let Some(written) = self.written.take() {
            self.text = written;
        }
    }
}

impl From<&Url> for RedactedUrl {
    fn from(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let port = url
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        let path: String = url.path().chars().take(500).collect();
        Self {
            text: format!("{}://{host}{port}{path}", url.scheme()).into(),
            written: None,
        }
    }
}

impl fmt::Display for RedactedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Truncates an untrusted text and prints it on one line, without terminal control sequences.
pub(crate) fn printable(text: &str, limit: usize) -> String {
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control() || c == '\u{fffd}')
        .filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let mut printable: String = line
        .chars()
        .filter(|c| !is_invisible(*c))
        .take(limit + 1)
        .collect();
    if printable.chars().count() > limit {
        printable.pop();
        printable.pop();
        printable.push('…');
    }
    printable
}

/// Reports whether a character reorders or hides text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Reports whether a body is HTML or XML.
pub(crate) fn is_html(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().first() == Some(&b'<')
}

/// Removes the credentials of an `Authorization` header from a text, in case a server repeats them.
pub(super) fn strip_credentials(text: &str, authorization: &Secret) -> String {
    let value = authorization.reveal();
    let token = value.split_once(' ').map_or(value, |(_, token)| token);
    let decoded = BASE64.decode(token.trim()).ok();
    let pair = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let password = pair.as_deref().and_then(|pair| pair.split_once(':'));
    let secrets = [
        Some(value),
        Some(token),
        pair.as_deref(),
        password.map(|(_, word)| word),
    ];
    let secrets = secrets.into_iter().flatten().filter(|s| !s.is_empty());
    secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_credentials_queries_and_fragments() {
        assert_each!(|url, expected| RedactedUrl::from(&Url::parse(url).unwrap()).to_string() => expected;
            "https://name:word@h:1/p/x?sig=word#f" => "https://h:1/p/x";
            "https://h:443" => "https://h/";
            "http://[::1]:5000/v2/" => "http://[::1]:5000/v2/";
        );
    }

    #[test]
    fn texts_of_servers_are_short_lines_without_control_characters() {
        assert_each!(|text, expected| printable(text, 10) => expected;
            " a\r\n\tb\0c\u{1b}[31m " => "a b c [31m";
            "a\u{202e}b\u{200b}c" => "abc";
            "1234567890" => "1234567890";
            "12345678901" => "123456789…";
            "" => "";
        );
    }

    #[test]
    fn credentials_in_texts_of_servers_are_removed() {
        let basic = format!("Basic {}", BASE64.encode("name:pass word"));
        for (authorization, text) in [
            ("Bearer abc.def", "no such token: abc.def"),
            (basic.as_str(), "wrong password \"pass word\""),
            (basic.as_str(), &basic),
        ] {
            let left = strip_credentials(text, &Secret::from(authorization.to_owned()));
            let token = authorization.split_once(' ').unwrap().1;
            assert_rows!([token, "pass word", "…"].map(|part| left.contains(part)) => [false, false, true], "{left}");
        }
    }
}
