//! Does what was decided about the pod of a catalog, and keeps what belongs to it as it was declared.

use std::{fmt::Debug, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{LocalObjectReference, Namespace, Pod, Service},
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
    Around, Invalid, Wanted,
    decide::{Act, Decision, Seen, State, decide},
    declare::{CATALOG, Objects, POD_HASH, UPDATE, objects},
    repair,
};

/// Says how much pods may do in a namespace.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce";

/// Why the pod of a catalog is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There can be none.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Something else has the name.
    #[error(
        "{kind} {name} is not of this catalog, and would be needed for its pod; remove it, or give the catalog another name"
    )]
    Taken {
        /// Its kind.
        kind: String,
        /// Its name, with the namespace.
        name: String,
    },
    /// The cluster does not let us.
    #[error("couldn't ensure registry server - failed to {action} {kind} {name}")]
    Api {
        /// What was attempted.
        action: &'static str,
        /// The object's kind.
        kind: String,
        /// Its name, with the namespace.
        name: String,
        /// What the API server says.
        #[source]
        source: kube::Error,
    },
    /// The image cannot be asked for what it is.
    #[error(
        "couldn't ensure registry server - it is not known in which folder of the image the catalog is; let the \
         provisioner pull the image, or name the folder in extractContent.catalogDir"
    )]
    Image(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The cluster does not say what it is.
    #[error("couldn't ensure registry server - failed to see whether this is an OpenShift")]
    Cluster(#[source] kube::Error),
    /// Nobody knows what the namespace allows.
    #[error("error fetching defaultNamespace: {0}")]
    Namespace(#[source] kube::Error),
}

// === impl Error ===

impl Error {
    /// Reports whether it is a right that is missing.
    pub(in crate::catalogs) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(status), .. } if status.code == 403)
    }

    /// Reports whether it stays as it is until somebody does something about it.
    pub(in crate::catalogs) fn is_for_good(&self) -> bool {
        self.is_forbidden() || matches!(self, Self::Invalid(_) | Self::Taken { .. })
    }
}

/// How a catalog is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The Service that leads to it.
    pub service: String,
    /// Whether it does.
    pub state: State,
    /// What is wrong although it may be served.
    pub trouble: Option<String>,
    /// How the image is that the tag names, if a pod has just shown it.
    pub judged: Option<Result<(), String>>,
    /// Whether an update pod was made: since then the registry was asked.
    pub asked: bool,
    /// When to look again although nothing changes.
    pub again: Option<Duration>,
}

/// Reports whether a namespace takes restricted pods only.
///
/// # Errors
/// When it cannot be read.
pub async fn is_restricted(client: &Client, namespace: &str) -> Result<bool, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_metadata(namespace).await;
    let found = found.map_err(Error::Namespace)?;
    Ok(found
        .labels()
        .get(ENFORCED)
        .is_some_and(|it| it == "restricted"))
}

/// Why it is time to see what an image's tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks<'a> {
    /// Only a node can tell.
    Anyway,
    /// The registry says that it is this digest, unless a pod that is ready has that by now.
    For(&'a str),
}

/// Makes and repairs the objects of a catalog, and does what is to be done about its pods. `asks` says whether it is time to
/// see what the image's tag is. As long as no pod is ready, a Service stays that leads to the catalog server. `has_written`
/// becomes true where anything had to be made or repaired, also where that fails later.
///
/// # Errors
/// When the catalog cannot have a pod, or the cluster does not let it have one.
pub async fn keep(
    client: &Client,
    wanted: &Wanted<'_>,
    around: &Around<'_>,
    asks: Option<Asks<'_>>,
    now: Timestamp,
    has_written: &mut bool,
) -> Result<Kept, Error> {
    let Objects {
        account,
        service,
        policies,
        mut pod,
    } = objects(wanted, around)?;
    let name = service.name_any();
    let account = ensure(client, account, repair::account, has_written).await?;
    for policy in policies {
        ensure(client, policy, repair::policy, has_written).await?;
    }
    let before = owned(client, &service).await?;
    let keeper = Keeper::new(client, wanted);
    let there = keeper.pods().await?;
    let hash = pod.labels().get(POD_HASH).cloned().unwrap_or_default();
    let seen: Vec<Seen> = there.iter().map(Seen::of).collect();
    let Decision {
        acts,
        state,
        trouble,
        judged,
        again,
    } = decide(&seen, &hash, asks_for(asks, &seen, &hash), now);
    add_secrets(&mut pod, account.image_pull_secrets.unwrap_or_default());
    let asked = acts.contains(&Act::Ask);
    for act in acts {
        let makes = act == Act::Make;
        keeper.act(act, &pod).await?;
        *has_written |= makes;
    }
    keeper.annotate(&there, &pod, &hash).await;
    let leads_elsewhere = before.is_some_and(|it| is_of_server(&it));
    if !leads_elsewhere || matches!(state, State::Serving(_)) {
        ensure(client, service, repair::service, has_written).await?;
    }
    Ok(Kept {
        service: name,
        state,
        trouble,
        judged,
        asked,
        again,
    })
}

/// Reports whether a pod has to tell what the tag is.
fn asks_for(asks: Option<Asks<'_>>, pods: &[Seen], hash: &str) -> bool {
    let has = |it: &Seen, digest: &str| {
        it.is_ready && it.hash == hash && it.digest.as_deref() == Some(digest)
    };
    match asks {
        None => false,
        Some(Asks::Anyway) => true,
        Some(Asks::For(digest)) => !pods.iter().any(|it| has(it, digest)),
    }
}

/// Reports whether a Service leads to the catalog server, which serves the catalog until a pod does.
fn is_of_server(service: &Service) -> bool {
    let has = |label| service.labels().contains_key(label);
    has(labels::CATALOG) && !has(labels::CATALOG_POD)
}

/// Those that others have given to the account, too, as OpenShift does for its own registry. They are no reason for
/// another pod.
fn add_secrets(pod: &mut Pod, of_account: Vec<LocalObjectReference>) {
    let Some(spec) = pod.spec.as_mut() else {
        return;
    };
    let secrets = spec.image_pull_secrets.get_or_insert_default();
    for secret in of_account {
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
}

/// The pods that are there of a catalog.
pub(super) async fn pods(client: &Client, wanted: &Wanted<'_>) -> Result<Vec<Pod>, Error> {
    Keeper::new(client, wanted).pods().await
}

/// The pods of one catalog.
pub(super) struct Keeper<'a> {
    api: Api<Pod>,
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
}

// === impl Keeper ===

impl<'a> Keeper<'a> {
    pub(super) fn new(client: &Client, wanted: &Wanted<'a>) -> Self {
        let metadata = &wanted.source.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            api: Api::namespaced(client.clone(), namespace),
            name: metadata.name.as_deref().unwrap_or_default(),
            namespace,
            uid: metadata.uid.as_deref().unwrap_or_default(),
        }
    }

    /// Those of this very catalog: others go with the one that they were of.
    pub(super) async fn pods(&self) -> Result<Vec<Pod>, Error> {
        let mut pods = Vec::new();
        for label in [CATALOG, UPDATE] {
            let params = ListParams::default().labels(&format!("{label}={}", self.name));
            let found = self.api.list(&params).await;
            pods.extend(found.map_err(|source| self.failed("list", "", source))?);
        }
        let is_ours = |it: &Pod| {
            let is_owned = it.owner_references().iter().any(|it| it.uid == self.uid);
            is_owned && it.labels().contains_key(labels::CATALOG_POD)
        };
        pods.retain(is_ours);
        Ok(pods)
    }

    pub(super) async fn act(&self, act: Act, pod: &Pod) -> Result<(), Error> {
        let post = PostParams::default();
        match act {
            Act::Make => {
                let made = self.api.create(&post, pod).await;
                let made = made.map_err(|source| self.failed("create", "", source))?;
                self.tell("made the pod of a catalog", &made.name_any());
            }
            Act::Ask => {
                let mut update = pod.clone();
                let labels = update.labels_mut();
                labels.insert(CATALOG.to_owned(), String::new());
                labels.insert(UPDATE.to_owned(), self.name.to_owned());
                let made = self.api.create(&post, &update).await;
                let made = made.map_err(|source| self.failed("create", "", source))?;
                self.tell(
                    "made an update pod to see what the tag is",
                    &made.name_any(),
                );
            }
            Act::Promote(name) => {
                let labels = json!({"metadata": {"labels": {CATALOG: self.name, UPDATE: null}}});
                self.patch(&name, &labels).await?;
                self.tell("an update pod serves from now on", &name);
            }
            Act::Delete(name, grace) => {
                let params = DeleteParams::default().grace_period(grace);
                match self.api.delete(&name, &params).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(source) => return Err(self.failed("delete", &name, source)),
                    Ok(_) => self.tell("deleted a pod of a catalog", &name),
                }
            }
        }
        Ok(())
    }

    /// Pods that are as they should be get what annotations the catalog has got since, and lose those that it has lost. A
    /// pod that does not take them serves as well.
    async fn annotate(&self, there: &[Pod], declared: &Pod, hash: &str) {
        for pod in there {
            let is_it = pod.labels().get(POD_HASH).is_some_and(|it| it == hash);
            let due = repair::annotations(pod.annotations(), declared.annotations());
            if !is_it || due.is_empty() || pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let annotations = json!({"metadata": {"annotations": due}});
            if let Err(error) = self.patch(&pod.name_any(), &annotations).await {
                let why = unpacker::job::chain(&error);
                let catalog = format!("{}/{}", self.namespace, self.name);
                warn!(
                    catalog,
                    error = why,
                    "the annotations of a catalog do not reach its pod"
                );
            }
        }
    }

    /// What is gone meanwhile is no matter.
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

    fn tell(&self, what: &str, pod: &str) {
        info!(catalog = %format!("{}/{}", self.namespace, self.name), pod, "{what}");
    }
}

/// What is there of an object, if it is of the same owner.
async fn owned<K>(client: &Client, wanted: &K) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let there = api.get_opt(&name).await;
    let there = there.map_err(|source| failed::<K>("get", (&namespace, &name), source))?;
    let owner = wanted.owner_references().first().map(|it| it.uid.clone());
    let is_owned = |there: &K| {
        let mut owners = there.owner_references().iter();
        owners.any(|it| Some(&it.uid) == owner.as_ref())
    };
    if there.as_ref().is_some_and(|it| !is_owned(it)) {
        return Err(Error::Taken {
            kind: K::kind(&()).into_owned(),
            name: format!("{namespace}/{name}"),
        });
    }
    Ok(there)
}

/// An object as it is declared: made if it is not there, repaired if it has been changed.
async fn ensure<K>(
    client: &Client,
    wanted: K,
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
    let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let fail = |action| {
        let place = (namespace.clone(), name.clone());
        move |source| failed::<K>(action, (&place.0, &place.1), source)
    };
    let Some(there) = owned(client, &wanted).await? else {
        let made = api.create(&PostParams::default(), &wanted).await;
        let made = made.map_err(fail("create"))?;
        *has_written = true;
        return Ok(made);
    };
    match repair(&there, &wanted) {
        None => Ok(there),
        Some(repaired) => {
            info!(kind = %K::kind(&()), namespace, name, "repaired what belongs to the pod of a catalog");
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
    fn nobody_is_asked_for_what_a_pod_that_is_ready_has() {
        let pod = |is_ready: bool, hash: &str, digest: &str| {
            let digest = Some(digest.to_owned());
            with!(Seen, is_ready, hash: hash.to_owned(), digest)
        };
        let all = [
            pod(true, "h", "a"),
            pod(false, "h", "b"),
            pod(true, "old", "c"),
        ];
        for (asks, expected) in [
            (None, false),
            (Some(Asks::Anyway), true),
            (Some(Asks::For("a")), false),
            (Some(Asks::For("b")), true),
            (Some(Asks::For("c")), true),
            (Some(Asks::For("d")), true),
        ] {
            assert_eq!(asks_for(asks, &all, "h"), expected, "{asks:?}");
        }
    }
}
