//! What is in memory of a store: names, edges, APIs, and where the rest lies in the file.
//!
//! The rows refer to each other by position. They come from a file, so `check` follows every reference once; whoever
//! asks afterwards gets nothing instead of a panic all the same. Packages, channels and entries are sorted by name,
//! which is the order of all answers.

use std::ops::Range;

/// Everything that is served, in the order of names.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Index {
    #[prost(message, repeated, tag = "1")]
    pub(super) packages: Vec<PackageRow>,
    /// Every API that some bundle brings, sorted.
    #[prost(message, repeated, tag = "2")]
    pub(super) apis: Vec<Api>,
    /// Blobs of unknown schemas, sorted by schema and package.
    #[prost(message, repeated, tag = "3")]
    pub(super) blobs: Vec<BlobRow>,
    /// What is not served, and why; for people.
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
    /// Both are JSON members that made ClusterServiceVersions end with: `,"icon":[…]`.
    #[prost(message, required, tag = "6")]
    pub(super) icon: Piece,
    #[prost(message, required, tag = "7")]
    pub(super) description: Piece,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ChannelRow {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The position of an entry.
    #[prost(uint32, tag = "2")]
    pub(super) head: u32,
    #[prost(string, optional, tag = "3")]
    pub(super) deprecation: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub(super) entries: Vec<EntryRow>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EntryRow {
    /// The position of a bundle of the package.
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
    /// Positions of APIs, sorted.
    #[prost(uint32, repeated, tag = "3")]
    pub(super) provides: Vec<u32>,
    /// Fields of the message `Bundle` that are the same in all channels and in lists.
    #[prost(message, required, tag = "4")]
    pub(super) light: Piece,
    /// The ClusterServiceVersion as JSON, or one that was made, up to where members of its package follow.
    #[prost(message, required, tag = "5")]
    pub(super) csv: Piece,
    /// Fields `object` of the message.
    #[prost(message, required, tag = "6")]
    pub(super) objects: Piece,
    #[prost(bool, tag = "7")]
    pub(super) has_image: bool,
    /// The members of its package end the ClusterServiceVersion.
    #[prost(bool, tag = "8")]
    pub(super) is_made: bool,
    /// It has no description of its own.
    #[prost(bool, tag = "9")]
    pub(super) wants_description: bool,
    /// The ClusterServiceVersion is the only object.
    #[prost(bool, tag = "10")]
    pub(super) is_alone: bool,
}

/// A blob that is handed on as it is.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BlobRow {
    #[prost(string, tag = "1")]
    pub(super) schema: String,
    #[prost(string, tag = "2")]
    pub(super) package: String,
    /// A `google.protobuf.Struct`.
    #[prost(message, required, tag = "3")]
    pub(super) blob: Piece,
}

/// An API without its plural.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub(super) struct Api {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) kind: String,
}

/// Bytes of the file, and their checksum.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Piece {
    #[prost(uint64, tag = "1")]
    pub(super) offset: u64,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
    /// CRC-32.
    #[prost(fixed32, tag = "3")]
    pub(super) checksum: u32,
}

/// One bundle in one channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) package: &'a PackageRow,
    pub(super) channel: &'a ChannelRow,
    pub(super) row: &'a EntryRow,
    pub(super) bundle: &'a BundleRow,
}

// === impl Index ===

impl Index {
    /// Whether all references lead somewhere: pieces into this part of the file.
    pub(super) fn check(&self, pieces: &Range<u64>) -> Result<(), &'static str> {
        let inside = |piece: &Piece| piece.offset >= pieces.start && piece.end() <= pieces.end;
        if !self.pieces().all(inside) {
            return Err("a piece lies outside the file");
        }
        let apis = self.apis.len();
        for package in &self.packages {
            let bundles = package.bundles.len();
            let unknown = |at: &u32| *at as usize >= apis;
            if package
                .bundles
                .iter()
                .any(|it| it.provides.iter().any(unknown))
            {
                return Err("a bundle brings an unknown API");
            }
            for channel in &package.channels {
                if channel.head as usize >= channel.entries.len() {
                    return Err("a channel has no head");
                }
                if channel
                    .entries
                    .iter()
                    .any(|it| it.bundle as usize >= bundles)
                {
                    return Err("an entry has no bundle");
                }
            }
        }
        Ok(())
    }

    /// All pieces that anything refers to.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let packages = self.packages.iter().flat_map(|package| {
            let bundles = package.bundles.iter();
            [&package.icon, &package.description]
                .into_iter()
                .chain(bundles.flat_map(|it| [&it.light, &it.csv, &it.objects]))
        });
        packages.chain(self.blobs.iter().map(|it| &it.blob))
    }

    pub(super) fn package(&self, name: &str) -> Option<&PackageRow> {
        let at = self
            .packages
            .binary_search_by(|it| it.name.as_str().cmp(name));
        self.packages.get(at.ok()?)
    }

    /// The position of an API; whoever asks for one that nobody brings gets `None`.
    pub(super) fn api(&self, group: &str, version: &str, kind: &str) -> Option<u32> {
        let wanted = (group, version, kind);
        let at = self.apis.binary_search_by(|it| {
            (it.group.as_str(), it.version.as_str(), it.kind.as_str()).cmp(&wanted)
        });
        u32::try_from(at.ok()?).ok()
    }

    /// All channels by name, and channels of one name by package: the order of ListBundles.
    pub(super) fn by_channel(&self) -> Vec<(u32, u32)> {
        let mut order: Vec<(&str, u32, u32)> = Vec::new();
        for (at, package) in (0..).zip(&self.packages) {
            order.extend(
                (0..)
                    .zip(&package.channels)
                    .map(|(it, c)| (c.name.as_str(), at, it)),
            );
        }
        order.sort_unstable();
        order
            .into_iter()
            .map(|(_, package, channel)| (package, channel))
            .collect()
    }

    /// Every entry, by package, channel and bundle.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.packages.iter().flat_map(|package| {
            package
                .channels
                .iter()
                .flat_map(move |channel| package.entries(channel))
        })
    }

    /// The head of every channel.
    pub(super) fn heads(&self) -> impl Iterator<Item = Entry<'_>> {
        self.packages.iter().flat_map(|package| {
            package
                .channels
                .iter()
                .filter_map(move |channel| package.head(channel))
        })
    }
}

// === impl Piece ===

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.length))
    }
}

// === impl PackageRow ===

impl PackageRow {
    pub(super) fn channel(&self, name: &str) -> Option<&ChannelRow> {
        let at = self
            .channels
            .binary_search_by(|it| it.name.as_str().cmp(name));
        self.channels.get(at.ok()?)
    }

    pub(super) fn entries<'a>(
        &'a self,
        channel: &'a ChannelRow,
    ) -> impl Iterator<Item = Entry<'a>> {
        channel
            .entries
            .iter()
            .filter_map(move |row| self.join(channel, row))
    }

    pub(super) fn entry<'a>(&'a self, channel: &'a ChannelRow, name: &str) -> Option<Entry<'a>> {
        let name_of = |row: &EntryRow| {
            let bundle = self.bundles.get(row.bundle as usize);
            bundle.map_or("", |it| it.name.as_str())
        };
        let at = channel
            .entries
            .binary_search_by(|row| name_of(row).cmp(name));
        self.join(channel, channel.entries.get(at.ok()?)?)
    }

    pub(super) fn head<'a>(&'a self, channel: &'a ChannelRow) -> Option<Entry<'a>> {
        self.join(channel, channel.entries.get(channel.head as usize)?)
    }

    pub(super) fn join<'a>(
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

    /// Skipped bundles, save the one that is replaced anyway.
    pub(super) fn other_skips(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let row = self.row;
        let skips = row.skips.iter().map(String::as_str);
        skips.filter(|it| *it != row.replaces)
    }

    /// Whether a bundle of this name is replaced or skipped.
    pub(super) fn follows(&self, name: &str) -> bool {
        self.row.replaces == name || self.row.skips.iter().any(|it| it == name)
    }

    pub(super) fn provides(&self, api: u32) -> bool {
        self.bundle.provides.binary_search(&api).is_ok()
    }
}
