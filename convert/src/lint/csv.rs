//! The ClusterServiceVersion: names, versions, install modes, annotations.

use std::collections::BTreeSet;

use manifests::{
    image::Reference,
    object::get_path,
    path::Path,
    version::{self, KubeVersion},
};
use serde_json::Value;

use super::{Input, string_at, suggestion};
use crate::{
    bundle::Item,
    csv::{ALL_NAMESPACES, Csv},
    finding::{Findings, code::Code},
    render::deployments::PROPERTIES,
};

pub(super) fn run(csv: Csv<'_>, input: Input<'_>, findings: &mut Findings) {
    required_fields(csv, findings);
    name_form(csv, findings);
    version(csv, input, findings);
    release(csv, input, findings);
    repeated_install_modes(csv, findings);
    conversion_install_modes(csv, findings);
    min_kube_version(csv, input.options.kube_version, findings);
    annotation_case(csv, input.others, findings);
    properties_annotation(csv, findings);
    related_images(csv, findings);
}

/// Reports empty fields that Go's type always prints, because OLM requires a value.
fn required_fields(csv: Csv<'_>, findings: &mut Findings) {
    for keys in [
        &["spec", "displayName"] as &[_],
        &["spec", "install", "strategy"],
    ] {
        if csv.text(keys).is_empty() {
            findings.warn(
                Code::RequiredField,
                csv.path_place(&suggestion(csv.value(), keys)),
                format!(
                    "required field missing: the CSV has no {}; operator-sdk rejects this",
                    keys.join(".")
                ),
                "set it",
            );
        }
    }
}

/// Reports a name that does not have the form `<name>.v<version>`, by which catalogs and users identify a CSV.
fn name_form(csv: Csv<'_>, findings: &mut Findings) {
    let name = csv.name();
    let fits = name.match_indices(".v").any(|(at, _)| {
        at > 0
            && name
                .get(at + 2..)
                .is_some_and(|version| version::parse_strict(version).is_ok())
    });
    // With a release, the name has another form; see `release`.
    if !fits && !name.is_empty() && csv.value().pointer("/spec/release").is_none() {
        findings.warn(
            Code::CSVName,
            csv.path_place(&Path::from(["metadata", "name"])),
            format!("metadata.name {name:?} does not have the form <name>.v<semantic version>"),
            "set it to <package>.v<spec.version>, for example etcd.v1.2.3",
        );
    }
}

/// Reports versions that OLM accepts, but catalogs do not.
fn version(csv: Csv<'_>, input: Input<'_>, findings: &mut Findings) {
    let text = input.version;
    let message = if text.is_empty() {
        "csv.Spec.Version must be set: a catalog orders bundles by it".to_owned()
    } else if let (Ok(_), Err(error)) = (version::parse_lenient(text), version::parse_strict(text))
    {
        format!("spec.version: {error}; opm rejects catalogs with this version")
    } else {
        return;
    };
    let remedy = "set it to a version such as 1.2.3";
    findings.warn(
        Code::Version,
        csv.path_place(&suggestion(csv.value(), &["spec", "version"])),
        message,
        remedy,
    );
}

/// Checks the release, which distinguishes builds of one version and must be part of the name.
fn release(csv: Csv<'_>, input: Input<'_>, findings: &mut Findings) {
    let release = match get_path(csv.value(), &["spec", "release"]) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return,
    };
    let mut warn = |keys: &[&str], message: String, remedy: &str| {
        findings.warn(
            Code::Release,
            csv.path_place(&suggestion(csv.value(), keys)),
            message,
            remedy,
        );
    };
    let version = csv.text(&["spec", "version"]);
    let expected = format!("{}-v{version}-{release}", input.metadata.package());
    if csv.name() != expected {
        warn(
            &["metadata", "name"],
            format!(
                "bundle name with release versioning {:?} does not match expected name {expected:?}; operator-sdk and \
                 opm reject this",
                csv.name()
            ),
            "rename the CSV",
        );
    }
    if release.len() > 20 {
        let message = format!(
            "invalid release {release:?}: exceeds maximum length of 20 characters; opm rejects this"
        );
        warn(&["spec", "release"], message, "shorten it");
    }
    if version.contains('+') {
        let message = format!(
            "spec.version {version:?} cannot use build metadata together with a release version"
        );
        warn(&["spec", "version"], message, "keep one of them");
    }
    if csv
        .annotation("olm.substitutesFor")
        .is_some_and(|name| !name.is_empty())
    {
        let message = "the CSV has a release and the annotation olm.substitutesFor; opm rejects the combination".to_owned();
        warn(
            &["metadata", "annotations", "olm.substitutesFor"],
            message,
            "keep one of them",
        );
    }
}

fn repeated_install_modes(csv: Csv<'_>, findings: &mut Findings) {
    const INSTALL_MODES: [&str; 4] = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        ALL_NAMESPACES,
    ];
    let mut unique = BTreeSet::new();
    for (at, mode) in csv.list(&["spec", "installModes"]).iter().enumerate() {
        let name = string_at(mode, &["type"]);
        let (problem, remedy) = if !INSTALL_MODES.contains(&name) {
            (
                "is not an install mode",
                "the modes are OwnNamespace, SingleNamespace, MultiNamespace and AllNamespaces",
            )
        } else if !unique.insert(name) {
            (
                "is listed twice: duplicate install modes present",
                "keep one of them",
            )
        } else {
            continue;
        };
        let place = csv.path_place(&Path::from(["spec", "installModes"]).index(at).key("type"));
        findings.warn(
            Code::InstallModeList,
            place,
            format!("install mode {name:?} {problem}"),
            remedy,
        );
    }
}

/// Reports other install modes together with a conversion webhook, which always serves all namespaces.
fn conversion_install_modes(csv: Csv<'_>, findings: &mut Findings) {
    let others: Vec<_> = csv
        .install_modes()
        .into_iter()
        .filter(|mode| *mode != ALL_NAMESPACES)
        .collect();
    for (at, webhook) in csv.webhooks().iter().enumerate() {
        if others.is_empty() || super::list(webhook, &["conversionCRDs"]).next().is_none() {
            continue;
        }
        findings.warn(
            Code::InstallModeList,
            csv.path_place(&Path::from(["spec", "webhookdefinitions"]).index(at).key("conversionCRDs")),
            format!(
                "only AllNamespaces InstallModeType is supported when conversionCRDs is present; the CSV also supports {}, \
                 and operator-sdk rejects this",
                others.join(", ")
            ),
            "set `supported: false` for the other install modes",
        );
    }
}

fn min_kube_version(csv: Csv<'_>, target: KubeVersion, findings: &mut Findings) {
    let text = csv.text(&["spec", "minKubeVersion"]);
    let mut warn = |message: String, remedy: &str| {
        let place = csv.path_place(&suggestion(csv.value(), &["spec", "minKubeVersion"]));
        findings.warn(Code::MinKubeVersion, place, message, remedy);
    };
    if text.is_empty() {
        return warn(
            "csv.Spec.minKubeVersion is not informed: the operator is offered to clusters of every version".into(),
            "set it to the oldest Kubernetes version that the operator supports, for example 1.25.0",
        );
    }
    match (version::parse_strict(text), version::parse_lenient(text)) {
        (Err(error), _) => warn(
            format!(
                "csv.Spec.MinKubeVersion has an invalid value: {error}; operator-sdk rejects this"
            ),
            "use three numbers without a leading v",
        ),
        (Ok(_), Ok(min)) if KubeVersion::new(min.major, min.minor) > target => warn(
            format!("the operator requires Kubernetes {min}; the target is {target}"),
            "install it on a newer cluster",
        ),
        _ => {}
    }
}

/// Reports annotation keys with the wrong case, which OLM ignores.
fn annotation_case(csv: Csv<'_>, others: &[Item], findings: &mut Findings) {
    const KNOWN_ANNOTATIONS: [&str; 5] = [
        "olm.operatorGroup",
        "olm.operatorNamespace",
        "olm.targetNamespaces",
        "olm.providedAPIs",
        "olm.skipRange",
    ];
    let groups = others
        .iter()
        .filter(|item| item.kind() == "OperatorGroup")
        .map(|item| (&item.value, &item.place));
    let csv_place = csv.path_place(&Path::root());
    for (value, place) in groups.chain([(csv.value(), &csv_place)]) {
        let annotations = get_path(value, &["metadata", "annotations"]).and_then(Value::as_object);
        for key in annotations.into_iter().flat_map(|map| map.keys()) {
            let correct = KNOWN_ANNOTATIONS
                .into_iter()
                .find(|correct| correct.eq_ignore_ascii_case(key) && correct != key);
            if let Some(correct) = correct {
                findings.warn(
                    Code::AnnotationCase,
                    place.at(&Path::from(["metadata", "annotations", key])),
                    format!("provided annotation {key} uses wrong case and should be {correct} instead; OLM ignores it"),
                    "rename it",
                );
            }
        }
    }
}

fn properties_annotation(csv: Csv<'_>, findings: &mut Findings) {
    if csv.annotation(PROPERTIES).is_some() {
        findings.warn(
            Code::PropertiesAnnotation,
            csv.path_place(&Path::from(["metadata", "annotations", PROPERTIES])),
            "found olm.properties annotation: properties belong in metadata/properties.yaml",
            "please define these properties in metadata/properties.yaml instead",
        );
    }
}

fn related_images(csv: Csv<'_>, findings: &mut Findings) {
    for (at, related) in csv.list(&["spec", "relatedImages"]).iter().enumerate() {
        let image = string_at(related, &["image"]);
        let message = if image.is_empty() {
            format!("relatedImages[{at}] has an empty image field; operator-sdk rejects this")
        } else if let Err(error) = image.parse::<Reference>() {
            format!(
                "relatedImages[{at}] has an invalid image pullspec: {error}; operator-sdk rejects this"
            )
        } else {
            continue;
        };
        let place = csv.path_place(&Path::from(["spec", "relatedImages"]).index(at));
        findings.warn(
            Code::RelatedImage,
            place,
            message,
            "correct the entry; mirroring tools copy this image",
        );
    }
}
