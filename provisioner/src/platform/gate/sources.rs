//! Where operators and their demands come from: BundleInstances, and the ClusterServiceVersions of an OLM.

use std::collections::BTreeMap;

use convert::{Property, maxocp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use manifests::{
    api::{
        instance::{BundleInstance, Constraint},
        operator_condition::OperatorCondition,
    },
    openshift::{self, maximum},
};
use serde_json::value::RawValue;

use super::{Operator, key};
use crate::overrides::Digests;

/// What OLM writes on a ClusterServiceVersion that it installs: all properties of the bundle.
const PROJECTED: &str = "operatorframework.io/properties";

impl Operator {
    /// A BundleInstance, if something of it is installed. What a catalog says of the bundle counts before what the bundle
    /// says: `maxima` is of [`remember`](super::remember).
    pub fn of_instance(
        instance: &BundleInstance,
        maxima: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let status = instance.status.as_ref()?;
        status.installed_bundle_name.as_ref()?;
        let of_catalog = identity(instance).and_then(|key| maxima.get(&key));
        let of_bundle = status.facts.max_open_shift_version.as_ref();
        let overridden = Digests::of_installed(status)
            .find(&instance.spec.overrides, Constraint::MaxOpenShiftVersion);
        Some(Self {
            namespace: status.install_namespace.clone().unwrap_or_default(),
            name: instance.name_any(),
            maximum: of_catalog.or(of_bundle).cloned(),
            overridden: overridden.map(|it| it.reason.clone()),
            ..Self::default()
        })
    }

    /// A ClusterServiceVersion, unless it is a copy of one in another namespace. `reason` is that of its status.
    pub fn of_csv(metadata: &ObjectMeta, reason: Option<&str>) -> Option<Self> {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let annotations = metadata.annotations.as_ref();
        let annotation = |key| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let is_copied = reason == Some("Copied")
            || annotation("olm.operatorNamespace").is_some_and(|of| of != namespace)
            || metadata
                .labels
                .as_ref()
                .is_some_and(|labels| labels.contains_key("olm.copiedFrom"));
        (!is_copied).then(|| Self {
            namespace: namespace.to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
            maximum: claimed(annotation(PROJECTED), annotation(maxocp::ANNOTATION)),
            ..Self::default()
        })
    }

    /// The same, with what its OperatorCondition says.
    #[must_use]
    pub fn with_condition(mut self, condition: &OperatorCondition) -> Self {
        self.refusal = condition
            .refusal()
            .map(|refusal| (refusal.reason.clone(), refusal.message.clone()));
        self
    }
}

/// By what a catalog can know the bundle that is installed: it must have come from an image.
pub fn identity(instance: &BundleInstance) -> Option<String> {
    let status = instance.status.as_ref()?;
    Some(key(
        status.facts.package.as_deref()?,
        status.facts.cluster_service_version.as_deref()?,
        Digests::of_installed(status).image()?,
    ))
}

/// The properties that OLM has written: `{"properties": [{"type": …, "value": …}]}`.
fn projected(text: &str) -> Result<Vec<Property>, serde_json::Error> {
    // A struct would be read from a list, too.
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
    fields
        .remove("properties")
        .map_or_else(|| Ok(Vec::new()), |list| serde_json::from_str(list.get()))
}

/// The maximum of a ClusterServiceVersion as it is written. Properties count before the annotation of the first proposal;
/// where both name a release, the lower one does, for it is the one that protects the cluster.
fn claimed(properties: Option<&str>, annotation: Option<&str>) -> Option<String> {
    let listed = properties.map(|text| match projected(text) {
        Ok(properties) => properties
            .into_iter()
            .filter(|property| property.type_ == openshift::MAX_PROPERTY)
            .map(|property| property.value.get().to_owned())
            .collect(),
        // What cannot be read may be anything.
        Err(_) => vec![format!(
            "the annotation {PROJECTED} is no JSON of properties"
        )],
    });
    let listed: Vec<String> = listed.unwrap_or_default();
    let property = (!listed.is_empty()).then(|| listed.join(" and "));
    let annotation = annotation.map(str::to_owned);
    match (property, annotation) {
        (Some(property), Some(annotation)) => match (maximum(&property), maximum(&annotation)) {
            (Ok(a), Ok(b)) if b.normalized() < a.normalized() => Some(annotation),
            _ => Some(property),
        },
        (property, annotation) => property.or(annotation),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_maximum_of_a_csv_is_what_olm_has_written() {
        let of = |list: Value| json!({"properties": list}).to_string();
        let max =
            |value: &str| format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {value}}}"#);
        let raw = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|value| max(value)).collect();
            format!(r#"{{"properties": [{}]}}"#, list.join(", "))
        };
        for (projected, annotation, expected) in [
            (None, None, None),
            (Some(of(json!([]))), None, None),
            (
                Some(of(json!([{"type": "olm.package", "value": {}}]))),
                None,
                None,
            ),
            (Some(raw(&["\"4.8\""])), None, Some("\"4.8\"")),
            (Some(raw(&["4.8"])), None, Some("4.8")),
            // A number keeps its digits.
            (Some(raw(&["4.10"])), None, Some("4.10")),
            (
                Some(raw(&["\"4.8\"", "\"4.8\""])),
                None,
                Some("\"4.8\" and \"4.8\""),
            ),
            (
                Some("[]".into()),
                None,
                Some("the annotation operatorframework.io/properties is no JSON of properties"),
            ),
            (
                Some("garbage".into()),
                None,
                Some("the annotation operatorframework.io/properties is no JSON of properties"),
            ),
            (None, Some("4.8"), Some("4.8")),
            (Some(raw(&["\"4.9\""])), Some("4.8"), Some("4.8")),
            (Some(raw(&["\"4.9\""])), Some("4.10"), Some("\"4.9\"")),
            (Some(raw(&["\"4.9\""])), Some("garbage"), Some("\"4.9\"")),
            (Some(raw(&["\"4.9.1\""])), Some("4.8"), Some("\"4.9.1\"")),
        ] {
            let found = claimed(projected.as_deref(), annotation);
            assert_eq!(found.as_deref(), expected, "{projected:?} {annotation:?}");
        }
    }

    #[test]
    fn copies_of_a_csv_do_not_count() {
        let csv = |metadata: Value, reason| {
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            Operator::of_csv(&metadata, reason).map(|it| format!("{}/{}", it.namespace, it.name))
        };
        let own = json!({"name": "etcd.v1", "namespace": "a", "annotations": {"olm.operatorNamespace": "a"}});
        assert_eq!(csv(own.clone(), None).as_deref(), Some("a/etcd.v1"));
        assert_eq!(
            csv(own.clone(), Some("InstallSucceeded")).as_deref(),
            Some("a/etcd.v1")
        );
        assert_eq!(csv(own, Some("Copied")), None);
        let of_other = json!({"name": "etcd.v1", "namespace": "a", "annotations": {"olm.operatorNamespace": "b"}});
        assert_eq!(csv(of_other, None), None);
        let copied =
            json!({"name": "etcd.v1", "namespace": "a", "labels": {"olm.copiedFrom": "a"}});
        assert_eq!(csv(copied, None), None);
    }

    fn instance(status: &Value, overrides: &Value) -> BundleInstance {
        serde_json::from_value(json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": {"name": "etcd"},
            "spec": {
                "provisionerClassName": "core-rukpak-io-plain",
                "template": {"spec": {"source": {"type": "image", "image": {"ref": "a"}}}},
                "overrides": overrides,
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_catalog_counts_before_the_bundle_for_just_this_content() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let status = json!({
            "installedBundleName": "etcd-1", "installNamespace": "etcd-system", "package": "etcd", "version": "1.0.0",
            "clusterServiceVersion": "etcd.v1", "maxOpenShiftVersion": "4.12",
            "resolvedSource": {"type": "image", "image": {"ref": format!("quay.io/etcd@{digest}")}},
        });
        let said = |key: String| {
            let maxima = BTreeMap::from([(key, "\"4.13\"".to_owned())]);
            let operator = Operator::of_instance(&instance(&status, &json!([])), &maxima);
            operator.unwrap().maximum.unwrap()
        };
        assert_eq!(said(key("etcd", "etcd.v1", &digest)), "\"4.13\"");
        assert_eq!(said(key("etcd", "etcd.v2", &digest)), "4.12");
        assert_eq!(said(key("etcd", "etcd.v1", "sha256:b")), "4.12");

        let none = BTreeMap::new();
        let by = |digest: &str, constraint: &str| {
            let overrides =
                json!([{"constraint": constraint, "digest": digest, "reason": "tested"}]);
            let instance = instance(&status, &overrides);
            Operator::of_instance(&instance, &none).unwrap().overridden
        };
        assert_eq!(
            by(&digest, "maxOpenShiftVersion").as_deref(),
            Some("tested")
        );
        assert_eq!(by(&digest, "minKubeVersion"), None);
        let other = format!("sha256:{}", "b".repeat(64));
        assert_eq!(by(&other, "maxOpenShiftVersion"), None);
        // Nothing is installed yet.
        let waiting = instance(&json!({"package": "etcd"}), &json!([]));
        assert_eq!(Operator::of_instance(&waiting, &none), None);
        assert_eq!(identity(&waiting), None);
    }
}
