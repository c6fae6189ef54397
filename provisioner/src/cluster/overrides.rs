//! Overrides: constraints that an admin ignores for one content.

use manifests::api::{
    bundle::BundleSource,
    bundle_instance::{BundleInstanceStatus, Constraint, Override},
};

/// Digests that identify content: its own digest, and the digest of its image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentDigests<'a> {
    content: Option<&'a str>,
    image: Option<&'a str>,
}

impl<'a> ContentDigests<'a> {
    /// Returns the digests of a Bundle, from `status.contentDigest` and `status.resolvedSource`.
    pub fn new(content: Option<&'a str>, source: Option<&'a BundleSource>) -> Self {
        let reference = source
            .and_then(|source| source.image.as_ref())
            .map(|image| image.reference.as_str());
        Self {
            content,
            image: reference.and_then(|reference| Some(reference.rsplit_once('@')?.1)),
        }
    }

    /// Returns the digests of the installed bundle.
    pub fn of_installed(status: &'a BundleInstanceStatus) -> Self {
        Self::new(
            status.content_digest.as_deref(),
            status.resolved_source.as_ref(),
        )
    }

    /// Returns the digest to use in an override.
    pub fn to_name(self) -> Option<&'a str> {
        self.content.or(self.image)
    }

    /// Returns the digest of the image.
    pub fn image(self) -> Option<&'a str> {
        self.image
    }

    /// Returns the overrides for this content.
    pub fn of_content(self, overrides: &[Override]) -> impl Iterator<Item = &Override> {
        overrides.iter().filter(move |entry| {
            let matches = |digest: Option<&str>| digest == Some(entry.digest.as_str());
            matches(self.content) || matches(self.image)
        })
    }

    /// Returns the first override of a constraint for this content.
    pub fn find(self, overrides: &[Override], constraint: Constraint) -> Option<&Override> {
        self.of_content(overrides)
            .find(|entry| entry.constraint == constraint)
    }
}

#[cfg(test)]
mod tests {
    use manifests::api::bundle::ImageSource;

    use super::*;

    fn digest(letter: &str) -> String {
        format!("sha256:{}", letter.repeat(64))
    }

    #[test]
    fn override_applies_to_one_digest() {
        let (content, image, other) = (digest("a"), digest("b"), digest("c"));
        let of_image =
            |reference: String| with!(BundleSource, image: Some(with!(ImageSource, reference)));
        let source = of_image(format!("registry.example:5000/etcd:v1@{image}"));
        let both = ContentDigests::new(Some(&content), Some(&source));
        let tag = of_image("registry.example:5000/etcd:v1".to_owned());
        for (digests, named, applies) in [
            (both, &content, true),
            (both, &image, true),
            (both, &other, false),
            (ContentDigests::new(Some(&content), None), &image, false),
            (ContentDigests::new(None, Some(&tag)), &image, false),
            (ContentDigests::default(), &content, false),
        ] {
            let overrides = [Override {
                constraint: Constraint::MaxOpenShiftVersion,
                digest: named.clone(),
                reason: "tested".into(),
            }];
            assert_rows!(digests.find(&overrides, Constraint::MaxOpenShiftVersion).is_some() => applies, "{digests:?} {named}");
            assert_eq!(digests.find(&overrides, Constraint::MinKubeVersion), None);
        }
        assert_eq!(both.to_name(), Some(content.as_str()));
        assert_eq!(ContentDigests::default().to_name(), None);
    }
}
