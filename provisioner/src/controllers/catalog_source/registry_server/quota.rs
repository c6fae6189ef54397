//! Quotas of the catalog server per namespace. Ports and disk space are shared by all namespaces. Pure; no I/O.
//!
//! A catalog that is served is not affected by later ones. A new catalog that exceeds the quota gets an error and is
//! retried.

use std::collections::BTreeMap;

use unpacker::Digest;

use super::Error;
use crate::{controllers::catalog_source::CatalogKey, runtime::settings::NamespaceQuota};

/// Usage of all namespaces.
#[derive(Debug, Default)]
pub(super) struct NamespaceQuotas {
    namespaces: BTreeMap<String, BTreeMap<String, CatalogUsage>>,
}

/// Usage of one catalog.
#[derive(Debug, Clone, Copy, Default)]
struct CatalogUsage {
    served: Option<StoreSize>,
    /// Content that exceeded the quota. The record prevents another build of its store.
    refused: Option<StoreSize>,
}

/// Content digest, and the size of its store file in bytes.
#[derive(Debug, Clone, Copy)]
struct StoreSize {
    digest: Digest,
    size: u64,
}

// === impl NamespaceQuotas ===

impl NamespaceQuotas {
    /// Checks whether the quota allows one more catalog, regardless of its content.
    pub(super) fn has_room(&self, key: &CatalogKey, quota: &NamespaceQuota) -> Result<(), Error> {
        self.check(key, None, quota)
    }

    /// Checks whether a content may be served before its store is built. Returns the maximum size of the store in bytes.
    pub(super) fn max_store_size(
        &self,
        key: &CatalogKey,
        digest: Digest,
        quota: &NamespaceQuota,
    ) -> Result<u64, Error> {
        let refused = self.usage(key).and_then(|usage| usage.refused);
        let last_rejection = refused.filter(|rejected| rejected.digest == digest);
        self.check(key, last_rejection, quota)?;
        let none = StoreSize { digest, size: 0 };
        Ok(quota
            .bytes
            .saturating_sub(self.required_bytes(key, Some(none))))
    }

    /// Records that a store was not built, because its size would be at least `size` bytes.
    pub(super) fn record_too_large(
        &mut self,
        key: &CatalogKey,
        digest: Digest,
        size: u64,
        quota: &NamespaceQuota,
    ) -> Result<(), Error> {
        let content = Some(StoreSize { digest, size });
        let parts = self.namespaces.entry(key.namespace.clone()).or_default();
        parts.entry(key.name.clone()).or_default().refused = content;
        self.check(key, content, quota)
    }

    /// Reserves quota for a content that is about to replace the current one. If the content does not fit, the current
    /// reservation is kept.
    pub(super) fn reserve(
        &mut self,
        key: &CatalogKey,
        digest: Digest,
        size: u64,
        quota: &NamespaceQuota,
    ) -> Result<(), Error> {
        let content = Some(StoreSize { digest, size });
        let result = self.check(key, content, quota);
        let parts = self.namespaces.entry(key.namespace.clone()).or_default();
        let part = parts.entry(key.name.clone()).or_default();
        if result.is_err() {
            part.refused = content;
        } else {
            *part = CatalogUsage {
                served: content,
                refused: None,
            };
        }
        result
    }

    /// Releases the reservation of a catalog that could not be served. A recorded rejection is kept.
    pub(super) fn release_served(&mut self, key: &CatalogKey) {
        let parts = self.namespaces.get_mut(&key.namespace);
        if let Some(part) = parts.and_then(|parts| parts.get_mut(&key.name)) {
            part.served = None;
        }
    }

    /// Releases the quota of a catalog after its server has stopped.
    pub(super) fn release(&mut self, key: &CatalogKey) {
        if let Some(parts) = self.namespaces.get_mut(&key.namespace) {
            parts.remove(&key.name);
            if parts.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
    }

    /// Checks the quota for a catalog, including the size of its content if that is known.
    fn check(
        &self,
        key: &CatalogKey,
        content: Option<StoreSize>,
        quota: &NamespaceQuota,
    ) -> Result<(), Error> {
        let is_served = self.usage(key).is_some_and(|usage| usage.served.is_some());
        if !is_served && self.other_contents(key).count() >= quota.catalogs {
            return Err(Error::TooMany {
                namespace: key.namespace.clone(),
                most: quota.catalogs,
            });
        }
        let would = self.required_bytes(key, content);
        if content.is_some() && would > quota.bytes {
            return Err(Error::TooLarge {
                namespace: key.namespace.clone(),
                would,
                most: quota.bytes,
            });
        }
        Ok(())
    }

    /// Returns the size of all catalogs of the namespace in bytes, including this content. Shared content counts once.
    fn required_bytes(&self, key: &CatalogKey, content: Option<StoreSize>) -> u64 {
        let sizes = self.other_contents(key).chain(content);
        let sizes: BTreeMap<Digest, u64> = sizes
            .map(|content| (content.digest, content.size))
            .collect();
        sizes.values().copied().fold(0, u64::saturating_add)
    }

    /// Returns the served contents of the other catalogs of the namespace.
    fn other_contents<'a>(&'a self, key: &'a CatalogKey) -> impl Iterator<Item = StoreSize> + 'a {
        let all = self.namespaces.get(&key.namespace).into_iter().flatten();
        let others = all.filter(|(name, _)| **name != key.name);
        others.filter_map(|(_, usage)| usage.served)
    }

    fn usage(&self, key: &CatalogKey) -> Option<&CatalogUsage> {
        self.namespaces.get(&key.namespace)?.get(&key.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps, one per line: `begin` (with the remaining room) or `take` with `namespace/name content size`, `room`, `none`, or
    /// `drop`; and the outcome.
    const TABLE: &str = "
begin a/1 x 100 | well
take  a/1 x 60 | well
begin a/2 y 40 | well
begin a/2 x 100 | well
take  a/2 y 50 | TooLarge
begin a/2 y    | TooLarge
begin a/2 z    | well
take  a/2 z 40 | well
# Content of several catalogs counts once.
take  a/3 x 60 | well
begin a/4 x    | TooMany
take  a/4 x 60 | TooMany
# Another namespace has its own quota.
take  b/1 y 100 | well
take  b/2 w 1  | TooLarge
# A served catalog may get other content, and keeps its content if the other is too large.
begin a/2 y    | well
take  a/2 y 41 | TooLarge
begin a/4 x    | TooMany
take  a/2 y 30 | well
# A deleted catalog leaves room.
drop  a/1      | well
begin a/4 v    | well
take  a/4 v 11 | TooLarge
take  a/4 v 10 | well
# Before the content is known.
room  a/5      | TooMany
room  a/2      | well
drop  a/3      | well
room  a/5      | well
# A catalog without a port takes no room, and a store that is too large is not built again.
take  a/3 x 60 | well
none  a/3      | well
room  a/5      | well
take  a/5 u 99 | TooLarge
none  a/5      | well
begin a/5 u    | TooLarge
drop  a/5      | well
drop  a/3      | well
drop  a/2      | well
drop  a/4      | well
drop  a/4      | well
";

    // parity: serve-25
    #[test]
    fn namespace_quotas_are_enforced() {
        let (catalogs, bytes) = (3, 100);
        let share = NamespaceQuota { catalogs, bytes };
        let mut quotas = NamespaceQuotas::default();
        for (step, expected) in TABLE.lines().filter_map(|line| line.split_once('|')) {
            let parts: Vec<&str> = step.split_whitespace().collect();
            let (namespace, name) = parts[1].split_once('/').unwrap();
            let key = CatalogKey::new(namespace, name);
            let digest = || Digest::sha256(parts[2].as_bytes());
            let done = match parts[0] {
                "room" => quotas.has_room(&key, &share),
                "none" => {
                    quotas.release_served(&key);
                    Ok(())
                }
                "begin" => quotas.max_store_size(&key, digest(), &share).map(|room| {
                    assert_rows!(parts.get(3).is_none_or(|text| *text == room.to_string()) => true, "{step}: {room}");
                }),
                "take" => quotas.reserve(&key, digest(), parts[3].parse().unwrap(), &share),
                _ => {
                    quotas.release(&key);
                    Ok(())
                }
            };
            assert_rows! {
                match &done { Ok(()) => "well", Err(Error::TooMany { .. }) => "TooMany", Err(_) => "TooLarge" }
                    => expected.trim(), "{step}";
            }
            if let Err(error) = done {
                ::tests::assert_has(&error, &format!("namespace {namespace}"));
                ::tests::assert_has(&error, "-per-namespace");
            }
        }
        assert_eq!(quotas.namespaces.len(), 1, "empty quotas are removed");
    }
}
