//! Requirements of OperatorHub.io: provider, maintainers, links, icon, capabilities and categories.

use manifests::path::Path;

use super::{string_at, suggestion};
use crate::{
    csv::Csv,
    finding::{Findings, code::Code},
};

const CAPABILITIES: [&str; 5] = [
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
];

const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];

const MEDIA_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

pub(super) fn run(csv: Csv<'_>, findings: &mut Findings) {
    provider(csv, findings);
    maintainers(csv, findings);
    links(csv, findings);
    icon(csv, findings);
    capabilities(csv, findings);
    categories(csv, findings);
}

fn provider(csv: Csv<'_>, findings: &mut Findings) {
    if csv.text(&["spec", "provider", "name"]).is_empty() {
        findings.warn(
            Code::Provider,
            csv.path_place(&suggestion(csv.value(), &["spec", "provider"])),
            "csv.Spec.Provider.Name not specified; OperatorHub.io rejects this",
            "set spec.provider.name",
        );
    }
}

fn maintainers(csv: Csv<'_>, findings: &mut Findings) {
    for (at, maintainer) in csv.list(&["spec", "maintainers"]).iter().enumerate() {
        let (name, email) = (
            string_at(maintainer, &["name"]),
            string_at(maintainer, &["email"]),
        );
        let message = if name.is_empty() || email.is_empty() {
            format!(
                "csv.Spec.Maintainers elements should contain both name and email; maintainers[{at}] does not"
            )
        } else if !is_address(email) {
            format!("csv.Spec.Maintainers email {email:?} is invalid")
        } else {
            continue;
        };
        let place = csv.path_place(&Path::from(["spec", "maintainers"]).index(at));
        findings.warn(
            Code::Maintainer,
            place,
            message,
            "set a name and an address such as team@example.com",
        );
    }
}

/// Reports whether text is an address `local@domain`, optionally with a name: `Team <team@example.com>`.
fn is_address(text: &str) -> bool {
    let bare = text
        .split_once('<')
        .map_or(Some(text), |(_, rest)| rest.strip_suffix('>'));
    bare.and_then(|bare| bare.rsplit_once('@'))
        .is_some_and(|(local, domain)| {
            let is_fine = |part: &str| {
                !part.is_empty() && !part.contains([' ', ',', '<', '>', '(', ')', ':', ';'])
            };
            is_fine(local) && is_fine(domain) && !local.contains('@')
        })
}

fn links(csv: Csv<'_>, findings: &mut Findings) {
    for (at, link) in csv.list(&["spec", "links"]).iter().enumerate() {
        let (name, url) = (string_at(link, &["name"]), string_at(link, &["url"]));
        let message = if name.is_empty() || url.is_empty() {
            format!(
                "csv.Spec.Links elements should contain both name and url; links[{at}] does not"
            )
        } else if !is_url(url) {
            format!("csv.Spec.Links url {url:?} is invalid")
        } else {
            continue;
        };
        let place = csv.path_place(&Path::from(["spec", "links"]).index(at));
        findings.warn(
            Code::Link,
            place,
            message,
            "set a name and a URL such as https://example.com",
        );
    }
}

fn is_url(text: &str) -> bool {
    let is_clean = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let has_target = |rest: &str| !rest.trim_start_matches('/').is_empty();
    is_clean
        && text
            .split_once(':')
            .is_some_and(|(scheme, rest)| is_scheme(scheme) && has_target(rest))
}

fn icon(csv: Csv<'_>, findings: &mut Findings) {
    let icons = csv.list(&["spec", "icon"]);
    let place = csv.path_place(&suggestion(csv.value(), &["spec", "icon"]));
    let mut warn =
        |message: String, remedy: &str| findings.warn(Code::Icon, place.clone(), message, remedy);
    let icon = match icons {
        [] => {
            return warn(
                "csv.Spec.Icon not specified".into(),
                "add an icon by which users recognize the operator",
            );
        }
        [icon] => icon,
        [icon, ..] => {
            warn(
                format!(
                    "csv.Spec.Icon should only have one element, not {}",
                    icons.len()
                ),
                "keep the first one",
            );
            icon
        }
    };
    let (data, media_type) = (
        string_at(icon, &["base64data"]),
        string_at(icon, &["mediatype"]),
    );
    if data.is_empty() || media_type.is_empty() {
        warn(
            "csv.Spec.Icon elements should contain both data and mediatype".into(),
            "set base64data and mediatype",
        );
    } else if !MEDIA_TYPES.contains(&media_type) {
        let remedy = format!("use one of {}", MEDIA_TYPES.join(", "));
        warn(
            format!("csv.Spec.Icon {media_type:?} does not have a valid mediatype"),
            &remedy,
        );
    }
}

fn capabilities(csv: Csv<'_>, findings: &mut Findings) {
    let Some(level) = csv
        .annotation("capabilities")
        .filter(|level| !CAPABILITIES.contains(level))
    else {
        return;
    };
    findings.warn(
        Code::Capabilities,
        csv.path_place(&Path::from(["metadata", "annotations", "capabilities"])),
        format!("csv.Metadata.Annotations.Capabilities {level:?} is not a valid capabilities level; OperatorHub.io rejects \
                 it"),
        &format!("use one of {}", CAPABILITIES.join(", ")),
    );
}

fn categories(csv: Csv<'_>, findings: &mut Findings) {
    let listed = csv
        .annotation("categories")
        .into_iter()
        .flat_map(|list| list.split(','))
        .map(str::trim);
    let unknown: Vec<String> = listed
        .filter(|category| !CATEGORIES.contains(category))
        .map(|category| format!("{category:?}"))
        .collect();
    if !unknown.is_empty() {
        findings.warn(
            Code::Categories,
            csv.path_place(&Path::from(["metadata", "annotations", "categories"])),
            format!(
                "csv.Metadata.Annotations.Categories has no such category: {}; OperatorHub.io rejects it",
                unknown.join(", ")
            ),
            &format!("use one or more of {}", CATEGORIES.join(", ")),
        );
    }
}
