//! Sources of bundles, in the syntax of the command line.
//!
//! ```
//! use unpacker::Source;
//! let source = Source::parse("git+https://example.com/org/repo.git#v1.2:bundle", |_| false)?;
//! assert!(matches!(source, Source::Git(git) if git.directory.as_deref() == Some("bundle")));
//! # Ok::<(), unpacker::source::Error>(())
//! ```

mod address;
mod display;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use manifests::image::Reference;
use url::Url;

use crate::Digest;

/// A source of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An image or an artifact in a registry.
    Image(Image),
    /// A commit of a git repository.
    Git(Git),
    /// An archive at a URL.
    Http(Http),
    /// A file, directory or image on this machine.
    Local(Local),
}

/// An image in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Reference as given, or pinned to the resolved digest.
    pub reference: Reference,
    /// Platform to select from an index: `os/architecture[/variant]`. Bundles are the same for all platforms, so
    /// `None` accepts any entry.
    pub platform: Option<String>,
}

/// A directory in a git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    /// URL with the scheme `https`, `http` or `ssh`, without credentials.
    pub repository: Url,
    /// Branch, tag or commit to fetch.
    pub revision: Revision,
    /// Root directory of the bundle; `None` is the root of the repository.
    pub directory: Option<String>,
}

/// A name of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// The commit that the HEAD of the server points to.
    Head,
    /// A branch or a tag. An error if both exist.
    Name(String),
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// A commit by its full hash.
    Commit(String),
}

/// An archive at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// `https://…` or `http://…`, without credentials. The query may be secret and is not displayed.
    pub url: Url,
    /// Required digest of the body; `None` accepts any body.
    pub sha256: Option<Digest>,
}

/// A source on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local {
    /// An archive on standard input.
    Stdin,
    /// A directory, or a tar or tar.gz archive.
    Path(PathBuf),
    /// A directory with an OCI image layout. A tag or digest selects one of several images.
    OciLayout(PathBuf, Option<String>),
    /// An OCI image layout in a tar archive.
    OciArchive(PathBuf, Option<String>),
    /// An archive of `docker save`. A tag selects one of several images.
    DockerArchive(PathBuf, Option<String>),
}

/// The error for a text that does not describe a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}")]
pub struct Error {
    /// Text without possible secrets.
    text: String,
    problem: String,
}

/// Other transports of Skopeo and Podman, with the command that converts them.
const TRANSPORTS: &[(&str, &str)] = &[
    (
        "containers-storage",
        "podman save --format oci-archive -o FILE IMAGE, and use oci-archive:FILE",
    ),
    (
        "docker-daemon",
        "docker save -o FILE IMAGE, and use docker-archive:FILE",
    ),
    (
        "dir",
        "skopeo copy dir:… oci:DIRECTORY, and use oci:DIRECTORY",
    ),
    (
        "ostree",
        "skopeo copy ostree:… oci:DIRECTORY, and use oci:DIRECTORY",
    ),
];

impl Source {
    /// Parses a source from a command line. `exists` reports whether a file or directory has that name; it is called
    /// only for texts that may be paths.
    ///
    /// # Errors
    /// Returns an error if the text does not describe a source, or is ambiguous.
    pub fn parse(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Self, Error> {
        Self::read(text, exists).map_err(|problem| Error {
            text: display::without_secrets(text).chars().take(200).collect(),
            problem,
        })
    }

    fn read(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::Local(Local::Stdin));
        }
        if let Some((scheme, rest)) = text.split_once(':') {
            let parse_as = |kind: fn(PathBuf, Option<String>) -> Local| {
                let (path, name) = path_and_name(scheme, rest)?;
                Ok(Self::Local(kind(path, name)))
            };
            match scheme {
                "oci" => return parse_as(Local::OciLayout),
                "oci-archive" => return parse_as(Local::OciArchive),
                "docker-archive" => return parse_as(Local::DockerArchive),
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
                        "has the unknown scheme {scheme:?}; use git+https://, git+ssh://, https:// or docker://"
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
        if let Some(problem) = address::suggest_for_scp(text) {
            return Err(problem);
        }
        let first = text.split('/').next().unwrap_or_default();
        let names_registry = first.contains(['.', ':']) || first == "localhost";
        if text.contains('/') && names_registry {
            return address::image(text).map(Self::Image);
        }
        Err(
            "does not exist here and has no registry; check the path, or use docker.io/… for an image on Docker Hub"
                .to_owned(),
        )
    }
}

impl Image {
    /// Parses an image with an explicit registry, either `docker://…` or `quay.io/org/app:v1`, but not `app:v1`.
    ///
    /// # Errors
    /// Returns an error if the text is not such an image.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let problem = match Source::read(text, |_| false) {
            Ok(Source::Image(image)) => return Ok(image),
            Ok(_) => "is not an image; use REGISTRY/REPOSITORY:TAG".to_owned(),
            Err(_) if text.parse::<Reference>().is_ok() => {
                "has no registry; use REGISTRY/REPOSITORY:TAG, as docker.io/NAME/REPOSITORY:TAG for Docker Hub"
                    .to_owned()
            }
            Err(problem) => problem,
        };
        Err(Error {
            text: display::without_secrets(text).chars().take(200).collect(),
            problem,
        })
    }
}

/// Returns the remedy for a source that only other tools can read. A registry with a port may have the same name as a
/// transport.
fn transport(scheme: &str, rest: &str) -> Option<String> {
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (_, instead) = TRANSPORTS.iter().find(|(name, _)| *name == scheme)?;
    Some(format!("is not supported; run {instead}"))
}

/// Splits a text into the path of a file and the name of an image in it. File names may contain an `@`.
fn path_and_name(scheme: &str, rest: &str) -> Result<(PathBuf, Option<String>), String> {
    let at = |mark: &str| rest.find(mark).unwrap_or(rest.len());
    let (path, name) = rest
        .split_at_checked(at(":").min(at("@sha256:")))
        .unwrap_or((rest, ""));
    match (path, name.get(1..)) {
        ("", _) | (_, Some("")) => Err(format!(
            "has no file name; use {scheme}:PATH or {scheme}:PATH:TAG"
        )),
        (path, name) => Ok((path.into(), name.map(str::to_owned))),
    }
}
