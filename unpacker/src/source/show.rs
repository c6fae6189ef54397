//! Sources as they may stand in messages, reports and logs: without secrets.

use std::{borrow::Cow, fmt};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::{Git, Http, Local, Revision, Source};

/// What stands for a query. The signature of a storage service is one, and whoever has it can read what it signs.
pub(super) const HIDDEN: &str = "…";

/// What would end a folder for a shell or for a reader of URLs, or be read as something else.
const FOLDER: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'#').add(b'"').add(b'\'');
/// A colon ends the revision.
const REVISION: &AsciiSet = &FOLDER.add(b':');

/// A text that is no source, or a bad one: without whatever might be a password, a token or a signature in it.
pub(super) fn without_secrets(text: &str) -> Cow<'_, str> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let at = credentials(rest).filter(|(before, after)| {
        // Files may be called so, but a word of a user is hardly ever followed by one name alone.
        scheme.is_some() || before.contains(':') || after.contains('/')
    });
    let at = at.filter(|(before, _)| *before != "git"); // everybody's name for ssh
    let is_query_before = at.is_some_and(|(before, _)| before.contains('?'));
    let (user, rest) = match at {
        // Where the query begins cannot be told, since a password may hold anything.
        Some(_) if is_query_before => ("…", ""),
        Some((_, after)) => ("…@", after),
        None => ("", rest),
    };
    let shown = match (scheme, rest.split_once('?')) {
        (Some(_), Some((rest, query))) => {
            // A `#` may begin what is no secret, and be what the message is about.
            let fragment = query.split_once('#').map(|(_, fragment)| fragment);
            let fragment = fragment.map_or(String::new(), |fragment| format!("#{fragment}"));
            format!("{user}{rest}?{HIDDEN}{fragment}")
        }
        _ => format!("{user}{rest}"),
    };
    match scheme {
        Some(scheme) => format!("{scheme}://{shown}").into(),
        None => shown.into(),
    }
}

/// What stands before the last `@` and behind it, unless a digest does.
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

/// Without the query, so that it cannot be taken for what it stands for if there is one.
impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        url.set_query(None);
        write!(f, "{url}")?;
        if self.url.query().is_some() {
            write!(f, "?{HIDDEN}")?;
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
        let revision = format!("{kind}{}", readable(name, REVISION));
        write!(f, "git+{}", self.repository)?;
        match &self.directory {
            Some(directory) => write!(f, "#{revision}:{}", readable(directory, FOLDER)),
            None if revision.is_empty() => Ok(()),
            None => write!(f, "#{revision}"),
        }
    }
}

/// The text with a percent sign for what would be misread. Letters of all languages stay.
fn readable(text: &str, misread: &'static AsciiSet) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        let mut bytes = [0; 4];
        let one = &*c.encode_utf8(&mut bytes);
        if c.is_alphanumeric() {
            shown.push(c);
        } else {
            shown.extend(utf8_percent_encode(one, misread));
        }
    }
    shown
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
