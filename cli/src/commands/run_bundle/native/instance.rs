//! Manifests, lookups and patches of the BundleInstances of these commands. Pure; no I/O.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use catalog::compose::history::{History, INDEX_IMAGE, INJECTED_BUNDLES};
use kube::ResourceExt as _;
use manifests::api::{
    Class, GROUP,
    bundle::ImageSource,
    bundle_instance::{BundleInstance, BundleInstanceStatus},
    labels,
};
use serde_json::{Map, Value, json};

use super::pull_access::PullAccess;
use crate::commands::run_bundle::{command, images::PulledBundle};

/// Annotations that these commands set on an instance.
const ANNOTATIONS: [&str; 6] = [
    INDEX_IMAGE,
    INJECTED_BUNDLES,
    labels::PACKAGE,
    labels::CSV_NAME,
    labels::VERSION,
    labels::PREVIOUS_IMAGE,
];

/// Reports whether an instance belongs to a package: by its annotation, else by the installed bundle.
pub(super) fn is_of(instance: &BundleInstance, package: &str) -> bool {
    let annotation = instance.annotations().get(labels::PACKAGE);
    let installed = || instance.status.as_ref()?.facts.package.as_ref();
    annotation
        .or_else(installed)
        .is_some_and(|name| name == package)
}

/// Reports whether `run bundle` created an instance, or `run bundle-upgrade` upgraded it.
pub(super) fn is_own(instance: &BundleInstance) -> bool {
    instance.annotations().contains_key(labels::PACKAGE)
}

/// Returns the install namespace of an operator, if known: the observed namespace, else the requested one. Without a
/// request the bundle decides.
pub(super) fn install_namespace(instance: &BundleInstance) -> Option<&str> {
    let status = instance.status.as_ref();
    let observed = status.and_then(|status| status.install_namespace.as_deref());
    let requested = instance.spec.install_namespace.as_deref();
    [observed, requested]
        .into_iter()
        .flatten()
        .find(|namespace| !namespace.is_empty())
}

/// Returns the image that the spec requests.
pub(super) fn requested_image(instance: &BundleInstance) -> Result<&ImageSource, String> {
    let spec = &instance.spec;
    let name = instance.name_any();
    let class = spec.template.spec.provisioner_class_name.as_deref();
    let class = class.unwrap_or(&spec.provisioner_class_name);
    if Class::parse(class) != Some(Class::Registry) {
        return Err(format!(
            "BundleInstance {name} has content of class {class}, which has no package versions; upgrade it with {}",
            command("install")
        ));
    }
    let source = &spec.template.spec.source;
    source.image.as_ref().ok_or_else(|| {
        format!(
            "BundleInstance {name} is installed from source {}, not from an image; upgrade it with {}",
            source.type_,
            command("install")
        )
    })
}

/// Returns the name and the image of the installed bundle, if any.
pub(super) fn installed(status: Option<&BundleInstanceStatus>) -> Option<(&str, Option<&str>)> {
    let status = status?;
    status.installed_bundle_name.as_ref()?;
    let image = status
        .resolved_source
        .as_ref()
        .and_then(|source| source.image.as_ref());
    let name = status.facts.cluster_service_version.as_deref()?;
    Some((name, image.map(|image| image.reference.as_str())))
}

/// Returns the annotations of a version: its history and the image that it replaces.
pub(super) fn annotations(
    pulled: &PulledBundle,
    history: &History,
    previous: Option<&str>,
) -> BTreeMap<String, Option<String>> {
    let mut all: BTreeMap<String, Option<String>> = history
        .to_annotations()
        .into_iter()
        .map(|(key, value)| (key, Some(value)))
        .collect();
    let own = [
        (labels::PACKAGE, Some(pulled.bundle.package.as_str())),
        (labels::CSV_NAME, Some(pulled.bundle.name.as_str())),
        (labels::VERSION, Some(pulled.facts.version.as_str())),
        (labels::PREVIOUS_IMAGE, previous),
    ];
    all.extend(own.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))));
    all
}

/// Returns the current values of these annotations, so that a change can be reverted.
fn unchanged(instance: &BundleInstance, keys: &[&str]) -> BTreeMap<String, Option<String>> {
    let current = instance.annotations();
    keys.iter()
        .map(|key| ((*key).to_owned(), current.get(*key).cloned()))
        .collect()
}

fn digest(reference: &str) -> Option<&str> {
    reference.rsplit_once('@').map(|parts| parts.1)
}

/// Returns the name and the image of the installed bundle if the spec requests another image.
pub(super) fn running_instead<'i>(
    instance: &'i BundleInstance,
    requested: &ImageSource,
) -> Option<(&'i str, &'i str)> {
    let (name, image) = installed(instance.status.as_ref())?;
    let image = image?;
    let is_requested = image == requested.reference
        || digest(image).is_some_and(|hash| digest(&requested.reference) == Some(hash));
    (!is_requested).then_some((name, image))
}

/// Returns the image and the annotations for a rollback after a failed upgrade. This is the installed bundle, even if the
/// spec requested another image that never ran.
pub(super) fn previous_image(
    instance: &BundleInstance,
    requested: &ImageSource,
) -> (ImageSource, BTreeMap<String, Option<String>>) {
    let mut annotations = unchanged(instance, &ANNOTATIONS);
    let Some((csv, image)) = running_instead(instance, requested) else {
        return (requested.clone(), annotations);
    };
    let running = ImageSource {
        reference: image.to_owned(),
        ..requested.clone()
    };
    if annotations
        .get(INJECTED_BUNDLES)
        .is_some_and(Option::is_some)
    {
        let history = History::read(instance.annotations()).unwrap_or_default();
        let running = digest(image);
        let mut injected = history.injected.iter();
        let at =
            injected.rposition(|bundle| running.is_some() && digest(&bundle.image_tag) == running);
        let shorter = at.map(|at| History {
            injected: history.injected.into_iter().take(at + 1).collect(),
            ..history
        });
        // Without the annotation, the history is derived from the installed bundle.
        let shorter = shorter.and_then(|history| history.to_annotations().remove(INJECTED_BUNDLES));
        annotations.insert(INJECTED_BUNDLES.to_owned(), shorter);
        let status = instance.status.as_ref();
        let own = [
            (labels::CSV_NAME, Some(csv)),
            (
                labels::VERSION,
                status.and_then(|status| status.facts.version.as_deref()),
            ),
            // The image before the installed one is unknown.
            (labels::PREVIOUS_IMAGE, None),
        ];
        annotations.extend(own.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))));
    }
    (running, annotations)
}

/// Returns the image with its pull settings. Settings without a flag keep their earlier values.
pub(super) fn image(
    access: &PullAccess,
    pinned: &str,
    before: Option<&ImageSource>,
) -> ImageSource {
    let before = before.cloned().unwrap_or_default();
    let access = access.clone();
    ImageSource {
        reference: pinned.to_owned(),
        pull_secret: access.pull_secret.or(before.pull_secret),
        insecure_skip_tls_verify: access.is_insecure || before.insecure_skip_tls_verify,
        certificate_data: access.certificates.or(before.certificate_data),
        pull: before.pull,
    }
}

/// Returns the image with the pull settings of the flags if an earlier run requested other settings.
pub(super) fn corrected(access: &PullAccess, requested: &ImageSource) -> Option<ImageSource> {
    let image = image(access, &requested.reference, Some(requested));
    (image != *requested).then_some(image)
}

/// Returns the manifest of a new BundleInstance.
pub(super) fn new(
    access: &PullAccess,
    namespace: Option<&str>,
    pulled: &PulledBundle,
    history: &History,
) -> Value {
    let mut spec = json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-registry",
            "source": {"type": "image", "image": image(access, &pulled.pinned, None)},
        }},
    });
    if let (Some(namespace), Value::Object(spec)) = (namespace, &mut spec) {
        spec.insert("installNamespace".to_owned(), namespace.into());
    }
    let annotations = annotations(pulled, history, None);
    let annotations: Map<String, Value> = annotations
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?.into())))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "BundleInstance",
        "metadata": {"name": pulled.bundle.package, "annotations": annotations},
        "spec": spec,
    })
}

/// Returns a patch of the image and the annotations. It applies only to the observed version of the instance.
pub(super) fn change(
    instance: &BundleInstance,
    image: &ImageSource,
    annotations: &BTreeMap<String, Option<String>>,
) -> Value {
    json!({
        "metadata": {
            "uid": instance.uid(),
            "resourceVersion": instance.resource_version(),
            "annotations": annotations,
        },
        "spec": {"template": {"spec": {"source": {"image": {
            "ref": image.reference,
            "pullSecret": image.pull_secret,
            "insecureSkipTLSVerify": image.insecure_skip_tls_verify,
            "certificateData": image.certificate_data,
        }}}}},
    })
}
