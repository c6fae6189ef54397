//! Parser of `registries.conf`, the mirror configuration of Podman, Skopeo and CRI-O.

use serde::Deserialize;

use super::{Error, Mirror, Mirrors, Pull, Rule};

const MAX_FILE: usize = 1 << 20;

#[derive(Deserialize)]
struct Conf {
    #[serde(default)]
    registry: Vec<Registry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Registry {
    prefix: Option<String>,
    location: Option<String>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<Endpoint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Endpoint {
    location: String,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<String>,
}

impl Mirrors {
    /// Parses a `registries.conf` of version 2. Other settings in the file are ignored. An invalid location is an
    /// error only for images that its rule applies to.
    ///
    /// # Errors
    /// Returns an error if the text is not a `registries.conf`, or if a location is a URL.
    pub fn from_registries_conf(text: &str) -> Result<Self, Error> {
        let fail = |problem: String| Error::Conf { problem };
        if text.len() > MAX_FILE {
            return Err(fail(format!("it is larger than {MAX_FILE} bytes")));
        }
        let conf: Conf = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .and_then(|span| text.get(..span.start))
                .map_or(1, |before| before.lines().count().max(1));
            fail(format!("line {line}: {}", error.message()))
        })?;
        let rules: Vec<Rule> = conf
            .registry
            .into_iter()
            .map(rule)
            .collect::<Result<_, _>>()
            .map_err(fail)?;
        for rule in &rules {
            let mirrors = rule.mirrors.iter().map(|mirror| &mirror.location);
            let mut locations = mirrors.chain(&rule.location).chain([&rule.source]);
            if let Some(url) = locations.find(|location| location.contains("://")) {
                return Err(Error::RegistryEndpoint {
                    text: url.chars().take(200).collect(),
                    problem: "has a scheme",
                });
            }
        }
        Ok(Self {
            rules,
            ..Self::default()
        })
    }
}

/// Normalizes a location in the same way as Podman.
fn trim_slashes(text: &str) -> String {
    text.trim_end_matches('/').to_owned()
}

fn rule(registry: Registry) -> Result<Rule, String> {
    let non_empty = |text: Option<String>| {
        text.map(|t| trim_slashes(&t))
            .filter(|text| !text.is_empty())
    };
    let location = non_empty(registry.location);
    let source = match (non_empty(registry.prefix), &location) {
        (Some(prefix), _) => prefix,
        (_, Some(location)) => location.clone(),
        _ => {
            return Err(
                "a [[registry]] has neither prefix nor location; set one of them".to_owned(),
            );
        }
    };
    let digests_only = registry.mirror_by_digest_only;
    let mirror = |endpoint: Endpoint| {
        let pull = match endpoint.pull_from_mirror.as_deref() {
            None | Some("") if digests_only => Pull::Digests,
            None | Some("" | "all") => Pull::All,
            Some("digest-only") => Pull::Digests,
            Some("tag-only") => Pull::Tags,
            Some(_) => {
                return Err(format!(
                    "a mirror of {source:?} has an unknown pull-from-mirror; use all, digest-only or tag-only"
                ));
            }
        };
        Ok(Mirror {
            location: trim_slashes(&endpoint.location),
            pull,
            insecure: endpoint.insecure,
        })
    };
    let mirrors = registry
        .mirror
        .into_iter()
        .map(mirror)
        .collect::<Result<_, _>>()?;
    Ok(Rule {
        mirrors,
        blocked: registry.blocked,
        location: location.filter(|location| *location != source),
        insecure: registry.insecure,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registries_conf_is_read() {
        let text = r#"
            unqualified-search-registries = ["docker.io"]
            [[registry]]
            prefix = "quay.io/org"
            location = "quay.io/org"
            mirror-by-digest-only = true
            [[registry.mirror]]
            location = "a.example/x"
            [[registry.mirror]]
            location = "b.example"
            insecure = true
            pull-from-mirror = "tag-only"
            [[registry]]
            location = "old.example"
            blocked = true
            [[registry]]
            prefix = "*.example"
            insecure = true
        "#;
        let one = ("a.example/x", Pull::Digests, false);
        let two = ("b.example", Pull::Tags, true);
        let mirrors = [one, two].map(|(location, pull, insecure)| Mirror {
            location: location.to_owned(),
            pull,
            insecure,
        });
        let rules = [
            with!(Rule, source: "quay.io/org".to_owned(), mirrors: mirrors.to_vec()),
            with!(Rule, source: "old.example".to_owned(), blocked: true),
            with!(Rule, source: "*.example".to_owned(), insecure: true),
        ];
        assert_eq!(Mirrors::from_registries_conf(text).unwrap().rules(), rules);
    }

    #[test]
    fn trailing_slashes_and_unmatched_rules_are_ignored() {
        let text = r#"
            [[registry]]
            prefix = "quay.io/org/"
            location = "quay.io/org/"
            [[registry.mirror]]
            location = "mirror/copies/"
            [[registry]]
            location = "bad.example"
            [[registry.mirror]]
            location = "No Place"
            [[registry]]
            prefix = "shorthand"
            location = "registry.example/Shorthand"
        "#;
        let mirrors = Mirrors::from_registries_conf(text).unwrap();
        let mirrors: Mirrors = [mirrors].into_iter().collect();
        let places = |image: &str| {
            let places = mirrors.endpoints(&image.parse().unwrap())?;
            Ok::<_, Error>(places.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_rows!(places("quay.io/org/app").unwrap() => ["mirror/copies/app", "quay.io/org/app"]);
        assert_eq!(places("ghcr.io/app").unwrap(), ["ghcr.io/app"]);
        let error = places("bad.example/app").unwrap_err().to_string();
        assert!(error.contains("\"No Place\" is not a registry"), "{error}");
    }

    #[test]
    fn malformed_registries_conf_is_reported() {
        assert_each!(|text, problem| Mirrors::from_registries_conf(text).unwrap_err() => has problem;
            "\n[[registry]" => "line 2";
            "registry = 1" => "line 1";
            "[[registry]]\nblocked = true" => "neither prefix nor location";
            "[[registry]]\nlocation = \"a.b\"\nmirror = [{location = \"c.d\", pull-from-mirror = \"x\"}]"
                => "unknown pull-from-mirror";
            "[[registry]]\nprefix = \"https://a.b\"" => "has a scheme";
            &"[".repeat(5000) => "line 1";
            &" ".repeat(MAX_FILE + 1) => "larger";
        );
    }
}
