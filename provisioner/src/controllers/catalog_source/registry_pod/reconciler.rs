//! Reconciler of one registry pod: reconciles its objects, and compares its image with polls of the tag.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Client, ResourceExt as _};
use manifests::{
    api::catalog_source::{CatalogSource, Origin},
    content::normalize,
    image::Reference,
};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use unpacker::{image, source::Image};

use super::{
    super::{CatalogKey, pull_secrets, server_backoff::ServerBackoff},
    Invalid, Options, PodEnvironment, PodServer, RegistryPodSpec,
    apply::{Error, RegistryPodClient, RegistryPodState, TagPoll, is_restricted, reconcile},
    manifest::CONTAINER,
    plan::{PodObservation, PodPresence, PodServingState},
};
use crate::controllers::context::Context;

/// Labels of an image with the location of its catalog: the directory of a file-based catalog, or an SQLite database.
const LABELS: [&str; 2] = [
    "operators.operatorframework.io.index.configs.v1",
    "operators.operatorframework.io.index.database.v1",
];
/// Interval of reconciles without a change. It is needed for the namespace's Pod Security Standard, which is not watched.
const RESYNC_INTERVAL: Duration = Duration::from_secs(600);
/// Delay until unreadable image labels are read again, if a pod exists.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout for reading the labels from the registry.
const LABEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Configuration of the registry pod of one catalog.
#[derive(Debug)]
pub struct RegistryPodConfig {
    /// Latest version of the CatalogSource. Annotations that are added later are copied to its pod.
    pub source: watch::Receiver<Arc<CatalogSource>>,
    /// Image of the catalog.
    pub image: String,
    /// Poll interval of the image's tag.
    pub poll: Option<Duration>,
    /// Polls of the tag.
    pub polls: watch::Receiver<TagPoll>,
}

/// Reports whether a catalog gets a registry pod: it sets pod options, or all catalogs get one.
pub fn needs_pod(pod: Option<&Value>, all: bool) -> bool {
    let has_options = |value: &Value| {
        !value.is_null() && value.as_object().is_none_or(|object| !object.is_empty())
    };
    all || pod.is_some_and(has_options)
}

/// Location of the catalog in its image.
#[derive(Debug, PartialEq, Eq)]
enum CatalogDir {
    /// The labels have not been read yet.
    Unknown,
    /// Path from a label or an existing pod.
    Path(String),
    /// The image has no such label.
    Unlabeled,
}

/// Reconciler of the registry pod of one catalog. Data from the registry is kept between reconciles.
pub struct RegistryPodReconciler {
    ctx: Context,
    config: RegistryPodConfig,
    /// The followed CatalogSource, with its latest annotations.
    source: Arc<CatalogSource>,
    catalog_dir: CatalogDir,
    /// True if `catalog_dir` was taken from an existing pod, because the labels could not be read.
    is_assumed: bool,
    /// True if the tag may name another image than the one whose labels were read.
    labels_may_be_stale: bool,
    /// Problem with the image that the tag names, until a working one is found.
    image_problem: Option<String>,
    /// Last poll that was not compared with the pods yet.
    pending_poll: TagPoll,
    /// Digest of the last poll that was compared with the pods.
    checked: Option<String>,
    /// Time of the last check of the tag.
    last_check: Option<Timestamp>,
    /// Digest of the image that is being served.
    digest: Option<String>,
    backoff: ServerBackoff,
    /// True if the last reconcile has created or repaired objects.
    has_written: bool,
}

// === impl RegistryPodReconciler ===

impl RegistryPodReconciler {
    /// Creates a reconciler that has read nothing yet.
    pub fn new(ctx: Context, mut config: RegistryPodConfig) -> Self {
        let source = Arc::clone(&config.source.borrow_and_update());
        let last_check = last_asked(&source, (ctx.now)());
        Self {
            ctx,
            config,
            source: Arc::clone(&source),
            catalog_dir: CatalogDir::Unknown,
            is_assumed: false,
            labels_may_be_stale: false,
            image_problem: None,
            pending_poll: TagPoll::default(),
            checked: None,
            last_check,
            digest: None,
            backoff: ServerBackoff::default(),
            has_written: false,
        }
    }

    fn key(&self) -> CatalogKey {
        CatalogKey {
            namespace: self.source.namespace().unwrap_or_default(),
            name: self.source.name_any(),
        }
    }

    /// Uses the latest annotations from now on. Any other change of the CatalogSource creates a new reconciler.
    fn take_annotations(&mut self) {
        let latest = Arc::clone(&self.config.source.borrow_and_update());
        let (new, old) = (&latest.metadata, &self.source.metadata);
        let is_same = new.uid == old.uid && latest.spec == self.source.spec;
        if is_same && new.annotations != old.annotations {
            self.source = latest;
        }
    }

    /// Stores the latest poll of the tag, if it is new.
    fn update_poll(&mut self) {
        let latest = self.config.polls.borrow_and_update();
        if latest.has_changed() {
            self.pending_poll = latest.clone();
        }
    }

    /// Returns the current time of the context.
    pub(super) fn now(&self) -> Timestamp {
        (self.ctx.now)()
    }

    /// Reports whether the last reconcile has created or repaired objects.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Reconciles the objects of the pod, and checks the tag of the image if that is due. Cancellation ends the wait for the
    /// registry, but not the writes. Otherwise, a pod could be created after the caller has listed the pods to remove.
    ///
    /// # Errors
    /// Returns an error if the catalog cannot have a pod, if its image cannot be read, if the API server rejects a request,
    /// or if `cancel` is cancelled before the first write.
    pub async fn reconcile(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<RegistryPodState, Error> {
        self.has_written = false;
        self.take_annotations();
        self.update_poll();
        let (ctx, source) = (self.ctx.clone(), Arc::clone(&self.source));
        let (field, pod) = pod_options(&source);
        let options = Options::read(field, pod)?;
        let namespace = source.namespace().unwrap_or_default();
        let is_openshift = ctx.versions.openshift().await;
        let environment = PodEnvironment {
            program: &ctx.settings.jobs.image,
            is_restricted: is_restricted(&ctx.client, &namespace).await?,
            chooses_users: is_openshift.map_err(Error::Cluster)?.is_some(),
        };
        let now = self.now();
        let is_due = self.until_due(now) == Some(Duration::ZERO);
        let can_compare = is_due && self.digest.is_some();
        let is_same = match &self.pending_poll {
            TagPoll::Digest(digest) => can_compare && self.digest.as_ref() == Some(digest),
            TagPoll::Handled | TagPoll::Failed => false,
        };
        if options.extract_content.is_none() {
            let reading = Box::pin(self.read_labels(&options, can_compare && !is_same));
            cancel.run_until_cancelled(reading).await.transpose()?;
        }
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let content = match &self.catalog_dir {
            CatalogDir::Path(path) => PodServer::BuiltIn(path),
            CatalogDir::Unknown | CatalogDir::Unlabeled => PodServer::Entrypoint,
        };
        let desired = desired(&source, &self.config.image, &options, content);
        let poll = if can_compare && !is_same {
            &self.pending_poll
        } else {
            &TagPoll::Handled
        };
        let mut has_written = false;
        let result = reconcile(
            &ctx.client,
            &desired,
            &environment,
            poll,
            now,
            &mut has_written,
        )
        .await;
        self.has_written = has_written;
        let mut pod_state = result?;
        pod_state.asked |= is_same;
        if pod_state.asked {
            self.last_check = Some(now);
            if let TagPoll::Digest(digest) = &self.pending_poll {
                self.checked = Some(digest.clone());
                self.pending_poll = TagPoll::Handled;
            }
        }
        if is_same {
            self.image_problem = None;
        }
        self.labels_may_be_stale = pod_state.trouble.is_some();
        pod_state.trouble = problem_to_report(
            &mut self.image_problem,
            pod_state.judged.take(),
            pod_state.trouble.take(),
        );
        let digest = match &pod_state.state {
            PodServingState::Serving(digest) => digest.clone(),
            PodServingState::Starting(_) => None,
        };
        // The tag can be compared as soon as the serving digest is known.
        if is_due && self.digest.is_none() && digest.is_some() {
            pod_state.again = Some(Duration::ZERO);
        }
        if self.is_assumed {
            pod_state.again = Some(
                pod_state
                    .again
                    .map_or(RETRY_INTERVAL, |delay| delay.min(RETRY_INTERVAL)),
            );
        }
        self.digest = digest;
        self.backoff.reset();
        Ok(pod_state)
    }

    /// Reads the location of the catalog from the image's labels, and again if the tag may name another image. If the
    /// labels are unavailable, for example after a restart during a registry outage, the location is taken from an
    /// existing pod.
    async fn read_labels(&mut self, options: &Options, is_other_image: bool) -> Result<(), Error> {
        let is_pinned = self.config.image.contains('@');
        let is_stale = (is_other_image || self.labels_may_be_stale) && !is_pinned;
        let is_unread = matches!(self.catalog_dir, CatalogDir::Unknown);
        if !is_unread && !self.is_assumed && !is_stale {
            return Ok(());
        }
        self.labels_may_be_stale = false;
        let error = match self.labeled_dir().await {
            Ok(catalog_dir) => {
                self.catalog_dir = catalog_dir;
                self.is_assumed = false;
                return Ok(());
            }
            Err(error) => error,
        };
        if is_unread {
            let desired = desired(
                &self.source,
                &self.config.image,
                options,
                PodServer::Entrypoint,
            );
            let pods = RegistryPodClient::new(&self.ctx.client, &desired);
            let pods = pods.pods().await?;
            let Some(catalog_dir) = place_in(&pods, &self.config.image) else {
                return Err(error);
            };
            self.catalog_dir = catalog_dir;
            self.is_assumed = true;
        }
        // A node may still be able to pull the image.
        let problem = api_error::chain(&error);
        warn!(
            catalog = %self.key(),
            error = problem,
            "failed to read the labels of a catalog image; its pod is kept unchanged"
        );
        Ok(())
    }

    /// Returns the time until the next check of the tag, or `None` if the tag is not polled or the next poll is awaited.
    fn until_due(&mut self, now: Timestamp) -> Option<Duration> {
        let poll = self.config.poll?;
        let passed = since_check(&mut self.last_check, now).unwrap_or(poll);
        let left = poll.saturating_sub(passed);
        self.pending_poll.due_in(left, self.checked.as_deref())
    }

    /// Returns the delay until the next reconcile if no object changes.
    pub fn next_delay(&mut self, result: &Result<RegistryPodState, Error>) -> Duration {
        let Ok(pod_state) = result else {
            return self.backoff.next_delay(Instant::now());
        };
        let now = self.now();
        let due = self.until_due(now);
        let all = [
            Some(RESYNC_INTERVAL),
            pod_state.again,
            due.filter(|delay| !delay.is_zero()),
        ];
        all.into_iter().flatten().min().unwrap_or(RESYNC_INTERVAL)
    }

    /// Returns the location of the catalog that the labels of the image name.
    async fn labeled_dir(&self) -> Result<CatalogDir, Error> {
        let reference: Reference =
            self.config
                .image
                .parse()
                .map_err(|problem| Invalid::Option {
                    field: "the catalog's image".to_owned(),
                    problem: format!("{problem}"),
                })?;
        let access = pull_secrets::load(&self.ctx, &self.key(), &self.source).await;
        let access = access.map_err(|error| Error::Image(Box::new(error)))?;
        let image = Image {
            reference,
            platform: None,
        };
        let request = Box::pin(image::labels(&image, &access));
        let labels = timeout(LABEL_TIMEOUT, request).await;
        let labels = labels.map_err(|error| Error::Image(Box::new(error)))?;
        Ok(place(
            &labels.map_err(|error| Error::Image(Box::new(error)))?,
        )?)
    }
}

fn desired<'a>(
    source: &'a CatalogSource,
    image: &'a str,
    options: &'a Options,
    content: PodServer<'a>,
) -> RegistryPodSpec<'a> {
    RegistryPodSpec {
        source,
        image,
        options,
        content,
    }
}

/// Returns the time of the last check of the tag from the status, or else the creation time of the CatalogSource. Because
/// of clock skew, and because other clients can write the status, a time in the future is replaced by the current time.
fn last_asked(source: &CatalogSource, now: Timestamp) -> Option<Timestamp> {
    let status = source.status.as_ref();
    let asked = status.and_then(|status| status.latest_image_registry_poll.as_ref());
    let asked = asked.or(source.metadata.creation_timestamp.as_ref());
    asked.map(|time| time.0.min(now))
}

/// Returns the time since the last check of the tag. If the clock is set back, the check counts as one that was made now,
/// and the interval starts again.
fn since_check(last_check: &mut Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let last_check = last_check.as_mut()?;
    *last_check = now.min(*last_check);
    Some(Duration::try_from(now.duration_since(*last_check)).unwrap_or_default())
}

/// Returns the location of the catalog in the existing pods of an image. A ready pod takes precedence.
fn place_in(pods: &[Pod], image: &str) -> Option<CatalogDir> {
    containers(pods).find_map(|(is_present, container)| {
        if !is_present || container.image.as_deref() != Some(image) {
            return None;
        }
        if container.command.is_none() {
            return Some(CatalogDir::Unlabeled);
        }
        let path = container.args.as_ref()?.get(1)?;
        Some(CatalogDir::Path(path.clone()))
    })
}

/// Returns the image of the existing pod of a catalog, or `None` if it has no pod. A ready pod takes precedence, and a
/// terminating one is used if the catalog has no other.
///
/// # Errors
/// Returns an error if the API server rejects a request.
pub async fn served_image(
    client: &Client,
    source: &CatalogSource,
) -> Result<Option<String>, Error> {
    let options = Options::default();
    let desired = desired(source, "", &options, PodServer::Entrypoint);
    let pods = RegistryPodClient::new(client, &desired).pods().await?;
    Ok(image_of(&pods))
}

fn image_of(pods: &[Pod]) -> Option<String> {
    containers(pods).find_map(|(_, container)| container.image.clone())
}

/// Returns the containers that serve the catalog, each with whether its pod is present: neither terminating nor lost. Present
/// pods come first, ready ones before others.
fn containers(pods: &[Pod]) -> impl Iterator<Item = (bool, &Container)> {
    let observed = pods.iter().map(|pod| (PodObservation::from_pod(pod), pod));
    let mut observed: Vec<_> = observed.collect();
    let is_present = |pod: &PodObservation| pod.presence == PodPresence::Present;
    observed.sort_by_key(|(pod, _)| (!is_present(pod), !pod.is_ready, pod.since));
    observed.into_iter().filter_map(move |(observed, pod)| {
        let mut containers = pod.spec.as_ref()?.containers.iter();
        let container = containers.find(|container| container.name == CONTAINER)?;
        Some((is_present(&observed), container))
    })
}

/// Returns the pod options of a CatalogSource and the path of their field.
fn pod_options(source: &CatalogSource) -> (&'static str, Option<&Value>) {
    let field = if source.spec.catalog_image_source.is_some() {
        "spec.catalogImageSource.podSpecOverrides"
    } else {
        "spec.grpcPodConfig"
    };
    match source.origin() {
        Ok(Origin::Image { pod, .. }) => (field, pod),
        _ => (field, None),
    }
}

/// Returns the problem to report: the current one, or the last problem with the image that the tag names. The latter is
/// kept until a pod shows that the image works.
fn problem_to_report(
    bad: &mut Option<String>,
    judged: Option<Result<(), String>>,
    now: Option<String>,
) -> Option<String> {
    match judged {
        Some(Ok(())) => *bad = None,
        Some(Err(problem)) => *bad = Some(problem),
        None => {}
    }
    now.or_else(|| bad.clone())
}

/// Returns the absolute path of the catalog that an image's labels name.
fn place(labels: &BTreeMap<String, String>) -> Result<CatalogDir, Invalid> {
    let label = LABELS
        .iter()
        .find_map(|&label| Some((label, labels.get(label).filter(|path| !path.is_empty())?)));
    let Some((label, path)) = label else {
        return Ok(CatalogDir::Unlabeled);
    };
    let relative = path.trim_start_matches('/');
    if matches!(relative.trim_end_matches('/'), "" | ".") {
        return Ok(CatalogDir::Path("/".to_owned()));
    }
    match normalize(relative) {
        Ok(path) => Ok(CatalogDir::Path(format!("/{path}"))),
        Err(problem) => Err(Invalid::Option {
            field: format!("the image's label {label}"),
            problem: problem.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests;
