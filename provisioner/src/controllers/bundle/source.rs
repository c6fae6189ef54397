//! Translation of the source of a Bundle to a source of the unpacker, and of the resolved source to the status.

use manifests::{
    api::bundle::{BundleSource, ConfigMapSource, GitRef, GitSource, HttpSource, ImageSource},
    content, image,
};
use unpacker::{
    ParseDigestError, Source,
    http_client::RedactedUrl,
    source::{Git, Http, Image, Revision},
};
use url::Url;

/// Validated request for the content of a source.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SourceRequest<'a> {
    /// An image, a git repository or a URL.
    Remote(Source),
    /// ConfigMaps of the system namespace.
    ConfigMaps(&'a [ConfigMapSource]),
    /// Content that a client uploads.
    Upload,
}

/// Reason why a source is invalid. The API server did not validate Bundles of older versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The member for the source type is not set.
    #[error(
        "spec.source.{member} must be set for source type {type_:?}; set it, or choose another type"
    )]
    MissingMember {
        /// Name of the missing member.
        member: &'static str,
        /// Type of the source.
        type_: String,
    },
    /// An unknown source type.
    #[error("source type {0:?} not supported; use one of image, git, http, configMaps and upload")]
    Type(String),
    /// An invalid image reference.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// An invalid URL.
    #[error("spec.source.{field} {problem}; correct it")]
    Address {
        /// Path of the field.
        field: &'static str,
        /// Problem of the value. The value itself may be secret.
        problem: String,
    },
    /// A URL with a password, which would be visible to all readers of the Bundle.
    #[error(
        "spec.source.{field} contains credentials; remove them, and store them in a Secret of the system namespace \
         that spec.source.{secret} references"
    )]
    Credentials {
        /// Path of the field.
        field: &'static str,
        /// Path of the field that names a Secret instead.
        secret: &'static str,
    },
    /// An invalid digest in a URL fragment.
    #[error("spec.source.http.url has an invalid fragment")]
    Pin(#[source] ParseDigestError),
    /// The reference sets none or several of branch, tag and commit.
    #[error("spec.source.git.ref sets {count} of branch, tag and commit; set exactly one")]
    Revision {
        /// Number of fields that are set.
        count: usize,
    },
    /// A directory outside of the repository.
    #[error(
        "get subdirectory {directory:?} for repository \"{repository}\": directory can not start with '../' or '/'; \
         use a path relative to the repository root"
    )]
    Directory {
        /// Directory of the spec, truncated to a readable length.
        directory: String,
        /// Repository without credentials.
        repository: RedactedUrl,
    },
}

/// Parses and validates a source.
pub(super) fn parse(source: &BundleSource) -> Result<SourceRequest<'_>, Error> {
    let missing = |member| Error::MissingMember {
        member,
        type_: source.type_.clone(),
    };
    Ok(match source.type_.as_str() {
        "image" => {
            let image = source.image.as_ref().ok_or_else(|| missing("image"))?;
            SourceRequest::Remote(Source::Image(Image {
                reference: image.reference.trim().parse()?,
                platform: None,
            }))
        }
        "git" => {
            let git = source.git.as_ref().ok_or_else(|| missing("git"))?;
            SourceRequest::Remote(Source::Git(read_git(git)?))
        }
        "http" => {
            let http = source.http.as_ref().ok_or_else(|| missing("http"))?;
            SourceRequest::Remote(Source::Http(read_http(http)?))
        }
        "configMaps" => match source.config_maps.as_deref() {
            None | Some([]) => return Err(missing("configMaps")),
            Some(config_maps) => SourceRequest::ConfigMaps(config_maps),
        },
        "upload" => SourceRequest::Upload,
        other => return Err(Error::Type(other.chars().take(100).collect())),
    })
}

fn read_git(git: &GitSource) -> Result<Git, Error> {
    let field = "git.repository";
    let text = scp(&git.repository);
    let text = text.as_deref().unwrap_or(&git.repository);
    let repository = address(text, field, "git.auth.secret", &["https", "http", "ssh"])?;
    let GitRef {
        branch,
        tag,
        commit,
    } = &git.reference;
    let revisions = [
        branch.clone().map(Revision::Branch),
        tag.clone().map(Revision::Tag),
        commit.clone().map(Revision::Commit),
    ];
    let mut revisions: Vec<_> = revisions.into_iter().flatten().collect();
    let count = revisions.len();
    let (Some(revision), 1) = (revisions.pop(), count) else {
        return Err(Error::Revision { count });
    };
    let directory = git.directory.as_deref().unwrap_or_default();
    let is_root =
        !directory.starts_with('/') && directory.split('/').all(|part| matches!(part, "" | "."));
    let directory = if is_root {
        None
    } else {
        let normal = content::normalize(directory).map_err(|_| Error::Directory {
            directory: directory.chars().take(200).collect(),
            repository: RedactedUrl::from(&repository),
        })?;
        Some(normal)
    };
    Ok(Git {
        repository,
        revision,
        directory,
    })
}

/// Converts the scp-like syntax `git@host:path`, which `git clone` accepts for ssh, to a URL.
fn scp(text: &str) -> Option<String> {
    let (host, path) = text.split_once(':')?;
    let is_scp_syntax = host.contains('@') && !host.contains('/') && !path.starts_with("//");
    is_scp_syntax.then(|| format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

fn read_http(http: &HttpSource) -> Result<Http, Error> {
    let mut url = address(
        &http.url,
        "http.url",
        "http.auth.secret",
        &["https", "http"],
    )?;
    // A fragment is never sent to the server. If it looks like a digest, it pins the content.
    let sha256 = match url.fragment() {
        Some(fragment) if fragment.starts_with("sha256:") => {
            Some(fragment.parse().map_err(Error::Pin)?)
        }
        _ => None,
    };
    url.set_fragment(None);
    Ok(Http { url, sha256 })
}

/// Parses a URL with one of these schemes, a host and no password.
fn address(
    text: &str,
    field: &'static str,
    secret: &'static str,
    schemes: &[&str],
) -> Result<Url, Error> {
    let invalid = |problem: String| Error::Address { field, problem };
    let url = Url::parse(text).map_err(|error| invalid(format!("is not a URL ({error})")))?;
    if !schemes.contains(&url.scheme()) {
        let supported = schemes.join("://, ");
        return Err(invalid(format!("must start with one of {supported}://")));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("has no host".to_owned()));
    }
    let has_user = url.scheme() != "ssh" && !url.username().is_empty();
    if has_user || url.password().is_some() {
        return Err(Error::Credentials { field, secret });
    }
    Ok(url)
}

/// Pins a source to the digest or commit that it was resolved to before.
pub(super) fn pinned<'a>(request: SourceRequest<'a>, resolved: &BundleSource) -> SourceRequest<'a> {
    match request {
        SourceRequest::Remote(Source::Image(image)) => {
            let pin = resolved.image.as_ref();
            let pin = pin.and_then(|pin| pin.reference.parse::<image::Reference>().ok());
            let reference = pin.filter(image::Reference::is_pinned);
            SourceRequest::Remote(Source::Image(Image {
                reference: reference.unwrap_or(image.reference),
                ..image
            }))
        }
        SourceRequest::Remote(Source::Git(git)) => {
            let pin = resolved.git.as_ref();
            let commit = pin.and_then(|pin| pin.reference.commit.clone());
            SourceRequest::Remote(Source::Git(Git {
                revision: commit.map_or(git.revision, Revision::Commit),
                ..git
            }))
        }
        request => request,
    }
}

/// Returns the resolved source for the status: the source of the spec, with immutable references instead of mutable ones. A
/// URL query is omitted, because it may contain a secret. Names of Secrets are not secret.
pub(super) fn resolved(spec: &BundleSource, pinned: Option<&Source>) -> BundleSource {
    let mut resolved = BundleSource {
        type_: spec.type_.clone(),
        ..BundleSource::default()
    };
    match (spec.type_.as_str(), pinned) {
        ("image", Some(Source::Image(pinned))) => {
            let insecure = spec
                .image
                .as_ref()
                .map(|image| image.insecure_skip_tls_verify);
            resolved.image = Some(ImageSource {
                reference: pinned.reference.to_string(),
                insecure_skip_tls_verify: insecure.unwrap_or_default(),
                ..ImageSource::default()
            });
        }
        ("git", Some(Source::Git(pinned))) => {
            resolved.git = spec.git.clone().map(|git| GitSource {
                reference: match &pinned.revision {
                    Revision::Commit(commit) => GitRef {
                        commit: Some(commit.clone()),
                        ..GitRef::default()
                    },
                    _ => git.reference.clone(),
                },
                ..git
            });
        }
        ("http", Some(Source::Http(pinned))) => {
            let mut url = pinned.url.clone();
            url.set_query(None);
            resolved.http = spec.http.clone().map(|http| HttpSource {
                url: url.into(),
                ..http
            });
        }
        _ => {
            resolved.config_maps.clone_from(&spec.config_maps);
            resolved.upload.clone_from(&spec.upload);
        }
    }
    resolved
}

/// Returns the name of the Secret that a source refers to.
pub(super) fn secret(source: &BundleSource) -> Option<&str> {
    let auth = match source.type_.as_str() {
        "git" => source.git.as_ref().and_then(|git| git.auth.as_ref()),
        "http" => source.http.as_ref().and_then(|http| http.auth.as_ref()),
        _ => None,
    };
    let name = match source.type_.as_str() {
        "image" => source.image.as_ref()?.pull_secret.as_deref(),
        _ => auth?.secret.as_ref().map(|secret| secret.name.as_str()),
    };
    // rukpak wrote `auth: {secret: {}}` without a Secret.
    name.filter(|name| !name.is_empty())
}

/// Reports whether a client uploads the content, so that it cannot be fetched.
pub(super) fn is_upload(source: &BundleSource) -> bool {
    source.type_ == "upload"
}

/// Returns the names of the ConfigMaps that a source refers to.
pub(super) fn config_maps(source: &BundleSource) -> impl Iterator<Item = &str> {
    let listed = source.config_maps.iter().flatten();
    let listed = listed.filter(|_| source.type_ == "configMaps");
    listed.map(|source_map| source_map.config_map.name.as_str())
}

#[cfg(test)]
mod tests;
