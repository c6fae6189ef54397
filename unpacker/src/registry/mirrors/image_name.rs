//! Scopes of mirror rules: a registry, a part of one, a domain or a single image.

use manifests::image::Reference;

use super::RegistryEndpoint;

/// The name of an image, with its tag and digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageName<'a> {
    text: String,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> ImageName<'a> {
    /// Creates a name. `tag` is the tag that resolved to the digest of `image`, if there was one.
    pub(super) fn new(image: &'a Reference, tag: Option<&'a str>) -> Self {
        Self {
            text: format!("{}/{}", image.domain(), image.path()),
            tag: image.tag().or(tag),
            digest: image.digest(),
        }
    }

    /// Returns the name of the image at another endpoint.
    pub(super) fn at(self, endpoint: &RegistryEndpoint) -> Self {
        Self {
            text: endpoint.to_string(),
            ..self
        }
    }

    /// Returns the name as `host[:port]/path`.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Returns the length of the prefix of a name that a scope covers, or `None`.
pub(super) fn matched(scope: &str, name: &ImageName<'_>) -> Option<usize> {
    if let Some(suffix) = scope.strip_prefix('*') {
        // `*.example.com` matches all hosts below the domain, on any port and at any depth.
        let host = name.text.split('/').next()?;
        let bare = host.split_once(':').map_or(host, |(bare, _)| bare);
        let is_subdomain = |host: &str| host.len() > suffix.len() && host.ends_with(suffix);
        return (is_subdomain(bare) || is_subdomain(host)).then_some(host.len());
    }
    if let Some(suffix) = name.text.strip_prefix(scope) {
        return (suffix.is_empty() || suffix.starts_with('/')).then_some(scope.len());
    }
    let tagged = scope.rsplit_once(':').zip(name.tag);
    let pinned = scope.split_once('@').zip(name.digest);
    let is_this_image =
        |((before, behind), text): ((&str, &str), &str)| before == name.text && behind == text;
    (tagged.is_some_and(is_this_image) || pinned.is_some_and(is_this_image)).then_some(scope.len())
}

/// Returns the rank of a scope among those that cover a name, as in containers/image: the longest scope applies, and of
/// scopes of the same length the first one in the order of bytes, which is one with a wildcard.
pub(super) fn specificity(scope: &str) -> (usize, bool) {
    (scope.len(), scope.starts_with('*'))
}

/// Reports whether a scope is a single image with a tag or a digest.
pub(super) fn names_one_image(scope: &str) -> bool {
    let has_tag = scope
        .rsplit_once('/')
        .is_some_and(|(_, last)| last.contains(':'));
    has_tag || scope.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_covers_only_images_below_it() {
        let pinned = format!("quay.io/org/app@sha256:{}", "a".repeat(64));
        // A scope, a matching image, the length of the match, and images that do not match.
        for (scope, image, length, others) in ::tests::rows![
            "quay.io", "quay.io/org/app:v1", 7 => "quay.io:5000/org/app";
            "quay.io/org", "quay.io/org/app", 11 => "quay.io/organization/app";
            "quay.io/org/app", "quay.io/org/app:v1", 15 => "quay.io/org/apps";
            "quay.io/org/app:v1", "quay.io/org/app:v1", 18 => "quay.io/org/app:v2 quay.io/org/app/more:v1";
            "quay.io/org/app:v1", "quay.io/org/app:v1", 18 => &pinned;
            &pinned, &pinned, pinned.len() => "quay.io/org/app:v1";
            "*.example", "a.example/app", 9 => "example/app quay.io/a.example/app";
            "*.example", "a.b.example:5000/app", 16 => "example/app";
            "docker.io/library", "busybox", 17 => "docker.io/org/busybox";
        ] {
            let found =
                |image: &str| matched(scope, &ImageName::new(&image.parse().unwrap(), None));
            assert_eq!(found(image), Some(length), "{scope} {image}");
            assert_rows!(others.split(' ').all(|other| found(other).is_none()) => true, "{scope}");
        }
    }
}
