//! How much is kept of a package, whichever way it came.

use std::mem::size_of;

use super::{Bundle, Channel, Entry, Gvk, Need, Package};

/// How many bundles of one package are taken from catalogs that others write. The largest known packages have some
/// hundreds.
pub const MOST_BUNDLES: usize = 5000;
/// How much is kept of one such package, in bytes. Of the largest known ones it is a few megabytes.
pub const MOST_BYTES: usize = 64 << 20;

/// What is said of a package with more bundles.
pub(crate) fn too_many(most: usize) -> String {
    format!("it has more than {most} bundles")
}

/// What is said of a larger package.
pub(crate) fn too_large(most: usize) -> String {
    format!("its bundles and edges take more than {most} bytes")
}

// === impl Package ===

impl Package {
    /// What is kept of it, in bytes, save for how it is arranged.
    pub fn size(&self) -> usize {
        let channels = self.channels.values();
        let entries = channels.flat_map(|it| &it.entries).map(Entry::size);
        let bundles = self.bundles.values();
        let bundles = bundles.map(|it| it.name.len() + it.image.len() + it.told_size());
        self.told_size() + entries.chain(bundles).sum::<usize>()
    }

    /// What is kept of what it says of itself and its channels, in bytes.
    pub(crate) fn told_size(&self) -> usize {
        let channels = self.channels.values().map(Channel::told_size);
        let own = self.default_channel.len() + length(self.deprecation.as_ref());
        own + channels.sum::<usize>()
    }
}

// === impl Channel ===

impl Channel {
    fn told_size(&self) -> usize {
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
            .map(|it| it.len() + size_of::<String>())
            .sum();
        size_of::<Self>() + self.name.len() + texts + skips
    }
}

// === impl Bundle ===

impl Bundle {
    /// What is kept of it beside its name, image and version, in bytes.
    pub(crate) fn told_size(&self) -> usize {
        let need = |it: &Need| match it {
            Need::Package { name, range } => name.len() + range.len(),
            Need::Api(api) => api_size(api),
            Need::Constraint(text) => length(text.as_ref()),
            Need::Unreadable(text) => text.len(),
        };
        let needs: usize = self
            .needs
            .iter()
            .map(|it| size_of::<Need>() + need(it))
            .sum();
        let provides: usize = self.provides.iter().map(api_size).sum();
        let max = self.max_openshift.as_ref();
        let max = max.map_or(0, |max| max.raw.len());
        let texts = [
            &self.deprecation,
            &self.unreadable,
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
