//! Memory size of packages, independent of their source.

use std::mem::size_of;

use super::{Bundle, Channel, Entry, Gvk, Package, Requirement};

/// Maximum number of bundles per package in untrusted catalogs. The largest known packages have a few hundred.
pub const MAX_BUNDLES: usize = 5000;
/// Maximum memory size of such a package in bytes. The largest known ones need a few megabytes.
pub const MAX_BYTES: usize = 64 << 20;

/// Returns the message for a package with too many bundles.
pub(crate) fn exceeds_bundle_limit(limit: usize) -> String {
    format!("the package has more than {limit} bundles")
}

/// Returns the message for a package that is too large.
pub(crate) fn exceeds_size_limit(limit: usize) -> String {
    format!("the bundles and edges of the package exceed {limit} bytes")
}

// === impl Package ===

impl Package {
    /// Returns the memory size in bytes, without the overhead of the collections.
    pub fn size(&self) -> usize {
        let channels = self.channels.values();
        let entries = channels
            .flat_map(|channel| &channel.entries)
            .map(Entry::size);
        let bundles = self.bundles.values();
        let bundles =
            bundles.map(|bundle| bundle.name.len() + bundle.image.len() + bundle.listed_size());
        self.listed_size() + entries.chain(bundles).sum::<usize>()
    }

    /// Returns the size of the data about the package itself and its channels, in bytes.
    pub(crate) fn listed_size(&self) -> usize {
        let channels = self.channels.values().map(Channel::listed_size);
        let own = self.default_channel.len() + length(self.deprecation.as_ref());
        own + channels.sum::<usize>()
    }
}

// === impl Channel ===

impl Channel {
    fn listed_size(&self) -> usize {
        length(self.deprecation.as_ref())
    }
}

// === impl Entry ===

impl Entry {
    fn size(&self) -> usize {
        let texts = [&self.replaces, &self.skip_range];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let skips: usize = self
            .skips
            .iter()
            .map(|skip| skip.len() + size_of::<String>())
            .sum();
        size_of::<Self>() + self.name.len() + texts + skips
    }
}

// === impl Bundle ===

impl Bundle {
    /// Returns the size without name, image and version, in bytes.
    pub(crate) fn listed_size(&self) -> usize {
        let need = |requirement: &Requirement| match requirement {
            Requirement::Package { name, range } => name.len() + range.len(),
            Requirement::Api(api) => api_size(api),
            Requirement::Constraint(text) => length(text.as_ref()),
            Requirement::Unreadable(text) => text.len(),
        };
        let needs: usize = self
            .requires
            .iter()
            .map(|requirement| size_of::<Requirement>() + need(requirement))
            .sum();
        let provides: usize = self.provides.iter().map(api_size).sum();
        let max = self.max_openshift.as_ref();
        let max = max.map_or(0, |max| max.raw.len());
        let texts = [
            &self.deprecation,
            &self.invalid_properties,
            &self.min_kube,
            &self.media_type,
        ];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        needs + provides + max + texts
    }
}

fn length(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

fn api_size(api: &Gvk) -> usize {
    size_of::<Gvk>() + api.group.len() + api.version.len() + api.kind.len()
}
