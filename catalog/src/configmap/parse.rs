//! Parser: converts the three lists to packages, channels and bundles. Repeated objects are referenced by position
//! instead of being copied, so the size of the catalog is known before a blob is built.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry as MapEntry},
    io,
};

use manifests::object::{text, truncate};
use serde_json::Value;

use super::{CSVS, ConfigMap, Csv, Entry, Error, MAX_BYTES, MAX_ENTRIES, Package};
use crate::source::Limits;

/// Maximum length of each part of an API's name in a cluster, in bytes.
const MAX_NAME_LEN: usize = 253;
/// Maximum length of a name in messages, in characters.
const MAX_SHOWN_LEN: usize = 100;
/// Maximum number of reported reasons.
const MAX_REASONS: usize = 1000;
/// Size of a property or blob in addition to its content, in bytes.
const BLOB_OVERHEAD: u64 = 256;

/// Group, version, kind and plural of an API.
type Api<'a> = [&'a str; 4];

/// Skipped content of a ConfigMap, with the reasons.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub(super) reasons: Vec<String>,
    more: usize,
}

/// State of the parser.
struct Reader {
    csvs: Vec<Csv>,
    /// Positions of bundles by name.
    positions: BTreeMap<String, usize>,
    packages: BTreeMap<String, Package>,
    /// Number of entries in all channels.
    entries: usize,
    left_out: Skipped,
}

pub(super) fn read(
    crds: Vec<Value>,
    csvs: Vec<Value>,
    packages: &[Value],
    limits: &Limits,
) -> Result<ConfigMap, Error> {
    let mut reader = Reader {
        csvs: Vec::new(),
        positions: BTreeMap::new(),
        packages: BTreeMap::new(),
        entries: 0,
        left_out: Skipped::default(),
    };
    let apis = reader.apis(&crds)?;
    for csv in csvs {
        reader.add_csv(csv, &apis);
    }
    reader.link_edges();
    for package in packages {
        reader.add_package(package)?;
    }
    reader.report_unreachable();
    let map = ConfigMap {
        packages: reader.packages,
        csvs: reader.csvs,
        crds,
        left_out: reader.left_out.finish(),
    };
    let limit = MAX_BYTES.min(limits.total);
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
    /// Returns the position of the CRD of each API.
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
                if api.iter().any(|part| part.len() > MAX_NAME_LEN) {
                    self.left_out.push(|| {
                        let name = truncate(get(&["metadata", "name"]), MAX_SHOWN_LEN);
                        format!(
                            "CustomResourceDefinition {name:?} is skipped: a name in it is longer than {MAX_NAME_LEN} bytes"
                        )
                    });
                    break;
                }
                if apis.insert(api, at).is_some() {
                    return Err(Error::DuplicateCrd(api.join("/")));
                }
            }
        }
        Ok(apis)
    }

    fn add_csv(&mut self, mut csv: Value, apis: &BTreeMap<Api<'_>, usize>) {
        let Some(name) = text(&csv, &["metadata", "name"]).filter(|name| !name.is_empty()) else {
            let reason = "a ClusterServiceVersion without a name is skipped";
            return self.left_out.push(|| reason.to_owned());
        };
        let name = name.to_owned();
        // Items of a list may omit these fields.
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
            // The renderer reports missing CRDs.
            owns.extend(apis.get(&[group, get("version"), get("kind"), plural]));
        }
        match self.positions.entry(name) {
            MapEntry::Occupied(other) => {
                let name = other.key();
                self.left_out.push(|| {
                    let name = truncate(name, MAX_SHOWN_LEN);
                    format!(
                        "ClusterServiceVersion {name:?} occurs twice; the second one is skipped"
                    )
                });
            }
            MapEntry::Vacant(place) => {
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

    /// Resolves the bundles that each bundle replaces and skips, if the ConfigMap contains them.
    fn link_edges(&mut self) {
        for csv in &mut self.csvs {
            csv.replaces = self.positions.get(csv.replaced_name()).copied();
            let skips = csv
                .skipped_names()
                .filter_map(|name| self.positions.get(name));
            csv.skips = skips.copied().collect();
        }
    }

    fn add_package(&mut self, package: &Value) -> Result<(), Error> {
        let get = |value: &'_ Value, key| text(value, &[key]).unwrap_or_default().to_owned();
        let name = get(package, "packageName");
        if name.is_empty() || self.packages.contains_key(&name) {
            let problem = if name.is_empty() {
                "has no name"
            } else {
                "occurs twice"
            };
            self.left_out.push(|| {
                let name = truncate(&name, MAX_SHOWN_LEN);
                format!("a package {problem} and is skipped: {name:?}")
            });
            return Ok(());
        }
        let mut channels = BTreeMap::new();
        let listed = package.get("channels").and_then(Value::as_array);
        for channel in listed.into_iter().flatten() {
            let (channel, head) = (get(channel, "name"), get(channel, "currentCSV"));
            let describe = |problem: &str| {
                let (channel, name) = (
                    truncate(&channel, MAX_SHOWN_LEN),
                    truncate(&name, MAX_SHOWN_LEN),
                );
                format!("channel {channel:?} of package {name:?} {problem}")
            };
            let Some(head_at) = self.positions.get(&head) else {
                self.left_out.push(|| {
                    let head = truncate(&head, MAX_SHOWN_LEN);
                    describe(&format!(
                        "is skipped: its currentCSV {head:?} is not among the {CSVS}"
                    ))
                });
                continue;
            };
            if channels.contains_key(&channel) {
                self.left_out
                    .push(|| describe("occurs twice; the second one is skipped"));
                continue;
            }
            let entries = self.entries_of(*head_at);
            self.entries += entries.len();
            if self.entries > MAX_ENTRIES {
                return Err(Error::TooLarge {
                    limit: MAX_ENTRIES as u64,
                    unit: "channel entries",
                });
            }
            channels.insert(channel, entries);
        }
        let mut default_channel = get(package, "defaultChannel");
        // OLM uses the only channel.
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

    /// Returns the head, the bundle that it replaces, and so on, followed by the bundles that these skip, if they exist
    /// (OLM v0 parity).
    fn entries_of(&self, head: usize) -> Vec<Entry> {
        let (mut entries, mut visited) = (Vec::new(), BTreeSet::new());
        let mut next = Some(head);
        while let Some(at) = next
            && let Some(csv) = self.csvs.get(at)
            && visited.insert(at)
        {
            entries.push(Entry {
                csv: at,
                is_on_chain: true,
            });
            next = csv.replaces;
        }
        let followed = entries.iter().filter_map(|entry| self.csvs.get(entry.csv));
        let skipped = followed.flat_map(|csv| &csv.skips);
        let skipped = skipped.filter(|at| visited.insert(**at)).map(|at| Entry {
            csv: *at,
            is_on_chain: false,
        });
        let skipped: Vec<Entry> = skipped.collect();
        entries.extend(skipped);
        entries
    }

    /// Reports the bundles that no channel contains.
    fn report_unreachable(&mut self) {
        let channels = self
            .packages
            .values()
            .flat_map(|package| package.channels.values());
        let reached: BTreeSet<usize> = channels.flatten().map(|entry| entry.csv).collect();
        for (at, csv) in self.csvs.iter().enumerate() {
            if !reached.contains(&at) {
                self.left_out.push(|| {
                    let name = truncate(&csv.name, MAX_SHOWN_LEN);
                    format!(
                        "ClusterServiceVersion {name:?} is skipped: no channel reaches it through currentCSV, replaces or \
                         skips"
                    )
                });
            }
        }
    }
}

// === impl Skipped ===

impl Skipped {
    fn push(&mut self, reason: impl FnOnce() -> String) {
        if self.reasons.len() < MAX_REASONS {
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

/// Returns the versions of a CRD. CRDs of `v1beta1` can have a single version.
fn versions(crd: &Value) -> impl Iterator<Item = &str> {
    let listed = crd.pointer("/spec/versions").and_then(Value::as_array);
    let listed = listed.into_iter().flatten();
    let mut listed = listed
        .filter_map(|version| text(version, &["name"]))
        .peekable();
    let single = match listed.peek() {
        None => Some(text(crd, &["spec", "version"]).unwrap_or_default()),
        Some(_) => None,
    };
    listed.chain(single)
}

/// Upper bound for the size of all blobs, computed without building them.
mod size {
    use super::{
        BLOB_OVERHEAD, BTreeMap, BTreeSet, ConfigMap, Csv, Entry, Value, io, text, versions,
    };

    struct Bundle {
        /// Size of the blob without the name of the package.
        blob: u64,
        entry: u64,
    }

    pub(super) fn of_blobs(map: &ConfigMap) -> u64 {
        let crds: Vec<u64> = map.crds.iter().map(crd).collect();
        let bundles: Vec<Bundle> = map.csvs.iter().map(|csv| bundle(csv, &crds)).collect();
        let get = |entry: &Entry| bundles.get(entry.csv);
        let mut total = 0;
        for (name, package) in &map.packages {
            let name = json(name);
            // With the icon, which is also in one of the bundles.
            let icon = map.icon(package).as_ref().map_or(0, json);
            total += BLOB_OVERHEAD + name + json(&package.default_channel) + icon;
            for (channel, entries) in &package.channels {
                let entries = entries.iter().filter_map(get).map(|entry| entry.entry);
                total += BLOB_OVERHEAD + name + json(channel) + entries.sum::<u64>();
            }
            let all: BTreeMap<usize, &Entry> = (package.channels.values().flatten())
                .map(|entry| (entry.csv, entry))
                .collect();
            let bundles = all.into_values().filter_map(get);
            total += bundles.map(|bundle| bundle.blob + 2 * name).sum::<u64>();
        }
        total
    }

    fn bundle(csv: &Csv, crds: &[u64]) -> Bundle {
        let object = json(&csv.object);
        let owned: BTreeSet<&usize> = csv.owns.iter().collect();
        let owned = owned.into_iter().filter_map(|at| crds.get(*at));
        let skips: u64 = csv.skipped_names().map(|name| json(name) + 1).sum();
        let range = csv.skip_range().map_or(0, json);
        Bundle {
            // The manifest, its name, and its required APIs in properties.
            blob: BLOB_OVERHEAD + encoded(object) + 4 * object + owned.sum::<u64>(),
            entry: BLOB_OVERHEAD + json(&csv.name) + json(csv.replaced_name()) + skips + range,
        }
    }

    /// Returns the size of a CRD in a bundle, with the properties for its APIs.
    fn crd(crd: &Value) -> u64 {
        let names = [&["spec", "group"][..], &["spec", "names", "kind"]];
        let names = names.map(|path| text(crd, path).map_or(0, json));
        let each = BLOB_OVERHEAD + names.iter().sum::<u64>();
        let apis = versions(crd).map(|version| each + json(version));
        BLOB_OVERHEAD + encoded(json(crd)) + apis.sum::<u64>()
    }

    /// Returns the size of `bytes` bytes in base64.
    fn encoded(bytes: u64) -> u64 {
        bytes.div_ceil(3) * 4
    }

    /// Returns the size of a value as JSON.
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
        // Counting never fails.
        drop(serde_json::to_writer(&mut count, value));
        count.0
    }
}
