//! Validator with all rules of `opm validate`.
//!
//! opm builds a tree and stops at the first element that does not fit; it checks only a complete tree. This validator
//! applies the same rules in the same order to every package. It reports and skips elements that do not fit.

mod bundles;
mod channels;
mod deprecations;
mod graph;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use manifests::names;

use crate::{
    finding::{Finding, Level, OpmScope},
    model::{Catalog, Package},
    schema::{self, Blob, ParsedBlob},
};

/// Maximum number of retained findings.
const MAX_FINDINGS: usize = 10_000;
/// Maximum number of names in a message.
const MAX_NAMES: usize = 100;

/// Location of a document.
#[derive(Debug, Clone)]
struct Location {
    file: Box<str>,
    line: usize,
}

/// A package that is being validated.
#[derive(Debug)]
struct PackageDraft {
    package: Package,
    location: Location,
    channels: HashMap<String, Location>,
    bundles: HashMap<String, Location>,
    /// Bundles that exist but are unusable, so that they are not reported as missing.
    invalid_bundles: BTreeSet<String>,
    deprecations: Option<Location>,
    /// Deprecation messages by bundle.
    deprecated: HashMap<String, String>,
    /// Bundles whose build metadata is their release. opm orders by the release, but compares versions as declared.
    rebuilt_bundles: Vec<String>,
}

/// State of the validation.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    drafts: BTreeMap<String, PackageDraft>,
    findings: Vec<Finding>,
    more: usize,
    /// Number of errors by unusable package.
    broken: BTreeMap<String, usize>,
    /// Position of each package's first error in the findings.
    first: BTreeMap<String, usize>,
}

// === impl Validator ===

impl Validator {
    pub(crate) fn run(mut self, parsed: Vec<ParsedBlob>) -> Catalog {
        let documents = parsed.len();
        let unread_rest = unread_rest(&parsed);
        let files = FilePackages::new(&parsed);
        let (mut packages, mut channels, mut bundles, mut deprecations) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ParsedBlob {
            file, line, blob, ..
        } in parsed
        {
            let location = Location { file, line };
            match blob {
                Blob::Package(package) => packages.push((location, package)),
                Blob::Channel(channel) => channels.push((location, channel)),
                Blob::Bundle(bundle) => bundles.push((location, bundle)),
                Blob::Deprecations(entry) => deprecations.push((location, entry)),
                Blob::Other(_) => {}
                Blob::Broken(message, package) => {
                    self.report_fatal(&location, package.as_deref(), message, &files);
                }
            }
        }
        self.add_packages(packages, &files);
        self.add_channels(channels, &files);
        self.add_bundles(bundles, &files);
        self.report_missing_bundles();
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
                for bundle in draft.rebuilt_bundles {
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
            unread_rest,
            documents,
        }
    }

    fn add_packages(&mut self, packages: Vec<(Location, schema::Package)>, files: &FilePackages) {
        for (location, package) in packages {
            let name = package.name;
            if name.is_empty() {
                let message = "config contains package with no name".to_owned();
                self.report_fatal(&location, None, message, files);
                continue;
            }
            if self.drafts.contains_key(&name) {
                let message = format!("duplicate package {}", quote(&name));
                self.report_fatal(&location, Some(&name), message, files);
                continue;
            }
            if let Err(problem) = names::dns_label(&name) {
                let problem = if name.contains('.') {
                    "must not contain dots"
                } else {
                    problem
                };
                let message = format!("invalid package name {}: [{problem}]", quote(&name));
                self.report_fatal(&location, Some(&name), message, files);
            }
            let draft = PackageDraft {
                package: Package {
                    name: name.clone(),
                    default_channel: package.default_channel,
                    ..Package::default()
                },
                location,
                channels: HashMap::new(),
                bundles: HashMap::new(),
                invalid_bundles: BTreeSet::new(),
                deprecations: None,
                deprecated: HashMap::new(),
                rebuilt_bundles: Vec::new(),
            };
            self.drafts.insert(name, draft);
        }
    }

    /// Checks a package after the tree is complete.
    fn check_package(&mut self, draft: &PackageDraft) {
        let package = &draft.package;
        if package.default_channel.is_empty() {
            self.report_package(draft, "default channel must be set".into());
        }
        if package.channels.is_empty() && package.default_channel.is_empty() {
            self.report_package(draft, "package must contain at least one channel".into());
        }
        let default = &package.default_channel;
        if !default.is_empty() && !package.channels.contains_key(default) {
            // opm adds an empty channel of that name.
            let scope = OpmScope::WholeTree {
                channels: vec![default.clone()],
                bundle: None,
            };
            let message = "channel must contain at least one bundle".to_owned();
            self.report(
                Level::Error,
                &draft.location,
                Some(&package.name),
                message,
                scope,
            );
        }
        if package.deprecation.as_deref() == Some("") {
            self.report_package(draft, "invalid deprecation: message must be set".into());
        }
        self.check_versions(draft);
        for channel in package.channels.values() {
            self.check_channel(draft, channel);
        }
        self.check_bundles(draft);
    }

    // --- reporting ---

    /// Reports an error at which opm stops. An error without a package invalidates all packages of its file, because
    /// any of them can be incomplete.
    fn report_fatal(
        &mut self,
        location: &Location,
        package: Option<&str>,
        message: String,
        files: &FilePackages,
    ) {
        match package {
            Some(package) => self.mark_broken(package),
            None => {
                for package in files.packages(&location.file) {
                    self.mark_broken(package);
                }
            }
        }
        self.add_finding(Finding {
            level: Level::Error,
            file: Some(location.file.to_string()),
            line: Some(location.line),
            package: package.map(shorten),
            message,
            scope: OpmScope::FirstOnly,
        });
    }

    /// Reports an error about a package in opm's tree.
    fn report_package(&mut self, draft: &PackageDraft, message: String) {
        let scope = OpmScope::WholeTree {
            channels: Vec::new(),
            bundle: None,
        };
        let name = draft.package.name.clone();
        self.report(Level::Error, &draft.location, Some(&name), message, scope);
    }

    fn report(
        &mut self,
        level: Level,
        location: &Location,
        package: Option<&str>,
        message: String,
        scope: OpmScope,
    ) {
        if let (Level::Error, Some(package)) = (level, package) {
            self.mark_broken(package);
        }
        self.add_finding(Finding {
            level,
            file: Some(location.file.to_string()),
            line: Some(location.line),
            package: package.map(shorten),
            message,
            scope,
        });
    }

    fn mark_broken(&mut self, package: &str) {
        // The caller adds the finding immediately afterwards.
        if !self.broken.contains_key(package) && self.findings.len() < MAX_FINDINGS {
            self.first.insert(package.to_owned(), self.findings.len());
        }
        *self.broken.entry(package.to_owned()).or_default() += 1;
    }

    fn add_finding(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// Packages by file and directory.
#[derive(Debug, Default)]
struct FilePackages(HashMap<Box<str>, BTreeSet<String>>);

// === impl FilePackages ===

impl FilePackages {
    /// Collects the packages of all files that contain an invalid blob without a package, and of their directories.
    fn new(parsed: &[ParsedBlob]) -> Self {
        let mut files: HashMap<Box<str>, BTreeSet<String>> = HashMap::new();
        for ParsedBlob { file, blob, .. } in parsed {
            let is_unassigned = match blob {
                Blob::Broken(_, package) => package.is_none(),
                Blob::Package(package) => package.name.is_empty(),
                Blob::Channel(channel) => channel.package.is_empty(),
                Blob::Bundle(bundle) => bundle.package.is_empty(),
                Blob::Deprecations(deprecations) => deprecations.package.is_empty(),
                Blob::Other(_) => false,
            };
            if is_unassigned {
                files.entry(file.clone()).or_default();
                files.entry(directory(file).into()).or_default();
            }
        }
        for ParsedBlob { file, blob, .. } in parsed {
            let package = match blob {
                Blob::Package(package) => &package.name,
                Blob::Channel(channel) => &channel.package,
                Blob::Bundle(bundle) => &bundle.package,
                Blob::Deprecations(deprecations) => &deprecations.package,
                Blob::Other(package) | Blob::Broken(_, Some(package)) => package,
                Blob::Broken(_, None) => continue,
            };
            if package.is_empty() {
                continue;
            }
            for path in [&**file, directory(file)] {
                if let Some(packages) = files.get_mut(path)
                    && !packages.contains(package)
                {
                    packages.insert(package.clone());
                }
            }
        }
        Self(files)
    }

    /// Returns the packages of the file. If the file contains none, returns those of its directory, except for the
    /// root, which contains all packages.
    fn packages(&self, file: &str) -> impl Iterator<Item = &str> {
        let own = self.0.get(file).filter(|packages| !packages.is_empty());
        let directory = Some(directory(file)).filter(|directory| !directory.is_empty());
        own.or_else(|| self.0.get(directory?))
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

/// Returns the first error that ends the reading of a file after a valid document. A file without a valid document, such as
/// a README, may not belong to the catalog.
fn unread_rest(parsed: &[ParsedBlob]) -> Option<String> {
    let mut files = parsed.chunk_by(|a, b| a.file == b.file);
    files.find_map(|blobs| {
        let (last, before) = blobs.split_last()?;
        let Blob::Broken(message, _) = &last.blob else {
            return None;
        };
        let is_valid = |parsed: &ParsedBlob| !matches!(parsed.blob, Blob::Broken(..));
        (last.ends_file && before.iter().any(is_valid))
            .then(|| format!("{}:{}: {message}", last.file, last.line))
    })
}

/// Returns the directory of a file with a trailing slash, so that it differs from every file name. The root is empty.
fn directory(file: &str) -> &str {
    let end = file.rfind('/').map_or(0, |at| at + 1);
    file.get(..end).unwrap_or_default()
}

/// Quotes a name like Go's `%q` and truncates it, because names are untrusted.
fn quote(name: &str) -> String {
    format!("{:?}", shorten(name))
}

fn shorten(name: &str) -> String {
    const MAX_NAME_LEN: usize = 300;
    if name.len() <= MAX_NAME_LEN {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(MAX_NAME_LEN).collect();
    short.push('…');
    short
}

/// Joins names up to the maximum number.
fn join<'a>(names: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    let mut text = String::new();
    let mut more = 0;
    for (at, name) in names.into_iter().enumerate() {
        if at >= MAX_NAMES {
            more += 1;
            continue;
        }
        if at > 0 {
            text.push_str(separator);
        }
        // The names are not quoted, so control characters are replaced.
        text.push_str(&shorten(name).replace(char::is_control, "\u{fffd}"));
    }
    if more > 0 {
        // Writing to a String never fails.
        let _ = write!(text, "{separator}and {more} more");
    }
    text
}
