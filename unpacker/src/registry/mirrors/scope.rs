//! Which images a registry, a part of one, a whole domain or a single image stands for.

use manifests::image::Reference;

use super::Place;

/// An image's name, with what it is asked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name<'a> {
    text: String,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// With the tag that has named it, if it is named by a digest now.
    pub(super) fn of(image: &'a Reference, tag: Option<&'a str>) -> Self {
        Self {
            text: format!("{}/{}", image.domain(), image.path()),
            tag: image.tag().or(tag),
            digest: image.digest(),
        }
    }

    /// What the image is called in another place.
    pub(super) fn at(self, place: &Place) -> Self {
        Self {
            text: place.to_string(),
            ..self
        }
    }

    /// `host[:port]/path`.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// How much of the beginning of a name a scope covers: the more, the more exactly the scope is meant for it.
pub(super) fn matched(scope: &str, name: &Name<'_>) -> Option<usize> {
    if let Some(suffix) = scope.strip_prefix('*') {
        // `*.example.com`: all hosts below on any port, with whatever stands before the dot.
        let host = name.text.split('/').next()?;
        let bare = host.split_once(':').map_or(host, |(bare, _)| bare);
        let below = |host: &str| host.len() > suffix.len() && host.ends_with(suffix);
        return (below(bare) || below(host)).then_some(host.len());
    }
    if let Some(rest) = name.text.strip_prefix(scope) {
        return (rest.is_empty() || rest.starts_with('/')).then_some(scope.len());
    }
    let tagged = scope.rsplit_once(':').zip(name.tag);
    let pinned = scope.split_once('@').zip(name.digest);
    let is_it =
        |((before, behind), text): ((&str, &str), &str)| before == name.text && behind == text;
    (tagged.is_some_and(is_it) || pinned.is_some_and(is_it)).then_some(scope.len())
}

/// Whether a scope is one image, by a tag or a digest, and not all below a name.
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
    fn a_scope_covers_what_stands_below_it_and_nothing_beside() {
        let pinned = format!("quay.io/org/app@sha256:{}", "a".repeat(64));
        // A scope, an image that it covers, the length of what it covers, and other images.
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
            let found = |image: &str| matched(scope, &Name::of(&image.parse().unwrap(), None));
            assert_eq!(found(image), Some(length), "{scope} {image}");
            assert_rows!(others.split(' ').all(|other| found(other).is_none()) => true, "{scope}");
        }
    }
}
