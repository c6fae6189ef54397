//! `olm.semver`: bundles in three lists, of which channels are made by version.
//!
//! Each list (candidate, fast, stable: the later the more stable) has a channel for every major version, every minor
//! version, or both. Upgrades stay within a major version: the last bundle of a minor version replaces the last one of the
//! minor version before, and skips everything else that is older. All other bundles are entries without edges.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use manifests::{version::Version, yaml};

use super::{Error, check, look, shaped, version_of};
use crate::{
    blob::Blob,
    model::Entry,
    render::{
        Bundle, Rendered,
        parts::{Channel, Package},
    },
    shape::{self, list, text},
    walk::Meta,
};

/// The lists, the least stable first.
const LISTS: [&str; 3] = ["candidate", "fast", "stable"];

/// Names of skipped bundles in all channels. Their number grows with the square of that of minor versions.
const MOST_EDGES: usize = 2_000_000;

#[derive(Debug, Clone)]
pub(super) struct Semver {
    channels: Channels,
    /// Images, in the order of [`LISTS`].
    lists: [Vec<String>; 3],
}

/// Which channels are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Channels {
    major: bool,
    minor: bool,
    /// Which of two channels that begin with the same version is the default one.
    preferred: Stream,
}

/// What the bundles of a channel have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Major,
    Minor,
}

/// A bundle in a list.
#[derive(Debug, Clone)]
struct Listed {
    name: String,
    version: Version,
}

// === impl Semver ===

impl Semver {
    pub(super) fn read(meta: &Meta<'_>, input: &[u8]) -> Result<Self, Error> {
        shaped(meta, &shape::SEMVER)?;
        let root = meta.root;
        let mut problems = Vec::new();
        if let Some((key, line)) = yaml::repeated(input, meta.index) {
            problems.push(format!(
                "{}:{line}: key {key:?} is there twice; remove one of them",
                meta.file
            ));
        }
        let is_set = |name| root.field(name).is_some_and(|it| it.raw() == b"true");
        let channels = Channels::new(
            is_set("generateMajorChannels"),
            is_set("generateMinorChannels"),
            &text(root, "defaultChannelTypePreference"),
        );
        let channels = channels
            .map_err(|problem| problems.push(problem))
            .unwrap_or_default();
        let lists = LISTS.map(|name| {
            let bundles = root.field(name);
            let bundles = bundles.into_iter().flat_map(|it| list(it, "bundles"));
            let images = bundles.enumerate().map(|(at, bundle)| {
                let image = text(bundle, "image");
                if image.is_empty() {
                    problems.push(format!("{name}: bundles[{at}] names no image"));
                }
                image
            });
            images.collect::<Vec<_>>()
        });
        for (name, images) in LISTS.iter().zip(&lists) {
            let mut seen = HashSet::new();
            let again = images
                .iter()
                .filter(|it| !it.is_empty() && !seen.insert(it.as_str()));
            problems.extend(again.map(|it| format!("{name}: duplicate bundle {it:?}")));
        }
        if lists.iter().all(Vec::is_empty) {
            problems.push(
                "no bundles specified; list their images below \"bundles\" of candidate, fast or stable".to_owned(),
            );
        }
        check(problems)?;
        Ok(Self { channels, lists })
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().flatten().map(String::as_str)
    }

    pub(super) fn render(
        self,
        mut bundles: BTreeMap<String, Bundle>,
        warnings: &mut Vec<String>,
    ) -> Result<Rendered, Error> {
        let (package, lists) = self.listed(&bundles)?;
        let (default, channels) = graph(&package, &lists, self.channels)?;
        let mut seen = HashMap::new();
        let mut rendered = Vec::new();
        for image in self.images() {
            // Whoever was named before is there already.
            let Some(bundle) = bundles.remove(image) else {
                continue;
            };
            let name = bundle.blob.key.clone();
            if let Some(other) = seen.insert(name.clone(), image) {
                warnings.push(format!(
                    "{other:?} and {image:?} are both called {name:?}; both are printed, and no catalog takes both"
                ));
            }
            rendered.push(bundle);
        }
        // Bundles come by version, so the last one is the head.
        let head = channels.iter().find(|it| it.name == default);
        let head = head.and_then(|it| it.entries.as_ref()?.last());
        let head = head.and_then(|it| rendered.iter().find(|bundle| *bundle.blob.key == *it.name));
        let package = Package {
            name: &package,
            default_channel: &default,
            icon: head.and_then(|it| it.icon.as_ref()),
            description: head.map_or("", |it| &it.description),
        };
        let mut blobs = vec![package.blob(&[])];
        blobs.extend(channels.iter().map(Channel::blob));
        blobs.extend(rendered.into_iter().map(|it| it.blob));
        Ok(Rendered::of(blobs))
    }

    /// The package, and what is in its lists.
    fn listed(
        &self,
        bundles: &BTreeMap<String, Bundle>,
    ) -> Result<(String, [Vec<Listed>; 3]), Error> {
        let mut problems = Vec::new();
        let mut known: HashMap<&str, (String, Listed)> = HashMap::new();
        for (image, bundle) in bundles {
            match identify(image, bundle) {
                Ok(found) => drop(known.insert(image, found)),
                Err(problem) => problems.push(problem),
            }
        }
        let mut first: Option<&str> = None;
        for image in self.images() {
            let Some((package, _)) = known.get(image) else {
                continue;
            };
            match first {
                None => first = Some(package),
                Some(first) if first != package => problems.push(format!(
                    "bundle {image:?} is of package {package:?} and does not belong to this package: {first:?}"
                )),
                Some(_) => {}
            }
        }
        problems.sort();
        problems.dedup();
        let package = first.unwrap_or_default().to_owned();
        let lists = self.lists.each_ref().map(|images| {
            let listed = images
                .iter()
                .filter_map(|it| Some(known.get(it.as_str())?.1.clone()));
            let mut listed: Vec<Listed> = listed.collect();
            listed.sort_by(|a, b| a.version.cmp_precedence(&b.version));
            listed
        });
        for (name, listed) in LISTS.iter().zip(&lists) {
            problems.extend(conflicts(listed).map(|it| format!("{name}: {it}")));
        }
        check(problems)?;
        Ok((package, lists))
    }
}

/// The package of a bundle, its name and its version.
fn identify(image: &str, bundle: &Bundle) -> Result<(String, Listed), String> {
    let seen = look(&bundle.blob, image).map_err(|it| format!("{image}: {it}"))?;
    let bundle = match seen.blob {
        Blob::Bundle(bundle) => bundle,
        Blob::Broken(problem, _) => return Err(format!("{image}: {problem}")),
        _ => return Err(format!("{image} is no bundle")),
    };
    let (identity, version) = version_of(&bundle).map_err(|it| format!("{image}: {it}"))?;
    if identity.package.is_empty() {
        return Err(format!(
            "{image}: bundle {:?} names no package",
            bundle.name
        ));
    }
    let package = identity.package.clone();
    Ok((
        package,
        Listed {
            name: bundle.name,
            version,
        },
    ))
}

/// What keeps a list, which is sorted, from having an order.
fn conflicts(listed: &[Listed]) -> impl Iterator<Item = String> {
    let equal = listed.windows(2).filter_map(|pair| match pair {
        [a, b] if a.version.cmp_precedence(&b.version).is_eq() => Some(format!(
            "bundles {:?} and {:?} have the versions {} and {}, which cannot be ordered; leave one of them out",
            a.name, b.name, a.version, b.version
        )),
        _ => None,
    });
    let mut seen = HashSet::new();
    let again = listed.iter().filter(move |it| !seen.insert(&it.name));
    equal.chain(again.map(|it| format!("duplicate bundle name {:?}", it.name)))
}

// === impl Channels ===

impl Channels {
    /// Minor versions unless something is asked for.
    fn new(major: bool, minor: bool, preferred: &str) -> Result<Self, String> {
        let minor = minor || !major;
        let without = |stream: &str| {
            format!(
                "DefaultChannelTypePreference is {stream:?}, and no channels of {stream} versions are generated; set \
                 Generate{}Channels or prefer the other ones",
                if stream == "major" { "Major" } else { "Minor" }
            )
        };
        let preferred = match preferred {
            "" | "minor" if minor => Stream::Minor,
            "" | "major" if major => Stream::Major,
            stream @ ("minor" | "major") => return Err(without(stream)),
            other => {
                let other: String = other.chars().take(100).collect();
                return Err(format!(
                    "unknown DefaultChannelTypePreference {other:?}; write \"major\" or \"minor\""
                ));
            }
        };
        Ok(Self {
            major,
            minor,
            preferred,
        })
    }
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            major: false,
            minor: true,
            preferred: Stream::Minor,
        }
    }
}

/// How good a channel is as the default one: the list counts most, then the version it begins with, then its stream.
#[derive(Debug)]
struct Rank {
    list: usize,
    version: Version,
    stream: Option<Stream>,
}

// === impl Rank ===

impl Rank {
    fn is_above(&self, other: &Self, preferred: Stream) -> bool {
        let stream = |it: &Self| (it.stream == Some(preferred), it.stream);
        self.list
            .cmp(&other.list)
            .then_with(|| self.version.cmp_precedence(&other.version))
            .then_with(|| stream(self).cmp(&stream(other)))
            .is_gt()
    }
}

/// The default channel and all channels, by name. Lists are sorted by version, and no version is there twice.
fn graph(
    package: &str,
    lists: &[Vec<Listed>; 3],
    wanted: Channels,
) -> Result<(String, Vec<Channel>), Error> {
    let mut channels: BTreeMap<String, Channel> = BTreeMap::new();
    // Nothing below this becomes the default: pre-releases of 0.0.0 among candidates do not.
    let mut best = Rank {
        list: 0,
        version: Version::new(0, 0, 0),
        stream: None,
    };
    let mut default = String::new();
    let mut left = MOST_EDGES;
    let streams = [(wanted.major, Stream::Major), (wanted.minor, Stream::Minor)];
    for (place, (list, listed)) in LISTS.iter().zip(lists).enumerate() {
        for (_, stream) in streams.into_iter().filter(|it| it.0) {
            for major in listed.chunk_by(|a, b| a.version.major == b.version.major) {
                for (bundle, entry) in major.iter().zip(edges(major, &mut left)?) {
                    let Version { major, minor, .. } = bundle.version;
                    let name = match stream {
                        Stream::Major => format!("{list}-v{major}"),
                        Stream::Minor => format!("{list}-v{major}.{minor}"),
                    };
                    let channel = channels.entry(name.clone()).or_insert_with(|| {
                        let rank = Rank {
                            list: place,
                            version: bundle.version.clone(),
                            stream: Some(stream),
                        };
                        if rank.is_above(&best, wanted.preferred) {
                            best = rank;
                            default.clone_from(&name);
                        }
                        Channel {
                            name,
                            package: package.to_owned(),
                            ..Channel::default()
                        }
                    });
                    channel.entries.get_or_insert_default().push(entry);
                }
            }
        }
    }
    Ok((default, channels.into_values().collect()))
}

/// The entries of the bundles of a major version, which are sorted.
fn edges(major: &[Listed], left: &mut usize) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = Vec::with_capacity(major.len());
    let mut replaces: Option<&str> = None;
    for minor in major.chunk_by(|a, b| a.version.minor == b.version.minor) {
        entries.extend(minor.iter().map(|it| Entry {
            name: it.name.clone(),
            ..Entry::default()
        }));
        let older = entries.len().saturating_sub(1);
        let Some(enough) = left.checked_sub(older) else {
            return check(vec![format!(
                "the channels would skip more than {MOST_EDGES} bundles; list fewer of the old ones"
            )])
            .map(|()| Vec::new());
        };
        *left = enough;
        let older = major.iter().take(older).map(|it| it.name.as_str());
        let mut skips: Vec<String> = older
            .filter(|it| *it != replaces.unwrap_or_default())
            .map(str::to_owned)
            .collect();
        skips.sort();
        if let Some(head) = entries.last_mut() {
            head.replaces = replaces.map(str::to_owned);
            head.skips = skips;
        }
        replaces = minor.last().map(|it| it.name.as_str());
    }
    Ok(entries)
}
