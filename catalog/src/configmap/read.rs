//! From three lists to packages, channels and bundles. What is repeated is a place in a list and not a copy, so that it is
//! known what a catalog comes to before anything of it is made.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry as Place},
    io,
};

use manifests::object::{shortened, text};
use serde_json::Value;

use super::{CSVS, ConfigMap, Csv, Entry, Error, MOST_BYTES, MOST_ENTRIES, Package};
use crate::source::Limits;

/// No part of an API's name may be longer in a cluster, in bytes.
const LONGEST_NAME: usize = 253;
/// How much of a name is told, in characters.
const SHOWN: usize = 100;
/// How many reasons are told.
const MOST_REASONS: usize = 1000;
/// What a property, or a blob around its parts, has besides what is written in it, in bytes.
const FRAME: u64 = 256;

/// Group, version, kind and plural.
type Api<'a> = [&'a str; 4];

/// What is no part of a catalog, and why, in words.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) reasons: Vec<String>,
    more: usize,
}

/// What makes a catalog of lists.
struct Reader {
    csvs: Vec<Csv>,
    /// The places of bundles by their names.
    places: BTreeMap<String, usize>,
    packages: BTreeMap<String, Package>,
    /// Entries of all channels.
    entries: usize,
    left_out: LeftOut,
}

pub(super) fn read(
    crds: Vec<Value>,
    csvs: Vec<Value>,
    packages: &[Value],
    limits: &Limits,
) -> Result<ConfigMap, Error> {
    let mut reader = Reader {
        csvs: Vec::new(),
        places: BTreeMap::new(),
        packages: BTreeMap::new(),
        entries: 0,
        left_out: LeftOut::default(),
    };
    let apis = reader.apis(&crds)?;
    for csv in csvs {
        reader.add_csv(csv, &apis);
    }
    reader.connect();
    for package in packages {
        reader.add_package(package)?;
    }
    reader.tell_unreached();
    let map = ConfigMap {
        packages: reader.packages,
        csvs: reader.csvs,
        crds,
        left_out: reader.left_out.finish(),
    };
    let limit = MOST_BYTES.min(limits.total);
    if size::of_blobs(&map) > limit {
        return Err(Error::TooLarge {
            limit,
            unit: "bytes",
        });
    }
    Ok(map)
}

// === impl Reader ===

impl Reader {
    /// Where the definition of each API is.
    fn apis<'a>(&mut self, crds: &'a [Value]) -> Result<BTreeMap<Api<'a>, usize>, Error> {
        let mut apis = BTreeMap::new();
        for (at, crd) in crds.iter().enumerate() {
            let get = |path: &[&str]| text(crd, path).unwrap_or_default();
            for version in versions(crd) {
                let api = [
                    get(&["spec", "group"]),
                    version,
                    get(&["spec", "names", "kind"]),
                    get(&["spec", "names", "plural"]),
                ];
                if api.iter().any(|part| part.len() > LONGEST_NAME) {
                    self.left_out.push(|| {
                        let name = shortened(get(&["metadata", "name"]), SHOWN);
                        format!(
                            "CustomResourceDefinition {name:?} is of nobody: a name in it is longer than {LONGEST_NAME} bytes"
                        )
                    });
                    break;
                }
                if apis.insert(api, at).is_some() {
                    return Err(Error::Twice(api.join("/")));
                }
            }
        }
        Ok(apis)
    }

    fn add_csv(&mut self, mut csv: Value, apis: &BTreeMap<Api<'_>, usize>) {
        let Some(name) = text(&csv, &["metadata", "name"]).filter(|it| !it.is_empty()) else {
            let reason = "a ClusterServiceVersion without a name is left out";
            return self.left_out.push(|| reason.to_owned());
        };
        let name = name.to_owned();
        // In a list of them that need not be said.
        if let Some(object) = csv.as_object_mut() {
            object.insert("kind".to_owned(), "ClusterServiceVersion".into());
            object
                .entry("apiVersion")
                .or_insert_with(|| "operators.coreos.com/v1alpha1".into());
        }
        let owned = csv
            .pointer("/spec/customresourcedefinitions/owned")
            .and_then(Value::as_array);
        let mut owns = BTreeSet::new();
        for owned in owned.into_iter().flatten() {
            let get = |key| text(owned, &[key]).unwrap_or_default();
            let full = get("name");
            let (plural, group) = full.split_once('.').unwrap_or((full, ""));
            // Who renders it says what is missing.
            owns.extend(apis.get(&[group, get("version"), get("kind"), plural]));
        }
        match self.places.entry(name) {
            Place::Occupied(other) => {
                let name = other.key();
                self.left_out.push(|| {
                    let name = shortened(name, SHOWN);
                    format!(
                        "ClusterServiceVersion {name:?} is there twice; the second one is left out"
                    )
                });
            }
            Place::Vacant(place) => {
                let name = place.key().clone();
                place.insert(self.csvs.len());
                self.csvs.push(Csv {
                    name,
                    object: csv,
                    owns,
                    replaces: None,
                    skips: BTreeSet::new(),
                });
            }
        }
    }

    /// Finds what bundles replace and skip, as far as it is there.
    fn connect(&mut self) {
        for csv in &mut self.csvs {
            csv.replaces = self.places.get(csv.replaced_name()).copied();
            let skips = csv.skipped_names().filter_map(|it| self.places.get(it));
            csv.skips = skips.copied().collect();
        }
    }

    fn add_package(&mut self, package: &Value) -> Result<(), Error> {
        let get = |value: &'_ Value, key| text(value, &[key]).unwrap_or_default().to_owned();
        let name = get(package, "packageName");
        if name.is_empty() || self.packages.contains_key(&name) {
            let why = if name.is_empty() {
                "has no name"
            } else {
                "is there twice"
            };
            self.left_out.push(|| {
                let name = shortened(&name, SHOWN);
                format!("a package {why} and is left out: {name:?}")
            });
            return Ok(());
        }
        let mut channels = BTreeMap::new();
        let listed = package.get("channels").and_then(Value::as_array);
        for channel in listed.into_iter().flatten() {
            let (channel, head) = (get(channel, "name"), get(channel, "currentCSV"));
            let of = |why: &str| {
                let (channel, name) = (shortened(&channel, SHOWN), shortened(&name, SHOWN));
                format!("channel {channel:?} of package {name:?} {why}")
            };
            let Some(head_at) = self.places.get(&head) else {
                self.left_out.push(|| {
                    let head = shortened(&head, SHOWN);
                    of(&format!(
                        "is left out: its currentCSV {head:?} is not among the {CSVS}"
                    ))
                });
                continue;
            };
            if channels.contains_key(&channel) {
                self.left_out
                    .push(|| of("is there twice; the second one is left out"));
                continue;
            }
            let entries = self.entries_of(*head_at);
            self.entries += entries.len();
            if self.entries > MOST_ENTRIES {
                return Err(Error::TooLarge {
                    limit: MOST_ENTRIES as u64,
                    unit: "entries of channels",
                });
            }
            channels.insert(channel, entries);
        }
        let mut default_channel = get(package, "defaultChannel");
        // OLM: there is no other choice.
        if default_channel.is_empty() && channels.len() == 1 {
            default_channel = channels.keys().next().cloned().unwrap_or_default();
        }
        self.packages.insert(
            name,
            Package {
                default_channel,
                channels,
            },
        );
        Ok(())
    }

    /// A bundle, what it replaces, what that replaces, as far as they are there; then what these skip (OLM v0 parity).
    fn entries_of(&self, head: usize) -> Vec<Entry> {
        let (mut entries, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next = Some(head);
        while let Some(at) = next
            && let Some(csv) = self.csvs.get(at)
            && seen.insert(at)
        {
            entries.push(Entry {
                csv: at,
                is_followed: true,
            });
            next = csv.replaces;
        }
        let followed = entries.iter().filter_map(|it| self.csvs.get(it.csv));
        let skipped = followed.flat_map(|csv| &csv.skips);
        let skipped = skipped.filter(|at| seen.insert(**at)).map(|at| Entry {
            csv: *at,
            is_followed: false,
        });
        let skipped: Vec<Entry> = skipped.collect();
        entries.extend(skipped);
        entries
    }

    /// What no channel has is served to nobody.
    fn tell_unreached(&mut self) {
        let channels = self.packages.values().flat_map(|it| it.channels.values());
        let reached: BTreeSet<usize> = channels.flatten().map(|it| it.csv).collect();
        for (at, csv) in self.csvs.iter().enumerate() {
            if !reached.contains(&at) {
                self.left_out.push(|| {
                    let name = shortened(&csv.name, SHOWN);
                    format!(
                        "ClusterServiceVersion {name:?} is left out: no channel leads to it, by currentCSV, replaces or skips"
                    )
                });
            }
        }
    }
}

// === impl LeftOut ===

impl LeftOut {
    fn push(&mut self, reason: impl FnOnce() -> String) {
        if self.reasons.len() < MOST_REASONS {
            self.reasons.push(reason());
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.reasons.push(format!("and {} more", self.more));
        }
        self.reasons
    }
}

/// The versions of a definition; one of long ago has a single one.
fn versions(crd: &Value) -> impl Iterator<Item = &str> {
    let listed = crd.pointer("/spec/versions").and_then(Value::as_array);
    let listed = listed.into_iter().flatten();
    let mut listed = listed.filter_map(|it| text(it, &["name"])).peekable();
    let single = match listed.peek() {
        None => Some(text(crd, &["spec", "version"]).unwrap_or_default()),
        Some(_) => None,
    };
    listed.chain(single)
}

/// What blobs come to, without making one: never less than they are.
mod size {
    use super::{BTreeMap, BTreeSet, ConfigMap, Csv, Entry, FRAME, Value, io, text, versions};

    struct Bundle {
        /// Its blob, but for the package's name.
        blob: u64,
        entry: u64,
    }

    pub(super) fn of_blobs(map: &ConfigMap) -> u64 {
        let crds: Vec<u64> = map.crds.iter().map(crd).collect();
        let bundles: Vec<Bundle> = map.csvs.iter().map(|it| bundle(it, &crds)).collect();
        let get = |entry: &Entry| bundles.get(entry.csv);
        let mut total = 0;
        for (name, package) in &map.packages {
            let name = json(name);
            // With a picture, which is in one of the bundles, too.
            let icon = map.icon(package).as_ref().map_or(0, json);
            total += FRAME + name + json(&package.default_channel) + icon;
            for (channel, entries) in &package.channels {
                let entries = entries.iter().filter_map(get).map(|it| it.entry);
                total += FRAME + name + json(channel) + entries.sum::<u64>();
            }
            let all: BTreeMap<usize, &Entry> = (package.channels.values().flatten())
                .map(|it| (it.csv, it))
                .collect();
            let bundles = all.into_values().filter_map(get);
            total += bundles.map(|it| it.blob + 2 * name).sum::<u64>();
        }
        total
    }

    fn bundle(csv: &Csv, crds: &[u64]) -> Bundle {
        let object = json(&csv.object);
        let owned: BTreeSet<&usize> = csv.owns.iter().collect();
        let owned = owned.into_iter().filter_map(|at| crds.get(*at));
        let skips: u64 = csv.skipped_names().map(|it| json(it) + 1).sum();
        let range = csv.skip_range().map_or(0, json);
        Bundle {
            // Itself, its name, and in properties what it needs.
            blob: FRAME + encoded(object) + 4 * object + owned.sum::<u64>(),
            entry: FRAME + json(&csv.name) + json(csv.replaced_name()) + skips + range,
        }
    }

    /// A definition in a bundle, and the properties that tell its APIs.
    fn crd(crd: &Value) -> u64 {
        let names = [&["spec", "group"][..], &["spec", "names", "kind"]];
        let names = names.map(|path| text(crd, path).map_or(0, json));
        let each = FRAME + names.iter().sum::<u64>();
        let apis = versions(crd).map(|version| each + json(version));
        FRAME + encoded(json(crd)) + apis.sum::<u64>()
    }

    /// In base64.
    fn encoded(bytes: u64) -> u64 {
        bytes.div_ceil(3) * 4
    }

    /// Bytes of a value as JSON.
    fn json(value: &(impl serde::Serialize + ?Sized)) -> u64 {
        struct Count(u64);

        impl io::Write for Count {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += bytes.len() as u64;
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let mut count = Count(0);
        // Counting does not fail.
        drop(serde_json::to_writer(&mut count, value));
        count.0
    }
}
