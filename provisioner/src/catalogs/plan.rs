//! Where to take a catalog from at this moment. No I/O.

use std::time::Duration;

use jiff::SignedDuration;
use kube::ResourceExt as _;
use manifests::api::catalog_source::{CatalogSource, Place};

/// How long OLM may take to serve a catalog before its image is pulled here: as long as OLM gives its pod to start, and a
/// little more.
pub(super) const OLM_BUDGET: Duration = Duration::from_secs(180);
/// How often a registry is asked for a new image when the interval makes no sense (OLM v0 parity).
const USUAL_POLL: Duration = Duration::from_secs(15 * 60);
/// More often no registry is asked, whatever the CatalogSource says.
const SHORTEST_POLL: Duration = Duration::from_secs(60);

/// Where to take a catalog from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// From whoever serves it at this address.
    Served(String),
    /// From its image.
    Image {
        reference: String,
        /// How often to look for a new one.
        poll: Option<Duration>,
        /// What is wrong with that.
        warning: Option<String>,
    },
    /// From nowhere yet.
    Wait { why: String, left: Duration },
    /// From nowhere, unless it changes.
    Never(String),
}

/// Decides. `waited` is for how long the catalog has not been served, or has been seen here without that.
pub(super) fn plan(source: &CatalogSource, has_olm: bool, waited: Duration) -> Plan {
    let reference = match source.place(has_olm) {
        Err(invalid) => return Plan::Never(invalid.to_string()),
        Ok(Place::Served(address)) => return Plan::Served(address.to_owned()),
        Ok(Place::Image(reference)) => reference,
    };
    if has_olm && let Some(left) = OLM_BUDGET.checked_sub(waited).filter(|it| !it.is_zero()) {
        let why = source
            .status
            .as_ref()
            .and_then(|status| status.message.as_deref());
        let why = match why.filter(|why| !why.is_empty()) {
            Some(why) => format!("OLM does not serve it yet: {why}"),
            None => "OLM does not serve it yet".to_owned(),
        };
        return Plan::Wait { why, left };
    }
    let (poll, warning) = match interval(source) {
        Ok(poll) => (poll, None),
        Err(problem) => (Some(USUAL_POLL), Some(problem)),
    };
    Plan::Image {
        reference: reference.to_owned(),
        // What is pinned stays what it is.
        poll: poll.filter(|_| !reference.contains('@')),
        warning,
    }
}

/// Whether what was planned for a CatalogSource is still to be done now that it has changed. OLM writes into it again and
/// again what makes no difference.
pub(super) fn is_still(
    planned: &Plan,
    of: &CatalogSource,
    now: &CatalogSource,
    has_olm: bool,
    waited: Duration,
) -> bool {
    (&of.spec, &of.metadata.uid) == (&now.spec, &now.metadata.uid)
        && plan(now, has_olm, waited) == *planned
}

fn interval(source: &CatalogSource) -> Result<Option<Duration>, String> {
    let strategy = source.spec.update_strategy.as_ref();
    let Some(poll) = strategy.and_then(|strategy| strategy.registry_poll.as_ref()) else {
        return Ok(None);
    };
    let text = poll.interval.as_deref().unwrap_or_default();
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed.ok().and_then(|it| Duration::try_from(it).ok());
    let problem = |what: &str| {
        format!(
            "CatalogSource {}: spec.updateStrategy.registryPoll.interval {text:?} {what}; the registry is asked every 15m \
             instead, write an interval such as 30m",
            source.name_any()
        )
    };
    match parsed {
        None => Err(problem("is no duration")),
        Some(parsed) if parsed < SHORTEST_POLL => Err(problem("is shorter than 1m")),
        Some(parsed) => Ok(Some(parsed)),
    }
}

#[cfg(test)]
mod tests;
