//! The status of a CatalogSource, in clusters where OLM does not write it. No I/O.
//!
//! The fields and most words are OLM's, but they tell what is: READY is a server that listens or has answered, and the time of
//! the last poll is one at which the registry did answer.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use manifests::{
    api::{
        bounds,
        catalog_source::{
            CatalogSourceStatus, ConfigMapReference, ConnectionState, RegistryService,
        },
        condition::with_time_of,
    },
    object::shortened,
};

use super::{
    interval::Interval,
    serving::State,
    template::{Told, Unresolved},
};

/// What is wrong, in the API's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Somebody has to edit the CatalogSource.
    SpecInvalid,
    /// The catalog cannot be read, or is not served.
    RegistryServer,
    /// Its ConfigMap cannot be had.
    ConfigMap,
    /// It is served, and the interval of its polls is no good.
    InvalidInterval,
}

/// The same, as the API has them (OLM v0 parity).
mod reason {
    pub(super) const SPEC_INVALID: &str = "SpecInvalidError";
    pub(super) const REGISTRY_SERVER: &str = "RegistryServerError";
    pub(super) const CONFIG_MAP: &str = "ConfigMapError";
    pub(super) const INVALID_INTERVAL: &str = "InvalidIntervalError";
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// How a connection is, in gRPC's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// Someone is being asked.
    Connecting,
    /// It is served.
    Ready,
    /// It is not, and that is tried again.
    Failing,
}

/// Where a catalog is served.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Served {
    /// `host:port`.
    pub(super) address: String,
    /// Ours; nothing if somebody else serves the catalog.
    pub(super) service: Option<RegistryService>,
    pub(super) connection: Connection,
}

/// How a catalog is, as far as its status tells.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) problem: Option<Problem>,
    pub(super) served: Option<Served>,
    /// Whether what was said of who serves it may still be true, while nothing is known.
    pub(super) may_be_served: bool,
    /// When the registry was last asked whether there is a new image, if it is to be asked.
    pub(super) polled: Option<Timestamp>,
    /// The ConfigMap that was read, if it is in one.
    pub(super) config_map: Option<ConfigMapReference>,
    /// Of its template.
    pub(super) conditions: Vec<Told>,
}

/// The status that is due. Of the conditions, only those of `ours` change.
pub(super) fn status(
    was: &CatalogSourceStatus,
    seen: &Seen,
    ours: &[&str],
    generation: Option<i64>,
    now: Timestamp,
) -> CatalogSourceStatus {
    let reason = seen.problem.as_ref().map(|it| it.reason);
    let was_invalid = was.reason.as_deref() == Some(Reason::SpecInvalid.as_str());
    // What was said of something invalid is not said of what it has become.
    let base = if was_invalid && reason != Some(Reason::SpecInvalid) {
        CatalogSourceStatus::default()
    } else {
        was.clone()
    };
    CatalogSourceStatus {
        message: seen.problem.as_ref().map(|problem| {
            let longest = usize::try_from(bounds::MESSAGE).unwrap_or(usize::MAX) - 1;
            shortened(&problem.message, longest)
        }),
        reason: reason.map(|it| it.as_str().to_owned()),
        latest_image_registry_poll: seen.polled.map(Time).or(base.latest_image_registry_poll),
        config_map_reference: seen
            .config_map
            .clone()
            .map(|read| referred(read, base.config_map_reference, now)),
        registry_service: match &seen.served {
            Some(served) => Some(served.service(base.registry_service, now)),
            None => base.registry_service.filter(|_| seen.may_be_served),
        },
        connection_state: match &seen.served {
            Some(served) => Some(served.state(base.connection_state, now)),
            None => base.connection_state.filter(|_| seen.may_be_served),
        },
        conditions: conditions(&was.conditions, &seen.conditions, ours, generation, now),
    }
}

/// A version that was told of before keeps the time at which it was read.
fn referred(
    read: ConfigMapReference,
    was: Option<ConfigMapReference>,
    now: Timestamp,
) -> ConfigMapReference {
    let due = ConfigMapReference {
        last_update_time: Some(Time(now)),
        ..read
    };
    let is_same = |was: &ConfigMapReference| {
        let last_update_time = due.last_update_time.clone();
        let was = was.clone();
        was.last_update_time.is_some()
            && ConfigMapReference {
                last_update_time,
                ..was
            } == due
    };
    was.filter(is_same).unwrap_or(due)
}

/// The conditions that are due: what is told, in the places where it was told before, and all that is not of `ours`.
pub(super) fn conditions(
    was: &[Condition],
    told: &[Told],
    ours: &[&str],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |told: &Told| {
        let status = if told.is_true { "True" } else { "False" };
        let longest = usize::try_from(bounds::MESSAGE).unwrap_or(usize::MAX) - 1;
        let condition = Condition {
            type_: told.type_.to_owned(),
            status: status.to_owned(),
            reason: told.reason.to_owned(),
            message: shortened(&told.message, longest),
            last_transition_time: Time(now),
            observed_generation: generation,
        };
        with_time_of(was, condition)
    };
    let mut due: Vec<Condition> = was
        .iter()
        .filter_map(|before| {
            let now = told.iter().find(|told| told.type_ == before.type_);
            match now {
                Some(told) => Some(condition(told)),
                None if ours.contains(&before.type_.as_str()) => None,
                None => Some(before.clone()),
            }
        })
        .collect();
    let is_new = |told: &&Told| was.iter().all(|before| before.type_ != told.type_);
    due.extend(told.iter().filter(is_new).map(condition));
    due
}

// === impl Seen ===

impl Seen {
    /// Adds how we serve the catalog ourselves.
    pub(super) fn is_served(&mut self, state: &State) {
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
        if let Some(trouble) = &state.trouble {
            self.has_trouble(trouble);
        }
    }

    /// Adds what is wrong with who serves the catalog.
    pub(super) fn has_trouble(&mut self, why: &str) {
        // What cannot be read at all is worse.
        let is_worse = |it: &Problem| it.reason != Reason::InvalidInterval;
        if !self.problem.as_ref().is_some_and(is_worse) {
            self.problem = Some(Problem::of_server(why));
        }
    }
}

// === impl Problem ===

impl Problem {
    /// Nothing serves the catalog as it is to be served (OLM v0 parity).
    pub(super) fn of_server(why: &str) -> Self {
        let begin = "couldn't ensure registry server - ";
        let why = why.strip_prefix(begin).unwrap_or(why);
        Self {
            reason: Reason::RegistryServer,
            message: format!("{begin}{why}"),
        }
    }

    /// What is wrong with a catalog that is read, if anything: the image is not the one that its template is now, or it is
    /// asked for at other times than it says.
    pub(super) fn of_read(kept: Option<&Unresolved>, poll: Option<&Interval>) -> Option<Self> {
        let interval = || {
            Some(Self {
                reason: Reason::InvalidInterval,
                message: poll?.problem.clone()?,
            })
        };
        kept.map(Self::from).or_else(interval)
    }
}

impl From<&Unresolved> for Problem {
    fn from(unresolved: &Unresolved) -> Self {
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
        let mut due = self.service.clone().unwrap_or_else(grpc);
        if due.created_at.is_some() {
            return due;
        }
        due.created_at = Some(Time(now));
        let is_same = |was: &RegistryService| {
            let created_at = due.created_at.clone();
            let was = was.clone();
            was.created_at.is_some() && RegistryService { created_at, ..was } == due
        };
        was.filter(is_same).unwrap_or(due)
    }

    /// A state that lasts keeps the time at which it began.
    fn state(&self, was: Option<ConnectionState>, now: Timestamp) -> ConnectionState {
        let due = ConnectionState {
            address: Some(self.address.clone()),
            last_connect: Some(Time(now)),
            last_observed_state: self.connection.as_str().to_owned(),
        };
        let is_same = |was: &ConnectionState| {
            was.last_connect.is_some()
                && (&was.address, &was.last_observed_state)
                    == (&due.address, &due.last_observed_state)
        };
        was.filter(is_same).unwrap_or(due)
    }
}

#[cfg(test)]
pub(super) mod tests;
