//! Reasons for rejecting a bundle. Each rule is one function; all rules run, so that an author gets all reasons together.

use std::collections::{BTreeMap, BTreeSet};

use manifests::{
    content::{Assessment, Content, Rejected, SkippedEntries},
    names,
    object::{self, text},
    path::Path,
};

use crate::{
    bundle::{Item, metadata::Metadata},
    csv::{ALL_NAMESPACES, Csv, DEPLOYMENTS},
    finding::{Findings, Location, code::Code},
    scope,
};

/// Rejects entries of the manifests and the metadata that are not regular files, because their objects would be missing
/// silently. Returns all other such entries.
pub(crate) fn entries(content: &Content, findings: &mut Findings) -> SkippedEntries {
    let Assessment { rejected, skipped } = content.assess();
    for Rejected {
        path,
        entry,
        needed,
    } in rejected
    {
        findings.hide_absences();
        findings.error(
            Code::EntryRefused,
            Location::file(path),
            entry.problem(needed),
            entry.remedy(needed),
        );
    }
    skipped
}

/// Runs all rules for the CSV.
pub(crate) fn csv(csv: Csv<'_>, metadata: &Metadata, others: &[Item], findings: &mut Findings) {
    install_mode(csv, findings);
    webhooks(csv, findings);
    api_services(csv, findings);
    install_strategy(csv, findings);
    csv_name(csv, findings);
    package_name(metadata, findings);
    deployments(csv, findings);
    owned_crds(csv, others, findings);
}

/// Runs all rules for single objects, in their original form.
pub(crate) fn objects(others: &[Item], findings: &mut Findings) {
    for item in others {
        admission(item, findings);
        object_name(item, findings);
    }
}

/// Requires AllNamespaces, as rukpak since v0.11: only this mode has the same meaning without OperatorGroups.
fn install_mode(csv: Csv<'_>, findings: &mut Findings) {
    let modes = csv.install_modes();
    if modes.contains(ALL_NAMESPACES) {
        return;
    }
    let supported = if modes.is_empty() {
        "none".to_owned()
    } else {
        modes.into_iter().collect::<Vec<_>>().join(", ")
    };
    findings.error(
        Code::InstallMode,
        csv.path_place(&Path::from(["spec", "installModes"])),
        format!(
            "the bundle does not support the AllNamespaces install mode (supported: {supported})"
        ),
        "make the operator watch all namespaces and set `type: AllNamespaces, supported: true`",
    );
}

fn webhooks(csv: Csv<'_>, findings: &mut Findings) {
    for (at, webhook) in csv.webhooks().iter().enumerate() {
        let name = text(webhook, &["generateName"]).unwrap_or_default();
        let type_ = text(webhook, &["type"]).unwrap_or("webhook");
        findings.error(
            Code::Webhooks,
            csv.path_place(&Path::from(["spec", "webhookdefinitions"]).index(at)),
            format!("webhookDefinitions are not supported: the CSV defines {type_} {name:?}"),
            "plain manifests cannot provision webhook certificates; publish a version without webhooks, for example with \
             CEL validation in the CRD",
        );
    }
}

fn api_services(csv: Csv<'_>, findings: &mut Findings) {
    for (at, service) in csv.api_services("owned").iter().enumerate() {
        let group = text(service, &["group"]).unwrap_or_default();
        let version = text(service, &["version"]).unwrap_or_default();
        findings.error(
            Code::APIServices,
            csv.path_place(&Path::from(["spec", "apiservicedefinitions", "owned"]).index(at)),
            format!("apiServiceDefinitions are not supported: the CSV owns API service \"{version}.{group}\""),
            "plain manifests cannot provision the certificate of an API server; serve the API with a CRD",
        );
    }
}

/// OLM supports only the strategy "deployment". Other tools do not check it; a CSV without the name uses that strategy.
fn install_strategy(csv: Csv<'_>, findings: &mut Findings) {
    let strategy = csv.text(&["spec", "install", "strategy"]);
    if !matches!(strategy, "" | "deployment") {
        findings.error(
            Code::InstallStrategy,
            csv.path_place(&Path::from(["spec", "install", "strategy"])),
            format!("install strategy {strategy:?} is not supported"),
            "set `strategy: deployment`",
        );
    }
}

/// Checks the CSV's name. An invalid name only affects OLM, because the CSV itself is not installed. Without a name,
/// generated objects cannot be named.
fn csv_name(csv: Csv<'_>, findings: &mut Findings) {
    let at = csv.path_place(&Path::from(["metadata", "name"]));
    if csv.name().is_empty() {
        let message = "the ClusterServiceVersion has no metadata.name";
        findings.error(
            Code::Unidentified,
            at,
            message,
            "set it to <package>.v<version>",
        );
    } else if let Err(problem) =
        names::dns_subdomain(csv.name()).and_then(|()| names::label_value(csv.name()))
    {
        findings.warn(
            Code::IllegalName,
            at,
            format!(
                "metadata.name {:?} is invalid: {problem}; OLM cannot install the bundle",
                csv.name()
            ),
            "set it to <package>.v<version>",
        );
    }
}

fn package_name(metadata: &Metadata, findings: &mut Findings) {
    if metadata.package().is_empty() && !metadata.place.file.is_empty() {
        findings.error(
            Code::PackageName,
            metadata.place.at(&Path::from(["annotations"])),
            "package name is empty",
            "set the annotation operators.operatorframework.io.bundle.package.v1",
        );
    }
}

fn deployments(csv: Csv<'_>, findings: &mut Findings) {
    let mut unique = BTreeSet::new();
    for (at, deployment) in csv.deployments().iter().enumerate() {
        let name = text(deployment, &["name"]).unwrap_or_default();
        let place = csv.path_place(&Path::from(DEPLOYMENTS).index(at).key("name"));
        if !unique.insert(name) {
            findings.error(
                Code::DuplicateDeployment,
                place,
                format!(
                    "cluster service version contains duplicate strategy deployment spec {name:?}"
                ),
                "give each deployment a unique name",
            );
        } else if let Err(problem) = names::dns_subdomain(name) {
            findings.error(
                Code::IllegalName,
                place,
                format!(
                    "invalid cluster service version strategy deployment name {name:?}: {problem}"
                ),
                "rename the deployment",
            );
        }
    }
}

/// Requires every CustomResourceDefinition that the CSV owns. Only the name is checked, as in other tools; a version that
/// the CRD does not serve is only worth a warning.
fn owned_crds(csv: Csv<'_>, others: &[Item], findings: &mut Findings) {
    let shipped: BTreeSet<&str> = others
        .iter()
        .filter(|item| is_crd(item))
        .map(Item::name)
        .collect();
    if findings.are_absences_hidden() {
        return;
    }
    let mut missing = BTreeSet::new();
    for (at, owned) in csv.crds("owned").iter().enumerate() {
        let name = text(owned, &["name"]).unwrap_or_default();
        if !shipped.contains(name) && missing.insert(name) {
            findings.error(
                Code::MissingCRD,
                csv.path_place(&Path::from(["spec", "customresourcedefinitions", "owned"]).index(at)),
                format!("cluster service definition references owned custom resource definition {name:?} not found in bundle"),
                "add the CRD to the manifests directory, or list it under `required`",
            );
        }
    }
}

pub(crate) fn is_crd(item: &Item) -> bool {
    item.kind() == "CustomResourceDefinition"
        && object::group_version(item.api_version()).0 == "apiextensions.k8s.io"
}

/// Whether explicit namespaces distinguish objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamespaceRule {
    /// Objects keep their explicit namespace.
    Explicit,
    /// All objects are installed in the install namespace.
    Single,
}

/// Rejects different objects with the same identity, because the order of files would decide between them. Call it after
/// old APIs are upgraded, because a bundle may contain an object in an old and a new API.
pub(crate) fn duplicates(others: &[Item], namespaces: NamespaceRule, findings: &mut Findings) {
    let mut first_by_identity = BTreeMap::new();
    for item in others.iter().filter(|item| !item.name().is_empty()) {
        let (group, _) = object::group_version(item.api_version());
        let namespace = match namespaces {
            NamespaceRule::Explicit => {
                text(&item.value, &["metadata", "namespace"]).unwrap_or_default()
            }
            NamespaceRule::Single => "",
        };
        let key = (group, item.kind(), namespace, item.name());
        let first: &Item = first_by_identity.entry(key).or_insert(item);
        if std::ptr::eq(first, item) {
            continue;
        }
        let other = format!("the other one: {}", first.place.describe());
        if is_crd(item) {
            findings.error(
                Code::DuplicateCRD,
                item.place.clone(),
                format!(
                    "bundle contains duplicate custom resource definition {:?} ({other})",
                    item.name()
                ),
                "keep one of them",
            );
        } else if item.value == first.value {
            findings.warn(
                Code::DuplicateObject,
                item.place.clone(),
                format!(
                    "bundle contains {} twice with the same content ({other})",
                    item.label()
                ),
                "keep one of them",
            );
        } else {
            findings.error(
                Code::DuplicateObject,
                item.place.clone(),
                format!(
                    "bundle contains {} twice with different content ({other})",
                    item.label()
                ),
                "keep one of them",
            );
        }
    }
}

/// Rejects webhook configurations and API services among the objects: they would bypass the rejection of the CSV's own
/// lists.
fn admission(item: &Item, findings: &mut Findings) {
    let (group, _) = object::group_version(item.api_version());
    match (group, item.kind()) {
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => findings.error(
            Code::WebhookObject,
            item.place.clone(),
            format!(
                "{} is not supported: webhooks cannot be installed from a bundle",
                item.label()
            ),
            "remove it; publish a version without webhooks",
        ),
        ("apiregistration.k8s.io", "APIService") => findings.error(
            Code::APIServiceObject,
            item.place.clone(),
            format!(
                "{} is not supported: API services cannot be installed from a bundle",
                item.label()
            ),
            "remove it; serve the API with a CRD",
        ),
        _ => {}
    }
}

fn object_name(item: &Item, findings: &mut Findings) {
    let at = item.place.at(&Path::from(["metadata", "name"]));
    if item.api_version().is_empty() {
        findings.error(
            Code::Unidentified,
            item.place.clone(),
            format!("{} has no apiVersion", item.label()),
            "set it",
        );
    }
    if item.name().is_empty() {
        let message = format!("a {} has no metadata.name", item.kind());
        findings.error(
            Code::Unidentified,
            at,
            message,
            "set metadata.name; objects with generateName cannot be applied again",
        );
        return;
    }
    let (group, _) = object::group_version(item.api_version());
    let built_in = scope::of_builtin(item.api_version(), item.kind()).is_some();
    let result = match (group, item.kind()) {
        ("", "Service") => names::dns_1035_label(item.name()),
        ("", "Namespace") => names::dns_label(item.name()),
        ("rbac.authorization.k8s.io", _) => names::path_segment(item.name()),
        _ => names::dns_subdomain(item.name()),
    };
    let Err(problem) = result else { return };
    let message = format!("{} has an invalid name: {problem}", item.label());
    // The rule also applies to custom resources, but it is unknown whether this is one.
    if built_in || names::path_segment(item.name()).is_err() {
        findings.error(Code::IllegalName, at, message, "rename it");
    } else {
        findings.warn(Code::IllegalName, at, message, "rename it");
    }
}
