//! `rukpak catalog choose`.

use catalog::{
    Catalog,
    choose::{self, CatalogAnswer, Choice, Decision, Installed, Next, Offer, Outcome, Request},
    model::Release,
};
use serde::Serialize;

use super::{CatalogReader, warn_unchecked_constraints};
use crate::{
    ExitStatus,
    args::{self, CatalogChooseArgs, CatalogReadArgs},
    output,
    output::message,
};

/// Decision as machine-readable output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChoiceOutput<'a> {
    package: &'a str,
    /// `install`, `upgrade`, `stay` or `nothing`.
    verdict: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<Bundle<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<NextBundle<'a>>,
    steps: &'a [String],
    candidates: Vec<Candidate<'a>>,
    warnings: &'a [String],
    unasked: Vec<Unasked<'a>>,
}

#[derive(Serialize)]
struct Unasked<'a> {
    catalog: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bundle<'a> {
    catalog: &'a str,
    channel: &'a str,
    name: &'a str,
    version: String,
    image: &'a str,
    media_type: &'a str,
}

#[derive(Serialize)]
struct NextBundle<'a> {
    name: &'a str,
    version: String,
    reasons: &'a [String],
}

#[derive(Serialize)]
struct Candidate<'a> {
    catalog: &'a str,
    name: &'a str,
    version: String,
    chosen: bool,
    reasons: &'a [String],
}

pub(crate) fn run(args: &CatalogChooseArgs) -> anyhow::Result<ExitStatus> {
    let CatalogReadArgs { access, limits } = &args.reading;
    let reader = CatalogReader::new(&args.catalogs, access, *limits)?;
    let catalogs: Vec<(&str, Result<Catalog, String>)> = reader
        .sources
        .iter()
        .map(|source| {
            let catalog = reader.load(source).map_err(|error| format!("{error:#}"));
            (source.name.as_str(), catalog)
        })
        .collect();
    let broken: Vec<Option<String>> = catalogs
        .iter()
        .map(|(_, catalog)| match catalog {
            Ok(catalog) => catalog.why_broken(&args.package),
            Err(error) => Some(error.clone()),
        })
        .collect();
    let offers: Vec<Offer<'_>> = catalogs
        .iter()
        .zip(&broken)
        .zip((0..).map(|at: i64| -at))
        .map(|(((name, catalog), broken), priority)| {
            let package = catalog
                .as_ref()
                .ok()
                .and_then(|catalog| catalog.packages.get(&args.package));
            Offer {
                catalog: name,
                priority,
                answer: match (broken, package) {
                    (Some(reason), _) => CatalogAnswer::Unavailable(reason),
                    (None, Some(package)) => CatalogAnswer::Package(package),
                    (None, None) => CatalogAnswer::NotFound,
                },
            }
        })
        .collect();
    let installed = args.installed.as_ref().map(|name| Installed {
        name: name.clone(),
        version: version(args, name, &offers),
        catalog: None,
    });
    let kubernetes = args::kubernetes(args.kubernetes_version.as_ref(), args.openshift_version);
    let media_types: Vec<&str> = args.media_types.iter().map(String::as_str).collect();
    let decision = choose::explain(
        &Request {
            package: &args.package,
            channel: args.channel.as_deref(),
            range: args.version.as_ref(),
            minor: None,
            newest: None,
            installed: installed.as_ref(),
            openshift: args.openshift_version,
            kubernetes: kubernetes.as_ref(),
            media_types: &media_types,
            overrides: &[],
        },
        &offers,
    );
    if kubernetes.is_none()
        && let Some(choice) = decision.verdict.choice()
        && let Some(warning) = warn_unchecked_constraints(choice, &args.package, &offers)
    {
        message::warning(&warning);
    }
    let text = output::described(&ChoiceOutput::new(&decision), args.output)?;
    output::print(&text.unwrap_or_else(|| {
        let text = decision.to_string();
        text.lines()
            .map(|line| message::sanitize(line) + "\n")
            .collect()
    }))?;
    Ok(match decision.verdict {
        Outcome::NoCandidate(_) => ExitStatus::Failed,
        Outcome::Install(_) | Outcome::Upgrade(_) | Outcome::NoUpgrade(_) => ExitStatus::Done,
    })
}

/// Returns the version of the installed bundle: the given one, else the one in the first catalog that contains the bundle.
fn version(args: &CatalogChooseArgs, name: &str, offers: &[Offer<'_>]) -> Option<Release> {
    let given = args.installed_version.clone().map(|version| Release {
        version,
        release: None,
    });
    let listed = || {
        offers.iter().find_map(|offer| match offer.answer {
            CatalogAnswer::Package(package) => {
                package.bundle(name).map(|bundle| bundle.version.clone())
            }
            CatalogAnswer::NotFound | CatalogAnswer::Unavailable(_) | CatalogAnswer::Pending => {
                None
            }
        })
    };
    given.or_else(listed)
}

impl<'a> ChoiceOutput<'a> {
    fn new(decision: &'a Decision) -> Self {
        let chosen = |choice: &'a Choice| Bundle {
            catalog: &choice.catalog,
            channel: &choice.channel,
            name: &choice.name,
            version: choice.version.to_string(),
            image: &choice.image,
            media_type: &choice.media_type,
        };
        let later = |next: &'a Next| NextBundle {
            name: &next.name,
            version: next.version.to_string(),
            reasons: &next.reasons,
        };
        Self {
            package: &decision.package,
            verdict: match &decision.verdict {
                Outcome::Install(_) => "install",
                Outcome::Upgrade(_) => "upgrade",
                Outcome::NoUpgrade(_) => "stay",
                Outcome::NoCandidate(_) => "nothing",
            },
            message: decision.verdict.to_string(),
            chosen: decision.verdict.choice().map(chosen),
            next: decision.next.as_ref().map(later),
            steps: &decision.steps,
            candidates: decision
                .candidates
                .iter()
                .map(|candidate| Candidate {
                    catalog: &candidate.catalog,
                    name: &candidate.name,
                    version: candidate.version.to_string(),
                    chosen: candidate.is_chosen,
                    reasons: &candidate.reasons,
                })
                .collect(),
            warnings: &decision.warnings,
            unasked: decision
                .unavailable
                .iter()
                .map(|catalog| Unasked {
                    catalog: &catalog.catalog,
                    why: &catalog.reason,
                })
                .collect(),
        }
    }
}
