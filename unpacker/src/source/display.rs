//! Display forms of sources without secrets, for messages, reports and logs.

use std::{borrow::Cow, fmt};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{Git, Http, Local, Revision, Source};

/// Replacement for a query. A query may be the signature of a storage service, which grants access to the signed
/// object.
pub(super) const REDACTED: &str = "…";

/// Characters that would end the name of a directory for a shell or a URL parser, or would be misinterpreted.
const DIRECTORY: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'#').add(b'"').add(b'\'');
/// A colon ends the revision.
const REVISION: &AsciiSet = &DIRECTORY.add(b':');

/// Redacts an invalid source: removes all parts that may be a password, a token or a signature.
pub(super) fn without_secrets(text: &str) -> Cow<'_, str> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let at = credentials(rest).filter(|(before, after)| {
        // File names may contain an `@`, but a user name is rarely followed by a single name.
        scheme.is_some() || before.contains(':') || after.contains('/')
    });
    let at = at.filter(|(before, _)| *before != "git"); // the common user name for ssh
    let is_query_before = at.is_some_and(|(before, _)| before.contains('?'));
    let (user, rest) = match at {
        // A password may contain any character, so the start of the query is unknown.
        Some(_) if is_query_before => ("…", ""),
        Some((_, after)) => ("…@", after),
        None => ("", rest),
    };
    let redacted = match (scheme, rest.split_once('?')) {
        (Some(_), Some((rest, query))) => {
            // The part after a `#` is usually not secret, and may be the subject of the message.
            let fragment = query.split_once('#').map(|(_, fragment)| fragment);
            let fragment = fragment.map_or(String::new(), |fragment| format!("#{fragment}"));
            format!("{user}{rest}?{REDACTED}{fragment}")
        }
        _ => format!("{user}{rest}"),
    };
    match scheme {
        Some(scheme) => format!("{scheme}://{redacted}").into(),
        None => redacted.into(),
    }
}

/// Splits a text at the last `@` that does not start a digest.
pub(super) fn credentials(text: &str) -> Option<(&str, &str)> {
    let digest = |text: &str| {
        ["sha256:", "sha512:"]
            .iter()
            .any(|kind| text.starts_with(kind) && !text.contains('/'))
    };
    match text.rsplit_once('@') {
        Some((before, after)) if digest(after) => before.rsplit_once('@'),
        found => found,
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => write!(f, "{}", image.reference),
            Self::Git(git) => write!(f, "{git}"),
            Self::Http(http) => write!(f, "{http}"),
            Self::Local(local) => write!(f, "{local}"),
        }
    }
}

/// Displays the URL without its query. If it has one, a replacement shows that the displayed URL is incomplete.
impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        url.set_query(None);
        write!(f, "{url}")?;
        if self.url.query().is_some() {
            write!(f, "?{REDACTED}")?;
        }
        match &self.sha256 {
            Some(digest) => write!(f, "#{digest}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match &self.revision {
            Revision::Head => ("", ""),
            Revision::Name(name) => ("", name.as_str()),
            Revision::Branch(branch) => ("refs/heads/", branch.as_str()),
            Revision::Tag(tag) => ("refs/tags/", tag.as_str()),
            Revision::Commit(commit) => ("", commit.as_str()),
        };
        let revision = format!("{kind}{}", printable(name, REVISION));
        write!(f, "git+{}", self.repository)?;
        match &self.directory {
            Some(directory) => write!(f, "#{revision}:{}", printable(directory, DIRECTORY)),
            None if revision.is_empty() => Ok(()),
            None => write!(f, "#{revision}"),
        }
    }
}

/// Percent-encodes the characters that would be misinterpreted. Letters of all languages are not encoded.
fn printable(text: &str, misread: &'static AsciiSet) -> String {
    let mut printable = String::new();
    for c in text.chars() {
        let mut bytes = [0; 4];
        let one = &*c.encode_utf8(&mut bytes);
        if c.is_alphanumeric() {
            printable.push(c);
        } else {
            printable.extend(utf8_percent_encode(one, misread));
        }
    }
    printable
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path, name) = match self {
            Self::Stdin => return f.write_str("-"),
            Self::Path(path) => return write!(f, "{}", path.display()),
            Self::OciLayout(path, name) => ("oci", path, name),
            Self::OciArchive(path, name) => ("oci-archive", path, name),
            Self::DockerArchive(path, name) => ("docker-archive", path, name),
        };
        write!(f, "{scheme}:{}", path.display())?;
        match name {
            Some(name) => write!(f, ":{name}"),
            None => Ok(()),
        }
    }
}
