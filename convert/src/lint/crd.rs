//! CustomResourceDefinitions, checked with the rules of the API server, except for schemas.

use std::collections::{BTreeMap, BTreeSet};

use manifests::{names, object::get_path, path::Path};
use serde_json::Value;

use super::{Input, list, string_at, suggestion};
use crate::{
    bundle::Item,
    csv::Csv,
    finding::{Findings, code::Code},
    rejections::is_crd,
};

/// A version of a CustomResourceDefinition.
pub(super) struct Version<'a> {
    pub(super) name: &'a str,
    pub(super) is_served: bool,
    is_stored: bool,
    /// The position in the list; `None` for the short form of v1beta1.
    index: Option<usize>,
}

impl Version<'_> {
    fn path(&self) -> Path {
        match self.index {
            Some(index) => Path::from(["spec", "versions"]).index(index),
            None => Path::from(["spec", "version"]),
        }
    }
}

/// Returns the versions, including the short form of v1beta1 for a single version.
pub(super) fn versions(crd: &Value) -> Vec<Version<'_>> {
    let mut versions: Vec<_> = list(crd, &["spec", "versions"])
        .map(|(at, version)| Version {
            name: string_at(version, &["name"]),
            is_served: version.get("served") == Some(&Value::Bool(true)),
            is_stored: version.get("storage") == Some(&Value::Bool(true)),
            index: Some(at),
        })
        .collect();
    let short = string_at(crd, &["spec", "version"]);
    if versions.is_empty() && !short.is_empty() {
        versions.push(Version {
            name: short,
            is_served: true,
            is_stored: true,
            index: None,
        });
    }
    versions
}

/// Returns group and kind of the custom resources.
pub(super) fn group_kind(crd: &Value) -> (&str, &str) {
    (
        string_at(crd, &["spec", "group"]),
        string_at(crd, &["spec", "names", "kind"]),
    )
}

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    let others = input.others;
    let is_service = |item: &&Item| (item.api_version(), item.kind()) == ("v1", "Service");
    let services: BTreeSet<&str> = others.iter().filter(is_service).map(Item::name).collect();
    // OLM creates the Services of the CSV's webhooks, which the conversion rejects.
    let converted: BTreeSet<&str> = input
        .csv
        .iter()
        .flat_map(Csv::webhooks)
        .flat_map(|webhook| list(webhook, &["conversionCRDs"]))
        .filter_map(|(_, name)| name.as_str())
        .collect();
    for item in others.iter().filter(|item| is_crd(item)) {
        let mut crd = Crd { item, findings };
        crd.group();
        crd.required_names();
        crd.valid_names();
        crd.metadata_name();
        crd.scope();
        crd.version_names();
        crd.storage();
        crd.served();
        crd.conversion();
        crd.pruning();
        if !converted.contains(item.name()) && !crd.findings.are_absences_hidden() {
            crd.webhook_service(&services);
        }
    }
    duplicate_kinds(others, findings);
}

struct Crd<'a, 'f> {
    item: &'a Item,
    findings: &'f mut Findings,
}

impl<'a> Crd<'a, '_> {
    fn word(&self, keys: &[&str]) -> &'a str {
        string_at(&self.item.value, keys)
    }

    fn warn(&mut self, code: Code, path: &Path, problem: &str, remedy: &str) {
        let message = format!("{} {problem}", self.item.label());
        self.findings
            .warn(code, self.item.place.at(path), message, remedy);
    }

    fn group(&mut self) {
        let group = self.word(&["spec", "group"]);
        let problem = match names::dns_subdomain(group) {
            Err(_) if group.is_empty() => "has no spec.group".to_owned(),
            Err(problem) => format!("has an invalid group {group:?}: {problem}"),
            Ok(()) if !group.contains('.') => {
                format!("has group {group:?}, which is not a domain with a dot")
            }
            Ok(()) => return,
        };
        let path = suggestion(&self.item.value, &["spec", "group"]);
        self.warn(
            Code::CRDNames,
            &path,
            &format!("{problem}; the API server rejects it"),
            "use a domain that you own",
        );
    }

    fn required_names(&mut self) {
        for keys in [["spec", "names", "kind"], ["spec", "names", "plural"]] {
            if self.word(&keys).is_empty() {
                let problem = format!("has no {}; the API server rejects it", keys.join("."));
                let path = suggestion(&self.item.value, &keys);
                self.warn(Code::CRDNames, &path, &problem, "set it");
            }
        }
    }

    fn valid_names(&mut self) {
        let check_name = |name: &str| names::dns_1035_label(&name.to_lowercase());
        let names = ["kind", "listKind", "plural", "singular"];
        for (field, name) in names.map(|field| (field, self.word(&["spec", "names", field]))) {
            if let Some(problem) = check_name(name).err().filter(|_| !name.is_empty()) {
                let problem = format!(
                    "has an invalid {field} {name:?}: {problem}; the API server rejects it"
                );
                self.warn(
                    Code::CRDNames,
                    &Path::from(["spec", "names", field]),
                    &problem,
                    "correct the name",
                );
            }
        }
        for field in ["shortNames", "categories"] {
            for (at, name) in list(&self.item.value, &["spec", "names", field]) {
                if let Some((name, problem)) = name
                    .as_str()
                    .and_then(|name| Some((name, check_name(name).err()?)))
                {
                    let problem = format!(
                        "has an invalid name {name:?} in {field}: {problem}; the API server rejects it"
                    );
                    let path = Path::from(["spec", "names", field]).index(at);
                    self.warn(Code::CRDNames, &path, &problem, "correct the name");
                }
            }
        }
        let kind = self.word(&["spec", "names", "kind"]);
        if !kind.is_empty() && self.word(&["spec", "names", "listKind"]) == kind {
            let problem = format!(
                "has kind and listKind {kind:?}, which must differ; the API server rejects it"
            );
            let remedy = format!("use {kind}List");
            self.warn(
                Code::CRDNames,
                &Path::from(["spec", "names", "listKind"]),
                &problem,
                &remedy,
            );
        }
    }

    fn metadata_name(&mut self) {
        let expected = format!(
            "{}.{}",
            self.word(&["spec", "names", "plural"]),
            self.word(&["spec", "group"])
        );
        let is_known = !expected.starts_with('.') && !expected.ends_with('.');
        if is_known && !self.item.name().is_empty() && self.item.name() != expected {
            let problem = format!(
                "must be named {expected:?}, spec.names.plural+\".\"+spec.group; the API server rejects it"
            );
            self.warn(
                Code::CRDNames,
                &Path::from(["metadata", "name"]),
                &problem,
                "rename the CRD, also in the CSV",
            );
        }
    }

    fn scope(&mut self) {
        let scope = self.word(&["spec", "scope"]);
        // v1beta1 treats an empty scope as Namespaced.
        if matches!(scope, "Namespaced" | "Cluster") || (scope.is_empty() && !self.is_v1()) {
            return;
        }
        let path = suggestion(&self.item.value, &["spec", "scope"]);
        let problem = format!("has scope {scope:?}; the API server rejects it");
        self.warn(
            Code::CRDScope,
            &path,
            &problem,
            "set it to Namespaced or Cluster",
        );
    }

    fn version_names(&mut self) {
        let versions = versions(&self.item.value);
        if versions.is_empty() {
            let path = suggestion(&self.item.value, &["spec", "versions"]);
            self.warn(
                Code::CRDVersions,
                &path,
                "has no versions; the API server rejects it",
                "list them in spec.versions",
            );
        }
        let mut unique = BTreeSet::new();
        for version in versions {
            let problem = if let Err(problem) = names::dns_1035_label(version.name) {
                format!(
                    "has an invalid version name {:?}: {problem}; the API server rejects it",
                    version.name
                )
            } else if !unique.insert(version.name) {
                format!(
                    "lists version {:?} twice; the API server rejects it",
                    version.name
                )
            } else {
                continue;
            };
            self.warn(
                Code::CRDVersions,
                &version.path(),
                &problem,
                "list each version once, with a name such as v1alpha1 or v1",
            );
        }
    }

    fn storage(&mut self) {
        let versions = versions(&self.item.value);
        let stored: Vec<_> = versions
            .iter()
            .filter(|version| version.is_stored)
            .map(|version| version.name)
            .collect();
        if !versions.is_empty() && stored.len() != 1 {
            let problem = format!(
                "must have exactly one version marked as storage version, not {} ({}); the API server rejects it",
                stored.len(),
                if stored.is_empty() {
                    "none".to_owned()
                } else {
                    stored.join(", ")
                },
            );
            let remedy = "set `storage: true` for one version and `storage: false` for the others";
            self.warn(
                Code::CRDVersions,
                &Path::from(["spec", "versions"]),
                &problem,
                remedy,
            );
        }
    }

    fn served(&mut self) {
        let versions = versions(&self.item.value);
        if !versions.is_empty() && !versions.iter().any(|version| version.is_served) {
            let path = Path::from(["spec", "versions"]);
            self.warn(
                Code::CRDVersions,
                &path,
                "serves no version, so its API cannot be used",
                "set `served: true` for one version",
            );
        }
    }

    fn conversion(&mut self) {
        let strategy = self.word(&["spec", "conversion", "strategy"]);
        let path = suggestion(&self.item.value, &["spec", "conversion", "strategy"]);
        if get_path(&self.item.value, &["spec", "conversion"]).is_some()
            && !matches!(strategy, "None" | "Webhook")
        {
            let problem =
                format!("has conversion strategy {strategy:?}; the API server rejects it");
            return self.warn(
                Code::CRDConversion,
                &path,
                &problem,
                "set it to None or Webhook",
            );
        }
        let reviews = list(
            &self.item.value,
            &["spec", "conversion", "webhook", "conversionReviewVersions"],
        );
        if strategy == "Webhook" && self.is_v1() && reviews.count() == 0 {
            let problem = "converts with a webhook but has no conversionReviewVersions; the API server rejects it";
            let path = suggestion(&self.item.value, &["spec", "conversion", "webhook"]);
            self.warn(
                Code::CRDConversion,
                &path,
                problem,
                "set `conversionReviewVersions: [v1]`",
            );
        }
    }

    fn pruning(&mut self) {
        if self.is_v1()
            && get_path(&self.item.value, &["spec", "preserveUnknownFields"])
                == Some(&Value::Bool(true))
        {
            let problem = "has preserveUnknownFields: true, which apiextensions.k8s.io/v1 rejects";
            let remedy = "set x-kubernetes-preserve-unknown-fields: true in the schema instead";
            self.warn(
                Code::CRDVersions,
                &Path::from(["spec", "preserveUnknownFields"]),
                problem,
                remedy,
            );
        }
    }

    /// Reports a webhook without a Service: if the webhook is unavailable, every read of another version fails.
    fn webhook_service(&mut self, services: &BTreeSet<&str>) {
        let current: &[_] = &["spec", "conversion", "webhook", "clientConfig", "service"];
        let old: &[_] = &["spec", "conversion", "webhookClientConfig", "service"];
        for keys in [current, old] {
            let Some(service) = get_path(&self.item.value, keys) else {
                continue;
            };
            let name = string_at(service, &["name"]);
            if !services.contains(name) {
                let problem = format!(
                    "converts with a webhook of Service {name:?}, which is not in the bundle"
                );
                let path = suggestion(&self.item.value, keys);
                self.warn(
                    Code::CRDConversion,
                    &path,
                    &problem,
                    "add the Service, or convert without a webhook",
                );
            }
        }
    }

    fn is_v1(&self) -> bool {
        self.item.api_version() == "apiextensions.k8s.io/v1"
    }
}

/// Reports CRDs of the same kind with different names: the API server accepts the names of only one.
fn duplicate_kinds(others: &[Item], findings: &mut Findings) {
    let mut first_by_kind: BTreeMap<(&str, &str), &Item> = BTreeMap::new();
    for item in others.iter().filter(|item| is_crd(item)) {
        let (group, kind) = group_kind(&item.value);
        let first = *first_by_kind.entry((group, kind)).or_insert(item);
        if first.name() != item.name() && !kind.is_empty() {
            findings.warn(
                Code::DuplicateKind,
                item.place.at(&Path::from(["spec", "names", "kind"])),
                format!(
                    "{} defines {kind} of {group} as {} does",
                    item.label(),
                    first.label()
                ),
                "keep one of them",
            );
        }
    }
}
