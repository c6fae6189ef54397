//! Operators of the gate: read from BundleInstances, and from the ClusterServiceVersions of OLM. Pure; no I/O.

use convert::olm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use manifests::api::bundle_identity::{Identity, identity, key};
use manifests::{
    api::operator_condition::OperatorCondition,
    openshift::{INSTALLED_PROPERTIES_ANNOTATION, Release, maximum},
};

use super::{InstalledOperator, UpgradeRemedy, olm::Reading};
use crate::controllers::{
    catalog_source::max_openshift::MaxOpenShiftVersions,
    cluster_operator::instance::ObservedInstance,
};

impl InstalledOperator {
    /// Reads a BundleInstance with installed objects, even of a partly applied bundle. The value of a catalog in `maxima`
    /// precedes that of the bundle if it is a release. Of several live revisions, the lowest release counts.
    pub fn of_instance(instance: &ObservedInstance, maxima: &MaxOpenShiftVersions) -> Option<Self> {
        if !instance.has_objects {
            return None;
        }
        let identity = instance.identity();
        let of_catalog = identity.and_then(|identity| maxima.get(&identity.key()));
        let operator = Self {
            namespace: instance
                .install_namespace
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
            name: instance.name.to_string(),
            max_openshift: instance.max_openshift.as_deref().map(str::to_owned),
            overridden: instance.overridden.as_deref().map(str::to_owned),
            ..Self::default()
        };
        let operator = operator.with_catalog(of_catalog);
        let others = instance.other_maxima.iter().map(AsRef::as_ref);
        Some(others.fold(operator, Self::at_most))
    }

    /// Uses the value of another live revision if it is a lower release, or the only release. A value with an override is
    /// always replaced by a release, because an override applies to the installed content only.
    fn at_most(mut self, value: &str) -> Self {
        let release = |text: &str| maximum(text).ok();
        let own = self.max_openshift.as_deref().map(release);
        let is_used = match (own, release(value)) {
            (None, _) | (Some(None), Some(_)) => true,
            // Only a release blocks.
            (Some(_), None) => false,
            (Some(Some(own)), Some(declared)) => {
                own.is_after(declared) || self.overridden.is_some()
            }
        };
        if is_used {
            self.max_openshift = Some(value.to_owned());
            self.is_from_catalog = false;
            self.overridden = None;
        }
        self
    }

    /// Reads a ClusterServiceVersion unless it is a copy in another namespace. `reason` is the reason of its status.
    pub fn of_csv(metadata: &ObjectMeta, reason: Option<&str>) -> Option<Self> {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let annotations = metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let labels = metadata.labels.as_ref();
        let is_copied = reason == Some("Copied")
            || annotation(olm::NAMESPACE).is_some_and(|of| of != namespace)
            || labels.is_some_and(|labels| labels.contains_key(olm::COPIED));
        (!is_copied).then(|| Self {
            namespace: namespace.to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
            max_openshift: olm::max_openshift(annotation),
            remedy: UpgradeRemedy::Subscription,
            olm: Some(Reading::new(annotation(INSTALLED_PROPERTIES_ANNOTATION))),
            ..Self::default()
        })
    }

    /// Uses the value of a catalog in place of the bundle's, unless only the bundle's is a release.
    #[must_use]
    pub fn with_catalog(mut self, value: Option<&String>) -> Self {
        let Some(value) = value else {
            return self;
        };
        let is_release = |text: &str| maximum(text).is_ok();
        if is_release(value) || !self.max_openshift.as_deref().is_some_and(is_release) {
            self.max_openshift = Some(value.clone());
            self.is_from_catalog = true;
        } else {
            self.invalid_maximum = Some(value.clone());
        }
        self
    }

    /// Uses the value of the catalog that a Subscription names. Every user with edit permissions in the namespace can make
    /// the Subscription name another catalog, so the value is raised only as far as all catalogs of the admin agree.
    /// `lowest` is the lowest release that any of them declares for the bundle; `None` if that is not known.
    #[must_use]
    pub fn with_subscription(mut self, value: Option<&String>, lowest: Option<&String>) -> Self {
        let release = |text: &str| maximum(text).ok();
        let own = self.max_openshift.as_deref().and_then(release);
        let is_raise = |declared: Release| own.is_none_or(|own| declared.is_after(own));
        let declared = value.and_then(|value| release(value));
        let Some(declared) = declared.filter(|declared| is_raise(*declared)) else {
            return self.with_catalog(value);
        };
        let lowest = lowest.and_then(|lowest| release(lowest));
        if lowest.is_some_and(|lowest| !declared.is_after(lowest)) {
            return self.with_catalog(value);
        }
        self.ignored = Some(declared);
        let agreed = lowest.filter(|lowest| is_raise(*lowest));
        self.with_catalog(agreed.map(|agreed| agreed.to_string()).as_ref())
    }

    /// Adds the refusal of an OperatorCondition.
    #[must_use]
    pub fn with_condition(mut self, condition: &OperatorCondition) -> Self {
        self.refusal = condition
            .not_upgradeable()
            .map(|refusal| (refusal.reason.clone(), refusal.message.clone()));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use manifests::{
        api::{bundle_instance::BundleInstance, labels},
        openshift::MAX_ANNOTATION,
    };
    use serde_json::{Value, json};

    use super::*;

    // parity: max-olm-13
    #[test]
    fn copies_of_a_csv_do_not_count() {
        let csv = |namespace: &str, labels: Value, reason| {
            let annotations = json!({"olm.operatorNamespace": namespace});
            let metadata = json!({"name": "etcd.v1", "namespace": "a", "annotations": annotations, "labels": labels});
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            let operator = InstalledOperator::of_csv(&metadata, reason)?;
            Some((operator.label(), operator.remedy))
        };
        // A ClusterServiceVersion has no spec.overrides, and no catalog offers an upgrade from it.
        let own = || ("a/etcd.v1".to_owned(), UpgradeRemedy::Subscription);
        assert_each!(|namespace, labels, reason, expected| csv(namespace, labels, reason) => expected;
            "a", json!({}), None => Some(own());
            "a", json!({}), Some("InstallSucceeded") => Some(own());
            "a", json!({}), Some("Copied") => None;
            "b", json!({}), None => None;
            "a", json!({"olm.copiedFrom": "a"}), None => None;
        );
    }

    fn instance(status: &Value, overrides: &Value) -> BundleInstance {
        object!({"metadata": {"name": "etcd"}, "spec": {"overrides": overrides}, "status": status})
    }

    fn read(instance: &BundleInstance, maxima: &MaxOpenShiftVersions) -> Option<InstalledOperator> {
        InstalledOperator::of_instance(&ObservedInstance::new(instance), maxima)
    }

    // parity: max-6
    #[test]
    fn catalog_value_precedes_the_bundle_for_the_same_content() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let status = json!({
            "installedBundleName": "etcd-1", "installNamespace": "etcd-system", "package": "etcd", "version": "1.0.0",
            "clusterServiceVersion": "etcd.v1", "maxOpenShiftVersion": "4.12",
            "resolvedSource": {"type": "image", "image": {"ref": format!("quay.io/etcd@{digest}")}},
        });
        let value = |key: String| {
            let maxima = BTreeMap::from([(key, "\"4.13\"".to_owned())]);
            let operator = read(&instance(&status, &json!([])), &maxima);
            operator.unwrap().max_openshift.unwrap()
        };
        let none = BTreeMap::new();
        let overridden = |digest: &str, constraint: &str| {
            let entry = json!({"constraint": constraint, "digest": digest, "reason": "tested"});
            let operator = read(&instance(&status, &json!([entry])), &none);
            operator.unwrap().overridden
        };
        let waiting = instance(&json!({"package": "etcd"}), &json!([]));
        assert_rows! {
            value(key("etcd", "etcd.v1", &digest)) => "\"4.13\"";
            value(key("etcd", "etcd.v2", &digest)) => "4.12";
            value(key("etcd", "etcd.v1", "sha256:b")) => "4.12";
            overridden(&digest, "maxOpenShiftVersion").as_deref() => Some("tested");
            overridden(&digest, "minKubeVersion") => None;
            overridden(&format!("sha256:{}", "b".repeat(64)), "maxOpenShiftVersion") => None;
            // Nothing is installed yet.
            read(&waiting, &none) => None;
            identity(&waiting) => None;
        }
    }

    #[test]
    fn lowest_maximum_of_the_live_revisions_counts() {
        let none = BTreeMap::new();
        for (installed, live, expected) in ::tests::rows![
            Some("4.12"), json!([["Active", "etcd-1", "4.12"]]) => Some(Some("4.12"));
            Some("4.12"), json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "4.11"]]) => Some(Some("4.11"));
            Some("4.12"), json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "4.14"]]) => Some(Some("4.12"));
            // An invalid value neither opens nor closes the gate.
            Some("4.12"), json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "x"]]) => Some(Some("4.12"));
            Some("4.12"), json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "4.12.0"]]) => Some(Some("4.12"));
            Some("x"), json!([["Active", "etcd-1", "x"], ["RollingOut", "etcd-2", "4.12"]]) => Some(Some("4.12"));
            Some("4.12"), json!([["Archived", "etcd-0", "4.8"], ["Active", "etcd-1", "4.12"]]) => Some(Some("4.12"));
            // The first installation failed after some objects were applied.
            None, json!([["RollingOut", "etcd-1", "4.13"]]) => Some(Some("4.13"));
            None, json!([["RollingOut", "etcd-1", null]]) => Some(None);
            None, json!([]) => None;
        ] {
            let mut status = json!({"revisions": revisions(&live)});
            if let Some(maximum) = installed {
                status["installedBundleName"] = "etcd-1".into();
                status["maxOpenShiftVersion"] = maximum.into();
            }
            let operator = read(&instance(&status, &json!([])), &none);
            let found = operator.map(|operator| operator.max_openshift);
            assert_rows!(found => expected.map(|maximum| maximum.map(str::to_owned)), "{installed:?} {live}");
        }
    }

    /// Returns revisions from rows with the state, the Bundle and the max OpenShift version.
    fn revisions(rows: &Value) -> Vec<Value> {
        let revision = |row: &Value| {
            json!({
                "number": 1, "state": row[0], "cause": "Install", "bundle": row[1], "digest": "", "checksum": "",
                "parts": 1, "created": "2026-01-01T00:00:00Z", "maxOpenShiftVersion": row[2],
            })
        };
        rows.as_array().unwrap().iter().map(revision).collect()
    }

    #[test]
    fn override_is_for_the_installed_content_only() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let entry =
            json!({"constraint": "maxOpenShiftVersion", "digest": digest, "reason": "tested"});
        let blocks = |live: &Value| {
            let status = json!({
                "installedBundleName": "etcd-1", "maxOpenShiftVersion": "4.12", "contentDigest": digest,
                "revisions": revisions(live),
            });
            let operator = read(&instance(&status, &json!([entry])), &BTreeMap::new());
            operator.unwrap().blocks(Release::new(4, 12))
        };
        assert_each!(|live, expected| blocks(&live) => expected;
            json!([["Active", "etcd-1", "4.12"]]) => false;
            json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "4.12"]]) => true;
            json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "4.13"]]) => false;
            json!([["Active", "etcd-1", "4.12"], ["RollingOut", "etcd-2", "4.12.0"]]) => false;
        );
    }

    #[test]
    fn csv_value_counts_unless_the_catalog_declares_a_release() {
        let of = |own: Option<&str>, catalog: Option<&str>| {
            let annotations = own.map(|own| json!({MAX_ANNOTATION: own}));
            let metadata = json!({"name": "etcd.v1", "namespace": "a", "annotations": annotations});
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            let catalog = catalog.map(str::to_owned);
            let operator = InstalledOperator::of_csv(&metadata, None).unwrap();
            let operator = operator.with_catalog(catalog.as_ref());
            let is_invalid = operator.invalid_maximum.is_some();
            let maximum = operator.max_openshift.unwrap_or_default();
            (maximum, operator.is_from_catalog, is_invalid)
        };
        assert_each!(|own, catalog, maximum, is_from_catalog, is_unread|
            of(own, catalog) => (maximum.to_owned(), is_from_catalog, is_unread);
            Some("4.12"), None, "4.12", false => false;
            Some("4.12"), Some("\"4.13\""), "\"4.13\"", true => false;
            Some("4.12"), Some("\"4.11\""), "\"4.11\"", true => false;
            // An invalid release neither raises nor lowers the value.
            Some("4.12"), Some("\"4.13.0\""), "4.12", false => true;
            Some("4.12"), Some("\"4.12\" and \"4.13\""), "4.12", false => true;
            Some("4.x"), Some("\"4.13\""), "\"4.13\"", true => false;
            Some("4.x"), Some("\"4.y\""), "\"4.y\"", true => false;
            Some("4.x"), Some("\"4.13.0\""), "\"4.13.0\"", true => false;
            None, Some("\"4.13\""), "\"4.13\"", true => false;
            None, Some("\"4.13.0\""), "\"4.13.0\"", true => false;
            None, None, "", false => false;
        );
    }

    #[test]
    fn subscription_raises_the_value_as_far_as_catalogs_agree() {
        let of = |own: Option<&str>, value: Option<&str>, lowest: Option<&str>| {
            let operator =
                with!(InstalledOperator::default() => max_openshift: own.map(str::to_owned));
            let [value, lowest] = [value, lowest].map(|text| text.map(str::to_owned));
            let operator = operator.with_subscription(value.as_ref(), lowest.as_ref());
            let ignored = operator.ignored.map(|release| release.to_string());
            (operator.max_openshift.unwrap_or_default(), ignored)
        };
        assert_each!(|own, value, lowest, maximum, ignored|
            of(own, value, lowest) => (maximum.to_owned(), ignored.map(str::to_owned));
            Some("4.12"), Some("\"4.14\""), Some("4.14"), "\"4.14\"" => None;
            // Other catalogs declare less, or are unknown.
            Some("4.12"), Some("4.14"), Some("4.13"), "4.13" => Some("4.14");
            Some("4.12"), Some("4.14"), Some("4.12"), "4.12" => Some("4.14");
            Some("4.12"), Some("4.14"), Some("4.11"), "4.12" => Some("4.14");
            Some("4.12"), Some("4.14"), None, "4.12" => Some("4.14");
            None, Some("4.14"), Some("4.13"), "4.13" => Some("4.14");
            None, Some("4.14"), None, "" => Some("4.14");
            Some("4.x"), Some("4.14"), None, "4.x" => Some("4.14");
            // 4.23 and 5.0 are one release.
            Some("4.22"), Some("5.0"), Some("4.23"), "5.0" => None;
            Some("4.23"), Some("5.0"), None, "5.0" => None;
            // The named catalog lowers the value alone; outdated copies in other catalogs do not.
            Some("4.13"), Some("4.12"), None, "4.12" => None;
            Some("4.13"), Some("4.13"), Some("4.12"), "4.13" => None;
            Some("4.12"), Some("4.y"), Some("4.14"), "4.12" => None;
            Some("4.12"), None, Some("4.14"), "4.12" => None;
        );
    }

    // parity: platform-24, platform-25
    #[test]
    fn plain_manifests_are_identified_by_their_recorded_choice() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let status = json!({
            "installedBundleName": "etcd-1", "installNamespace": "etcd-system",
            "resolvedSource": {"type": "image", "image": {"ref": format!("quay.io/etcd@{digest}")}},
        });
        let of = |memo: &str| {
            let mut instance = instance(&status, &json!([]));
            let annotation = (labels::CHOSEN_BUNDLE.to_owned(), memo.to_owned());
            instance.metadata.annotations = Some([annotation].into());
            identity(&instance).map(|identity| identity.key())
        };
        let memo = |package: &str, of: &str| {
            json!({
                "package": package, "name": "etcd.v2", "version": "2.0.0", "channel": "stable", "catalog": "c/mine",
                "image": format!("quay.io/etcd@{of}"), "mediaType": "plain+v0",
            })
            .to_string()
        };
        assert_rows!(of(&memo("etcd", &digest)) => Some(format!("etcd/etcd.v2@{digest}")));
        // An unfinished rollout does not count.
        let other = format!("sha256:{}", "b".repeat(64));
        for memo in [&memo("etcd", &other), &memo("", &digest), "garbage"] {
            assert_eq!(of(memo), None, "{memo}");
        }
    }
}
