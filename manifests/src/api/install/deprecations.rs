//! Whoever writes deprecated fields of a CatalogSource is told so, and what to write instead.

use serde_json::{Value, json};

use super::{Document, labels};
use crate::api::catalog_source::{GROUP, rules};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const NAME: &str = "catalogsource-deprecations";

pub(super) fn documents() -> Vec<Document> {
    vec![
        Document::new(
            "Warns of deprecated fields in CatalogSources, and refuses nothing. Only where the definition of CatalogSources is\n\
             the one beside this file: OLM's own knows no other fields.",
            json!({
                "apiVersion": ADMISSION,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": NAME, "labels": labels()},
                "spec": {
                    "failurePolicy": "Ignore",
                    "matchConstraints": {
                        // Other versions do not have these fields; converted, they would look as if they had.
                        "matchPolicy": "Exact",
                        "resourceRules": [{
                            "apiGroups": [GROUP],
                            "apiVersions": ["v1alpha1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["catalogsources"],
                        }],
                    },
                    "matchConditions": [
                        {"name": "spec-there", "expression": "has(object.spec)"},
                        // Not of those who label it, or take a finalizer away.
                        {"name": "spec-changed", "expression": "oldObject == null || object.spec != oldObject.spec"},
                    ],
                    "validations": validations(),
                },
            }),
        ),
        Document::new(
            "",
            json!({
                "apiVersion": ADMISSION,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": NAME, "labels": labels()},
                "spec": {"policyName": NAME, "validationActions": ["Warn"]},
            }),
        ),
    ]
}

fn validations() -> Value {
    let has = |field: &str| format!("has(object.spec.{field})");
    let any: Vec<String> = rules::DEPRECATED.map(has).into();
    json!([
        {
            "expression": format!("!({})", any.join(" || ")),
            "messageExpression": format!(
                "{} + ': deprecated, write ' + (has(object.spec.image) ? 'catalogImageSource' : has(object.spec.address) ? \
                 'catalogServiceSource' : has(object.spec.configMap) ? 'configMapSource' : 'catalogImageSource, \
                 catalogServiceSource or configMapSource') + ' instead, as \"rukpak catalogsource convert\" does'",
                rules::names("object.spec", &rules::DEPRECATED)
            ),
        },
        {
            "expression": "!has(object.spec.updateStrategy) || has(object.spec.image) || has(object.spec.catalogImageSource)",
            "message": "updateStrategy: not read, for only an image is looked for in a registry",
        },
        {
            "expression": "!has(object.spec.updateStrategy) || !has(object.spec.updateStrategy.registryPoll) || !((has(object.spec.image) \
                && object.spec.image.contains('@')) || (has(object.spec.catalogImageSource) && \
                object.spec.catalogImageSource.catalogImage.contains('@')))",
            "message": "updateStrategy: not read, for an image with a digest is always the same",
        },
        {
            "expression": "!has(object.spec.secrets) || object.spec.secrets.size() == 0 || has(object.spec.image) || \
                has(object.spec.catalogImageSource)",
            "message": "secrets: not read, for only an image is pulled with them",
        },
        {
            "expression": "!has(object.spec.image) || !has(object.spec.address)",
            "message": "address: not read beside image",
        },
    ])
}
