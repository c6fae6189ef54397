//! URL of the receiver.

use std::{fmt, str::FromStr};

use http::{Uri, uri::Scheme};

use super::Error;

/// The URL of a receiver: `https://` or `http://`, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) secure: bool,
    /// Value of the `Host` header.
    pub(super) authority: String,
    /// Host name, or IP address without the brackets of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query, as sent in the request line.
    pub(super) path: String,
}

impl Address {
    /// Returns host and port for messages.
    pub(super) fn host_and_port(&self) -> &str {
        &self.authority
    }
}

/// Displays the URL without the query, which may contain confidential data.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = |problem| Error::Address {
            // A password may precede an `@`, so the text is not shown.
            text: if text.contains('@') {
                "the URL".to_owned()
            } else {
                text.chars().take(200).collect()
            },
            problem,
        };
        let url: Uri = text.parse().map_err(|_| fail("is not a URL"))?;
        let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else {
            return Err(fail("is not a URL with a scheme and a host"));
        };
        let secure = match scheme {
            scheme if *scheme == Scheme::HTTPS => true,
            scheme if *scheme == Scheme::HTTP => false,
            _ => return Err(fail("is neither https:// nor http://")),
        };
        if authority.as_str().contains('@') {
            return Err(fail("contains credentials, which belong in --token-file"));
        }
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(fail("has no host"));
        }
        Ok(Self {
            secure,
            authority: authority.to_string(),
            host: host.to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if secure { 443 } else { 80 }),
            path: url
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_without_credentials_or_other_schemes() {
        for (text, parts) in ::tests::rows![
            "https://h/a?b=c" => (true, "h", "h", 443, "/a?b=c");
            "http://h:8080" => (false, "h:8080", "h", 8080, "/");
            "https://[::1]:8443/x" => (true, "[::1]:8443", "::1", 8443, "/x");
        ] {
            let found = text.parse::<Address>().unwrap();
            let texts = (&*found.authority, &*found.host, &*found.path);
            assert_rows!((found.secure, texts.0, texts.1, found.port, texts.2) => parts, "{text}");
        }
        for text in "https://user:word@h/ https:///x ftp://h/ h/x /x ".split(' ') {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(!error.contains("word"), "{error}");
        }
    }
}
