//! Image references, parsed with Docker's grammar for normalized names.

use std::{fmt, str::FromStr};

/// A reference to an image: `[domain/]path[:tag][@digest]`, with Docker's defaults filled in.
///
/// ```
/// use manifests::image::Reference;
/// let image: Reference = "busybox".parse()?;
/// assert_eq!(image.to_string(), "docker.io/library/busybox:latest");
/// # Ok::<(), manifests::image::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    domain: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Error of text that is not an image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("image reference {text:?} {problem}; use [registry/]repository[:tag][@sha256:digest]")]
pub struct Error {
    text: String,
    problem: &'static str,
}

impl Reference {
    /// Returns the registry; `docker.io` for a reference without a registry.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the repository in the registry.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the tag; `latest` if the reference has neither tag nor digest.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest with its algorithm.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Reports whether the reference has a digest, and so always refers to the same image.
    pub fn is_pinned(&self) -> bool {
        self.digest.is_some()
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = |problem| Error {
            text: text.chars().take(200).collect(),
            problem,
        };
        if text.is_empty() {
            return Err(fail("is empty"));
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(fail("has a malformed digest"));
        }
        // A colon after the last slash starts the tag, and one before it the port.
        let slash = name.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match name.get(slash..).and_then(|last| last.find(':')) {
            Some(at) => (
                name.get(..slash + at).unwrap_or_default(),
                name.get(slash + at + 1..),
            ),
            None => (name, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(fail("has a malformed tag"));
        }
        let (domain, path) = match name.split_once('/') {
            Some((first, rest)) if is_domain_like(first) => (first, rest.to_owned()),
            Some(_) => ("docker.io", name.to_owned()),
            None => ("docker.io", format!("library/{name}")),
        };
        let domain = if domain == "index.docker.io" {
            "docker.io"
        } else {
            domain
        };
        let path = if domain == "docker.io" && !path.contains('/') {
            format!("library/{path}")
        } else {
            path
        };
        if !is_domain(domain) {
            return Err(fail("has a malformed registry"));
        }
        if path.chars().any(|c| c.is_ascii_uppercase()) {
            return Err(fail("has upper-case letters in its repository"));
        }
        if !path.split('/').all(is_component) || domain.len() + 1 + path.len() > 255 {
            return Err(fail("has a malformed repository"));
        }
        Ok(Self {
            domain: domain.to_owned(),
            path,
            tag: tag
                .or(digest.is_none().then_some("latest"))
                .map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Reports whether Docker treats the first path component as a registry.
fn is_domain_like(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.chars().any(|c| c.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((address, rest)) => {
            if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':') {
                return false;
            }
            (
                "v6",
                if rest.is_empty() {
                    None
                } else {
                    Some(rest.strip_prefix(':').unwrap_or("?"))
                },
            )
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.split('.').all(label)
        && port.is_none_or(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// Reports whether the text consists of lowercase letters and digits, separated by one of `.`, `_`, `__` or any number of
/// `-`.
fn is_component(part: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators_fine = part
        .split(edge)
        .filter(|run| !run.is_empty())
        .all(|run| matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-'));
    part.starts_with(edge) && part.ends_with(edge) && separators_fine
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && !tag.starts_with(['.', '-'])
        && tag
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length
        && hex
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_normalized_as_by_docker() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let parsed = |text: &str| Some(text.parse::<Reference>().ok()?.to_string());
        assert_each!(|texts, normal| texts.iter().find(|text| parsed(text).as_deref() != normal) => None;
            &["busybox", "docker.io/busybox"][..] => Some("docker.io/library/busybox:latest");
            &["org/app:v1"] => Some("docker.io/org/app:v1");
            &["index.docker.io/org/app"] => Some("docker.io/org/app:latest");
            &["quay.io/org/app"] => Some("quay.io/org/app:latest");
            &["localhost/app"] => Some("localhost/app:latest");
            &["localhost:5000/app:1.0"] => Some("localhost:5000/app:1.0");
            &["[::1]:5000/app"] => Some("[::1]:5000/app:latest");
            &["quay.io/a/b/c__d/e-f.g_h"] => Some("quay.io/a/b/c__d/e-f.g_h:latest");
            &[
                "quay.io/Org/app", "quay.io/org/app:", "quay.io/org/app:-x", "quay.io/org/app@sha256:abc",
                "quay.io/org//app", "quay.io:port/app", "a b", "", "https://quay.io/org/app", "a..b", "quay.io/a___b",
            ] => None;
        );
        let pinned: Reference = format!("quay.io/org/app:v1@{digest}").parse().unwrap();
        assert_rows!(pinned.is_pinned() && pinned.tag() == Some("v1") && pinned.digest() == Some(&*digest) => true);
        assert_rows!(format!("quay.io/org/app@{digest}").parse::<Reference>().unwrap().tag() => None);
    }
}
