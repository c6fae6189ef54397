//! Mirror rules: the endpoints that an image is pulled from, and the images that are admitted.
//!
//! ```
//! use unpacker::registry::{Mirrors, mirrors::{Mirror, Pull, Rule}};
//!
//! let mirrors = Mirrors::new([Rule {
//!     source: "quay.io/org".to_owned(),
//!     mirrors: vec![Mirror { location: "mirror.example:5000/quay".to_owned(), pull: Pull::Digests, insecure: false }],
//!     ..Rule::default()
//! }])?;
//! assert_eq!(mirrors.rules().len(), 1);
//! # Ok::<(), unpacker::registry::mirrors::Error>(())
//! ```

mod image_name;
mod registries_conf;

use image_name::{ImageName, matched, specificity};
use manifests::image::Reference;

/// Mirrors of registries, blocked registries, and rules for admitted images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors {
    rules: Vec<Rule>,
    admissions: Vec<ImageAdmission>,
    /// Tag that resolved to the digest that is fetched.
    tag: Option<String>,
}

/// The mirrors and settings of one registry, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `host[:port][/path]`, one image with its tag or digest, or `*.host`. Only the longest matching source is used.
    pub source: String,
    /// Mirrors, in the order of their use.
    pub mirrors: Vec<Mirror>,
    /// Whether the source itself is never contacted.
    pub blocked: bool,
    /// Location of the source, if it differs from the name.
    pub location: Option<String>,
    /// Whether an unverified certificate and plain HTTP are accepted for the source.
    pub insecure: bool,
}

/// A rule for the images that may be pulled. It applies to the name of the image, so a mirror cannot serve an image
/// that is not admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageAdmission {
    /// Origin of the rule, as named in messages.
    pub by: String,
    /// Allowed registries, repositories and images, in the form of [`Rule::source`]. `None` allows all images; an
    /// empty list allows none.
    pub allowed: Option<Vec<String>>,
    /// Blocked registries, repositories and images. They take precedence over `allowed`.
    pub blocked: Vec<String>,
}

/// An endpoint with the same content as the source of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// `host[:port][/path]`, which replaces the source of the rule.
    pub location: String,
    /// Kind of references that are pulled from this mirror.
    pub pull: Pull,
    /// Whether an unverified certificate and plain HTTP are accepted.
    pub insecure: bool,
}

/// The kind of references that a mirror serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pull {
    /// Tags and digests.
    #[default]
    All,
    /// Digests only: the mirror cannot change the meaning of a tag.
    Digests,
    /// Tags only, no digests.
    Tags,
}

/// An error in the mirror rules, or an image that they do not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a registry, or not a part of one.
    #[error("{text:?} {problem}; use host[:port][/path], without https:// and without tag")]
    RegistryEndpoint {
        /// Text as written, truncated to a readable length.
        text: String,
        /// Problem of the text, as a continuation of the message.
        problem: &'static str,
    },
    /// The file is not a `registries.conf`.
    #[error("the mirror configuration is not a registries.conf (version 2): {problem}")]
    Conf {
        /// Problem of the file.
        problem: String,
    },
    /// The image cannot be pushed, because its registry is blocked.
    #[error(
        "{image} cannot be pushed: {source_name:?} is blocked; change the mirror configuration"
    )]
    NoPush {
        /// Name of the image.
        image: String,
        /// Source of the rule that blocks the image.
        source_name: String,
    },
    /// The image is not admitted, regardless of the endpoint.
    #[error(
        "{image} is not allowed: {by} {problem}; use another registry, or change the allowed registries there"
    )]
    NotAdmitted {
        /// Name of the image.
        image: String,
        /// Origin of the rule.
        by: String,
        /// Violated rule, as a continuation of the message.
        problem: String,
    },
    /// The source is blocked, and no mirror serves the image.
    #[error(
        "{image} cannot be pulled: {source_name:?} is blocked and has no mirror; change the mirror configuration"
    )]
    Blocked {
        /// Name of the image.
        image: String,
        /// Source of the rule that blocks the image.
        source_name: String,
    },
}

/// A repository in a registry or mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryEndpoint {
    /// Host of the registry, `host[:port]`.
    pub(crate) registry: String,
    pub(crate) repository: String,
    pub(crate) insecure: bool,
    pub(crate) is_mirror: bool,
}

impl std::fmt::Display for RegistryEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)
    }
}

impl Mirrors {
    /// Creates mirrors from rules.
    ///
    /// # Errors
    /// Returns an error if a source or a location is not of the form `host[:port][/path]`.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, Error> {
        let rules: Vec<Rule> = rules.into_iter().collect();
        for rule in &rules {
            check(&rule.source, true)?;
            let mirrors = rule.mirrors.iter().map(|mirror| &mirror.location);
            mirrors
                .chain(&rule.location)
                .try_for_each(|location| check(location, false))?;
        }
        Ok(Self {
            rules,
            ..Self::default()
        })
    }

    /// Adds a rule for admitted images.
    ///
    /// # Errors
    /// Returns an error if a list contains a text that is not a registry, a part of one, or an image.
    pub fn with_admissions(mut self, admission: ImageAdmission) -> Result<Self, Error> {
        let allowed = admission.allowed.iter().flatten();
        let mut scopes = allowed.chain(&admission.blocked);
        scopes.try_for_each(|scope| check(scope, true))?;
        self.admissions.push(admission);
        Ok(self)
    }

    /// Sets the tag of an image whose digest is fetched. Mirrors for tags have resolved the tag and receive the request
    /// for the digest, too, and rules for the tag apply to the digest. Has no effect for an image with a digest.
    #[must_use]
    pub fn of_tag(self, image: &Reference) -> Self {
        let tag = image.tag().filter(|_| !image.is_pinned());
        Self {
            tag: tag.map(str::to_owned),
            ..self
        }
    }

    /// Reports whether the image has a mirror that serves only tags.
    pub fn has_mirrors_for_tags(&self, image: &Reference) -> bool {
        let chosen = self.chosen(&self.name(image));
        let mut mirrors = chosen.iter().flat_map(|chosen| &chosen.rule.mirrors);
        mirrors.any(|mirror| mirror.pull == Pull::Tags)
    }

    /// Returns the rules in their original order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the admission rules in their original order.
    pub fn admissions(&self) -> &[ImageAdmission] {
        &self.admissions
    }

    /// Reports whether the rules admit an image. The image may still have no usable endpoint.
    pub fn is_admitted(&self, image: &Reference) -> bool {
        self.admit(image).is_ok()
    }

    /// Returns the endpoints of an image, in the order of their use.
    pub(crate) fn endpoints(&self, image: &Reference) -> Result<Vec<RegistryEndpoint>, Error> {
        self.admit(image)?;
        let Some(chosen) = self.chosen(&self.name(image)) else {
            return Ok(vec![direct(image, false)]);
        };
        let serves = |mirror: &&Mirror| match mirror.pull {
            Pull::All => true,
            Pull::Digests => image.is_pinned(),
            Pull::Tags => !image.is_pinned() || self.tag.is_some(),
        };
        let mirrors = chosen.rule.mirrors.iter().filter(serves);
        let mut endpoints: Vec<RegistryEndpoint> = mirrors
            .map(|mirror| chosen.rewrite(&mirror.location, mirror.insecure, true))
            .collect::<Result<_, _>>()?;
        if !chosen.rule.blocked {
            endpoints.push(chosen.source(image)?);
        }
        // A separate rule may block a mirror, as in Podman.
        endpoints.retain(|endpoint| {
            let target_rule = self.chosen(&self.name(image).at(endpoint));
            target_rule.is_none_or(|target_rule| !target_rule.rule.blocked)
        });
        if endpoints.is_empty() {
            return Err(Error::Blocked {
                image: image.to_string(),
                source_name: chosen.rule.source.clone(),
            });
        }
        Ok(endpoints)
    }

    /// Returns the endpoint for a push. It is never a mirror, because mirrors copy the source.
    pub(crate) fn target(&self, image: &Reference) -> Result<RegistryEndpoint, Error> {
        self.admit(image)?;
        match self.chosen(&self.name(image)) {
            None => Ok(direct(image, false)),
            Some(chosen) if chosen.rule.blocked => Err(Error::NoPush {
                image: image.to_string(),
                source_name: chosen.rule.source.clone(),
            }),
            Some(chosen) => chosen.source(image),
        }
    }

    fn name<'a>(&'a self, image: &'a Reference) -> ImageName<'a> {
        ImageName::new(image, self.tag.as_deref())
    }

    fn admit(&self, image: &Reference) -> Result<(), Error> {
        let name = self.name(image);
        let covers = |scope: &&String| matched(scope, &name).is_some();
        let rejection = self.admissions.iter().find_map(|admission| {
            if let Some(blocked) = admission.blocked.iter().find(covers) {
                return Some((admission, format!("blocks {blocked:?}")));
            }
            let allowed = admission.allowed.as_ref()?;
            let is_allowed = allowed.iter().any(|scope| covers(&scope));
            (!is_allowed).then(|| (admission, "allows only other registries".to_owned()))
        });
        match rejection {
            None => Ok(()),
            Some((admission, problem)) => Err(Error::NotAdmitted {
                image: image.to_string(),
                by: admission.by.clone(),
                problem,
            }),
        }
    }

    fn chosen(&self, name: &ImageName<'_>) -> Option<MatchedRule<'_>> {
        // The first of two rules for the same source applies.
        let rules = self.rules.iter().rev();
        let matches = rules.filter_map(|rule| Some((matched(&rule.source, name)?, rule)));
        let (length, rule) = matches.max_by_key(|(_, rule)| specificity(&rule.source))?;
        Some(MatchedRule {
            rule,
            // A source with a tag is longer than the name, which has no tag.
            suffix: name.text().get(length..).unwrap_or_default().to_owned(),
        })
    }
}

/// Concatenates lists. The first ones take precedence.
impl FromIterator<Mirrors> for Mirrors {
    fn from_iter<I: IntoIterator<Item = Mirrors>>(lists: I) -> Self {
        let mut all = Self::default();
        for list in lists {
            all.rules.extend(list.rules);
            all.admissions.extend(list.admissions);
            all.tag = all.tag.or(list.tag);
        }
        all
    }
}

/// The rule that applies to an image.
struct MatchedRule<'a> {
    rule: &'a Rule,
    /// Suffix of the image name after the source of the rule.
    suffix: String,
}

impl MatchedRule<'_> {
    fn source(&self, image: &Reference) -> Result<RegistryEndpoint, Error> {
        match &self.rule.location {
            Some(location) => self.rewrite(location, self.rule.insecure, false),
            None => Ok(direct(image, self.rule.insecure)),
        }
    }

    fn rewrite(
        &self,
        location: &str,
        insecure: bool,
        is_mirror: bool,
    ) -> Result<RegistryEndpoint, Error> {
        // Locations from a `registries.conf` are not checked before they are used.
        check(location, false)?;
        let rewritten = format!("{location}{}", self.suffix);
        let (registry, repository) =
            rewritten
                .split_once('/')
                .ok_or_else(|| Error::RegistryEndpoint {
                    text: rewritten.clone(),
                    problem: "has a registry but no repository",
                })?;
        Ok(RegistryEndpoint {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            insecure,
            is_mirror,
        })
    }
}

/// Returns the endpoint in the name of an image.
fn direct(image: &Reference, insecure: bool) -> RegistryEndpoint {
    RegistryEndpoint {
        registry: image.domain().to_owned(),
        repository: image.path().to_owned(),
        insecure,
        is_mirror: false,
    }
}

fn check(text: &str, wildcard: bool) -> Result<(), Error> {
    let fail = |problem| Error::RegistryEndpoint {
        text: text.chars().take(200).collect(),
        problem,
    };
    let host = text.split('/').next().unwrap_or_default();
    let plain = match host.strip_prefix("*.") {
        Some(_) if !wildcard => return Err(fail("has a \"*\", but a single location is required")),
        Some(_) if host != text => return Err(fail("has a path after a \"*\"")),
        Some(rest) => format!("any.{rest}"),
        None => host.to_owned(),
    };
    if text.contains("://") {
        return Err(fail("has a scheme"));
    }
    // The text is parsed as an image name, so that the same characters are allowed. A source without a dot or port
    // would be parsed as a part of Docker Hub, but a location is always a host.
    let plain = if wildcard || plain.contains(['.', ':']) || plain == "localhost" {
        plain
    } else {
        format!("{plain}.any")
    };
    let path = text.get(host.len()..).unwrap_or_default();
    if wildcard && image_name::names_one_image(text) {
        let image = format!("{plain}{path}").parse::<Reference>();
        return match image {
            Ok(image) if image.domain() == plain => Ok(()),
            _ => Err(fail("is not an image with a tag or a digest")),
        };
    }
    let image = format!("{plain}{path}/x").parse::<Reference>();
    let same_host = |image: &Reference| image.domain() == plain;
    let pinned = |image: &Reference| image.is_pinned();
    match image {
        Ok(image) if same_host(&image) && !pinned(&image) => Ok(()),
        _ => Err(fail("is not a registry or part of one")),
    }
}

#[cfg(test)]
mod tests;
