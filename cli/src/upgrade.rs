//! `rukpak upgrade-check`.
//!
//! ```text
//!  ClusterVersion, API server ── target: from which release to which
//!  BundleInstances, ClusterServiceVersions, roles, requests ── read ──┐
//!  PlatformOperators, Subscriptions ── follow ────────────────────────┤
//!  catalogs ── the newest version that can be reached ────────────────┴── judge ── a table, JSON, YAML
//! ```

mod follow;
mod judge;
mod olm;
pub(crate) mod read;
pub(crate) mod target;

use catalog::{
    choose::{self, Ahead, Followed, Installed, Request},
    model::{Bundle, PLAIN_V0, REGISTRY_V1, Release},
};
use manifests::{
    api::platform_status::Effect,
    openshift::maximum,
    version::{self, KubeVersion},
};
use serde::Serialize;

use self::{
    judge::{Later, Operator},
    target::Releases,
};
use crate::{
    Exit,
    args::UpgradeCheckArgs,
    catalogs::Catalogs,
    cluster::{self, Cluster},
    message::{self, count},
    output, table,
};

/// Something keeps the cluster from being upgraded.
const BLOCKED: u8 = 3;
/// How many CatalogSources are named.
const FEW: usize = 5;

/// What was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    from: Releases,
    to: Releases,
    /// Whether anything keeps the cluster from being upgraded.
    blocked: bool,
    operators: Vec<Operator>,
}

pub(crate) fn run(args: &UpgradeCheckArgs) -> anyhow::Result<Exit> {
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
) -> anyhow::Result<Exit> {
    let here = read::releases(cluster).await?;
    let from = here.releases;
    let to = from.to(args.to)?;
    if let Some(running) = &here.is_updating {
        message::note(&format!(
            "the cluster is on its way from OpenShift {running}; wait until it is there for what follows to count"
        ));
    }
    if to.kubernetes > KubeVersion::NEWEST {
        message::note(&format!(
            "of what goes with Kubernetes {} only that is known which Kubernetes {} has announced",
            to.kubernetes,
            KubeVersion::NEWEST
        ));
    }
    let mut operators = read::operators(cluster, &from, &to, !catalogs.is_empty()).await?;
    for operator in &mut operators {
        look_up(operator, catalogs, &here, &to);
        operator.judge(&to, !catalogs.is_empty());
    }
    operators.sort_by_key(Operator::label);
    let report = Report {
        from,
        to,
        blocked: operators.iter().any(Operator::blocks),
        operators,
    };
    if catalogs.is_empty() && report.operators.iter().any(|it| it.is_too_old(&to)) {
        let named = olm::catalogs(cluster, FEW).await;
        let named = match named.as_slice() {
            [] => String::new(),
            some => format!(", such as {}", some.join(", ")),
        };
        message::note(&format!(
            "no catalog was asked for versions that run on {to}: name one with --catalog{named}"
        ));
    }
    let text = output::described(&report, args.output.into())?;
    output::print(&text.unwrap_or_else(|| written(&report)))?;
    Ok(if report.blocked {
        Exit::Code(BLOCKED)
    } else {
        Exit::Done
    })
}

/// Adds what catalogs have on an operator: its max OpenShift version, which may have been raised, and what comes after it. An
/// invalid value of a catalog does not replace a valid one of the operator.
fn look_up(operator: &mut Operator, catalogs: &Catalogs, here: &read::Here, to: &Releases) {
    let (Some(package), Some(name)) = (operator.package.clone(), operator.bundle.clone()) else {
        return;
    };
    let package = catalogs.package(&package);
    let offers = package.offers();
    let listed = offers.iter().find_map(|offer| match offer.answer {
        choose::Answer::Package(package) => package.bundle(&name).filter(|it| is_it(it, operator)),
        choose::Answer::Absent | choose::Answer::Unknown(_) | choose::Answer::Pending => None,
    });
    let own = operator.maximum.as_deref().map(maximum);
    if let Some(declared) = listed.and_then(|listed| listed.max_openshift.as_ref())
        && (declared.version.is_ok() || !matches!(own, Some(Ok(_))))
    {
        operator.maximum = Some(declared.text());
    }
    for offer in &offers {
        if let choose::Answer::Unknown(why) = offer.answer {
            operator.is_unread = true;
            message::warning(&format!("catalog {}: {why}", offer.catalog));
        }
    }
    let (Some(running), Some(release)) = (here.releases.openshift, to.openshift) else {
        return;
    };
    if !operator.is_too_old(to) {
        return;
    }
    let version = operator.version.as_deref();
    let installed = Installed {
        name,
        version: version
            .and_then(|it| version::strict(it).ok())
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
        kubernetes: here.version.as_ref(),
        media_types: &[REGISTRY_V1, PLAIN_V0],
        overrides: &[],
    };
    if let Ahead::To(it) = choose::ahead(&request, Followed::Any, release, &offers) {
        operator.unblocked_by = Some(Later {
            version: it.version.to_string(),
            bundle: it.name,
            catalog: it.catalog,
            channel: it.channel,
        });
    }
}

/// Whether a catalog speaks of just what is installed. Of what OLM has installed nobody tells the digest: there the
/// ClusterServiceVersion alone counts, as it does for OLM.
fn is_it(bundle: &Bundle, operator: &Operator) -> bool {
    let digest = bundle.image.rsplit_once('@').map(|(_, digest)| digest);
    digest.is_some() && digest == operator.image.as_deref()
}

/// For people: a line for each finding, and what it comes to.
fn written(report: &Report) -> String {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for operator in &report.operators {
        // A BundleInstance may be called the same.
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
                Effect::Refuses => format!("it asks not to be upgraded: {}", finding.message),
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
    let way = match to.openshift {
        Some(release) => format!(
            "{from} to {release} (Kubernetes {} to {})",
            from.kubernetes, to.kubernetes
        ),
        None => format!("{from} to {}", to.kubernetes),
    };
    let number = |effects: &[Effect]| {
        let has = |it: &&Operator| it.findings.iter().any(|it| effects.contains(&it.effect));
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
        some => parts.push(format!("of {some} it is not known")),
    }
    let operators = count(report.operators.len(), "operator");
    format!("{way}: {operators}, {}", parts.join(", "))
}
