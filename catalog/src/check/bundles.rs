//! Rules about bundles.

use std::collections::BTreeMap;

use manifests::{range::Range, version};

use super::{Check, Draft, Files, NAMES, Place, join, q};
use crate::{
    blob::{self, pull_spec},
    facts::{Facts, Identity},
    finding::{Level, Scope},
    model::{Bundle, Release},
};

impl Check {
    pub(super) fn add_bundles(&mut self, bundles: Vec<(Place, Box<blob::Bundle>)>, files: &Files) {
        // Which names the channels of a package have, looked up once for each.
        let mut named: BTreeMap<String, std::collections::HashSet<String>> = BTreeMap::new();
        for (name, draft) in &self.drafts {
            let channels = draft.package.channels.values();
            let entries = channels.flat_map(|it| it.entries.iter().map(|it| it.name.clone()));
            named.insert(name.clone(), entries.collect());
        }
        for (place, bundle) in bundles {
            let package = bundle.package.clone();
            if package.is_empty() {
                let message = format!("package name must be set for bundle {}", q(&bundle.name));
                self.first(&place, None, message, files);
                continue;
            }
            let Some(draft) = self.drafts.get_mut(&package) else {
                let (package_, name) = (q(&package), q(&bundle.name));
                let message = format!("unknown package {package_} for bundle {name}");
                self.first(&place, Some(&package), message, files);
                continue;
            };
            let name = bundle.name.clone();
            let is_known = draft.bundles.contains_key(&name);
            if !is_known {
                draft.bundles.insert(name.clone(), place.clone());
            }
            if is_known {
                let message = format!("package {} has duplicate bundle {}", q(&package), q(&name));
                self.first(&place, Some(&package), message, files);
                continue;
            }
            let in_channel = named.get(&package).is_some_and(|it| it.contains(&name));
            for warning in &bundle.warnings {
                let message = format!("bundle {}: {}", q(&name), warning.message);
                let place = Place {
                    line: warning.line,
                    ..place.clone()
                };
                self.tell(
                    Level::Warning,
                    &place,
                    Some(&package),
                    message,
                    Scope::First,
                );
            }
            let mut problems = Vec::new();
            let is_rebuild = bundle.facts.as_ref().is_ok_and(|it| it.is_rebuild);
            let made = make(*bundle, &mut problems);
            if !in_channel {
                problems.push(format!(
                    "package {}, bundle {} not found in any channel entries",
                    q(&package),
                    q(&name)
                ));
            }
            if let Some(draft) = self.drafts.get_mut(&package) {
                if is_rebuild {
                    draft.rebuilt.push(name.clone());
                }
                match made.filter(|_| in_channel) {
                    Some(made) => drop(draft.package.bundles.insert(name, made)),
                    None => drop(draft.lost.insert(name)),
                }
            }
            for message in problems {
                self.first(&place, Some(&package), message, files);
            }
        }
    }

    /// The same version twice among the bundles of a package.
    pub(super) fn check_versions(&mut self, draft: &Draft) {
        let mut versions: BTreeMap<String, Vec<&Bundle>> = BTreeMap::new();
        for bundle in draft.package.bundles.values() {
            versions
                .entry(bundle.version.to_string())
                .or_default()
                .push(bundle);
        }
        let mut twice: Vec<_> = versions.into_iter().filter(|it| it.1.len() > 1).collect();
        if twice.is_empty() {
            return;
        }
        twice.sort_by(|(_, a), (_, b)| match (a.first(), b.first()) {
            (Some(a), Some(b)) => a.version.cmp_precedence(&b.version),
            _ => std::cmp::Ordering::Equal,
        });
        let each: Vec<String> = twice
            .iter()
            .map(|(version, bundles)| {
                let names = bundles.iter().map(|it| it.name.as_str());
                format!("{{{version}: [{}]}}", join(names, ", "))
            })
            .collect();
        let each = join(each.iter().map(String::as_str), " ");
        self.about(
            draft,
            format!("duplicate versions found in bundles: [{each}]"),
        );
    }

    /// What opm tells of bundles within its tree. Edges are those of each channel.
    pub(super) fn check_bundles(&mut self, draft: &Draft) {
        let package = &draft.package;
        let mut problems: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        for channel in package.channels.values() {
            for entry in &channel.entries {
                let mut add = |message: String| {
                    let channels = problems.entry((&entry.name, message)).or_default();
                    channels.push(channel.name.clone());
                };
                if entry.name.is_empty() {
                    add("name must be set".into());
                }
                let skips = entry.skips.iter().enumerate();
                for (at, _) in skips.filter(|(_, it)| it.is_empty()).take(NAMES) {
                    add(format!("skip[{at}] is empty"));
                }
                if let Some(range) = &entry.skip_range
                    && let Err(error) = Range::parse(range)
                {
                    add(format!("invalid skipRange {}: {error}", q(range)));
                }
                if let Some(bundle) = package.bundles.get(&entry.name) {
                    for message in whole(&package.name, bundle) {
                        add(message);
                    }
                    if draft
                        .deprecated
                        .get(&entry.name)
                        .is_some_and(String::is_empty)
                    {
                        add("invalid deprecation: message must be set".into());
                    }
                }
            }
        }
        let told: Vec<_> = problems
            .into_iter()
            .map(|((name, message), channels)| (name.to_owned(), message, channels))
            .collect();
        for (name, message, channels) in told {
            let own = draft.bundles.get(&name);
            let first = channels.first().and_then(|it| draft.channels.get(it));
            // What an entry says stands in its channel.
            let in_entry = message.starts_with("skip[") || message.starts_with("invalid skipRange");
            let place = if in_entry {
                first.or(own)
            } else {
                own.or(first)
            };
            let place = place.unwrap_or(&draft.place);
            let scope = Scope::Tree {
                channels,
                bundle: Some(super::shorten(&name)),
            };
            self.tell(Level::Error, place, Some(&package.name), message, scope);
        }
    }
}

/// What is wrong with a bundle that could be read.
fn whole(package: &str, bundle: &Bundle) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(release) = &bundle.version.release {
        let normal = format!("{package}-v{}-{release}", bundle.version.version);
        if bundle.name != normal {
            problems.push(format!(
                "name {} does not match normalized name {}",
                q(&bundle.name),
                q(&normal)
            ));
        }
        if !bundle.version.version.build.is_empty() {
            problems.push("cannot use build metadata in version with a release version".into());
        }
    }
    if let Some(problem) = &bundle.unreadable {
        problems.push(problem.clone());
    }
    problems
}

/// The bundle, if enough of it is right; and all that is not.
fn make(blob: blob::Bundle, problems: &mut Vec<String>) -> Option<Bundle> {
    let (package, name) = (q(&blob.package), q(&blob.name));
    let facts = match blob.facts {
        Ok(facts) => facts,
        Err(error) => {
            problems.push(format!("parse properties for bundle {name}: {error}"));
            return None;
        }
    };
    let identity = match facts.packages.as_slice() {
        [identity] => identity,
        several => {
            problems.push(format!(
                "package {package} bundle {name} must have exactly 1 \"olm.package\" property, found {}",
                several.len()
            ));
            return None;
        }
    };
    if identity.package != blob.package {
        problems.push(format!(
            "package {package} does not match \"olm.package\" property {}",
            q(&identity.package)
        ));
    }
    if let Some(problem) = pull_spec(&blob.image) {
        problems.push(format!(
            "package {package} bundle {name} image: invalid image pull spec {}: {problem}",
            q(&blob.image)
        ));
    }
    if let Some((at, image, problem)) = blob.related {
        problems.push(format!(
            "package {package} bundle {name} relatedImages[{at}].image: invalid image pull spec {}: {problem}",
            q(&image)
        ));
    }
    let version = release_of(identity, &name, problems)?;
    let Facts {
        provides,
        needs,
        min_kube,
        media_type,
        is_deprecated,
        has_objects,
        ..
    } = facts;
    let is_nowhere = blob.image.is_empty() && !has_objects;
    Some(Bundle {
        name: blob.name,
        image: blob.image,
        version,
        media_type,
        provides,
        needs,
        max_openshift: blob.max_openshift,
        min_kube,
        deprecation: None,
        is_deprecated,
        unreadable: is_nowhere.then(|| "bundle image must be set".to_owned()),
    })
}

fn release_of(identity: &Identity, name: &str, problems: &mut Vec<String>) -> Option<Release> {
    let version = version::strict(&identity.version)
        .map_err(|error| {
            let text = q(&identity.version);
            problems.push(format!(
                "error parsing bundle {name} version {text}: {error}"
            ));
        })
        .ok();
    let release = match identity.release.as_str() {
        "" => None,
        text => match Release::parse_release(text) {
            Ok(release) => Some(release),
            Err(error) => {
                let text = q(text);
                problems.push(format!(
                    "error parsing bundle {name} release version {text}: {error}"
                ));
                return None;
            }
        },
    };
    Some(Release {
        version: version?,
        release,
    })
}
