//! What a Bundle's source asks for, in the unpacker's words, and what came of it, in the Bundle's.

use manifests::{
    api::bundle::{BundleSource, ConfigMapSource, GitRef, GitSource, HttpSource, ImageSource},
    content, image,
};
use unpacker::{
    NotADigest, Source,
    source::{Git, Http, Image, Revision},
    web::Shown,
};
use url::Url;

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wanted<'a> {
    /// From another machine.
    Remote(Source),
    /// ConfigMaps of the system namespace.
    ConfigMaps(&'a [ConfigMapSource]),
    /// What somebody sends.
    Upload,
}

/// The reason why a source asks for nothing that could be fetched. Old Bundles were not checked by the API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A type without its member.
    #[error(
        "spec.source.{member} must be set for source type {type_:?}; set it, or choose another type"
    )]
    Unset {
        /// The member.
        member: &'static str,
        /// The type.
        type_: String,
    },
    /// A type nobody knows.
    #[error("source type {0:?} not supported; use one of image, git, http, configMaps and upload")]
    Type(String),
    /// No image.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// No address that can be asked.
    #[error("spec.source.{field} {problem}; correct it")]
    Address {
        /// Where it stands.
        field: &'static str,
        /// What is wrong with it. The text itself may be a secret.
        problem: String,
    },
    /// An address with a password in it, which would show wherever the Bundle does.
    #[error(
        "spec.source.{field} holds credentials; take them out, and put them into a Secret of the system namespace that \
         spec.source.{secret} names"
    )]
    Credentials {
        /// Where it stands.
        field: &'static str,
        /// Where the Secret is named.
        secret: &'static str,
    },
    /// A digest that is none.
    #[error("spec.source.http.url has a fragment that pins nothing")]
    Pin(#[source] NotADigest),
    /// None or several of branch, tag and commit.
    #[error("spec.source.git.ref names {count} of branch, tag and commit; name exactly one")]
    Revision {
        /// How many.
        count: usize,
    },
    /// A folder outside of the repository.
    #[error(
        "get subdirectory {directory:?} for repository \"{repository}\": directory can not start with '../' or '/'; write \
         a path relative to the repository's root"
    )]
    Directory {
        /// As written, cut to a readable length.
        directory: String,
        /// The repository, without anything secret.
        repository: Shown,
    },
}

/// Reads a source.
pub(super) fn read(source: &BundleSource) -> Result<Wanted<'_>, Error> {
    let unset = |member| Error::Unset {
        member,
        type_: source.type_.clone(),
    };
    Ok(match source.type_.as_str() {
        "image" => {
            let image = source.image.as_ref().ok_or_else(|| unset("image"))?;
            Wanted::Remote(Source::Image(Image {
                reference: image.reference.trim().parse()?,
                platform: None,
            }))
        }
        "git" => {
            let git = source.git.as_ref().ok_or_else(|| unset("git"))?;
            Wanted::Remote(Source::Git(read_git(git)?))
        }
        "http" => {
            let http = source.http.as_ref().ok_or_else(|| unset("http"))?;
            Wanted::Remote(Source::Http(read_http(http)?))
        }
        "configMaps" => match source.config_maps.as_deref() {
            None | Some([]) => return Err(unset("configMaps")),
            Some(config_maps) => Wanted::ConfigMaps(config_maps),
        },
        "upload" => Wanted::Upload,
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
            repository: Shown::from(&repository),
        })?;
        Some(normal)
    };
    Ok(Git {
        repository,
        revision,
        directory,
    })
}

/// What `git clone` takes for ssh besides URLs, `git@host:path`, as a URL.
fn scp(text: &str) -> Option<String> {
    let (host, path) = text.split_once(':')?;
    let is_it = host.contains('@') && !host.contains('/') && !path.starts_with("//");
    is_it.then(|| format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

fn read_http(http: &HttpSource) -> Result<Http, Error> {
    let mut url = address(
        &http.url,
        "http.url",
        "http.auth.secret",
        &["https", "http"],
    )?;
    // A fragment is never sent; one that looks like a digest is meant to pin.
    let sha256 = match url.fragment() {
        Some(fragment) if fragment.starts_with("sha256:") => {
            Some(fragment.parse().map_err(Error::Pin)?)
        }
        _ => None,
    };
    url.set_fragment(None);
    Ok(Http { url, sha256 })
}

/// A URL of one of these schemes, with a host and without a password.
fn address(
    text: &str,
    field: &'static str,
    secret: &'static str,
    schemes: &[&str],
) -> Result<Url, Error> {
    let wrong = |problem: String| Error::Address { field, problem };
    let url = Url::parse(text).map_err(|error| wrong(format!("is no URL ({error})")))?;
    if !schemes.contains(&url.scheme()) {
        let known = schemes.join("://, ");
        return Err(wrong(format!(
            "has a scheme that is not used here, instead of one of {known}://"
        )));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(wrong("names no host".to_owned()));
    }
    let has_user = url.scheme() != "ssh" && !url.username().is_empty();
    if has_user || url.password().is_some() {
        return Err(Error::Credentials { field, secret });
    }
    Ok(url)
}

/// The same source in the form in which it was resolved before: what it meant then, it has to mean now.
pub(super) fn pinned<'a>(wanted: Wanted<'a>, resolved: &BundleSource) -> Wanted<'a> {
    match wanted {
        Wanted::Remote(Source::Image(image)) => {
            let pin = resolved.image.as_ref();
            let pin = pin.and_then(|pin| pin.reference.parse::<image::Reference>().ok());
            let reference = pin.filter(image::Reference::is_pinned);
            Wanted::Remote(Source::Image(Image {
                reference: reference.unwrap_or(image.reference),
                ..image
            }))
        }
        Wanted::Remote(Source::Git(git)) => {
            let pin = resolved.git.as_ref();
            let commit = pin.and_then(|pin| pin.reference.commit.clone());
            Wanted::Remote(Source::Git(Git {
                revision: commit.map_or(git.revision, Revision::Commit),
                ..git
            }))
        }
        wanted => wanted,
    }
}

/// What the status says about a source that was fetched: the spec's own words with what never changes in place of what
/// may. Names of Secrets are no secrets, but a query may be one.
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

/// The Secret that a source names, if any.
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
    // rukpak wrote `auth: {secret: {}}` where there was none.
    name.filter(|name| !name.is_empty())
}

/// Reports whether the content is sent by somebody, and cannot be fetched.
pub(super) fn is_upload(source: &BundleSource) -> bool {
    source.type_ == "upload"
}

/// The ConfigMaps that a source reads.
pub(super) fn config_maps(source: &BundleSource) -> impl Iterator<Item = &str> {
    let listed = source.config_maps.iter().flatten();
    let listed = listed.filter(|_| source.type_ == "configMaps");
    listed.map(|one| one.config_map.name.as_str())
}

#[cfg(test)]
mod tests;
