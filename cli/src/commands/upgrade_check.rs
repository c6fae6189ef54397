//! `rukpak upgrade-check`.
//!
//! ```text
//!  ClusterVersion, API server ── target: current and new release
//!  BundleInstances, ClusterServiceVersions, roles, requests ── cluster_state ──┐
//!  PlatformOperators, Subscriptions ── channels ───────────────────────────────┤
//!  catalogs ── the newest reachable version ───────────────────────────────────┴── assess ── a table, JSON, YAML
//! ```

mod assess;
mod channels;
pub(crate) mod cluster_state;
mod olm;
pub(crate) mod target;

use catalog::{
    choose::{self, ChannelScope, Installed, Request, RequiredUpgrade},
    model::{Bundle, PLAIN_V0, REGISTRY_V1, Release},
};
use manifests::{
    api::platform_status::Effect,
    openshift::maximum,
    version::{self, KubeVersion},
};
use serde::Serialize;

use self::{
    assess::{CandidateVersion, InstalledOperator},
    target::Releases,
};
use super::catalog::Catalogs;
use crate::{
    ExitStatus,
    args::UpgradeCheckArgs,
    cluster::{self, Cluster},
    output,
    output::{
        message::{self, count},
        table,
    },
};

/// Exit code if an operator blocks the upgrade of the cluster.
const EXIT_BLOCKED: u8 = 3;
/// Maximum number of CatalogSources that a message names.
const MAX_NAMED_CATALOGS: usize = 5;

/// Result of the command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    from: Releases,
    to: Releases,
    /// Whether an operator blocks the upgrade of the cluster.
    blocked: bool,
    operators: Vec<InstalledOperator>,
}

pub(crate) fn run(args: &UpgradeCheckArgs) -> anyhow::Result<ExitStatus> {
    let catalogs = Catalogs::read(&args.catalogs, &args.access, args.limits)?;
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| check(cluster, args, &catalogs).await,
    )
}

async fn check(
    cluster: &Cluster,
    args: &UpgradeCheckArgs,
    catalogs: &Catalogs,
) -> anyhow::Result<ExitStatus> {
    let state = cluster_state::releases(cluster).await?;
    let from = state.releases;
    let to = from.to(args.to)?;
    if let Some(running) = &state.is_updating {
        message::note(&format!(
            "the cluster is being upgraded from OpenShift {running}; results are valid only after the upgrade"
        ));
    }
    if to.kubernetes > KubeVersion::NEWEST {
        message::note(&format!(
            "for Kubernetes {}, only the API removals that Kubernetes {} announced are known",
            to.kubernetes,
            KubeVersion::NEWEST
        ));
    }
    let mut operators = cluster_state::operators(cluster, &from, &to, !catalogs.is_empty()).await?;
    for operator in &mut operators {
        add_catalog_info(operator, catalogs, &state, &to);
        operator.assess(&to, !catalogs.is_empty());
    }
    operators.sort_by_key(InstalledOperator::label);
    let report = Report {
        from,
        to,
        blocked: operators.iter().any(InstalledOperator::blocks),
        operators,
    };
    if catalogs.is_empty()
        && report
            .operators
            .iter()
            .any(|operator| operator.is_too_old(&to))
    {
        let examples = olm::catalogs(cluster, MAX_NAMED_CATALOGS).await;
        let examples = match examples.as_slice() {
            [] => String::new(),
            some => format!(", such as {}", some.join(", ")),
        };
        message::note(&format!(
            "no catalog searched for versions that support {to}; use --catalog{examples}"
        ));
    }
    let text = output::described(&report, args.output.into())?;
    output::print(&text.unwrap_or_else(|| format_report(&report)))?;
    Ok(if report.blocked {
        ExitStatus::Code(EXIT_BLOCKED)
    } else {
        ExitStatus::Done
    })
}

/// Adds the information of catalogs about an operator: its max OpenShift version, which may have been raised, and the next
/// version. An invalid value of a catalog does not replace a valid one of the operator.
fn add_catalog_info(
    operator: &mut InstalledOperator,
    catalogs: &Catalogs,
    state: &cluster_state::ClusterState,
    to: &Releases,
) {
    let (Some(package), Some(name)) = (operator.package.clone(), operator.bundle.clone()) else {
        return;
    };
    let package = catalogs.package(&package);
    let offers = package.offers();
    let listed = offers.iter().find_map(|offer| match offer.answer {
        choose::CatalogAnswer::Package(package) => package
            .bundle(&name)
            .filter(|bundle| is_installed_bundle(bundle, operator)),
        choose::CatalogAnswer::NotFound
        | choose::CatalogAnswer::Unavailable(_)
        | choose::CatalogAnswer::Pending => None,
    });
    let own = operator.maximum.as_deref().map(maximum);
    if let Some(declared) = listed.and_then(|listed| listed.max_openshift.as_ref())
        && (declared.version.is_ok() || !matches!(own, Some(Ok(_))))
    {
        operator.maximum = Some(declared.text());
    }
    for offer in &offers {
        if let choose::CatalogAnswer::Unavailable(reason) = offer.answer {
            operator.is_unread = true;
            message::warning(&format!("catalog {}: {reason}", offer.catalog));
        }
    }
    let (Some(running), Some(release)) = (state.releases.openshift, to.openshift) else {
        return;
    };
    if !operator.is_too_old(to) {
        return;
    }
    let version = operator.version.as_deref();
    let installed = Installed {
        name,
        version: version
            .and_then(|version| version::parse_strict(version).ok())
            .map(|version| Release {
                version,
                release: None,
            }),
        catalog: None,
    };
    let request = Request {
        package: operator.package.as_deref().unwrap_or_default(),
        channel: operator.channel.as_deref(),
        range: operator.range.as_ref(),
        minor: None,
        newest: None,
        installed: Some(&installed),
        openshift: Some(running),
        kubernetes: state.version.as_ref(),
        media_types: &[REGISTRY_V1, PLAIN_V0],
        overrides: &[],
    };
    if let RequiredUpgrade::UpgradeTo(next) =
        choose::ahead(&request, ChannelScope::Any, release, &offers)
    {
        operator.unblocked_by = Some(CandidateVersion {
            version: next.version.to_string(),
            bundle: next.name,
            catalog: next.catalog,
            channel: next.channel,
        });
    }
}

/// Reports whether a bundle of a catalog is the installed one. OLM does not record the digest of the installed image. For
/// OLM, only the name of the ClusterServiceVersion is compared, as OLM does.
fn is_installed_bundle(bundle: &Bundle, operator: &InstalledOperator) -> bool {
    let digest = bundle.image.rsplit_once('@').map(|(_, digest)| digest);
    digest.is_some() && digest == operator.image.as_deref()
}

/// Formats the report for people: a row for each finding, and a summary.
fn format_report(report: &Report) -> String {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for operator in &report.operators {
        // A BundleInstance may have the same name.
        let name = match operator.kind {
            olm::KIND => format!("{} (OLM)", operator.label()),
            _ => operator.label(),
        };
        for finding in &operator.findings {
            let effect = match finding.effect {
                Effect::Blocks | Effect::Refuses => "blocks",
                Effect::Overridden => "overridden",
                Effect::Unknown => "unknown",
                Effect::Warns => "may break",
            };
            let remedy = match (&finding.effect, &operator.unblocked_by) {
                (Effect::Blocks, Some(version)) => version.version.clone(),
                _ => "-".to_owned(),
            };
            let message = match finding.effect {
                Effect::Refuses => format!("not upgradeable: {}", finding.message),
                _ => finding.message.clone(),
            };
            let version = operator.version.clone().unwrap_or_else(|| "-".to_owned());
            rows.push([name.clone(), version, effect.to_owned(), remedy, message]);
        }
    }
    let mut text = String::new();
    if !rows.is_empty() {
        let header = ["OPERATOR", "VERSION", "EFFECT", "UNBLOCKED BY", "WHY"];
        text = table::render(Some(header), &rows, 0);
    }
    text + &summary(report) + "\n"
}

fn summary(report: &Report) -> String {
    let Report { from, to, .. } = report;
    let upgrade = match to.openshift {
        Some(release) => format!(
            "{from} to {release} (Kubernetes {} to {})",
            from.kubernetes, to.kubernetes
        ),
        None => format!("{from} to {}", to.kubernetes),
    };
    let number = |effects: &[Effect]| {
        let has = |operator: &&InstalledOperator| {
            operator
                .findings
                .iter()
                .any(|finding| effects.contains(&finding.effect))
        };
        report.operators.iter().filter(has).count()
    };
    let blocking = number(&[Effect::Blocks, Effect::Refuses]);
    let mut parts = vec![match blocking {
        0 => "nothing blocks".to_owned(),
        1 => "1 blocks".to_owned(),
        more => format!("{more} block"),
    }];
    match number(&[Effect::Warns]) {
        0 => {}
        some => parts.push(format!("{some} may break")),
    }
    match number(&[Effect::Unknown]) {
        0 => {}
        some => parts.push(format!("{some} unknown")),
    }
    let operators = count(report.operators.len(), "operator");
    format!("{upgrade}: {operators}, {}", parts.join(", "))
}
