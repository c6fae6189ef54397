//! The definition of CatalogSources with the version `v1` beside the stored one.
//!
//! `v1` has no deprecated fields, and of the members that name a source exactly one. What that one has to say is said by the
//! schema itself; of the rules of the stored version those of the new form are left, and what was stored before in OLM's form
//! may break them as it did.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion,
    JSONSchemaProps, ServiceReference, WebhookClientConfig, WebhookConversion,
};

use super::rules::{self, DEPRECATED, MEMBERS};

/// The Service of the webhook that converts, and the Deployment behind it.
pub const CONVERSION: &str = "rukpak-catalogsource-conversion";
/// Where it is asked.
pub const CONVERSION_PATH: &str = "/convert";

/// What each of the members has to name.
const NAMED: [&str; 3] = ["catalogImage", "address", "configMap"];
/// The members in the order of the design document. Of those that are missing the apiserver names the first, and the document
/// quotes it.
const ONE_OF: [&str; 3] = [
    "catalogServiceSource",
    "catalogImageSource",
    "configMapSource",
];

/// Adds `v1` to the definition that has the stored version alone. The webhook fills in itself what the apiserver has to
/// believe.
pub(in crate::api) fn with_v1(
    mut definition: CustomResourceDefinition,
    namespace: &str,
    labels: impl IntoIterator<Item = (String, String)>,
) -> CustomResourceDefinition {
    definition.metadata.labels = Some(labels.into_iter().collect());
    let newer = definition.spec.versions.first().cloned().map(v1);
    definition.spec.versions.extend(newer);
    definition.spec.conversion = Some(CustomResourceConversion {
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
    definition
}

/// Returns `v1` as it follows from the stored version.
pub(in crate::api) fn v1(
    mut version: CustomResourceDefinitionVersion,
) -> CustomResourceDefinitionVersion {
    "v1".clone_into(&mut version.name);
    version.storage = false;
    let schema = version.schema.as_mut();
    let schema = schema.and_then(|it| it.open_api_v3_schema.as_mut());
    let spec = schema.and_then(|it| it.properties.as_mut()?.get_mut("spec"));
    if let Some(spec) = spec {
        renew(spec);
    }
    version
}

fn renew(spec: &mut JSONSchemaProps) {
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
    for (member, named) in MEMBERS.into_iter().zip(NAMED) {
        let Some(member) = fields.get_mut(member) else {
            continue;
        };
        member.required = Some(vec![named.to_owned()]);
        let named = member.properties.as_mut().and_then(|it| it.get_mut(named));
        if let Some(named) = named {
            named.min_length = Some(1);
        }
    }
}
