//! BundleInstances as these commands make, find and change them. No I/O.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use catalog::inject::history::{History, INDEX_IMAGE, INJECTED_BUNDLES};
use kube::ResourceExt as _;
use manifests::api::{
    Class, GROUP,
    bundle::ImageSource,
    instance::{BundleInstance, BundleInstanceStatus},
    labels,
};
use serde_json::{Map, Value, json};

use super::access::Access;
use crate::run::pulling::Pulled;

/// What is written on an instance.
const ANNOTATIONS: [&str; 6] = [
    INDEX_IMAGE,
    INJECTED_BUNDLES,
    labels::PACKAGE,
    labels::CSV_NAME,
    labels::VERSION,
    labels::PREVIOUS_IMAGE,
];

/// Whether an instance is of a package: as it says, else by what is installed.
pub(super) fn is_of(instance: &BundleInstance, package: &str) -> bool {
    let said = instance.annotations().get(labels::PACKAGE);
    let installed = || instance.status.as_ref()?.facts.package.as_ref();
    said.or_else(installed).is_some_and(|it| it == package)
}

/// The namespace that an operator is in, or goes to, as far as that is known: without a wish it is the bundle's choice.
pub(super) fn is_in(instance: &BundleInstance) -> Option<&str> {
    let status = instance.status.as_ref();
    let is_in = status.and_then(|it| it.install_namespace.as_deref());
    let wish = instance.spec.install_namespace.as_deref();
    [is_in, wish]
        .into_iter()
        .flatten()
        .find(|it| !it.is_empty())
}

/// What is asked for.
pub(super) fn wanted(instance: &BundleInstance) -> Result<&ImageSource, String> {
    let spec = &instance.spec;
    let name = instance.name_any();
    let class = spec.template.spec.provisioner_class_name.as_deref();
    let class = class.unwrap_or(&spec.provisioner_class_name);
    if Class::parse(class) != Some(Class::Registry) {
        return Err(format!(
            "BundleInstance {name} has content of class {class}, which has no versions of a package; upgrade it with \
             \"rukpak install\""
        ));
    }
    let source = &spec.template.spec.source;
    source.image.as_ref().ok_or_else(|| {
        format!(
            "BundleInstance {name} is installed from the source {} and not from an image; upgrade it with \"rukpak install\"",
            source.type_
        )
    })
}

/// The name and the image of what is installed, if anything is.
pub(super) fn installed(status: Option<&BundleInstanceStatus>) -> Option<(&str, Option<&str>)> {
    let status = status?;
    status.installed_bundle_name.as_ref()?;
    let image = status
        .resolved_source
        .as_ref()
        .and_then(|it| it.image.as_ref());
    let name = status.facts.cluster_service_version.as_deref()?;
    Some((name, image.map(|it| it.reference.as_str())))
}

/// The annotations for a version, and what comes before it.
pub(super) fn annotations(
    pulled: &Pulled,
    history: &History,
    previous: Option<&str>,
) -> BTreeMap<String, Option<String>> {
    let mut all: BTreeMap<String, Option<String>> = history
        .annotations()
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

/// These annotations as an instance has them, so that a change of them can be taken back.
fn as_they_are(instance: &BundleInstance, keys: &[&str]) -> BTreeMap<String, Option<String>> {
    let known = instance.annotations();
    keys.iter()
        .map(|key| ((*key).to_owned(), known.get(*key).cloned()))
        .collect()
}

fn digest(reference: &str) -> Option<&str> {
    reference.rsplit_once('@').map(|it| it.1)
}

/// The name and the image of what is installed, where something else is wanted.
pub(super) fn still_runs<'i>(
    instance: &'i BundleInstance,
    wanted: &ImageSource,
) -> Option<(&'i str, &'i str)> {
    let (name, image) = installed(instance.status.as_ref())?;
    let image = image?;
    let is_wanted = image == wanted.reference
        || digest(image).is_some_and(|it| digest(&wanted.reference) == Some(it));
    (!is_wanted).then_some((name, image))
}

/// The image to go back to when an upgrade fails, and what is said about it then: what is installed, also when something else was
/// wanted that never ran.
pub(super) fn back(
    instance: &BundleInstance,
    wanted: &ImageSource,
) -> (ImageSource, BTreeMap<String, Option<String>>) {
    let mut annotations = as_they_are(instance, &ANNOTATIONS);
    let Some((csv, image)) = still_runs(instance, wanted) else {
        return (wanted.clone(), annotations);
    };
    let runs = ImageSource {
        reference: image.to_owned(),
        ..wanted.clone()
    };
    if annotations
        .get(INJECTED_BUNDLES)
        .is_some_and(Option::is_some)
    {
        let known = History::read(instance.annotations()).unwrap_or_default();
        let runs = digest(image);
        let mut injected = known.injected.iter();
        let at = injected.rposition(|it| runs.is_some() && digest(&it.image_tag) == runs);
        let shorter = at.map(|at| History {
            injected: known.injected.into_iter().take(at + 1).collect(),
            ..known
        });
        // Without a history it is told from what is installed.
        let shorter = shorter.and_then(|it| it.annotations().remove(INJECTED_BUNDLES));
        annotations.insert(INJECTED_BUNDLES.to_owned(), shorter);
        let status = instance.status.as_ref();
        let own = [
            (labels::CSV_NAME, Some(csv)),
            (
                labels::VERSION,
                status.and_then(|it| it.facts.version.as_deref()),
            ),
            // What came before is not known any more.
            (labels::PREVIOUS_IMAGE, None),
        ];
        annotations.extend(own.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))));
    }
    (runs, annotations)
}

/// The image as it is to be pulled; what the flags do not say stays.
pub(super) fn image(access: &Access, pinned: &str, before: Option<&ImageSource>) -> ImageSource {
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

/// The image as it is to be pulled from now on, where an earlier run has asked for it in another way.
pub(super) fn corrected(access: &Access, wanted: &ImageSource) -> Option<ImageSource> {
    let image = image(access, &wanted.reference, Some(wanted));
    (image != *wanted).then_some(image)
}

/// A new BundleInstance.
pub(super) fn new(
    access: &Access,
    namespace: Option<&str>,
    pulled: &Pulled,
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

/// Another image and other annotations, in one patch that only fits the instance as it was read.
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
