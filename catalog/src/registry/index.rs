//! In-memory index of a store: names, edges, APIs, and the file ranges of all other content.
//!
//! Rows refer to each other by position. They come from a file, so `check` validates every reference once; even so,
//! lookups return `None` for an invalid position instead of panicking. Packages, channels and entries are sorted by
//! name, which is the order of all responses.

use std::ops::Range;

/// All served content, sorted by name.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Index {
    #[prost(message, repeated, tag = "1")]
    pub(super) packages: Vec<PackageRow>,
    /// All APIs that bundles provide, sorted.
    #[prost(message, repeated, tag = "2")]
    pub(super) apis: Vec<Api>,
    /// Blobs of unknown schemas, sorted by schema and package.
    #[prost(message, repeated, tag = "3")]
    pub(super) blobs: Vec<BlobRow>,
    /// Skipped content and the reasons, for people.
    #[prost(string, repeated, tag = "4")]
    pub(super) left_out: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PackageRow {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) default_channel: String,
    #[prost(string, optional, tag = "3")]
    pub(super) deprecation: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub(super) channels: Vec<ChannelRow>,
    #[prost(message, repeated, tag = "5")]
    pub(super) bundles: Vec<BundleRow>,
    /// Like `description`, a JSON member at the end of synthetic ClusterServiceVersions: `,"icon":[…]`.
    #[prost(message, required, tag = "6")]
    pub(super) icon: FileRange,
    #[prost(message, required, tag = "7")]
    pub(super) description: FileRange,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ChannelRow {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Position of the head in `entries`.
    #[prost(uint32, tag = "2")]
    pub(super) head: u32,
    #[prost(string, optional, tag = "3")]
    pub(super) deprecation: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub(super) entries: Vec<EntryRow>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EntryRow {
    /// Position of the bundle in the package's `bundles`.
    #[prost(uint32, tag = "1")]
    pub(super) bundle: u32,
    #[prost(string, tag = "2")]
    pub(super) replaces: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) skips: Vec<String>,
    #[prost(string, tag = "4")]
    pub(super) skip_range: String,
}

#[derive(Clone, PartialEq, prost::Message)]
#[expect(clippy::struct_excessive_bools, reason = "they are fields of the file")]
pub(super) struct BundleRow {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, optional, tag = "2")]
    pub(super) deprecation: Option<String>,
    /// Positions of provided APIs, sorted.
    #[prost(uint32, repeated, tag = "3")]
    pub(super) provides: Vec<u32>,
    /// Fields of the message `Bundle` that are the same in all channels and in lists.
    #[prost(message, required, tag = "4")]
    pub(super) list_fields: FileRange,
    /// ClusterServiceVersion as JSON. A synthetic one ends before the members of the package.
    #[prost(message, required, tag = "5")]
    pub(super) csv: FileRange,
    /// Fields `object` of the message `Bundle`.
    #[prost(message, required, tag = "6")]
    pub(super) objects: FileRange,
    #[prost(bool, tag = "7")]
    pub(super) has_image: bool,
    /// True if the ClusterServiceVersion was built from `olm.csv.metadata`; members of the package follow it.
    #[prost(bool, tag = "8")]
    pub(super) csv_is_synthetic: bool,
    /// True if the ClusterServiceVersion has no description and takes that of the package.
    #[prost(bool, tag = "9")]
    pub(super) needs_description: bool,
    /// True if the ClusterServiceVersion is the only object.
    #[prost(bool, tag = "10")]
    pub(super) csv_is_only_object: bool,
}

/// A blob of an unknown schema, served without changes.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BlobRow {
    #[prost(string, tag = "1")]
    pub(super) schema: String,
    #[prost(string, tag = "2")]
    pub(super) package: String,
    /// Encoded `google.protobuf.Struct`.
    #[prost(message, required, tag = "3")]
    pub(super) blob: FileRange,
}

/// API without its plural.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub(super) struct Api {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) kind: String,
}

/// Range of bytes in the file, with its checksum.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct FileRange {
    #[prost(uint64, tag = "1")]
    pub(super) offset: u64,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
    /// CRC-32 of the bytes.
    #[prost(fixed32, tag = "3")]
    pub(super) checksum: u32,
}

/// A bundle in one channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) package: &'a PackageRow,
    pub(super) channel: &'a ChannelRow,
    pub(super) row: &'a EntryRow,
    pub(super) bundle: &'a BundleRow,
}

// === impl Index ===

impl Index {
    /// Checks that all references are valid, and that all file ranges lie within `content`.
    pub(super) fn check(&self, content: &Range<u64>) -> Result<(), &'static str> {
        let inside =
            |range: &FileRange| range.offset >= content.start && range.end() <= content.end;
        if !self.ranges().all(inside) {
            return Err("a range lies outside the file");
        }
        let apis = self.apis.len();
        for package in &self.packages {
            let bundles = package.bundles.len();
            let unknown = |at: &u32| *at as usize >= apis;
            if package
                .bundles
                .iter()
                .any(|bundle| bundle.provides.iter().any(unknown))
            {
                return Err("a bundle provides an unknown API");
            }
            for channel in &package.channels {
                if channel.head as usize >= channel.entries.len() {
                    return Err("a channel has no head");
                }
                if channel
                    .entries
                    .iter()
                    .any(|entry| entry.bundle as usize >= bundles)
                {
                    return Err("an entry has no bundle");
                }
            }
        }
        Ok(())
    }

    /// Returns the file ranges of all rows.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &FileRange> {
        let packages = self.packages.iter().flat_map(|package| {
            let bundles = package.bundles.iter();
            [&package.icon, &package.description].into_iter().chain(
                bundles.flat_map(|bundle| [&bundle.list_fields, &bundle.csv, &bundle.objects]),
            )
        });
        packages.chain(self.blobs.iter().map(|blob| &blob.blob))
    }

    pub(super) fn package(&self, name: &str) -> Option<&PackageRow> {
        let at = self
            .packages
            .binary_search_by(|package| package.name.as_str().cmp(name));
        self.packages.get(at.ok()?)
    }

    /// Returns the position of an API, or `None` if no bundle provides it.
    pub(super) fn api(&self, group: &str, version: &str, kind: &str) -> Option<u32> {
        let key = (group, version, kind);
        let at = self.apis.binary_search_by(|api| {
            (api.group.as_str(), api.version.as_str(), api.kind.as_str()).cmp(&key)
        });
        u32::try_from(at.ok()?).ok()
    }

    /// Returns the positions of all packages and channels, sorted by channel name and then by package: the order of
    /// ListBundles.
    pub(super) fn by_channel(&self) -> Vec<(u32, u32)> {
        let mut order: Vec<(&str, u32, u32)> = Vec::new();
        for (at, package) in (0..).zip(&self.packages) {
            order.extend(
                (0..)
                    .zip(&package.channels)
                    .map(|(position, c)| (c.name.as_str(), at, position)),
            );
        }
        order.sort_unstable();
        order
            .into_iter()
            .map(|(_, package, channel)| (package, channel))
            .collect()
    }

    /// Returns all entries, sorted by package, channel and bundle.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.packages.iter().flat_map(|package| {
            package
                .channels
                .iter()
                .flat_map(move |channel| package.entries(channel))
        })
    }

    /// Returns the head of every channel.
    pub(super) fn heads(&self) -> impl Iterator<Item = Entry<'_>> {
        self.packages.iter().flat_map(|package| {
            package
                .channels
                .iter()
                .filter_map(move |channel| package.head(channel))
        })
    }
}

// === impl FileRange ===

impl FileRange {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.length))
    }
}

// === impl PackageRow ===

impl PackageRow {
    pub(super) fn channel(&self, name: &str) -> Option<&ChannelRow> {
        let at = self
            .channels
            .binary_search_by(|channel| channel.name.as_str().cmp(name));
        self.channels.get(at.ok()?)
    }

    pub(super) fn entries<'a>(
        &'a self,
        channel: &'a ChannelRow,
    ) -> impl Iterator<Item = Entry<'a>> {
        channel
            .entries
            .iter()
            .filter_map(move |row| self.joined_entry(channel, row))
    }

    pub(super) fn entry<'a>(&'a self, channel: &'a ChannelRow, name: &str) -> Option<Entry<'a>> {
        let name_of = |row: &EntryRow| {
            let bundle = self.bundles.get(row.bundle as usize);
            bundle.map_or("", |bundle| bundle.name.as_str())
        };
        let at = channel
            .entries
            .binary_search_by(|row| name_of(row).cmp(name));
        self.joined_entry(channel, channel.entries.get(at.ok()?)?)
    }

    pub(super) fn head<'a>(&'a self, channel: &'a ChannelRow) -> Option<Entry<'a>> {
        self.joined_entry(channel, channel.entries.get(channel.head as usize)?)
    }

    pub(super) fn joined_entry<'a>(
        &'a self,
        channel: &'a ChannelRow,
        row: &'a EntryRow,
    ) -> Option<Entry<'a>> {
        Some(Entry {
            package: self,
            channel,
            row,
            bundle: self.bundles.get(row.bundle as usize)?,
        })
    }
}

// === impl Entry ===

impl<'a> Entry<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.bundle.name
    }

    /// Returns the skipped bundles except the replaced one.
    pub(super) fn other_skips(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let row = self.row;
        let skips = row.skips.iter().map(String::as_str);
        skips.filter(|skip| *skip != row.replaces)
    }

    /// Reports whether the entry replaces or skips the named bundle.
    pub(super) fn replaces_or_skips(&self, name: &str) -> bool {
        self.row.replaces == name || self.row.skips.iter().any(|skip| skip == name)
    }

    pub(super) fn provides(&self, api: u32) -> bool {
        self.bundle.provides.binary_search(&api).is_ok()
    }
}
