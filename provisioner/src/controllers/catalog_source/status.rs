//! Status of a CatalogSource in clusters where OLM does not write it. Pure; no I/O.
//!
//! The fields and most texts are OLM's, but the values are accurate. READY means that a server listens or has responded.
//! The time of the last poll is one at which the registry has responded.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use manifests::{
    api::{
        catalog_source::{
            CatalogSourceStatus, ConfigMapReference, ConnectionState, RegistryService,
        },
        condition::with_time_of,
        limits,
    },
    object::truncate,
};

use super::poll::PollInterval;
use super::registry_server::ServingState;
use super::template_resolution::{ConditionUpdate, UnresolvedImage};

/// Reason of a problem, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// A user has to correct the CatalogSource.
    SpecInvalid,
    /// The catalog cannot be read or is not served.
    RegistryServer,
    /// The ConfigMap of the catalog cannot be read.
    ConfigMap,
    /// The catalog is served, but its poll interval is invalid.
    InvalidInterval,
}

/// Reasons in the status (OLM v0 parity).
mod reason {
    pub(super) const SPEC_INVALID: &str = "SpecInvalidError";
    pub(super) const REGISTRY_SERVER: &str = "RegistryServerError";
    pub(super) const CONFIG_MAP: &str = "ConfigMapError";
    pub(super) const INVALID_INTERVAL: &str = "InvalidIntervalError";
}

/// Problem of a catalog, for `reason` and `message` of the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// State of the connection to a catalog server, with gRPC's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// The server has not responded yet.
    Connecting,
    /// The catalog is served.
    Ready,
    /// The connection has failed and is retried.
    Failing,
}

/// Endpoint and connection state of a served catalog.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Served {
    /// Address of the server: `host:port`.
    pub(super) address: String,
    /// Service of the provisioner; `None` if another server serves the catalog.
    pub(super) service: Option<RegistryService>,
    pub(super) connection: Connection,
}

/// Observed state of a catalog, for its status.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CatalogObservation {
    pub(super) problem: Option<Problem>,
    pub(super) served: Option<Served>,
    /// True if the recorded server may still be valid while its state is unknown.
    pub(super) may_be_served: bool,
    /// Time of the last poll of the image's tag; `None` if the tag is not polled, or not yet.
    pub(super) last_poll: Option<Timestamp>,
    /// ConfigMap that was read, if the catalog is in one.
    pub(super) config_map: Option<ConfigMapReference>,
    /// Conditions of the image template.
    pub(super) conditions: Vec<ConditionUpdate>,
}

/// Returns the desired status. Only the conditions in `owned` are changed.
pub(super) fn status(
    was: &CatalogSourceStatus,
    seen: &CatalogObservation,
    owned: &[&str],
    generation: Option<i64>,
    now: Timestamp,
) -> CatalogSourceStatus {
    let reason = seen.problem.as_ref().map(|problem| problem.reason);
    let was_invalid = was.reason.as_deref() == Some(Reason::SpecInvalid.as_str());
    // The status of an invalid spec does not apply to the corrected one.
    let base = if was_invalid && reason != Some(Reason::SpecInvalid) {
        CatalogSourceStatus::default()
    } else {
        was.clone()
    };
    CatalogSourceStatus {
        message: seen.problem.as_ref().map(|problem| {
            let max_len = usize::try_from(limits::MESSAGE).unwrap_or(usize::MAX) - 1;
            truncate(&problem.message, max_len)
        }),
        reason: reason.map(|reason| reason.as_str().to_owned()),
        latest_image_registry_poll: seen.last_poll.map(Time).or(base.latest_image_registry_poll),
        config_map_reference: seen
            .config_map
            .clone()
            .map(|read| config_map_reference(read, base.config_map_reference, now)),
        registry_service: match &seen.served {
            Some(served) => Some(served.service(base.registry_service, now)),
            None => base.registry_service.filter(|_| seen.may_be_served),
        },
        connection_state: match &seen.served {
            Some(served) => Some(served.state(base.connection_state, now)),
            None => base.connection_state.filter(|_| seen.may_be_served),
        },
        conditions: conditions(&was.conditions, &seen.conditions, owned, generation, now),
    }
}

/// Returns the reference to the ConfigMap. An unchanged version keeps its time.
fn config_map_reference(
    read: ConfigMapReference,
    was: Option<ConfigMapReference>,
    now: Timestamp,
) -> ConfigMapReference {
    let desired = ConfigMapReference {
        last_update_time: Some(Time(now)),
        ..read
    };
    let is_same = |was: &ConfigMapReference| {
        let last_update_time = desired.last_update_time.clone();
        let was = was.clone();
        was.last_update_time.is_some()
            && ConfigMapReference {
                last_update_time,
                ..was
            } == desired
    };
    was.filter(is_same).unwrap_or(desired)
}

/// Returns the desired conditions. Updated conditions keep their position, and conditions that are not in `owned` are
/// kept.
pub(super) fn conditions(
    was: &[Condition],
    updates: &[ConditionUpdate],
    owned: &[&str],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |update: &ConditionUpdate| {
        let status = if update.is_true { "True" } else { "False" };
        let max_len = usize::try_from(limits::MESSAGE).unwrap_or(usize::MAX) - 1;
        let condition = Condition {
            type_: update.type_.to_owned(),
            status: status.to_owned(),
            reason: update.reason.to_owned(),
            message: truncate(&update.message, max_len),
            last_transition_time: Time(now),
            observed_generation: generation,
        };
        with_time_of(was, condition)
    };
    let mut desired: Vec<Condition> = was
        .iter()
        .filter_map(|before| {
            let update = updates.iter().find(|update| update.type_ == before.type_);
            match update {
                Some(update) => Some(condition(update)),
                None if owned.contains(&before.type_.as_str()) => None,
                None => Some(before.clone()),
            }
        })
        .collect();
    let is_new = |update: &&ConditionUpdate| was.iter().all(|before| before.type_ != update.type_);
    desired.extend(updates.iter().filter(is_new).map(condition));
    desired
}

// === impl CatalogObservation ===

impl CatalogObservation {
    /// Adds the state of the built-in catalog server.
    pub(super) fn add_server(&mut self, state: &ServingState) {
        if let Some(at) = &state.registered {
            self.served = Some(Served {
                address: at.address.clone(),
                service: Some(at.service.clone()),
                connection: match state.trouble {
                    None => Connection::Ready,
                    Some(_) => Connection::Failing,
                },
            });
        }
        if let Some(problem) = &state.trouble {
            self.add_server_problem(problem);
        }
    }

    /// Adds a problem of the server, unless the catalog has a more severe one.
    pub(super) fn add_server_problem(&mut self, message: &str) {
        // A catalog that cannot be read at all is more severe.
        let is_worse = |problem: &Problem| problem.reason != Reason::InvalidInterval;
        if !self.problem.as_ref().is_some_and(is_worse) {
            self.problem = Some(Problem::of_server(message));
        }
    }
}

// === impl Problem ===

impl Problem {
    /// Returns the problem of a catalog that is not served as configured (OLM v0 parity).
    pub(super) fn of_server(message: &str) -> Self {
        let prefix = "couldn't ensure registry server - ";
        let message = message.strip_prefix(prefix).unwrap_or(message);
        Self {
            reason: Reason::RegistryServer,
            message: format!("{prefix}{message}"),
        }
    }

    /// Returns the problem of a catalog that is read, if any: its template no longer resolves to the image that is used, or
    /// its poll interval is invalid.
    pub(super) fn of_read(
        retained: Option<&UnresolvedImage>,
        poll: Option<&PollInterval>,
    ) -> Option<Self> {
        let interval = || {
            Some(Self {
                reason: Reason::InvalidInterval,
                message: poll?.problem.clone()?,
            })
        };
        retained.map(Self::from).or_else(interval)
    }
}

impl From<&UnresolvedImage> for Problem {
    fn from(unresolved: &UnresolvedImage) -> Self {
        Self {
            reason: if unresolved.is_for_good {
                Reason::SpecInvalid
            } else {
                Reason::RegistryServer
            },
            message: unresolved.why.clone(),
        }
    }
}

// === impl Reason ===

impl Reason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::SpecInvalid => reason::SPEC_INVALID,
            Self::RegistryServer => reason::REGISTRY_SERVER,
            Self::ConfigMap => reason::CONFIG_MAP,
            Self::InvalidInterval => reason::INVALID_INTERVAL,
        }
    }
}

// === impl Connection ===

impl Connection {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "CONNECTING",
            Self::Ready => "READY",
            Self::Failing => "TRANSIENT_FAILURE",
        }
    }
}

// === impl Served ===

impl Served {
    fn service(&self, was: Option<RegistryService>, now: Timestamp) -> RegistryService {
        let grpc = || RegistryService {
            protocol: Some("grpc".to_owned()),
            ..RegistryService::default()
        };
        let mut desired = self.service.clone().unwrap_or_else(grpc);
        if desired.created_at.is_some() {
            return desired;
        }
        desired.created_at = Some(Time(now));
        let is_same = |was: &RegistryService| {
            let created_at = desired.created_at.clone();
            let was = was.clone();
            was.created_at.is_some() && RegistryService { created_at, ..was } == desired
        };
        was.filter(is_same).unwrap_or(desired)
    }

    /// Returns the connection state. An unchanged state keeps its time.
    fn state(&self, was: Option<ConnectionState>, now: Timestamp) -> ConnectionState {
        let desired = ConnectionState {
            address: Some(self.address.clone()),
            last_connect: Some(Time(now)),
            last_observed_state: self.connection.as_str().to_owned(),
        };
        let is_same = |was: &ConnectionState| {
            was.last_connect.is_some()
                && (&was.address, &was.last_observed_state)
                    == (&desired.address, &desired.last_observed_state)
        };
        was.filter(is_same).unwrap_or(desired)
    }
}

#[cfg(test)]
pub(super) mod tests;
