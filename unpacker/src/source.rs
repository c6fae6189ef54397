//! Where bundles come from, in the words of a command line.
//!
//! ```
//! use unpacker::Source;
//! let source = Source::parse("git+https://example.com/org/repo.git#v1.2:bundle", |_| false)?;
//! assert!(matches!(source, Source::Git(git) if git.directory.as_deref() == Some("bundle")));
//! # Ok::<(), unpacker::source::Error>(())
//! ```

use std::{
    fmt,
    path::{Path, PathBuf},
};

use manifests::image::Reference;
use url::Url;

use crate::Digest;

/// One place that holds a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An image or an artifact in a registry.
    Image(Image),
    /// A commit of a git repository.
    Git(Git),
    /// An archive behind a URL.
    Http(Http),
    /// Something on this machine.
    Local(Local),
}

/// An image in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// As given, or with the digest that its tag was resolved to.
    pub reference: Reference,
    /// Which of several images an index should give: `os/architecture[/variant]`. Bundles are the same for all
    /// platforms, so that without one any entry will do.
    pub platform: Option<String>,
}

/// A folder in a git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    /// `https://…`, `http://…` or `ssh://…`, without credentials.
    pub repository: Url,
    /// What to take of it.
    pub revision: Revision,
    /// The folder that is the bundle's root; the repository's own root if there is none.
    pub directory: Option<String>,
}

/// What names a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// What the server's HEAD points to.
    Head,
    /// A branch or a tag, whichever exists; both at once is an error.
    Name(String),
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// A commit, by all digits of its hash.
    Commit(String),
}

/// An archive behind a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// `https://…` or `http://…`, without credentials.
    pub url: Url,
    /// What the body must have as its digest.
    pub sha256: Option<Digest>,
}

/// Something on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local {
    /// An archive on standard input.
    Stdin,
    /// A folder, a tar or a tar.gz.
    Path(PathBuf),
    /// A folder with an OCI image layout; a tag or digest chooses between several images.
    OciLayout(PathBuf, Option<String>),
    /// The same as a tar.
    OciArchive(PathBuf, Option<String>),
    /// What `docker save` writes; a tag chooses between several images.
    DockerArchive(PathBuf, Option<String>),
}

/// Why a text does not say where a bundle is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}")]
pub struct Error {
    text: String,
    problem: String,
}

impl Source {
    /// Reads a source as people write it. `exists` tells whether there is a file or folder of that name; only for
    /// texts that may be one it is asked.
    ///
    /// # Errors
    /// When the text is none, or could be several.
    pub fn parse(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Self, Error> {
        let fail = |problem: String| Error {
            text: hide_password(text).chars().take(200).collect(),
            problem,
        };
        let path_and_name = |rest: &str| -> Result<(PathBuf, Option<String>), Error> {
            let (path, name) = match rest.split_once([':', '@']) {
                Some((path, name)) => (path, Some(name.to_owned())),
                None => (rest, None),
            };
            match (path, name.as_deref()) {
                ("", _) | (_, Some("")) => Err(fail(
                    "names no file; write oci:PATH or oci:PATH:TAG".to_owned(),
                )),
                _ => Ok((path.into(), name)),
            }
        };
        if text == "-" {
            return Ok(Self::Local(Local::Stdin));
        }
        if let Some(rest) = text.strip_prefix("oci:") {
            let (path, name) = path_and_name(rest)?;
            return Ok(Self::Local(Local::OciLayout(path, name)));
        }
        if let Some(rest) = text.strip_prefix("oci-archive:") {
            let (path, name) = path_and_name(rest)?;
            return Ok(Self::Local(Local::OciArchive(path, name)));
        }
        if let Some(rest) = text.strip_prefix("docker-archive:") {
            let (path, name) = path_and_name(rest)?;
            return Ok(Self::Local(Local::DockerArchive(path, name)));
        }
        if let Some(rest) = text.strip_prefix("git+") {
            return git(rest).map(Self::Git).map_err(fail);
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            return http(text).map(Self::Http).map_err(fail);
        }
        if let Some(rest) = text.strip_prefix("docker://") {
            return image(rest).map(Self::Image).map_err(fail);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(fail(format!(
                "has the unknown scheme {scheme:?}; write git+https://, git+ssh://, https:// or docker://"
            )));
        }
        let path = Path::new(text);
        if text.starts_with(['/', '.', '~']) || exists(path) {
            return Ok(Self::Local(Local::Path(path.to_owned())));
        }
        let first = text.split('/').next().unwrap_or_default();
        let names_registry = first.contains(['.', ':']) || first == "localhost";
        if text.contains('/') && names_registry {
            return image(text).map(Self::Image).map_err(fail);
        }
        Err(fail(
            "does not exist here, and names no registry; check the path, or write docker.io/… for an image on Docker Hub"
                .to_owned(),
        ))
    }
}

fn image(text: &str) -> Result<Image, String> {
    let reference = text
        .parse()
        .map_err(|error: manifests::image::Error| format!("is no image reference: {error}"))?;
    Ok(Image {
        reference,
        platform: None,
    })
}

fn git(text: &str) -> Result<Git, String> {
    let mut repository = address(text, &["https", "http", "ssh"])?;
    let fragment = repository.fragment().unwrap_or_default().to_owned();
    repository.set_fragment(None);
    let (revision, directory) = match fragment.split_once(':') {
        Some((revision, directory)) => (revision, Some(directory)),
        None => (fragment.as_str(), None),
    };
    let is_commit =
        matches!(revision.len(), 40 | 64) && revision.bytes().all(|b| b.is_ascii_hexdigit());
    let revision = if revision.is_empty() || revision == "HEAD" {
        Revision::Head
    } else if is_commit {
        Revision::Commit(revision.to_ascii_lowercase())
    } else if let Some(branch) = revision.strip_prefix("refs/heads/") {
        Revision::Branch(branch.to_owned())
    } else if let Some(tag) = revision.strip_prefix("refs/tags/") {
        Revision::Tag(tag.to_owned())
    } else {
        Revision::Name(revision.to_owned())
    };
    let directory = directory.filter(|directory| !matches!(*directory, "" | "." | "./" | "/"));
    let directory = directory.map(manifests::content::normalise).transpose();
    Ok(Git {
        repository,
        revision,
        directory: directory.map_err(|error| format!("has a bad folder: {error}"))?,
    })
}

fn http(text: &str) -> Result<Http, String> {
    let mut url = address(text, &["https", "http"])?;
    let sha256 = match url.fragment() {
        None | Some("") => None,
        Some(fragment) => Some(
            fragment
                .parse()
                .map_err(|error| format!("has a fragment that pins nothing: {error}"))?,
        ),
    };
    url.set_fragment(None);
    Ok(Http { url, sha256 })
}

/// A URL of one of these schemes, with a host and without a password: it would end up in messages and histories.
fn address(text: &str, schemes: &[&str]) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    if !schemes.contains(&url.scheme()) {
        let known = schemes.join("://, ");
        return Err(format!(
            "has a scheme that is not used here; write one of {known}://"
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("names no host".to_owned());
    }
    if url.password().is_some() || url.scheme() != "ssh" && !url.username().is_empty() {
        return Err(
            "holds credentials; pass them by --username and --password-file, or in a Secret"
                .to_owned(),
        );
    }
    Ok(url)
}

/// The text without what stands between `//` and `@`.
fn hide_password(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => match rest
            .split('/')
            .next()
            .and_then(|host| host.rsplit_once('@'))
        {
            Some((user, host)) => {
                let rest = rest.get(user.len() + 1 + host.len()..).unwrap_or_default();
                format!("{scheme}://…@{host}{rest}")
            }
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => write!(f, "{}", image.reference),
            Self::Git(git) => write!(f, "{git}"),
            Self::Http(http) => match &http.sha256 {
                Some(digest) => write!(f, "{}#{digest}", http.url),
                None => write!(f, "{}", http.url),
            },
            Self::Local(local) => write!(f, "{local}"),
        }
    }
}

impl fmt::Display for Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = match &self.revision {
            Revision::Head => String::new(),
            Revision::Name(name) => name.clone(),
            Revision::Branch(branch) => format!("refs/heads/{branch}"),
            Revision::Tag(tag) => format!("refs/tags/{tag}"),
            Revision::Commit(commit) => commit.clone(),
        };
        write!(f, "git+{}", self.repository)?;
        match &self.directory {
            Some(directory) => write!(f, "#{revision}:{directory}"),
            None if revision.is_empty() => Ok(()),
            None => write!(f, "#{revision}"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart_by_how_they_are_written() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let digest = Digest::of(b"x");
        for (text, normal) in [
            ("-", Some("-".to_owned())),
            ("bundle", Some("bundle".to_owned())),
            ("./none", Some("./none".to_owned())),
            ("/none.tgz", Some("/none.tgz".to_owned())),
            ("none", None),
            ("org/none", None),
            ("quay.io/org/app:v1", Some("quay.io/org/app:v1".to_owned())),
            (
                "localhost:5000/app",
                Some("localhost:5000/app:latest".to_owned()),
            ),
            (
                "docker://busybox",
                Some("docker.io/library/busybox:latest".to_owned()),
            ),
            ("quay.io/Org/app", None),
            ("oci:dir", Some("oci:dir".to_owned())),
            ("oci:dir:v1", Some("oci:dir:v1".to_owned())),
            ("oci:", None),
            ("oci-archive:a.tar", Some("oci-archive:a.tar".to_owned())),
            (
                "docker-archive:a.tar:app:v1",
                Some("docker-archive:a.tar:app:v1".to_owned()),
            ),
            (
                "git+https://h/r.git",
                Some("git+https://h/r.git".to_owned()),
            ),
            (
                "git+https://h/r#main:a/b",
                Some("git+https://h/r#main:a/b".to_owned()),
            ),
            (
                "git+https://h/r#:a/./b/",
                Some("git+https://h/r#:a/b".to_owned()),
            ),
            (
                "git+ssh://git@h:22/r#refs/tags/v1",
                Some("git+ssh://git@h:22/r#refs/tags/v1".to_owned()),
            ),
            (
                &format!("git+https://h/r#{}", commit.to_uppercase()),
                Some(format!("git+https://h/r#{commit}")),
            ),
            ("git+https://h/r#main:../x", None),
            ("git+file:///r", None),
            ("git+ext::sh -c x", None),
            ("git+https://user:word@h/r", None),
            ("https://h/b.tgz", Some("https://h/b.tgz".to_owned())),
            (
                &format!("https://h/b.tgz#{digest}"),
                Some(format!("https://h/b.tgz#{digest}")),
            ),
            ("https://h/b.tgz#latest", None),
            ("https://user@h/b.tgz", None),
            ("ftp://h/b.tgz", None),
            ("https://", None),
        ] {
            let source = Source::parse(text, |path| path == Path::new("bundle"));
            assert_eq!(
                source.ok().map(|source| source.to_string()),
                normal,
                "{text}"
            );
        }
    }

    #[test]
    fn passwords_do_not_show_in_errors() {
        for text in [
            "https://user:word@h/r",
            "git+https://user:word@h/r",
            "ftp://user:word@h",
        ] {
            let error = Source::parse(text, |_| false).unwrap_err().to_string();
            assert!(
                !error.contains("word") || error.contains("--password"),
                "{error}"
            );
            assert!(!error.contains(":word"), "{error}");
        }
    }
}
