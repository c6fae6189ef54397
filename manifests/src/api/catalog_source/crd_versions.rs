//! CRD of CatalogSources with the version `v1` beside the stored one.
//!
//! `v1` has no deprecated fields, and requires exactly one of the members that name a source. The schema itself enforces
//! the requirements of that member. Of the validation rules of the stored version, only those for members remain. Objects
//! that were stored in OLM's form may violate them as before.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion,
    JSONSchemaProps, ServiceReference, WebhookClientConfig, WebhookConversion,
};

use super::rules::{self, DEPRECATED, MEMBERS};

/// Name of the Service and the Deployment of the conversion webhook.
pub const CONVERSION: &str = "rukpak-catalogsource-conversion";
/// URL path of the conversion webhook.
pub const CONVERSION_PATH: &str = "/convert";

/// The required field of each member.
const REQUIRED_FIELDS: [&str; 3] = ["catalogImage", "address", "configMap"];
/// The members in the order of the design document. If no member is set, the API server names the first one, and the
/// document quotes that message.
const ONE_OF: [&str; 3] = [
    "catalogServiceSource",
    "catalogImageSource",
    "configMapSource",
];

/// Adds `v1` to a CRD that has only the stored version. The webhook fills in its own CA bundle.
pub(in crate::api) fn add_v1(
    mut crd: CustomResourceDefinition,
    namespace: &str,
    labels: impl IntoIterator<Item = (String, String)>,
) -> CustomResourceDefinition {
    crd.metadata.labels = Some(labels.into_iter().collect());
    let newer = crd.spec.versions.first().cloned().map(v1);
    crd.spec.versions.extend(newer);
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    namespace: namespace.to_owned(),
                    name: CONVERSION.to_owned(),
                    path: Some(CONVERSION_PATH.to_owned()),
                    port: Some(443),
                }),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    crd
}

/// Returns `v1`, derived from the stored version.
pub(in crate::api) fn v1(
    mut version: CustomResourceDefinitionVersion,
) -> CustomResourceDefinitionVersion {
    "v1".clone_into(&mut version.name);
    version.storage = false;
    let schema = version.schema.as_mut();
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
    let spec = schema.and_then(|schema| schema.properties.as_mut()?.get_mut("spec"));
    if let Some(spec) = spec {
        restrict_to_v1(spec);
    }
    version
}

fn restrict_to_v1(spec: &mut JSONSchemaProps) {
    let rules = rules::spec_of_v1().into_iter();
    let rules = rules.filter_map(|rule| serde_json::from_value(rule).ok());
    spec.x_kubernetes_validations = Some(rules.collect());
    let one_of = ONE_OF.map(|member| JSONSchemaProps {
        required: Some(vec![member.to_owned()]),
        ..JSONSchemaProps::default()
    });
    spec.one_of = Some(one_of.into());
    let Some(fields) = &mut spec.properties else {
        return;
    };
    fields.retain(|field, _| !DEPRECATED.contains(&field.as_str()));
    for (member, named) in MEMBERS.into_iter().zip(REQUIRED_FIELDS) {
        let Some(member) = fields.get_mut(member) else {
            continue;
        };
        member.required = Some(vec![named.to_owned()]);
        let named = member
            .properties
            .as_mut()
            .and_then(|properties| properties.get_mut(named));
        if let Some(named) = named {
            named.min_length = Some(1);
        }
    }
}
