//! Where bundles come from, in the words of a command line.
//!
//! ```
//! use unpacker::Source;
//! let source = Source::parse("git+https://example.com/org/repo.git#v1.2:bundle", |_| false)?;
//! assert!(matches!(source, Source::Git(git) if git.directory.as_deref() == Some("bundle")));
//! # Ok::<(), unpacker::source::Error>(())
//! ```

mod address;
mod show;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

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
    /// `https://…` or `http://…`, without credentials. Its query may be a secret, and is not displayed.
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
    /// Without what may be secret.
    text: String,
    problem: String,
}

/// What skopeo and podman read besides, and where it can be had instead.
const TRANSPORTS: &[(&str, &str)] = &[
    (
        "containers-storage",
        "podman save --format oci-archive -o FILE IMAGE, and name oci-archive:FILE",
    ),
    (
        "docker-daemon",
        "docker save -o FILE IMAGE, and name docker-archive:FILE",
    ),
    ("dir", "skopeo copy dir:… oci:FOLDER, and name oci:FOLDER"),
    (
        "ostree",
        "skopeo copy ostree:… oci:FOLDER, and name oci:FOLDER",
    ),
];

impl Source {
    /// Reads a source as people write it. `exists` tells whether there is a file or folder of that name; only for
    /// texts that may be one it is asked.
    ///
    /// # Errors
    /// When the text is none, or could be several.
    pub fn parse(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Self, Error> {
        Self::read(text, exists).map_err(|problem| Error {
            text: show::without_secrets(text).chars().take(200).collect(),
            problem,
        })
    }

    fn read(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::Local(Local::Stdin));
        }
        if let Some((scheme, rest)) = text.split_once(':') {
            let of = |kind: fn(PathBuf, Option<String>) -> Local| {
                let (path, name) = path_and_name(scheme, rest)?;
                Ok(Self::Local(kind(path, name)))
            };
            match scheme {
                "oci" => return of(Local::OciLayout),
                "oci-archive" => return of(Local::OciArchive),
                "docker-archive" => return of(Local::DockerArchive),
                _ => {}
            }
        }
        if let Some(rest) = text.strip_prefix("git+") {
            return address::git(rest).map(Self::Git);
        }
        let path = Path::new(text);
        if let Some((scheme, rest)) = text.split_once("://") {
            let lower = scheme.to_ascii_lowercase();
            return match lower.as_str() {
                "https" | "http" => address::http(text).map(Self::Http),
                "docker" => address::image(rest).map(Self::Image),
                "git+https" | "git+http" | "git+ssh" => {
                    let text = text.get("git+".len()..).unwrap_or_default();
                    address::git(text).map(Self::Git)
                }
                _ => Err(transport(scheme, rest).unwrap_or_else(|| {
                    format!(
                        "has the unknown scheme {scheme:?}; write git+https://, git+ssh://, https:// or docker://"
                    )
                })),
            };
        }
        if text.starts_with(['/', '.', '~']) || exists(path) {
            return Ok(Self::Local(Local::Path(path.to_owned())));
        }
        if let Some((scheme, rest)) = text.split_once(':')
            && let Some(problem) = transport(scheme, rest)
        {
            return Err(problem);
        }
        if let Some(problem) = address::of_scp(text) {
            return Err(problem);
        }
        let first = text.split('/').next().unwrap_or_default();
        let names_registry = first.contains(['.', ':']) || first == "localhost";
        if text.contains('/') && names_registry {
            return address::image(text).map(Self::Image);
        }
        Err(
            "does not exist here, and names no registry; check the path, or write docker.io/… for an image on Docker Hub"
                .to_owned(),
        )
    }
}

impl Image {
    /// Reads an image whose registry is named, by `docker://` or by itself: `quay.io/org/app:v1`, and not `app:v1`.
    ///
    /// # Errors
    /// When the text is no such image.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let problem = match Source::read(text, |_| false) {
            Ok(Source::Image(image)) => return Ok(image),
            Ok(_) => "is no image; write REGISTRY/REPOSITORY:TAG".to_owned(),
            Err(_) if text.parse::<Reference>().is_ok() => {
                "names no registry; write REGISTRY/REPOSITORY:TAG, as docker.io/NAME/REPOSITORY:TAG for Docker Hub"
                    .to_owned()
            }
            Err(problem) => problem,
        };
        Err(Error {
            text: show::without_secrets(text).chars().take(200).collect(),
            problem,
        })
    }
}

/// What to do about a source that only other tools read. A registry may be called as one of them, and have a port.
fn transport(scheme: &str, rest: &str) -> Option<String> {
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (_, instead) = TRANSPORTS.iter().find(|(name, _)| *name == scheme)?;
    Some(format!("is not read here; run {instead}"))
}

/// A file and what it is to be looked up in it. File names may have an `@` in them.
fn path_and_name(scheme: &str, rest: &str) -> Result<(PathBuf, Option<String>), String> {
    let at = |mark: &str| rest.find(mark).unwrap_or(rest.len());
    let (path, name) = rest
        .split_at_checked(at(":").min(at("@sha256:")))
        .unwrap_or((rest, ""));
    match (path, name.get(1..)) {
        ("", _) | (_, Some("")) => Err(format!(
            "names no file; write {scheme}:PATH or {scheme}:PATH:TAG"
        )),
        (path, name) => Ok((path.into(), name.map(str::to_owned))),
    }
}
