//! Applies the plan for the pods of a catalog, and repairs the objects that belong to them.

use std::{fmt::Debug, time::Duration};

use apply::api_error;
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{LocalObjectReference, Namespace, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use manifests::api::labels;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tracing::{info, warn};

use super::{
    Invalid, PodEnvironment, RegistryPodSpec, diff,
    manifest::{CATALOG, POD_HASH, RegistryPodObjects, UPDATE, objects},
    plan::{PodAction, PodObservation, PodPlan, PodServingState, decide},
};

/// Label of a namespace with its enforced Pod Security Standard.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce";

/// Error that keeps the registry pod of a catalog from its desired state.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog cannot have a registry pod.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An object of the same name exists and belongs to another owner.
    #[error(
        "{kind} {name} already exists and does not belong to this catalog; delete it, or rename the CatalogSource"
    )]
    NameConflict {
        /// Kind of the object.
        kind: String,
        /// Namespace and name of the object.
        name: String,
    },
    /// The API server rejected a request, or the connection failed.
    #[error("couldn't ensure registry server - failed to {action} {kind} {name}")]
    Api {
        /// Verb of the failed request.
        action: &'static str,
        /// Kind of the object.
        kind: String,
        /// Namespace and name of the object.
        name: String,
        /// Error of the API server.
        #[source]
        source: kube::Error,
    },
    /// The labels of the image cannot be read.
    #[error(
        "couldn't ensure registry server - cannot determine the catalog directory of the image; allow the provisioner \
         to pull the image, or set extractContent.catalogDir"
    )]
    Image(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Detecting whether the cluster is OpenShift failed.
    #[error(
        "couldn't ensure registry server - failed to determine whether the cluster is OpenShift"
    )]
    Cluster(#[source] kube::Error),
    /// The reconcile was cancelled before its first write.
    #[error("the reconcile was cancelled")]
    Cancelled,
    /// The Pod Security Standard of the namespace cannot be read.
    #[error("error fetching defaultNamespace: {}", api_error::chain(.0))]
    Namespace(#[source] kube::Error),
}

// === impl Error ===

impl Error {
    /// Reports whether the cause is a missing permission.
    pub(in crate::controllers::catalog_source) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(status), .. } if status.code == 403)
    }

    /// Reports whether the error persists until an admin or user corrects its cause.
    pub(in crate::controllers::catalog_source) fn is_terminal(&self) -> bool {
        self.is_forbidden() || matches!(self, Self::Invalid(_) | Self::NameConflict { .. })
    }
}

/// Result of a reconcile of a registry pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryPodState {
    /// Name of the Service of the catalog.
    pub service: String,
    /// Serving state of the catalog.
    pub state: PodServingState,
    /// Problem to report; the catalog may be served nevertheless.
    pub trouble: Option<String>,
    /// Verdict on the image that the tag names, if a pod has just provided one.
    pub judged: Option<Result<(), String>>,
    /// True if an update pod was created. The tag counts as checked at that time.
    pub asked: bool,
    /// Delay until the next reconcile if nothing changes.
    pub again: Option<Duration>,
}

/// Reports whether a namespace enforces the Pod Security Standard `restricted`.
///
/// # Errors
/// Returns an error if the namespace cannot be read.
pub async fn is_restricted(client: &Client, namespace: &str) -> Result<bool, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = namespaces.get_metadata(namespace).await;
    let metadata = metadata.map_err(Error::Namespace)?;
    Ok(metadata
        .labels()
        .get(ENFORCED)
        .is_some_and(|level| level == "restricted"))
}

/// Last poll of an image's tag, with which the pods have to be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TagPoll {
    /// All polls were handled.
    #[default]
    Handled,
    /// The registry did not report a digest, so only a node can resolve the tag, in an update pod.
    Failed,
    /// The registry reported this digest. No update pod is needed if a ready pod already has it.
    Digest(String),
}

// === impl TagPoll ===

impl TagPoll {
    /// Returns the delay until the pods are compared with this poll, if `left` is the rest of the poll interval, and `checked`
    /// the digest of the last comparison. If all polls fail, a node resolves the tag once per interval. A failing read of the
    /// image repeats its poll, but a failed update pod is replaced once per interval.
    pub(super) fn due_in(&self, left: Duration, checked: Option<&str>) -> Option<Duration> {
        match self {
            Self::Handled => None,
            Self::Digest(digest) if checked != Some(digest) => Some(Duration::ZERO),
            Self::Digest(_) | Self::Failed => Some(left),
        }
    }
}

/// Applies the objects of a catalog and the plan for its pods. As long as no pod is ready, a Service that points to the
/// catalog server is left unchanged. `has_written` is set to true if any object was created or repaired, even if a later
/// step fails.
///
/// # Errors
/// Returns an error if the catalog cannot have a pod, or if the API server rejects a request.
pub async fn reconcile(
    client: &Client,
    desired: &RegistryPodSpec<'_>,
    environment: &PodEnvironment<'_>,
    poll: &TagPoll,
    now: Timestamp,
    has_written: &mut bool,
) -> Result<RegistryPodState, Error> {
    let RegistryPodObjects {
        account,
        service,
        policies,
        mut pod,
    } = objects(desired, environment)?;
    let name = service.name_any();
    let account = ensure(client, account, diff::account, has_written).await?;
    for policy in policies {
        ensure(client, policy, diff::policy, has_written).await?;
    }
    let before = owned(client, &service).await?;
    let pod_client = RegistryPodClient::new(client, desired);
    let existing = pod_client.pods().await?;
    let hash = pod.labels().get(POD_HASH).cloned().unwrap_or_default();
    let observed: Vec<PodObservation> = existing.iter().map(PodObservation::from_pod).collect();
    let PodPlan {
        acts,
        state,
        trouble,
        judged,
        again,
    } = decide(
        &observed,
        &hash,
        needs_update_pod(poll, &observed, &hash),
        now,
    );
    add_secrets(&mut pod, account.image_pull_secrets.unwrap_or_default());
    let asked = acts.contains(&PodAction::CheckTag);
    for act in acts {
        let makes = act == PodAction::Create;
        pod_client.act(act, &pod).await?;
        *has_written |= makes;
    }
    pod_client.annotate(&existing, &pod, &hash).await;
    // The catalog server or a leftover pod of OLM serves the catalog until a pod is ready.
    let is_served_elsewhere =
        before.is_some_and(|service| !service.labels().contains_key(labels::CATALOG_POD));
    if !is_served_elsewhere || matches!(state, PodServingState::Serving(_)) {
        ensure(client, service, diff::service, has_written).await?;
    }
    Ok(RegistryPodState {
        service: name,
        state,
        trouble,
        judged,
        asked,
        again,
    })
}

/// Reports whether an update pod is needed to resolve the tag.
fn needs_update_pod(poll: &TagPoll, pods: &[PodObservation], hash: &str) -> bool {
    let has = |pod: &PodObservation, digest: &str| {
        pod.is_ready && pod.hash == hash && pod.digest.as_deref() == Some(digest)
    };
    match poll {
        TagPoll::Handled => false,
        TagPoll::Failed => true,
        TagPoll::Digest(digest) => !pods.iter().any(|pod| has(pod, digest)),
    }
}

/// Adds the pull secrets that other clients have attached to the service account, as OpenShift does for its internal
/// registry. Such secrets do not cause a new pod.
fn add_secrets(pod: &mut Pod, account_secrets: Vec<LocalObjectReference>) {
    let Some(spec) = pod.spec.as_mut() else {
        return;
    };
    let secrets = spec.image_pull_secrets.get_or_insert_default();
    for secret in account_secrets {
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
}

/// Client for the pods of one catalog.
pub(super) struct RegistryPodClient<'a> {
    api: Api<Pod>,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

// === impl RegistryPodClient ===

impl<'a> RegistryPodClient<'a> {
    pub(super) fn new(client: &Client, desired: &RegistryPodSpec<'a>) -> Self {
        let metadata = &desired.source.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            api: Api::namespaced(client.clone(), namespace),
            name: metadata.name.as_deref().unwrap_or_default(),
            namespace,
            uid: metadata.uid.as_deref().unwrap_or_default(),
        }
    }

    /// Lists the pods that this CatalogSource owns. Pods of an earlier CatalogSource of the same name are
    /// garbage-collected.
    pub(super) async fn pods(&self) -> Result<Vec<Pod>, Error> {
        let mut pods = Vec::new();
        for label in [CATALOG, UPDATE] {
            let params = ListParams::default().labels(&format!("{label}={}", self.name));
            let listed = self.api.list(&params).await;
            pods.extend(listed.map_err(|source| self.failed("list", "", source))?);
        }
        let is_ours = |pod: &Pod| {
            let is_owned = pod
                .owner_references()
                .iter()
                .any(|owner| owner.uid == self.uid);
            is_owned && pod.labels().contains_key(labels::CATALOG_POD)
        };
        pods.retain(is_ours);
        Ok(pods)
    }

    pub(super) async fn act(&self, act: PodAction, pod: &Pod) -> Result<(), Error> {
        let post = PostParams::default();
        match act {
            PodAction::Create => {
                let created = self.api.create(&post, pod).await;
                let created = created.map_err(|source| self.failed("create", "", source))?;
                self.log_action("created registry pod", &created.name_any());
            }
            PodAction::CheckTag => {
                let mut update = pod.clone();
                let labels = update.labels_mut();
                labels.insert(CATALOG.to_owned(), String::new());
                labels.insert(UPDATE.to_owned(), self.name.to_owned());
                let created = self.api.create(&post, &update).await;
                let created = created.map_err(|source| self.failed("create", "", source))?;
                self.log_action("created update pod to resolve the tag", &created.name_any());
            }
            PodAction::Promote(name) => {
                let labels = json!({"metadata": {"labels": {CATALOG: self.name, UPDATE: null}}});
                self.patch(&name, &labels).await?;
                self.log_action("promoted update pod to registry pod", &name);
            }
            PodAction::Delete(name, grace) => {
                let params = DeleteParams::default().grace_period(grace);
                match self.api.delete(&name, &params).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(source) => return Err(self.failed("delete", &name, source)),
                    Ok(_) => self.log_action("deleted registry pod", &name),
                }
            }
        }
        Ok(())
    }

    /// Copies changed annotations of the catalog to its current pods, and removes those that the catalog no longer has.
    /// Failures are only logged, because a pod with old annotations serves as well.
    async fn annotate(&self, pods: &[Pod], declared: &Pod, hash: &str) {
        for pod in pods {
            let is_current = pod
                .labels()
                .get(POD_HASH)
                .is_some_and(|pod_hash| pod_hash == hash);
            let changes = diff::annotations(pod.annotations(), declared.annotations());
            if !is_current || changes.is_empty() || pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let annotations = json!({"metadata": {"annotations": changes}});
            if let Err(error) = self.patch(&pod.name_any(), &annotations).await {
                let problem = api_error::chain(&error);
                let catalog = format!("{}/{}", self.namespace, self.name);
                warn!(
                    catalog,
                    error = problem,
                    "failed to copy the annotations of a catalog to its pod"
                );
            }
        }
    }

    /// Patches a pod. A deleted pod is not an error.
    async fn patch(&self, name: &str, patch: &serde_json::Value) -> Result<(), Error> {
        let params = PatchParams::default();
        match self.api.patch(name, &params, &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(self.failed("patch", name, source)),
            Ok(_) => Ok(()),
        }
    }

    fn failed(&self, action: &'static str, name: &str, source: kube::Error) -> Error {
        let name = if name.is_empty() { self.name } else { name };
        failed::<Pod>(action, (self.namespace, name), source)
    }

    fn log_action(&self, message: &str, pod: &str) {
        info!(catalog = %format!("{}/{}", self.namespace, self.name), pod, "{message}");
    }
}

/// Returns the live object. An object that has another owner is an error.
async fn owned<K>(client: &Client, desired: &K) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let (namespace, name) = (desired.namespace().unwrap_or_default(), desired.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let live = api.get_opt(&name).await;
    let live = live.map_err(|source| failed::<K>("get", (&namespace, &name), source))?;
    let owner = desired
        .owner_references()
        .first()
        .map(|owner| owner.uid.clone());
    let is_owned = |object: &K| {
        let mut owners = object.owner_references().iter();
        owners.any(|reference| Some(&reference.uid) == owner.as_ref())
    };
    if live.as_ref().is_some_and(|object| !is_owned(object)) {
        return Err(Error::NameConflict {
            kind: K::kind(&()).into_owned(),
            name: format!("{namespace}/{name}"),
        });
    }
    Ok(live)
}

/// Creates an object if it does not exist, and repairs it if it has drifted. Returns the resulting object.
async fn ensure<K>(
    client: &Client,
    desired: K,
    repair: fn(&K, &K) -> Option<K>,
    has_written: &mut bool,
) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let (namespace, name) = (desired.namespace().unwrap_or_default(), desired.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let fail = |action| {
        let full_name = (namespace.clone(), name.clone());
        move |source| failed::<K>(action, (&full_name.0, &full_name.1), source)
    };
    let Some(live) = owned(client, &desired).await? else {
        let created = api.create(&PostParams::default(), &desired).await;
        let created = created.map_err(fail("create"))?;
        *has_written = true;
        return Ok(created);
    };
    match repair(&live, &desired) {
        None => Ok(live),
        Some(repaired) => {
            info!(kind = %K::kind(&()), namespace, name, "repaired object of a registry pod");
            let replaced = api.replace(&name, &PostParams::default(), &repaired).await;
            let replaced = replaced.map_err(fail("update"))?;
            *has_written = true;
            Ok(replaced)
        }
    }
}

pub(super) fn failed<K: Resource<DynamicType = ()>>(
    action: &'static str,
    (namespace, name): (&str, &str),
    source: kube::Error,
) -> Error {
    Error::Api {
        action,
        kind: K::kind(&()).into_owned(),
        name: format!("{namespace}/{name}"),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_is_not_polled_for_the_digest_of_a_ready_pod() {
        let pod = |is_ready: bool, hash: &str, digest: &str| {
            let digest = Some(digest.to_owned());
            with!(PodObservation, is_ready, hash: hash.to_owned(), digest)
        };
        let (ready, starting) = (pod(true, "h", "a"), pod(false, "h", "b"));
        let all = [ready, starting, pod(true, "old", "c")];
        let digest = |digest: &str| TagPoll::Digest(digest.to_owned());
        assert_each!(|poll, expected| needs_update_pod(&poll, &all, "h") => expected;
            TagPoll::Handled => false;
            TagPoll::Failed => true;
            digest("a") => false;
            digest("b") => true;
            digest("c") => true;
            digest("d") => true;
        );
    }

    #[test]
    fn each_poll_is_handled_once_and_failed_ones_once_per_interval() {
        let (over, rest) = (Duration::ZERO, Duration::from_secs(5));
        let digest = || TagPoll::Digest("a".to_owned());
        assert_each!(|poll, checked, left, expected| poll.due_in(left, checked) => expected;
            TagPoll::Handled, None, over => None;
            digest(), None, over => Some(over);
            digest(), Some("b"), rest => Some(over);
            digest(), Some("a"), rest => Some(rest);
            digest(), Some("a"), over => Some(over);
            TagPoll::Failed, None, over => Some(over);
            TagPoll::Failed, None, rest => Some(rest);
        );
    }
}
