//! The check that the admission policies of the install file exist.
//!
//! The policies deny requests that RBAC alone allows, such as another user's Bundle for a BundleInstance. API servers
//! before Kubernetes 1.30 do not support them, and an admin can delete them. Without them the provisioner works, and
//! reports missing policies in the log, by Events and by a metric. Readiness does not depend on the result. The names come
//! from the function that generates the install files.

use std::time::Duration;

use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyBinding as Binding,
    },
    core::v1::ObjectReference,
};
use kube::{Api, Client, Resource, runtime::events::EventType};
use manifests::{
    api::install::{OLDEST, admission_policies},
    version::KubeVersion,
};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::controllers::context::Context;
use apply::{api_error, backoff::spread};

/// Delay before the next check after a failed one.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// A policy or binding that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Missing {
    kind: Kind,
    name: &'static str,
}

/// The kind of an object of the install file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Policy,
    Binding,
}

/// The result of a check.
type Checked = Result<Vec<Missing>, String>;

/// Checks until `stop` is cancelled.
pub(super) async fn run(ctx: Context, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = check(&ctx) => {}
    }
}

async fn check(ctx: &Context) {
    // The first check reports only missing objects.
    let mut last: Checked = Ok(Vec::new());
    loop {
        let checked = find_missing(&ctx.client)
            .await
            .map_err(|error| api_error::chain(&error));
        debug!("checked the admission policies");
        if checked != last {
            report(ctx, &checked).await;
        }
        let resync = ctx.settings.resync;
        let interval = match checked {
            Ok(_) => resync,
            Err(_) => resync.min(RETRY_DELAY),
        };
        last = checked;
        sleep(spread(interval)).await;
    }
}

/// Returns the objects that do not exist: all of them if the API server does not serve their kinds.
async fn find_missing(client: &Client) -> Result<Vec<Missing>, kube::Error> {
    let mut missing = Vec::new();
    for name in admission_policies() {
        for (kind, exists) in [
            (Kind::Policy, exists::<Policy>(client, name).await?),
            (Kind::Binding, exists::<Binding>(client, name).await?),
        ] {
            if !exists {
                missing.push(Missing { kind, name });
            }
        }
    }
    Ok(missing)
}

async fn exists<K>(client: &Client, name: &str) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let metadata = Api::<K>::all(client.clone()).get_metadata_opt(name).await?;
    Ok(metadata.is_some())
}

/// Reports a result that differs from the one before.
async fn report(ctx: &Context, checked: &Checked) {
    let missing = match checked {
        Ok(missing) => missing,
        Err(error) => {
            warn!(
                error,
                remedy = REINSTALL,
                "failed to check the admission policies; retrying"
            );
            return;
        }
    };
    ctx.metrics.admission_policies_missing(missing.len());
    if missing.is_empty() {
        info!("all admission policies exist");
        return;
    }
    let version = ctx.versions.kubernetes().await.ok();
    let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
    warn!(
        objects = names.join(", "),
        problem = PROBLEM,
        remedy = remedy(version),
        "admission policies are missing"
    );
    for missing in missing {
        let (about, note) = (missing.reference(), missing.note(version));
        let (type_, reason) = (EventType::Warning, "AdmissionPolicyMissing");
        ctx.events
            .publish(&about, type_, reason, "Check", &note)
            .await;
    }
}

/// The consequence of a missing policy.
const PROBLEM: &str = "the API server does not enforce the policy";
const REINSTALL: &str = "apply the install file of this version of the provisioner again";

/// Returns the remedy in a cluster of this version, if that is known.
fn remedy(version: Option<KubeVersion>) -> String {
    match version {
        Some(version) if version < OLDEST => {
            format!(
                "upgrade the cluster from Kubernetes {version} to {OLDEST} or later, and {REINSTALL}"
            )
        }
        _ => REINSTALL.to_owned(),
    }
}

impl Missing {
    /// Returns the note of the Event.
    fn note(self, version: Option<KubeVersion>) -> String {
        format!("{self} not found: {PROBLEM}; {}", remedy(version))
    }

    fn reference(self) -> ObjectReference {
        ObjectReference {
            api_version: Some(Policy::api_version(&()).into_owned()),
            kind: Some(self.kind.to_string()),
            name: Some(self.name.to_owned()),
            ..ObjectReference::default()
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Policy => "ValidatingAdmissionPolicy",
            Self::Binding => "ValidatingAdmissionPolicyBinding",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_name_object_problem_and_remedy() {
        let name = "bundle-ownership";
        let [policy, binding] = [Kind::Policy, Kind::Binding].map(|kind| Missing { kind, name });
        let reinstall = "the API server does not enforce the policy; apply the install file of this version of the \
                         provisioner again";
        let upgrade = "the API server does not enforce the policy; upgrade the cluster from Kubernetes 1.29 to 1.30 or \
                       later, and apply the install file of this version of the provisioner again";
        assert_each!(|missing, version, expected| missing.note(version) => expected;
            policy, None => format!("ValidatingAdmissionPolicy bundle-ownership not found: {reinstall}");
            policy, Some(KubeVersion::new(1, 29)) => format!("ValidatingAdmissionPolicy bundle-ownership not found: {upgrade}");
            binding, Some(KubeVersion::new(1, 30))
                => format!("ValidatingAdmissionPolicyBinding bundle-ownership not found: {reinstall}");
        );
    }
}
