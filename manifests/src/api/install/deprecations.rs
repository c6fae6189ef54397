//! Policy that warns clients about deprecated fields of a CatalogSource, with their replacements.

use serde_json::{Value, json};

use super::{CommentedObject, labels};
use crate::api::catalog_source::{GROUP, rules};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const NAME: &str = "catalogsource-deprecations";

pub(super) fn documents() -> Vec<CommentedObject> {
    vec![
        CommentedObject::new(
            "Warns about deprecated fields of CatalogSources and rejects nothing. Requires the CatalogSource CRD in the same\n\
             directory: OLM's CRD has only the deprecated fields.",
            json!({
                "apiVersion": ADMISSION,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": NAME, "labels": labels()},
                "spec": {
                    "failurePolicy": "Ignore",
                    "matchConstraints": {
                        // Other versions lack these fields, but after conversion would appear to have them.
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
                        // Skip requests that only change labels or finalizers.
                        {"name": "spec-changed", "expression": "oldObject == null || object.spec != oldObject.spec"},
                    ],
                    "validations": validations(),
                },
            }),
        ),
        CommentedObject::new(
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
                "{} + ': deprecated, use ' + (has(object.spec.image) ? 'catalogImageSource' : has(object.spec.address) ? \
                 'catalogServiceSource' : has(object.spec.configMap) ? 'configMapSource' : 'catalogImageSource, \
                 catalogServiceSource or configMapSource') + ' instead, as \"rukpak catalogsource convert\" does'",
                rules::names("object.spec", &rules::DEPRECATED)
            ),
        },
        {
            "expression": "!has(object.spec.updateStrategy) || has(object.spec.image) || has(object.spec.catalogImageSource)",
            "message": "updateStrategy: ignored, because only images are polled in a registry",
        },
        {
            "expression": "!has(object.spec.updateStrategy) || !has(object.spec.updateStrategy.registryPoll) || !((has(object.spec.image) \
                && object.spec.image.contains('@')) || (has(object.spec.catalogImageSource) && \
                object.spec.catalogImageSource.catalogImage.contains('@')))",
            "message": "updateStrategy: ignored, because an image with a digest never changes",
        },
        {
            "expression": "!has(object.spec.secrets) || object.spec.secrets.size() == 0 || has(object.spec.image) || \
                has(object.spec.catalogImageSource)",
            "message": "secrets: ignored, because only images are pulled with secrets",
        },
        {
            "expression": "!has(object.spec.image) || !has(object.spec.address)",
            "message": "address: ignored when image is set",
        },
    ])
}
