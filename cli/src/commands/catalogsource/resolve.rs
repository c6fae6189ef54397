//! `rukpak catalogsource resolve`: resolves the templates in CatalogSources like the provisioner.

use anyhow::Context;
use manifests::{
    api::catalog_source::{CatalogSource, DeclaredLocation, Invalid, without_nulls},
    image_template::{self, ChosenTemplate, TemplateSource, TemplateValues, choose},
    yaml,
};
use serde::Serialize;
use serde_json::Value;

use super::{is_catalog_source, name, objects::Objects, read};
use crate::{
    ExitStatus,
    args::CatalogSourceResolveArgs,
    output,
    output::{message, table},
};

/// Image or template of a CatalogSource, and the resolved image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resolved {
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    /// Field or annotation that has the template.
    field: String,
    template: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(super) fn run(args: &CatalogSourceResolveArgs) -> anyhow::Result<ExitStatus> {
    let default_olm = image_template::server(env!("CARGO_PKG_VERSION"));
    let values = TemplateValues {
        kube: args.kube_version.clone(),
        olm: args.olm_version.clone().or(default_olm),
        openshift: args.ocp_version.clone(),
        architecture: image_template::architecture(args.architecture.as_deref()),
        update_channel: args
            .ocp_channel
            .as_deref()
            .and_then(image_template::update_channel),
    };
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    for path in args.files.iter() {
        let failed = || format!("failed to read {}", path.display());
        let text = read(path).with_context(failed)?;
        for document in yaml::documents(&text) {
            let document = document.with_context(failed)?;
            all.extend(templates(document, &values, &mut warnings));
        }
    }
    if let Some(text) = output::described(&all, args.output)? {
        output::print(&text)?;
    } else if all.is_empty() {
        message::warning("no CatalogSource with an image or a template found");
    } else {
        let row = |resolved: &Resolved| {
            [
                resolved.name(),
                resolved.field.clone(),
                resolved.image.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = all.iter().map(row).collect();
        output::print(&table::render(Some(["NAME", "FIELD", "IMAGE"]), &rows, 0))?;
    }
    for warning in warnings {
        message::warning(&warning);
    }
    let mut exit = ExitStatus::Done;
    for (resolved, problem) in all
        .iter()
        .filter_map(|resolved| Some((resolved, resolved.problem.as_ref()?)))
    {
        message::error(&format!(
            "{} of CatalogSource {}: {problem}",
            resolved.field,
            resolved.name()
        ));
        exit = ExitStatus::Failed;
    }
    Ok(exit)
}

/// Resolves the images of a CatalogSource, or of the CatalogSources in a List.
fn templates(
    document: Value,
    values: &TemplateValues,
    warnings: &mut Vec<String>,
) -> Vec<Resolved> {
    Objects::new(document)
        .filter(is_catalog_source)
        .filter_map(|object| resolve_object(&object, values, warnings))
        .collect()
}

/// Resolves the image of a CatalogSource; `None` if it has neither an image nor a template.
fn resolve_object(
    object: &Value,
    values: &TemplateValues,
    warnings: &mut Vec<String>,
) -> Option<Resolved> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let new = text("/spec/catalogImageSource/catalogImage");
    let (path, image) = match new {
        Some(image) => ("spec.catalogImageSource.catalogImage", image),
        None => ("spec.image", text("/spec/image").unwrap_or_default()),
    };
    let field = |holder: TemplateSource| match holder.annotation() {
        Some(name) => format!("annotation {name}"),
        None => path.to_owned(),
    };
    let annotations = object.pointer("/metadata/annotations");
    let ChosenTemplate {
        holder,
        text: template,
        ignored_sources: ignored,
    } = choose(image, |name| annotations?.get(name)?.as_str());
    if template.is_empty() {
        return None;
    }
    let mut warn =
        |message: String| warnings.push(format!("CatalogSource {}: {message}", name(object)));
    let source = serde_json::from_value::<CatalogSource>(without_nulls(object.clone()));
    let location = source.as_ref().map(|source| source.place(false));
    let result = match location {
        Err(error) => Err(format!("invalid CatalogSource: {error}")),
        Ok(Ok(DeclaredLocation::Image(_)) | Err(Invalid::NoPlace)) => match holder {
            TemplateSource::Olm => {
                let resolved = image_template::annotated(template, values.kube.as_ref());
                resolved.problem.map_or(Ok(resolved.image), Err)
            }
            TemplateSource::Rukpak | TemplateSource::Image => {
                image_template::resolve(template, values).map_err(|error| {
                    error.hint().into_iter().for_each(&mut warn);
                    error.to_string()
                })
            }
        },
        Ok(Ok(DeclaredLocation::Served(_) | DeclaredLocation::ConfigMap(_))) => {
            if holder != TemplateSource::Image {
                let field = field(holder);
                warn(format!(
                    "{field} is ignored because the catalog is not an image"
                ));
            }
            return None;
        }
        Ok(Err(invalid)) => Err(invalid.to_string()),
    };
    for other in ignored {
        warn(match other {
            TemplateSource::Image => format!(
                "the template in {} is ignored because {} takes precedence",
                field(other),
                field(holder)
            ),
            TemplateSource::Olm | TemplateSource::Rukpak => format!(
                "{} is ignored because {} takes precedence; remove one of them",
                field(other),
                field(holder)
            ),
        });
    }
    let (image, problem) = match result {
        Ok(image) => (Some(image), None),
        Err(problem) => (None, Some(problem)),
    };
    Some(Resolved {
        namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
        field: field(holder),
        template: template.to_owned(),
        image,
        problem,
    })
}

// === impl Resolved ===

impl Resolved {
    /// Returns the name with the namespace, if any.
    fn name(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use manifests::api::labels::CATALOG_IMAGE_TEMPLATE as OURS;
    use serde_json::json;

    use super::*;

    const OLM_ANNOTATION: &str = image_template::ANNOTATION;

    /// Returns the chosen field with its image or problem, and the warnings.
    fn found(spec: &Value, annotations: &Value) -> (Option<(String, String)>, Vec<String>) {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "a", "namespace": "olm", "annotations": annotations}, "spec": spec,
        });
        let [kube, openshift] = ["v1.36.3", "4.20.1"].map(image_template::server);
        let values = ::tests::with!(TemplateValues, kube, openshift);
        let mut warnings = Vec::new();
        let template = templates(object, &values, &mut warnings).pop();
        let chosen = template.map(|template| {
            let image = template.image.or(template.problem);
            (template.field, image.unwrap_or_default())
        });
        (chosen, warnings)
    }

    // parity: switch-20, switch-olm-8
    #[test]
    fn chosen_field_matches_the_provisioner() {
        let plain = json!({"sourceType": "grpc", "image": "r/c:any"});
        let braces = json!({"sourceType": "grpc", "image": "r/c:i{kube_minor_version}"});
        let nulls = json!({"sourceType": "grpc", "image": "r/c:i{kube_minor_version}", "secrets": null, "icon": null});
        let new = json!({"catalogImageSource": {"catalogImage": "r/c:i{ocp_minor_version}"}});
        let none = json!({"sourceType": "grpc"});
        let served = json!({"sourceType": "grpc", "address": "a:50051"});
        let map = json!({"configMapSource": {"configMap": "m"}, "image": "r/c:v1"});
        let own_template = "r/c:o{ocp_minor_version}";
        let olm_template = "r/c:l{kube_minor_version}";
        let [of_ours, of_olms] = [OURS, OLM_ANNOTATION].map(|key| format!("annotation {key}"));
        let new_field = "spec.catalogImageSource.catalogImage";
        let unused = format!("{of_ours} is ignored because the catalog is not an image");
        let beside =
            format!("{of_ours} is ignored because {of_olms} takes precedence; remove one of them");
        let replaced = |field: &str, by: &str| {
            format!("the template in {field} is ignored because {by} takes precedence")
        };
        let several =
            "exactly one of spec.configMapSource, spec.image must be set; remove the others";
        for (spec, annotations, expected, warned) in ::tests::rows![
            &plain, json!({}), Some(("spec.image", "r/c:any")) => vec![];
            &braces, json!({}), Some(("spec.image", "r/c:i36")) => vec![];
            &nulls, json!({}), Some(("spec.image", "r/c:i36")) => vec![];
            &new, json!(null), Some((new_field, "r/c:i20")) => vec![];
            &none, json!({}), None => vec![];
            // An annotation precedes the image, and is used without an image.
            &none, json!({OURS: own_template}), Some((of_ours.as_str(), "r/c:o20")) => vec![];
            &braces, json!({OURS: own_template}), Some((&of_ours, "r/c:o20")) => vec![replaced("spec.image", &of_ours)];
            &new, json!({OLM_ANNOTATION: olm_template}), Some((&of_olms, "r/c:l36")) => vec![replaced(new_field, &of_olms)];
            // OLM's annotation precedes the one of rukpak.
            &braces, json!({OURS: own_template, OLM_ANNOTATION: olm_template}), Some((&of_olms, "r/c:l36"))
                => vec![beside, replaced("spec.image", &of_olms)];
            // OLM supports three variables and has its own message.
            &plain, json!({OLM_ANNOTATION: own_template}), Some((
                &of_olms,
                "cannot construct catalog image reference, because one or more template(s) has improper syntax",
            )) => vec![];
            // Only catalogs of an image have a template.
            &served, json!({OURS: own_template}), None => vec![unused];
            &map, json!({}), Some(("spec.image", several)) => vec![];
            &json!({"sourceType": "foo"}), json!({OURS: own_template}),
                Some((&of_ours, "unknown sourcetype: foo: must be grpc or configmap")) => vec![];
        ] {
            let expected = expected.map(|(field, text)| (field.to_owned(), text.to_owned()));
            let warned = warned.iter();
            let warned = warned.map(|warning| format!("CatalogSource olm/a: {warning}"));
            ::tests::assert_rows!(found(spec, &annotations) => (expected, warned.collect::<Vec<_>>()), "{spec} {annotations}");
        }
        let (chosen, _) = found(&json!({"sourceType": 5, "image": "r/c:v1"}), &json!({}));
        let (_, problem) = chosen.unwrap();
        assert!(problem.starts_with("invalid CatalogSource: "), "{problem}");
    }
}
