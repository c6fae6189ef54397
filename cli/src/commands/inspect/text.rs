//! Description of a bundle as text.

use std::{collections::BTreeMap, fmt::Write};

use anstyle::Style;
use convert::{
    bundle_info::Api,
    permissions::{Grant, Rule, Scope, SubjectPermissions},
};
use manifests::object::api_version;

use super::Inspection;
use crate::output::{
    message::{ERROR, count, sanitize},
    table,
};

const TITLE: Style = Style::new().bold();

pub(super) fn render(inspection: &Inspection<'_>) -> String {
    let mut text = Text::default();
    identity(&mut text, inspection);
    upgrades(&mut text, inspection);
    apis(&mut text, inspection);
    constraints(&mut text, inspection);
    let images = inspection
        .facts
        .images
        .iter()
        .map(|image| [image.image.clone(), image.name.clone()]);
    text.section("Images", &images.collect::<Vec<_>>());
    if inspection.outcome == "refused" {
        let findings = inspection
            .refusals
            .iter()
            .map(|finding| [finding.code.to_string(), finding.to_string()]);
        text.section("Rejected because of", &findings.collect::<Vec<_>>());
        text.heading("Permissions");
        text.0
            .push_str("  unknown because the bundle cannot be converted\n");
        return text.0;
    }
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for object in &inspection.objects {
        *kinds
            .entry((object.api_version, &object.identity.kind))
            .or_default() += 1;
    }
    let kinds = kinds
        .iter()
        .map(|((api, kind), number)| [number.to_string(), (*kind).to_owned(), (*api).to_owned()]);
    text.section("Objects", &kinds.collect::<Vec<_>>());
    for rights in &inspection.rights {
        permissions(&mut text, rights);
    }
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn heading(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{gap}{TITLE}{}:{TITLE:#}", sanitize(title));
    }

    /// Writes a table with a heading; nothing if it has no rows.
    fn section<const N: usize>(&mut self, title: &str, rows: &[[String; N]]) {
        if !rows.is_empty() {
            self.heading(title);
            self.0.push_str(&table::render(None, rows, 2));
        }
    }
}

/// Returns the rows with a value.
fn non_empty_rows(rows: Vec<(&str, String)>) -> Vec<[String; 2]> {
    rows.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| [format!("{name}:"), value])
        .collect()
}

fn identity(text: &mut Text, inspection: &Inspection<'_>) {
    let facts = inspection.facts;
    let outcome = match inspection.outcome {
        "refused" => format!("refused, {}", count(inspection.refusals.len(), "problem")),
        _ => format!(
            "{}, {}",
            inspection.outcome,
            count(inspection.objects.len(), "object")
        ),
    };
    text.section(
        "Bundle",
        &non_empty_rows(vec![
            (
                "Name",
                if facts.name.is_empty() {
                    inspection.bundle.clone()
                } else {
                    facts.name.clone()
                },
            ),
            ("Package", facts.package.clone()),
            ("Version", facts.version.clone()),
            ("Format", inspection.class.to_owned()),
            ("Conversion", outcome),
            ("Install namespace", facts.install_namespace.clone()),
            ("Install modes", joined(&facts.install_modes)),
            (
                "Skipped entries",
                if inspection.skipped.is_empty() {
                    String::new()
                } else {
                    inspection.skipped.to_string()
                },
            ),
        ]),
    );
}

fn upgrades(text: &mut Text, inspection: &Inspection<'_>) {
    let facts = inspection.facts;
    text.section(
        "Upgrades",
        &non_empty_rows(vec![
            ("Channels", joined(&facts.channels)),
            (
                "Default channel",
                facts.default_channel.clone().unwrap_or_default(),
            ),
            ("Replaces", facts.replaces.clone().unwrap_or_default()),
            ("Skips", joined(&facts.skips)),
            ("Skip range", facts.skip_range.clone().unwrap_or_default()),
        ]),
    );
}

fn apis(text: &mut Text, inspection: &Inspection<'_>) {
    let row = |api: &Api| {
        let service = if api.is_api_service {
            "API service"
        } else {
            ""
        };
        let version = api_version(&api.group, &api.version);
        [api.kind.clone(), version, service.to_owned()]
    };
    text.section(
        "Provided APIs",
        &inspection
            .facts
            .provided_apis
            .iter()
            .map(row)
            .collect::<Vec<_>>(),
    );
    text.section(
        "Required APIs",
        &inspection
            .facts
            .required_apis
            .iter()
            .map(row)
            .collect::<Vec<_>>(),
    );
}

fn constraints(text: &mut Text, inspection: &Inspection<'_>) {
    let facts = inspection.facts;
    let mut rows = Vec::new();
    if let Some(version) = &facts.min_kube_version {
        rows.push(["Kubernetes".to_owned(), format!("at least {version}")]);
    }
    if let Some(version) = &facts.max_open_shift_version {
        let text = match &version.version {
            Ok(release) => format!("at most {release}"),
            Err(error) => format!("{error} ({})", version.source),
        };
        rows.push(["OpenShift".to_owned(), text]);
    }
    for (package, range) in &facts.required_packages {
        rows.push([format!("Package {package}"), range.clone()]);
    }
    // The other dependencies have their own sections above.
    let others = facts
        .dependencies
        .iter()
        .filter(|d| !matches!(d.type_.as_str(), "olm.gvk" | "olm.package"));
    let properties = facts
        .properties
        .iter()
        .filter(|p| p.type_ == "olm.constraint");
    rows.extend(
        others
            .chain(properties)
            .map(|property| [property.type_.clone(), property.value.get().to_owned()]),
    );
    text.section("Constraints", &rows);
}

fn permissions(text: &mut Text, rights: &SubjectPermissions) {
    let scope = match &rights.scope {
        Scope::Cluster if rights.holder.kind == "ClusterRole" => {
            "in all scopes in which the role is bound".to_owned()
        }
        Scope::Cluster => "in the whole cluster".to_owned(),
        Scope::Namespace(name) => format!("in namespace {name}"),
    };
    text.heading(&format!("Permissions of {} {scope}", rights.holder));
    for role in &rights.other_roles {
        let _ = writeln!(
            text.0,
            "    all of {}, which is not in the bundle",
            sanitize(role)
        );
    }
    let rows: Vec<[String; 4]> = rights.grants.iter().map(row).collect();
    for line in table::render(None, &rows, 2).lines() {
        match line.strip_prefix("  !") {
            Some(rest) => {
                let _ = writeln!(text.0, "  {ERROR}!{ERROR:#}{rest}");
            }
            None => {
                let _ = writeln!(text.0, "{line}");
            }
        }
    }
    if rights.is_incomplete {
        text.0.push_str("    and more, too many to list\n");
    }
}

fn row(grant: &Grant) -> [String; 4] {
    let Grant { rule, dangers } = grant;
    let mark = if dangers.is_empty() { "" } else { "!" };
    let dangers = if rule.is_everything() {
        "everything".to_owned()
    } else {
        joined(dangers)
    };
    [mark.to_owned(), joined(&rule.verbs), subject(rule), dangers]
}

/// Formats the resources of a rule: `deployments, jobs (apps, batch) named a`.
fn subject(rule: &Rule) -> String {
    if !rule.urls.is_empty() {
        return format!("URLs {}", joined(&rule.urls));
    }
    let mut text = joined(&rule.resources);
    if rule.api_groups.iter().any(|group| !group.is_empty()) {
        let groups = rule
            .api_groups
            .iter()
            .map(|group| if group.is_empty() { "core" } else { group });
        let _ = write!(text, " ({})", groups.collect::<Vec<_>>().join(", "));
    }
    if !rule.resource_names.is_empty() {
        let _ = write!(text, " named {}", joined(&rule.resource_names));
    }
    text
}

fn joined<T: ToString>(list: impl IntoIterator<Item = T>) -> String {
    list.into_iter()
        .map(|item| item.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
