//! Where else the content of a registry may be had.
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

mod conf;
mod scope;

use manifests::image::Reference;
use scope::{Name, matched};

/// What to ask instead of registries, or before them, and what nobody is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors {
    rules: Vec<Rule>,
    admissions: Vec<Admission>,
    /// What stood for the digest that is fetched.
    tag: Option<String>,
}

/// What holds for one registry, or for a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `host[:port][/path]`, one image with its tag or digest, or `*.host`. The longest one that matches is used, and no
    /// other.
    pub source: String,
    /// Asked in this order.
    pub mirrors: Vec<Mirror>,
    /// Whether the source itself is never asked.
    pub blocked: bool,
    /// Where the source really is, if not where its name says.
    pub location: Option<String>,
    /// Whether the source may be unverified and speak plain HTTP.
    pub insecure: bool,
}

/// Which images may be had at all, by their own names: no mirror gives what is not admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// Who says so, as messages name it.
    pub by: String,
    /// Only these, written like [`Rule::source`]; everything if there is no list, and nothing if it is empty.
    pub allowed: Option<Vec<String>>,
    /// Never these.
    pub blocked: Vec<String>,
}

/// A place with the same content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// `host[:port][/path]`: what stands for the rule's source.
    pub location: String,
    /// What it is asked for.
    pub pull: Pull,
    /// Whether it may be unverified and speak plain HTTP.
    pub insecure: bool,
}

/// What a mirror is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pull {
    /// Everything.
    #[default]
    All,
    /// Only what a digest names: a mirror can then not say that a tag means something else.
    Digests,
    /// Only what a tag names.
    Tags,
}

/// Why mirrors cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A place that is none.
    #[error("{text:?} {problem}; write host[:port][/path], without https:// and without tag")]
    Place {
        /// As written, cut to a readable length.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file that is none.
    #[error("the list of mirrors is not a registries.conf (version 2): {problem}")]
    Conf {
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing may be sent there.
    #[error("{image} may not be pushed: {source_name:?} is blocked; change the list of mirrors")]
    NoPush {
        /// Which image.
        image: String,
        /// The rule's source.
        source_name: String,
    },
    /// It is not for us, wherever it is.
    #[error(
        "{image} may not be used: {by} {problem}; use another registry, or change what is allowed there"
    )]
    NotAdmitted {
        /// Which image.
        image: String,
        /// Who says so.
        by: String,
        /// Why.
        problem: String,
    },
    /// Nothing is left to ask.
    #[error(
        "{image} may not be pulled: {source_name:?} is blocked, and no mirror is for it; change the list of mirrors"
    )]
    Blocked {
        /// Which image.
        image: String,
        /// The rule's source.
        source_name: String,
    },
}

/// One repository to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `host[:port]`.
    pub(crate) registry: String,
    pub(crate) repository: String,
    pub(crate) insecure: bool,
    pub(crate) is_mirror: bool,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)
    }
}

impl Mirrors {
    /// Checks the rules' sources and locations.
    ///
    /// # Errors
    /// When one of them is no `host[:port][/path]`.
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

    /// The same, for images that are admitted.
    ///
    /// # Errors
    /// When a list names something that is no part of a registry.
    pub fn admitting(mut self, admission: Admission) -> Result<Self, Error> {
        let allowed = admission.allowed.iter().flatten();
        let mut scopes = allowed.chain(&admission.blocked);
        scopes.try_for_each(|scope| check(scope, true))?;
        self.admissions.push(admission);
        Ok(self)
    }

    /// The same for an image that a tag has named, and that is now fetched by the digest it stood for: mirrors for tags
    /// have said which, and are asked for it, too; and what holds for the tag holds for it. Does nothing for an image that
    /// is named by its digest.
    #[must_use]
    pub fn of_tag(self, image: &Reference) -> Self {
        let tag = image.tag().filter(|_| !image.is_pinned());
        Self {
            tag: tag.map(str::to_owned),
            ..self
        }
    }

    /// Whether a mirror is asked for this image by its tag, and is not by its digest.
    pub fn has_mirrors_for_tags(&self, image: &Reference) -> bool {
        let chosen = self.chosen(&self.name(image));
        let mut mirrors = chosen.iter().flat_map(|chosen| &chosen.rule.mirrors);
        mirrors.any(|mirror| mirror.pull == Pull::Tags)
    }

    /// As given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// As given.
    pub fn admissions(&self) -> &[Admission] {
        &self.admissions
    }

    /// Whether an image may be had at all, if there is a place that has it.
    pub fn admits(&self, image: &Reference) -> bool {
        self.admit(image).is_ok()
    }

    /// Where to ask for an image, in order.
    pub(crate) fn places(&self, image: &Reference) -> Result<Vec<Place>, Error> {
        self.admit(image)?;
        let Some(chosen) = self.chosen(&self.name(image)) else {
            return Ok(vec![own(image, false)]);
        };
        let serves = |mirror: &&Mirror| match mirror.pull {
            Pull::All => true,
            Pull::Digests => image.is_pinned(),
            Pull::Tags => !image.is_pinned() || self.tag.is_some(),
        };
        let mirrors = chosen.rule.mirrors.iter().filter(serves);
        let mut places: Vec<Place> = mirrors
            .map(|mirror| chosen.moved(&mirror.location, mirror.insecure, true))
            .collect::<Result<_, _>>()?;
        if !chosen.rule.blocked {
            places.push(chosen.source(image)?);
        }
        // A mirror may be blocked by a rule of its own, as for podman.
        places.retain(|place| {
            let there = self.chosen(&self.name(image).at(place));
            there.is_none_or(|there| !there.rule.blocked)
        });
        if places.is_empty() {
            return Err(Error::Blocked {
                image: image.to_string(),
                source_name: chosen.rule.source.clone(),
            });
        }
        Ok(places)
    }

    /// Where to send an image: never to a mirror, which has what the source has.
    pub(crate) fn target(&self, image: &Reference) -> Result<Place, Error> {
        self.admit(image)?;
        match self.chosen(&self.name(image)) {
            None => Ok(own(image, false)),
            Some(chosen) if chosen.rule.blocked => Err(Error::NoPush {
                image: image.to_string(),
                source_name: chosen.rule.source.clone(),
            }),
            Some(chosen) => chosen.source(image),
        }
    }

    fn name<'a>(&'a self, image: &'a Reference) -> Name<'a> {
        Name::of(image, self.tag.as_deref())
    }

    fn admit(&self, image: &Reference) -> Result<(), Error> {
        let name = self.name(image);
        let covers = |scope: &&String| matched(scope, &name).is_some();
        let refusal = self.admissions.iter().find_map(|admission| {
            if let Some(blocked) = admission.blocked.iter().find(covers) {
                return Some((admission, format!("blocks {blocked:?}")));
            }
            let allowed = admission.allowed.as_ref()?;
            let is_allowed = allowed.iter().any(|scope| covers(&scope));
            (!is_allowed).then(|| (admission, "allows only other registries".to_owned()))
        });
        match refusal {
            None => Ok(()),
            Some((admission, problem)) => Err(Error::NotAdmitted {
                image: image.to_string(),
                by: admission.by.clone(),
                problem,
            }),
        }
    }

    fn chosen(&self, name: &Name<'_>) -> Option<Chosen<'_>> {
        // Of two rules for the same source the first one holds.
        let rules = self.rules.iter().rev();
        let matching = rules.filter_map(|rule| Some((matched(&rule.source, name)?, rule)));
        let (length, rule) = matching.max_by_key(|(length, _)| *length)?;
        Some(Chosen {
            rule,
            // A source with a tag is longer than the name.
            rest: name.text().get(length..).unwrap_or_default().to_owned(),
        })
    }
}

/// Of several lists the first one goes before the others.
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

/// The rule that holds for an image.
struct Chosen<'a> {
    rule: &'a Rule,
    /// What of the image's name is behind the rule's source.
    rest: String,
}

impl Chosen<'_> {
    fn source(&self, image: &Reference) -> Result<Place, Error> {
        match &self.rule.location {
            Some(location) => self.moved(location, self.rule.insecure, false),
            None => Ok(own(image, self.rule.insecure)),
        }
    }

    fn moved(&self, location: &str, insecure: bool, is_mirror: bool) -> Result<Place, Error> {
        // What podman's file says is judged where it is needed.
        check(location, false)?;
        let moved = format!("{location}{}", self.rest);
        let (registry, repository) = moved.split_once('/').ok_or_else(|| Error::Place {
            text: moved.clone(),
            problem: "names a registry and no repository",
        })?;
        Ok(Place {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            insecure,
            is_mirror,
        })
    }
}

/// Where an image is by its name.
fn own(image: &Reference, insecure: bool) -> Place {
    Place {
        registry: image.domain().to_owned(),
        repository: image.path().to_owned(),
        insecure,
        is_mirror: false,
    }
}

fn check(text: &str, wildcard: bool) -> Result<(), Error> {
    let fail = |problem| Error::Place {
        text: text.chars().take(200).collect(),
        problem,
    };
    let host = text.split('/').next().unwrap_or_default();
    let plain = match host.strip_prefix("*.") {
        Some(_) if !wildcard => return Err(fail("has a \"*\" where one place is needed")),
        Some(_) if host != text => return Err(fail("has a path behind a \"*\"")),
        Some(rest) => format!("any.{rest}"),
        None => host.to_owned(),
    };
    if text.contains("://") {
        return Err(fail("has a scheme"));
    }
    // Read as an image's name, so that the same characters are allowed as there. A source without a dot or port would
    // be taken for a part of Docker Hub; a location is a host in any case.
    let plain = if wildcard || plain.contains(['.', ':']) || plain == "localhost" {
        plain
    } else {
        format!("{plain}.any")
    };
    let path = text.get(host.len()..).unwrap_or_default();
    if wildcard && scope::names_one_image(text) {
        let image = format!("{plain}{path}").parse::<Reference>();
        return match image {
            Ok(image) if image.domain() == plain => Ok(()),
            _ => Err(fail("is no image with a tag or a digest")),
        };
    }
    let image = format!("{plain}{path}/x").parse::<Reference>();
    let same_host = |image: &Reference| image.domain() == plain;
    let pinned = |image: &Reference| image.is_pinned();
    match image {
        Ok(image) if same_host(&image) && !pinned(&image) => Ok(()),
        _ => Err(fail("is no registry or part of one")),
    }
}

#[cfg(test)]
mod tests;
