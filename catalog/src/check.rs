//! The rules of `opm validate`, all of them for every package, and the packages that keep them.
//!
//! opm builds a tree and stops at the first thing that does not fit in, and only a whole tree is checked. Here the same
//! is looked at in the same order, and what does not fit is told and left out.

mod bundles;
mod channels;
mod deprecations;
mod graph;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use manifests::names;

pub(crate) use self::graph::heads;
use crate::{
    blob::{self, Blob, Seen},
    finding::{Finding, Level, Scope},
    load::Catalog,
    model::Package,
};

/// Findings that are kept.
const FINDINGS: usize = 10_000;
/// Names in one message.
const NAMES: usize = 100;

/// Where something was written.
#[derive(Debug, Clone)]
struct Place {
    file: Box<str>,
    line: usize,
}

/// A package on its way to being checked.
#[derive(Debug)]
struct Draft {
    package: Package,
    place: Place,
    channels: HashMap<String, Place>,
    bundles: HashMap<String, Place>,
    /// Bundles that are there and cannot be used, so that nobody calls them missing.
    lost: BTreeSet<String>,
    deprecations: Option<Place>,
    /// Messages of deprecated bundles.
    deprecated: HashMap<String, String>,
    /// Bundles whose build metadata is their release. opm orders by it, and checks versions as they are written.
    rebuilt: Vec<String>,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Check {
    drafts: BTreeMap<String, Draft>,
    findings: Vec<Finding>,
    more: usize,
    /// How many errors make a package unusable.
    broken: BTreeMap<String, usize>,
    /// The first of them among the findings.
    first: BTreeMap<String, usize>,
}

// === impl Check ===

impl Check {
    pub(crate) fn run(mut self, seen: Vec<Seen>) -> Catalog {
        let documents = seen.len();
        let files = Files::of(&seen);
        let (mut packages, mut channels, mut bundles, mut deprecations) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Seen { file, line, blob } in seen {
            let place = Place { file, line };
            match blob {
                Blob::Package(package) => packages.push((place, package)),
                Blob::Channel(channel) => channels.push((place, channel)),
                Blob::Bundle(bundle) => bundles.push((place, bundle)),
                Blob::Deprecations(entry) => deprecations.push((place, entry)),
                Blob::Other(_) => {}
                Blob::Broken(message, package) => {
                    self.first(&place, package.as_deref(), message, &files);
                }
            }
        }
        self.add_packages(packages, &files);
        self.add_channels(channels, &files);
        self.add_bundles(bundles, &files);
        self.find_missing();
        self.add_deprecations(deprecations, &files);
        let drafts = std::mem::take(&mut self.drafts);
        let mut good = BTreeMap::new();
        for (name, mut draft) in drafts {
            self.check_package(&draft);
            if !self.broken.contains_key(&name) {
                for (bundle, message) in draft.deprecated.drain() {
                    if let Some(bundle) = draft.package.bundles.get_mut(&bundle) {
                        bundle.deprecation = Some(message);
                    }
                }
                for bundle in draft.rebuilt {
                    if let Some(bundle) = draft.package.bundles.get_mut(&bundle) {
                        bundle.version.build_is_release();
                    }
                }
                good.insert(name, draft.package);
            }
        }
        Catalog {
            packages: good,
            broken: self.broken,
            first: self.first,
            findings: self.findings,
            more_findings: self.more,
            documents,
        }
    }

    fn add_packages(&mut self, packages: Vec<(Place, blob::Package)>, files: &Files) {
        for (place, package) in packages {
            let name = package.name;
            if name.is_empty() {
                let message = "config contains package with no name".to_owned();
                self.first(&place, None, message, files);
                continue;
            }
            if self.drafts.contains_key(&name) {
                let message = format!("duplicate package {}", q(&name));
                self.first(&place, Some(&name), message, files);
                continue;
            }
            if let Err(problem) = names::dns_label(&name) {
                let problem = if name.contains('.') {
                    "must not contain dots"
                } else {
                    problem
                };
                let message = format!("invalid package name {}: [{problem}]", q(&name));
                self.first(&place, Some(&name), message, files);
            }
            let draft = Draft {
                package: Package {
                    name: name.clone(),
                    default_channel: package.default_channel,
                    ..Package::default()
                },
                place,
                channels: HashMap::new(),
                bundles: HashMap::new(),
                lost: BTreeSet::new(),
                deprecations: None,
                deprecated: HashMap::new(),
                rebuilt: Vec::new(),
            };
            self.drafts.insert(name, draft);
        }
    }

    /// What is checked when the tree is whole.
    fn check_package(&mut self, draft: &Draft) {
        let package = &draft.package;
        if package.default_channel.is_empty() {
            self.about(draft, "default channel must be set".into());
        }
        if package.channels.is_empty() && package.default_channel.is_empty() {
            self.about(draft, "package must contain at least one channel".into());
        }
        let default = &package.default_channel;
        if !default.is_empty() && !package.channels.contains_key(default) {
            // opm makes an empty channel of that name.
            let scope = Scope::Tree {
                channels: vec![default.clone()],
                bundle: None,
            };
            let message = "channel must contain at least one bundle".to_owned();
            self.tell(
                Level::Error,
                &draft.place,
                Some(&package.name),
                message,
                scope,
            );
        }
        if package.deprecation.as_deref() == Some("") {
            self.about(draft, "invalid deprecation: message must be set".into());
        }
        self.check_versions(draft);
        for channel in package.channels.values() {
            self.check_channel(draft, channel);
        }
        self.check_bundles(draft);
    }

    // --- telling ---

    /// An error at which opm stops. Whatever names no package takes those of its file with it: nobody knows which of
    /// them is incomplete.
    fn first(&mut self, place: &Place, package: Option<&str>, message: String, files: &Files) {
        match package {
            Some(package) => self.spoil(package),
            None => {
                for package in files.packages(&place.file) {
                    self.spoil(package);
                }
            }
        }
        self.keep(Finding {
            level: Level::Error,
            file: Some(place.file.to_string()),
            line: Some(place.line),
            package: package.map(shorten),
            message,
            scope: Scope::First,
        });
    }

    /// An error about a package in opm's tree.
    fn about(&mut self, draft: &Draft, message: String) {
        let scope = Scope::Tree {
            channels: Vec::new(),
            bundle: None,
        };
        let name = draft.package.name.clone();
        self.tell(Level::Error, &draft.place, Some(&name), message, scope);
    }

    fn tell(
        &mut self,
        level: Level,
        place: &Place,
        package: Option<&str>,
        message: String,
        scope: Scope,
    ) {
        if let (Level::Error, Some(package)) = (level, package) {
            self.spoil(package);
        }
        self.keep(Finding {
            level,
            file: Some(place.file.to_string()),
            line: Some(place.line),
            package: package.map(shorten),
            message,
            scope,
        });
    }

    fn spoil(&mut self, package: &str) {
        // What spoils it is the finding that is kept next.
        if !self.broken.contains_key(package) && self.findings.len() < FINDINGS {
            self.first.insert(package.to_owned(), self.findings.len());
        }
        *self.broken.entry(package.to_owned()).or_default() += 1;
    }

    fn keep(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// Which packages a file, or else its folder, speaks of.
#[derive(Debug, Default)]
struct Files(HashMap<Box<str>, BTreeSet<String>>);

// === impl Files ===

impl Files {
    /// Of the files with something that is broken and names no package, and of their folders.
    fn of(seen: &[Seen]) -> Self {
        let mut files: HashMap<Box<str>, BTreeSet<String>> = HashMap::new();
        for Seen { file, blob, .. } in seen {
            let nameless = match blob {
                Blob::Broken(_, package) => package.is_none(),
                Blob::Package(it) => it.name.is_empty(),
                Blob::Channel(it) => it.package.is_empty(),
                Blob::Bundle(it) => it.package.is_empty(),
                Blob::Deprecations(it) => it.package.is_empty(),
                Blob::Other(_) => false,
            };
            if nameless {
                files.entry(file.clone()).or_default();
                files.entry(folder(file).into()).or_default();
            }
        }
        for Seen { file, blob, .. } in seen {
            let package = match blob {
                Blob::Package(it) => &it.name,
                Blob::Channel(it) => &it.package,
                Blob::Bundle(it) => &it.package,
                Blob::Deprecations(it) => &it.package,
                Blob::Other(package) | Blob::Broken(_, Some(package)) => package,
                Blob::Broken(_, None) => continue,
            };
            if package.is_empty() {
                continue;
            }
            for place in [&**file, folder(file)] {
                if let Some(packages) = files.get_mut(place)
                    && !packages.contains(package)
                {
                    packages.insert(package.clone());
                }
            }
        }
        Self(files)
    }

    /// Those of the file; if it names none, those of its folder, unless that is the root, where everything is.
    fn packages(&self, file: &str) -> impl Iterator<Item = &str> {
        let own = self.0.get(file).filter(|it| !it.is_empty());
        let folder = Some(folder(file)).filter(|it| !it.is_empty());
        own.or_else(|| self.0.get(folder?))
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

/// With a slash at its end, so that no file is called like it; empty for the root.
fn folder(file: &str) -> &str {
    let end = file.rfind('/').map_or(0, |at| at + 1);
    file.get(..end).unwrap_or_default()
}

/// A name in quotes, as Go's `%q` writes it; strangers' names may be long.
fn q(name: &str) -> String {
    format!("{:?}", shorten(name))
}

fn shorten(name: &str) -> String {
    const LONG: usize = 300;
    if name.len() <= LONG {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(LONG).collect();
    short.push('…');
    short
}

/// Names, joined; not all of a million.
fn join<'a>(names: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    let mut text = String::new();
    let mut more = 0;
    for (at, name) in names.into_iter().enumerate() {
        if at >= NAMES {
            more += 1;
            continue;
        }
        if at > 0 {
            text.push_str(separator);
        }
        // Without quotes, so that what moves cursors has to go.
        text.push_str(&shorten(name).replace(char::is_control, "\u{fffd}"));
    }
    if more > 0 {
        // Writing to a text does not fail.
        let _ = write!(text, "{separator}and {more} more");
    }
    text
}
