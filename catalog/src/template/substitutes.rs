//! `olm.template.substitutes`: a catalog, and bundles that take the places of others in it.
//!
//! The substitute takes over the edges of its base, which it skips from then on; whoever replaced or skipped the base
//! replaces or skips the substitute.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Error, check, entries, look, shaped, version_of};
use crate::{
    blob::{self, Blob, Seen},
    check::Check,
    finding,
    model::{Entry, Release},
    render::{self, Bundle, Level, Rendered, blob::Order, parts::Channel},
    shape::{self, list, text},
    walk::Meta,
};

/// What is told of a catalog that is none.
const FINDINGS: usize = 20;

#[derive(Debug, Clone)]
pub(super) struct Substitutes {
    items: Vec<Item>,
    substitutions: Vec<Substitution>,
}

#[derive(Debug, Clone)]
struct Substitution {
    /// The image of the substitute.
    image: String,
    /// The name of the bundle that gives up its place.
    base: String,
}

/// A blob of the catalog.
#[derive(Debug, Clone)]
struct Item {
    file: Box<str>,
    line: usize,
    made: Made,
}

#[derive(Debug, Clone)]
enum Made {
    /// Its edges may change.
    Channel(Channel),
    /// Stays as it is: what is printed, and what is checked.
    Other(render::blob::Blob, Box<Blob>),
}

// === impl Substitutes ===

impl Substitutes {
    pub(super) fn read(meta: &Meta<'_>) -> Result<Self, Error> {
        shaped(meta, &shape::SUBSTITUTES)?;
        let (mut items, mut problems) = (Vec::new(), Vec::new());
        for entry in entries(meta) {
            let read = entry.and_then(|entry| {
                Item::read(&entry).map_err(|it| format!("{}:{}: {it}", entry.file, entry.line))
            });
            match read {
                Ok(item) => items.push(item),
                Err(problem) => problems.push(problem),
            }
        }
        let substitutions: Vec<_> = list(meta.root, "substitutions")
            .map(|it| Substitution {
                image: text(it, "name"),
                base: text(it, "base"),
            })
            .collect();
        contradictions(&substitutions, &mut problems);
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
        self.substitutions.iter().map(|it| it.image.as_str())
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
            let named = |it| format!("error processing substitution {base:?} -> {image:?}: {it}");
            check(problems.map(named).collect())?;
        }
        let blobs = self.items.into_iter().map(|it| match it.made {
            Made::Channel(channel) => channel.blob(),
            Made::Other(blob, _) => blob,
        });
        Ok(Rendered::of(blobs.collect()))
    }
}

/// What is wrong with substitutions, whatever they name.
fn contradictions(substitutions: &[Substitution], problems: &mut Vec<String>) {
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

/// What keeps blobs from being a catalog.
fn invalid(items: &[Item], what: &str) -> Vec<String> {
    let seen = items.iter().map(|item| Seen {
        file: item.file.clone(),
        line: item.line,
        blob: match &item.made {
            Made::Other(_, blob) => (**blob).clone(),
            Made::Channel(channel) => Blob::Channel(blob::Channel {
                name: channel.name.clone(),
                package: channel.package.clone(),
                entries: channel.entries.clone().unwrap_or_default(),
            }),
        },
    });
    let checked = Check::default().run(seen.collect());
    let errors = checked.findings.iter();
    let errors = errors.filter(|it| it.level == finding::Level::Error);
    errors
        .take(FINDINGS)
        .map(|it| format!("{what}: {it}"))
        .collect()
}

/// Puts a bundle into the place of another one.
fn substitute(
    items: &mut Vec<Item>,
    image: &str,
    base: &str,
    bundle: Bundle,
) -> Result<(), String> {
    let seen = look(&bundle.blob, image)?;
    let Blob::Bundle(found) = &seen.blob else {
        return Err(format!("{image} is no bundle"));
    };
    let name = found.name.clone();
    let release = release_of(found)?;
    let mut bundles = items.iter().filter_map(|it| match &it.made {
        Made::Other(_, blob) => match &**blob {
            Blob::Bundle(bundle) => Some(bundle),
            _ => None,
        },
        Made::Channel(_) => None,
    });
    let replaced = bundles
        .find(|it| it.name == base)
        .ok_or_else(|| format!("base bundle {base:?} does not exist in catalog"))?;
    let before = release_of(replaced)?;
    if !before.cmp_precedence(&release).is_lt() {
        return Err(format!(
            "base bundle {base:?} is not less than substitute bundle {image:?}: {before} and {release}"
        ));
    }
    for item in items.iter_mut() {
        if let Made::Channel(channel) = &mut item.made
            && let Some(entries) = &mut channel.entries
        {
            rewire(entries, base, &name);
        }
    }
    items.push(Item {
        file: seen.file,
        line: seen.line,
        made: Made::Other(bundle.blob, Box::new(seen.blob)),
    });
    Ok(())
}

/// The edges of a channel after a bundle took the place of another one.
fn rewire(entries: &mut Vec<Entry>, base: &str, name: &str) {
    let mut taken = Vec::new();
    for entry in entries.iter_mut() {
        if entry.name == base {
            let mut skips = std::mem::take(&mut entry.skips);
            skips.push(base.to_owned());
            taken.push(Entry {
                name: name.to_owned(),
                replaces: entry.replaces.take(),
                skips,
                skip_range: entry.skip_range.take(),
            });
        } else if entry.replaces.as_deref() == Some(base) {
            entry.replaces = Some(name.to_owned());
            entry.skips.push(base.to_owned());
        } else if entry.skips.iter().any(|it| it == base) {
            entry.skips.push(name.to_owned());
            entry.skips.retain(|it| it != base);
        }
    }
    entries.append(&mut taken);
}

/// Version and release. Bundles that say so have their release in the build metadata.
fn release_of(bundle: &blob::Bundle) -> Result<Release, String> {
    let (identity, version) = version_of(bundle)?;
    let mut release = Release {
        version,
        release: None,
    };
    if !identity.release.is_empty() {
        release.release = Some(Release::parse_release(&identity.release)?);
    } else if bundle.facts.as_ref().is_ok_and(|it| it.is_rebuild)
        && !release.version.build.is_empty()
    {
        release.release = Some(Release::parse_release(&release.version.build)?);
    }
    Ok(release)
}

// === impl Item ===

impl Item {
    fn read(entry: &Meta<'_>) -> Result<Self, String> {
        let blob = render::read(entry, Order::Sorted, Level::None)?;
        let made = if entry.schema == "olm.channel" {
            Made::Channel(Channel::read(entry.root))
        } else {
            let seen = blob::look(Ok(entry.clone()));
            if let Blob::Broken(problem, _) = seen.blob {
                return Err(problem);
            }
            Made::Other(blob, Box::new(seen.blob))
        };
        Ok(Self {
            file: entry.file.into(),
            line: entry.line,
            made,
        })
    }
}
