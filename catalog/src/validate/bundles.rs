//! Rules about bundles.

use std::collections::BTreeMap;

use manifests::version;
use manifests::version_range::Range;

use super::{FilePackages, Location, MAX_NAMES, PackageDraft, Validator, join, quote};
use crate::{
    finding::{Level, OpmScope},
    model::{Bundle, Release},
    properties::{BundleProperties, Identity},
    schema::{self, validate_pull_spec},
};

impl Validator {
    pub(super) fn add_bundles(
        &mut self,
        bundles: Vec<(Location, Box<schema::Bundle>)>,
        files: &FilePackages,
    ) {
        // Names in the channels of each package, collected once per package.
        let mut names_in_channels: BTreeMap<String, std::collections::HashSet<String>> =
            BTreeMap::new();
        for (name, draft) in &self.drafts {
            let channels = draft.package.channels.values();
            let entries =
                channels.flat_map(|channel| channel.entries.iter().map(|entry| entry.name.clone()));
            names_in_channels.insert(name.clone(), entries.collect());
        }
        for (location, bundle) in bundles {
            let package = bundle.package.clone();
            if package.is_empty() {
                let message = format!(
                    "package name must be set for bundle {}",
                    quote(&bundle.name)
                );
                self.report_fatal(&location, None, message, files);
                continue;
            }
            let Some(draft) = self.drafts.get_mut(&package) else {
                let (package_, name) = (quote(&package), quote(&bundle.name));
                let message = format!("unknown package {package_} for bundle {name}");
                self.report_fatal(&location, Some(&package), message, files);
                continue;
            };
            let name = bundle.name.clone();
            let is_duplicate = draft.bundles.contains_key(&name);
            if !is_duplicate {
                draft.bundles.insert(name.clone(), location.clone());
            }
            if is_duplicate {
                let message = format!(
                    "package {} has duplicate bundle {}",
                    quote(&package),
                    quote(&name)
                );
                self.report_fatal(&location, Some(&package), message, files);
                continue;
            }
            let in_channel = names_in_channels
                .get(&package)
                .is_some_and(|names| names.contains(&name));
            for warning in &bundle.warnings {
                let message = format!("bundle {}: {}", quote(&name), warning.message);
                let location = Location {
                    line: warning.line,
                    ..location.clone()
                };
                self.report(
                    Level::Warning,
                    &location,
                    Some(&package),
                    message,
                    OpmScope::FirstOnly,
                );
            }
            let mut problems = Vec::new();
            let is_rebuild = bundle
                .properties
                .as_ref()
                .is_ok_and(|facts| facts.has_build_release);
            let converted = convert(*bundle, &mut problems);
            if !in_channel {
                problems.push(format!(
                    "package {}, bundle {} not found in any channel entries",
                    quote(&package),
                    quote(&name)
                ));
            }
            if let Some(draft) = self.drafts.get_mut(&package) {
                if is_rebuild {
                    draft.rebuilt_bundles.push(name.clone());
                }
                match converted.filter(|_| in_channel) {
                    Some(converted) => drop(draft.package.bundles.insert(name, converted)),
                    None => drop(draft.invalid_bundles.insert(name)),
                }
            }
            for message in problems {
                self.report_fatal(&location, Some(&package), message, files);
            }
        }
    }

    /// Reports versions that occur in several bundles of a package. Like opm, sorts them as text.
    pub(super) fn check_versions(&mut self, draft: &PackageDraft) {
        let mut versions: BTreeMap<String, Vec<&Bundle>> = BTreeMap::new();
        for bundle in draft.package.bundles.values() {
            versions
                .entry(bundle.version.to_string())
                .or_default()
                .push(bundle);
        }
        let each: Vec<String> = versions
            .iter()
            .filter(|(_, bundles)| bundles.len() > 1)
            .map(|(version, bundles)| {
                let names = bundles.iter().map(|bundle| bundle.name.as_str());
                format!("{{{version}: [{}]}}", join(names, ", "))
            })
            .collect();
        if each.is_empty() {
            return;
        }
        let each = join(each.iter().map(String::as_str), " ");
        self.report_package(
            draft,
            format!("duplicate versions found in bundles: [{each}]"),
        );
    }

    /// Reports opm's findings about bundles in the tree. Findings about edges belong to the channels.
    pub(super) fn check_bundles(&mut self, draft: &PackageDraft) {
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
                for (at, _) in skips.filter(|(_, skip)| skip.is_empty()).take(MAX_NAMES) {
                    add(format!("skip[{at}] is empty"));
                }
                if let Some(range) = &entry.skip_range
                    && let Err(error) = Range::parse(range)
                {
                    add(format!("invalid skipRange {}: {error}", quote(range)));
                }
                if let Some(bundle) = package.bundles.get(&entry.name) {
                    for message in bundle_problems(&package.name, bundle) {
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
        let reports: Vec<_> = problems
            .into_iter()
            .map(|((name, message), channels)| (name.to_owned(), message, channels))
            .collect();
        for (name, message, channels) in reports {
            let own = draft.bundles.get(&name);
            let first = channels
                .first()
                .and_then(|channel| draft.channels.get(channel));
            // Findings about an entry are located in its channel.
            let in_entry = message.starts_with("skip[") || message.starts_with("invalid skipRange");
            let location = if in_entry {
                first.or(own)
            } else {
                own.or(first)
            };
            let location = location.unwrap_or(&draft.location);
            let scope = OpmScope::WholeTree {
                channels,
                bundle: Some(super::shorten(&name)),
            };
            self.report(Level::Error, location, Some(&package.name), message, scope);
        }
    }
}

/// Returns the problems of a bundle that was parsed.
fn bundle_problems(package: &str, bundle: &Bundle) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(release) = &bundle.version.release {
        let normalized = format!("{package}-v{}-{release}", bundle.version.version);
        if bundle.name != normalized {
            problems.push(format!(
                "name {} does not match normalized name {}",
                quote(&bundle.name),
                quote(&normalized)
            ));
        }
        if !bundle.version.version.build.is_empty() {
            problems.push("cannot use build metadata in version with a release version".into());
        }
    }
    if let Some(problem) = &bundle.invalid_properties {
        problems.push(problem.clone());
    }
    problems
}

/// Converts a bundle if it is sufficiently valid, and adds all of its problems.
fn convert(blob: schema::Bundle, problems: &mut Vec<String>) -> Option<Bundle> {
    let (package, name) = (quote(&blob.package), quote(&blob.name));
    let facts = match blob.properties {
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
            quote(&identity.package)
        ));
    }
    if let Some(problem) = validate_pull_spec(&blob.image) {
        problems.push(format!(
            "package {package} bundle {name} image: invalid image pull spec {}: {problem}",
            quote(&blob.image)
        ));
    }
    if let Some((at, image, problem)) = blob.invalid_related_image {
        problems.push(format!(
            "package {package} bundle {name} relatedImages[{at}].image: invalid image pull spec {}: {problem}",
            quote(&image)
        ));
    }
    let version = parse_release(identity, &name, problems)?;
    let BundleProperties {
        provides,
        requires: needs,
        min_kube,
        media_type,
        is_deprecated,
        has_objects,
        ..
    } = facts;
    let has_no_content = blob.image.is_empty() && !has_objects;
    Some(Bundle {
        name: blob.name,
        image: blob.image,
        version,
        media_type,
        provides,
        requires: needs,
        max_openshift: blob.max_openshift,
        min_kube,
        deprecation: None,
        is_deprecated,
        invalid_properties: has_no_content.then(|| "bundle image must be set".to_owned()),
    })
}

fn parse_release(identity: &Identity, name: &str, problems: &mut Vec<String>) -> Option<Release> {
    let version = version::parse_strict(&identity.version)
        .map_err(|error| {
            let text = quote(&identity.version);
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
                let text = quote(text);
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
