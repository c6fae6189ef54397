//! `olm.template.substitutes`: a catalog, and bundles that substitute others in it.
//!
//! The substitute inherits the edges of its base and skips the base. Bundles that replaced or skipped the base replace
//! or skip the substitute.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Error, check, check_types, entries, parse_rendered, version_of};
use crate::{
    documents::Meta,
    finding,
    go_json::{self, list, text},
    model::{Entry, Release},
    render::{self, Bundle, Level, Rendered, blob::KeyOrder, builders::Channel},
    schema::{self, Blob, ParsedBlob},
    validate::Validator,
};

/// Maximum number of reported findings of an invalid catalog.
const MAX_FINDINGS: usize = 20;

#[derive(Debug, Clone)]
pub(super) struct Substitutes {
    items: Vec<Item>,
    substitutions: Vec<Substitution>,
}

#[derive(Debug, Clone)]
struct Substitution {
    /// Image of the substitute.
    image: String,
    /// Name of the substituted bundle.
    base: String,
}

/// A blob of the catalog.
#[derive(Debug, Clone)]
struct Item {
    file: Box<str>,
    line: usize,
    content: ItemContent,
}

#[derive(Debug, Clone)]
enum ItemContent {
    /// Channel whose edges can change.
    Channel(Channel),
    /// Blob that does not change, in its printed and its validated form.
    Other(render::blob::Blob, Box<Blob>),
}

// === impl Substitutes ===

impl Substitutes {
    pub(super) fn read(meta: &Meta<'_>) -> Result<Self, Error> {
        check_types(meta, &go_json::SUBSTITUTES)?;
        let (mut items, mut problems) = (Vec::new(), Vec::new());
        for entry in entries(meta) {
            let read = entry.and_then(|entry| {
                Item::read(&entry)
                    .map_err(|problem| format!("{}:{}: {problem}", entry.file, entry.line))
            });
            match read {
                Ok(item) => items.push(item),
                Err(problem) => problems.push(problem),
            }
        }
        let substitutions: Vec<_> = list(meta.root, "substitutions")
            .map(|substitution| Substitution {
                image: text(substitution, "name"),
                base: text(substitution, "base"),
            })
            .collect();
        conflicts(&substitutions, &mut problems);
        if problems.is_empty() {
            problems.extend(invalid(&items, "entries are not valid FBC"));
        }
        check(problems)?;
        Ok(Self {
            items,
            substitutions,
        })
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.substitutions
            .iter()
            .map(|substitution| substitution.image.as_str())
    }

    pub(super) fn render(
        mut self,
        mut bundles: BTreeMap<String, Bundle>,
    ) -> Result<Rendered, Error> {
        for substitution in self.substitutions {
            let Substitution { image, base } = &substitution;
            let Some(bundle) = bundles.remove(image) else {
                continue;
            };
            let substituted = substitute(&mut self.items, image, base, bundle);
            let problems = match substituted {
                Ok(()) => invalid(&self.items, "resulting config is not valid FBC"),
                Err(problem) => vec![problem],
            };
            let problems = problems.into_iter();
            let named =
                |problem| format!("error processing substitution {base:?} -> {image:?}: {problem}");
            check(problems.map(named).collect())?;
        }
        let blobs = self.items.into_iter().map(|item| match item.content {
            ItemContent::Channel(channel) => channel.blob(),
            ItemContent::Other(blob, _) => blob,
        });
        Ok(Rendered::from_blobs(blobs.collect()))
    }
}

/// Reports conflicts between substitutions, independent of the catalog.
fn conflicts(substitutions: &[Substitution], problems: &mut Vec<String>) {
    let mut bases = HashSet::new();
    let mut images: HashMap<&str, &str> = HashMap::new();
    for (at, Substitution { image, base }) in substitutions.iter().enumerate() {
        if image.is_empty() {
            problems.push(format!(
                "substitutions[{at}]: substitution name cannot be empty"
            ));
        }
        if base.is_empty() {
            problems.push(format!(
                "substitutions[{at}]: substitution base cannot be empty"
            ));
        }
        if image.is_empty() || base.is_empty() {
            continue;
        }
        if image == base {
            problems.push(format!(
                "substitutions[{at}]: substitution name and base cannot be the same ({base:?})"
            ));
        }
        if !bases.insert(base) {
            problems.push(format!("cannot reuse the same substitution base {base:?}"));
        }
        if let Some(other) = images.insert(image, base) {
            problems.push(format!(
                "cannot reuse the same substitution {image:?} for different bases ({other:?} and {base:?})"
            ));
        }
    }
}

/// Returns the errors because of which the blobs are not a valid catalog.
fn invalid(items: &[Item], prefix: &str) -> Vec<String> {
    let parsed = items.iter().map(|item| ParsedBlob {
        file: item.file.clone(),
        line: item.line,
        blob: match &item.content {
            ItemContent::Other(_, blob) => (**blob).clone(),
            ItemContent::Channel(channel) => Blob::Channel(schema::Channel {
                name: channel.name.clone(),
                package: channel.package.clone(),
                entries: channel.entries.clone().unwrap_or_default(),
            }),
        },
        ends_file: false,
    });
    let checked = Validator::default().run(parsed.collect());
    let errors = checked.findings.iter();
    let errors = errors.filter(|finding| finding.level == finding::Level::Error);
    errors
        .take(MAX_FINDINGS)
        .map(|finding| format!("{prefix}: {finding}"))
        .collect()
}

/// Substitutes a bundle.
fn substitute(
    items: &mut Vec<Item>,
    image: &str,
    base: &str,
    bundle: Bundle,
) -> Result<(), String> {
    let parsed = parse_rendered(&bundle.blob, image)?;
    let Blob::Bundle(new_bundle) = &parsed.blob else {
        return Err(format!("{image} is not a bundle"));
    };
    let name = new_bundle.name.clone();
    let release = release_of(new_bundle)?;
    let mut bundles = items.iter().filter_map(|item| match &item.content {
        ItemContent::Other(_, blob) => match &**blob {
            Blob::Bundle(bundle) => Some(bundle),
            _ => None,
        },
        ItemContent::Channel(_) => None,
    });
    let replaced = bundles
        .find(|bundle| bundle.name == base)
        .ok_or_else(|| format!("base bundle {base:?} does not exist in catalog"))?;
    let previous = release_of(replaced)?;
    if !previous.cmp_precedence(&release).is_lt() {
        return Err(format!(
            "base bundle {base:?} is not less than substitute bundle {image:?}: {previous} and {release}"
        ));
    }
    for item in items.iter_mut() {
        if let ItemContent::Channel(channel) = &mut item.content
            && let Some(entries) = &mut channel.entries
        {
            replace_edges(entries, base, &name);
        }
    }
    items.push(Item {
        file: parsed.file,
        line: parsed.line,
        content: ItemContent::Other(bundle.blob, Box::new(parsed.blob)),
    });
    Ok(())
}

/// Replaces the edges of a channel after a bundle was substituted.
fn replace_edges(entries: &mut Vec<Entry>, base: &str, name: &str) {
    let mut substituted = Vec::new();
    for entry in entries.iter_mut() {
        if entry.name == base {
            let mut skips = std::mem::take(&mut entry.skips);
            skips.push(base.to_owned());
            substituted.push(Entry {
                name: name.to_owned(),
                replaces: entry.replaces.take(),
                skips,
                skip_range: entry.skip_range.take(),
            });
        } else if entry.replaces.as_deref() == Some(base) {
            entry.replaces = Some(name.to_owned());
            entry.skips.push(base.to_owned());
        } else if entry.skips.iter().any(|skip| skip == base) {
            entry.skips.push(name.to_owned());
            entry.skips.retain(|skip| skip != base);
        }
    }
    entries.append(&mut substituted);
}

/// Returns version and release. Bundles with `olm.substitutesFor` declare the release as build metadata.
fn release_of(bundle: &schema::Bundle) -> Result<Release, String> {
    let (identity, version) = version_of(bundle)?;
    let mut release = Release {
        version,
        release: None,
    };
    if !identity.release.is_empty() {
        release.release = Some(Release::parse_release(&identity.release)?);
    } else if bundle
        .properties
        .as_ref()
        .is_ok_and(|facts| facts.has_build_release)
        && !release.version.build.is_empty()
    {
        release.release = Some(Release::parse_release(&release.version.build)?);
    }
    Ok(release)
}

// === impl Item ===

impl Item {
    fn read(entry: &Meta<'_>) -> Result<Self, String> {
        let blob = render::read(entry, KeyOrder::Sorted, Level::None)?;
        let content = if entry.schema == "olm.channel" {
            ItemContent::Channel(Channel::read(entry.root))
        } else {
            let parsed = schema::parse_blob(Ok(entry.clone()));
            if let Blob::Broken(problem, _) = parsed.blob {
                return Err(problem);
            }
            ItemContent::Other(blob, Box::new(parsed.blob))
        };
        Ok(Self {
            file: entry.file.into(),
            line: entry.line,
            content,
        })
    }
}
