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

use manifests::image::Reference;

/// What to ask instead of registries, or before them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirrors {
    rules: Vec<Rule>,
}

/// What holds for one registry, or for a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `host[:port][/path]`, or `*.host`. The longest one that matches is used, and no other.
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
        Ok(Self { rules })
    }

    /// As given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Where to ask for an image, in order.
    pub(crate) fn places(&self, image: &Reference) -> Result<Vec<Place>, Error> {
        let Some(chosen) = self.chosen(image) else {
            return Ok(vec![own(image, false)]);
        };
        let serves = |mirror: &&Mirror| match mirror.pull {
            Pull::All => true,
            Pull::Digests => image.is_pinned(),
            Pull::Tags => !image.is_pinned(),
        };
        let mirrors = chosen.rule.mirrors.iter().filter(serves);
        let mut places: Vec<Place> = mirrors
            .map(|mirror| chosen.moved(&mirror.location, mirror.insecure, true))
            .collect::<Result<_, _>>()?;
        if !chosen.rule.blocked {
            places.push(chosen.source(image)?);
        }
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
        match self.chosen(image) {
            None => Ok(own(image, false)),
            Some(chosen) if chosen.rule.blocked => Err(Error::NoPush {
                image: image.to_string(),
                source_name: chosen.rule.source.clone(),
            }),
            Some(chosen) => chosen.source(image),
        }
    }

    fn chosen(&self, image: &Reference) -> Option<Chosen<'_>> {
        let name = format!("{}/{}", image.domain(), image.path());
        // Of two rules for the same source the first one holds.
        let rules = self.rules.iter().rev();
        let matching = rules.filter_map(|rule| Some((matched(&rule.source, &name)?, rule)));
        let (length, rule) = matching.max_by_key(|(length, _)| *length)?;
        Some(Chosen {
            rule,
            rest: name.get(length..).unwrap_or_default().to_owned(),
        })
    }
}

/// Of several lists the first one goes before the others.
impl FromIterator<Mirrors> for Mirrors {
    fn from_iter<I: IntoIterator<Item = Mirrors>>(lists: I) -> Self {
        Self {
            rules: lists.into_iter().flat_map(|list| list.rules).collect(),
        }
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

/// How much of the beginning of a repository's name a rule's source covers.
fn matched(source: &str, name: &str) -> Option<usize> {
    if let Some(suffix) = source.strip_prefix('*') {
        // `*.example.com`: all hosts below, with whatever stands before the dot.
        let host = name.split('/').next()?;
        return (host.len() > suffix.len() && host.ends_with(suffix)).then_some(host.len());
    }
    let rest = name.strip_prefix(source)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(source.len())
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
    let image = format!("{plain}{path}/x").parse::<Reference>();
    let same_host = |image: &Reference| image.domain() == plain;
    let pinned = |image: &Reference| image.is_pinned();
    match image {
        Ok(image) if same_host(&image) && !pinned(&image) => Ok(()),
        _ => Err(fail("is no registry or part of one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(location: &str, pull: Pull) -> Mirror {
        Mirror {
            location: location.to_owned(),
            pull,
            insecure: false,
        }
    }

    fn rule(source: &str, mirrors: Vec<Mirror>) -> Rule {
        Rule {
            source: source.to_owned(),
            mirrors,
            ..Rule::default()
        }
    }

    #[test]
    fn the_longest_source_decides_where_to_ask_and_in_which_order() {
        let digest = format!("@sha256:{}", "a".repeat(64));
        let mirrors = Mirrors::new([
            rule("quay.io", vec![mirror("a.example", Pull::All)]),
            rule(
                "quay.io/org",
                vec![
                    mirror("b.example/x", Pull::Digests),
                    mirror("c.example:5000/y/z", Pull::Tags),
                    mirror("d.example", Pull::All),
                ],
            ),
            rule("quay.io/org", vec![mirror("second.example", Pull::All)]),
            rule("*.internal", vec![mirror("e.example/all", Pull::All)]),
            Rule {
                blocked: true,
                ..rule("docker.io", vec![mirror("f.example", Pull::Digests)])
            },
            Rule {
                location: Some("real.example/else".to_owned()),
                ..rule("alias.example", vec![])
            },
        ])
        .unwrap();
        for (image, places) in [
            ("ghcr.io/app:v1", Some(vec!["ghcr.io/app"])),
            ("quay.io/app:v1", Some(vec!["a.example/app", "quay.io/app"])),
            (
                "quay.io/organisation/app",
                Some(vec![
                    "a.example/organisation/app",
                    "quay.io/organisation/app",
                ]),
            ),
            (
                "quay.io/org/app:v1",
                Some(vec![
                    "c.example:5000/y/z/app",
                    "d.example/app",
                    "quay.io/org/app",
                ]),
            ),
            (
                &format!("quay.io/org/app:v1{digest}"),
                Some(vec!["b.example/x/app", "d.example/app", "quay.io/org/app"]),
            ),
            (
                "one.internal/app",
                Some(vec!["e.example/all/app", "one.internal/app"]),
            ),
            (
                "a.b.internal/app",
                Some(vec!["e.example/all/app", "a.b.internal/app"]),
            ),
            ("busybox", None),
            (
                &format!("busybox{digest}"),
                Some(vec!["f.example/library/busybox"]),
            ),
            ("alias.example/app", Some(vec!["real.example/else/app"])),
        ] {
            let found = mirrors.places(&image.parse().unwrap());
            let found = found
                .ok()
                .map(|places| places.iter().map(Place::to_string).collect::<Vec<_>>());
            assert_eq!(
                found.as_deref(),
                places
                    .as_ref()
                    .map(|p| p.iter().map(ToString::to_string).collect::<Vec<_>>())
                    .as_deref(),
                "{image}"
            );
        }
    }

    #[test]
    fn places_that_are_none_are_refused() {
        for source in [
            "",
            "quay.io/",
            "https://quay.io",
            "quay.io/app@sha256:x",
            "quay.io/App",
            "*.io/org",
            "a*b.io",
            "org",
            "../x",
        ] {
            assert!(Mirrors::new([rule(source, vec![])]).is_err(), "{source}");
        }
        for location in [
            "",
            "*.io",
            "quay.io/app:v1/x",
            "quay.io//app",
            "a b",
            "../x",
            "Mirror/x!",
        ] {
            let rule = rule("quay.io", vec![mirror(location, Pull::All)]);
            assert!(Mirrors::new([rule]).is_err(), "{location}");
        }
        for location in ["mirror", "mirror/x", "mirror:5000", "localhost/x"] {
            let rule = rule("quay.io", vec![mirror(location, Pull::All)]);
            assert!(Mirrors::new([rule]).is_ok(), "{location}");
        }
        let whole = Mirrors::new([rule(
            "quay.io/org/app",
            vec![mirror("a.example", Pull::All)],
        )])
        .unwrap();
        assert!(whole.places(&"quay.io/org/app".parse().unwrap()).is_err());
    }
}
