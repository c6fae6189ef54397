//! The catalog entries of the ClusterServiceVersions that OLM installed.
//!
//! A catalog author raises the max OpenShift version of a published bundle only in the catalog. OLM records the package of
//! a ClusterServiceVersion in an annotation, and the installed ClusterServiceVersion in the status of the Subscription.
//! Only the InstallPlan records the catalog, and OLM and users delete InstallPlans. So the spec of the Subscription names
//! the catalog, and users with edit permissions in the namespace can change that: [`upgradeable::InstalledOperator::with_subscription`]
//! limits their influence. Pure; no I/O.

use std::collections::BTreeMap;

use super::upgradeable;
use crate::controllers::catalog_source::CatalogKey;

/// An observed ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) operator: upgradeable::InstalledOperator,
    /// Version of the bundle (`spec.version`).
    pub(crate) version: Option<String>,
    /// Package of the bundle, as OLM has recorded it.
    pub(crate) package: Option<String>,
}

/// An observed Subscription that has installed a ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) namespace: String,
    pub(crate) catalog: CatalogKey,
    pub(crate) package: String,
    /// Name of the ClusterServiceVersion, in the namespace of the Subscription.
    pub(crate) installed: String,
}

/// Entry of a ClusterServiceVersion's bundle in a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) catalog: CatalogKey,
    pub(crate) package: String,
    /// Name of the bundle, which is that of the ClusterServiceVersion.
    pub(crate) bundle: String,
    pub(crate) version: String,
}

impl Entry {
    /// Returns the key of the last value in `catalogMaxima`; digests of images contain no `/`.
    pub(crate) fn key(&self) -> String {
        upgradeable::key(&self.package, &self.bundle, &self.catalog.to_string())
    }

    /// Returns the key of the last lowest value of all catalogs.
    pub(crate) fn lowest_key(&self) -> String {
        upgradeable::key(&self.package, &self.bundle, "*")
    }
}

/// Returns the entries by `namespace/name` of the ClusterServiceVersion. If several Subscriptions name one
/// ClusterServiceVersion and different catalogs or packages, none of them counts. A Subscription of another package than
/// the one that OLM has recorded does not count either.
pub(crate) fn entries<'a>(
    services: impl Iterator<Item = &'a Service>,
    subscriptions: impl Iterator<Item = &'a Subscription>,
) -> BTreeMap<String, Entry> {
    let mut origins: BTreeMap<String, Option<(&CatalogKey, &str)>> = BTreeMap::new();
    for subscription in subscriptions {
        let name = format!("{}/{}", subscription.namespace, subscription.installed);
        let origin = Some((&subscription.catalog, subscription.package.as_str()));
        let entry = origins.entry(name).or_insert(origin);
        if *entry != origin {
            *entry = None;
        }
    }
    let entries = services.filter_map(|service| {
        let operator = &service.operator;
        let name = format!("{}/{}", operator.namespace, operator.name);
        let (catalog, package) = origins.get(&name).copied().flatten()?;
        if service.package.as_deref() != Some(package) {
            return None;
        }
        let entry = Entry {
            catalog: catalog.clone(),
            package: package.to_owned(),
            bundle: operator.name.clone(),
            version: service.version.clone()?,
        };
        Some((name, entry))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(text: &str) -> Subscription {
        let parts: Vec<&str> = text.split(' ').collect();
        let [namespace, catalog, package, installed] = parts[..] else {
            panic!("{text}");
        };
        let (of, name) = catalog.split_once('/').unwrap();
        Subscription {
            namespace: namespace.to_owned(),
            catalog: CatalogKey::new(of, name),
            package: package.to_owned(),
            installed: installed.to_owned(),
        }
    }

    fn service(package: Option<&str>, version: Option<&str>) -> Service {
        Service {
            operator: with!(upgradeable::InstalledOperator::default() => namespace: "ops".to_owned(), name: "etcd.v1".to_owned()),
            version: version.map(str::to_owned),
            package: package.map(str::to_owned),
        }
    }

    #[test]
    fn a_subscription_names_the_catalog_entry_of_its_csv() {
        let mine = "ops catalogs/mine etcd etcd.v1";
        for (subscriptions, expected) in ::tests::rows![
            &[][..] => None;
            &[mine] => Some("etcd/etcd.v1@catalogs/mine");
            &[mine, mine] => Some("etcd/etcd.v1@catalogs/mine");
            &["other catalogs/mine etcd etcd.v1"] => None;
            &["ops catalogs/mine etcd etcd.v2"] => None;
            &[mine, "ops catalogs/mine etcd etcd.v2"] => Some("etcd/etcd.v1@catalogs/mine");
            // Two Subscriptions contradict each other.
            &[mine, "ops catalogs/other etcd etcd.v1"] => None;
            &[mine, "ops catalogs/mine moon etcd.v1", mine] => None;
        ] {
            let service = service(Some("etcd"), Some("1.0.0"));
            let subscribed = subscriptions.iter().map(|text| subscription(text));
            let subscribed: Vec<Subscription> = subscribed.collect();
            let entries = entries([service].iter(), subscribed.iter());
            let entry = entries.get("ops/etcd.v1");
            assert_rows!(entry.map(Entry::key).as_deref() => expected, "{subscriptions:?}");
            if let Some(entry) = entry {
                assert_eq!(entry.version, "1.0.0");
            }
        }
    }

    #[test]
    fn package_and_version_are_those_that_olm_recorded() {
        let mine = [subscription("ops catalogs/mine etcd etcd.v1")];
        assert_each!(|package, version, count| entries([service(package, version)].iter(), mine.iter()).len() => count;
            Some("etcd"), Some("1.0.0") => 1;
            Some("moon"), Some("1.0.0") => 0;
            None, Some("1.0.0") => 0;
            Some("etcd"), None => 0;
        );
    }
}
