//! The pod of one catalog for as long as it is to have one: kept, looked at whenever it changes, and asked now and then
//! whether the tag of its image has moved.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use manifests::{
    api::catalog_source::{CatalogSource, Origin},
    content::normalize,
    image::Reference,
};
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;
use unpacker::{Access, Source, image, source::Image};

use super::{
    super::{Key, access, patience::Patience},
    Around, Content, Invalid, Options, Wanted, Watches,
    decide::{Seen, State, Stay},
    declare::CONTAINER,
    keep::{Asks, Error, Kept, is_restricted, keep, pods},
    pace::Pace,
};
use crate::context::Context;

/// What an image's labels say of the catalog in it: the folder of a file-based one, or the database of an older one.
const LABELS: [&str; 2] = [
    "operators.operatorframework.io.index.configs.v1",
    "operators.operatorframework.io.index.database.v1",
];
/// What the namespace says of its pods is looked at so often, for nobody tells of that.
const LOOK: Duration = Duration::from_secs(600);
/// How soon labels that cannot be read are asked for again, although there is a pod.
const RETRY: Duration = Duration::from_secs(60);
/// How long a registry may take to tell them.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a registry may take to tell a tag's digest, before a node is asked.
const RESOLVE: Duration = Duration::from_secs(10);

/// A catalog with a pod of its own.
#[derive(Debug)]
pub struct Of<'a> {
    /// Its CatalogSource, always the newest: annotations that it gets later reach its pod.
    pub source: watch::Receiver<Arc<CatalogSource>>,
    /// Its image.
    pub image: &'a str,
    /// How often to see whether the tag of the image has moved.
    pub poll: Option<Duration>,
}

/// Reports whether a catalog has a pod of its own: it says something about it, or all catalogs have one.
pub fn has_own(pod: Option<&Value>, all: bool) -> bool {
    let says = |it: &Value| !it.is_null() && it.as_object().is_none_or(|it| !it.is_empty());
    all || pod.is_some_and(says)
}

/// Keeps the pod of a catalog, and tells each time how it is. It ends when it is dropped; the objects go with the
/// CatalogSource.
pub async fn follow(
    ctx: &Context,
    watches: &Watches,
    of: Of<'_>,
    mut told: impl FnMut(&Result<Kept, Error>),
) -> Infallible {
    let mut following = Following::new(ctx, of);
    let mut pods = watches.watch(&ctx.client, &following.key());
    loop {
        let kept = following.once().await;
        told(&kept);
        let left = following.wait(&kept);
        tokio::select! {
            () = sleep(left) => {}
            () = following.is_annotated() => {}
            () = pods.changed() => sleep(following.pace.rest(Instant::now())).await,
        }
    }
}

/// Where in its image the catalog is, as the labels say.
enum Place {
    /// They were not read yet.
    Unread,
    /// At this path.
    Path(String),
    /// They do not say it.
    Untold,
}

struct Following<'a> {
    ctx: &'a Context,
    of: Of<'a>,
    /// The one that is followed, with the newest annotations.
    source: Arc<CatalogSource>,
    place: Place,
    /// Whether that is what the pod that is there was made for, and the labels were not read.
    is_assumed: bool,
    /// Whether the image may be another one than that whose labels were read.
    is_doubtful: bool,
    /// What was wrong with the pod of the image that the tag names, until there is a good one.
    bad: Option<String>,
    /// When the registry was asked last.
    asked: Option<Timestamp>,
    /// The image that serves.
    digest: Option<String>,
    patience: Patience,
    pace: Pace,
}

// === impl Following ===

impl<'a> Following<'a> {
    fn new(ctx: &'a Context, mut of: Of<'a>) -> Self {
        let source = Arc::clone(&of.source.borrow_and_update());
        let asked = last_asked(&source, (ctx.now)());
        Self {
            ctx,
            of,
            source: Arc::clone(&source),
            place: Place::Unread,
            is_assumed: false,
            is_doubtful: false,
            bad: None,
            asked,
            digest: None,
            patience: Patience::default(),
            pace: Pace::default(),
        }
    }

    fn key(&self) -> Key {
        Key {
            namespace: self.source.namespace().unwrap_or_default(),
            name: self.source.name_any(),
        }
    }

    /// Takes the newest annotations. Whatever else changes is for another one to follow.
    fn look(&mut self) -> bool {
        let newest = Arc::clone(&self.of.source.borrow_and_update());
        let (now, was) = (&newest.metadata, &self.source.metadata);
        let is_same = now.uid == was.uid && newest.spec == self.source.spec;
        let is_news = is_same && now.annotations != was.annotations;
        if is_news {
            self.source = newest;
        }
        is_news
    }

    /// Waits for other annotations.
    async fn is_annotated(&mut self) {
        while self.of.source.changed().await.is_ok() {
            if self.look() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn once(&mut self) -> Result<Kept, Error> {
        self.look();
        let (ctx, source) = (self.ctx, Arc::clone(&self.source));
        let (field, pod) = said(&source);
        let options = Options::read(field, pod)?;
        let namespace = source.namespace().unwrap_or_default();
        let is_openshift = ctx.versions.openshift().await;
        let around = Around {
            program: &ctx.settings.jobs.image,
            is_restricted: is_restricted(&ctx.client, &namespace).await?,
            chooses_users: is_openshift.map_err(Error::Cluster)?.is_some(),
        };
        let now = (ctx.now)();
        let is_due = self.is_due(now);
        // One request tells what else would take a pod.
        let knows = is_due && self.digest.is_some();
        let named = if knows { self.now_named().await } else { None };
        let is_same = knows && named == self.digest;
        if options.extract_content.is_none() {
            self.read_labels(&options, knows && !is_same).await?;
        }
        let content = match &self.place {
            Place::Path(path) => Content::Ours(path),
            Place::Unread | Place::Untold => Content::Entrypoint,
        };
        let wanted = self.wanted(&source, &options, content);
        let asks = named.as_deref().map_or(Asks::Anyway, Asks::For);
        let asks = (knows && !is_same).then_some(asks);
        let mut has_written = false;
        let kept = keep(&ctx.client, &wanted, &around, asks, now, &mut has_written).await;
        if has_written {
            self.pace.has_written(Instant::now());
        }
        let mut kept = kept?;
        kept.asked |= is_same;
        if kept.asked {
            self.asked = Some(now);
        }
        if is_same {
            self.bad = None;
        }
        self.is_doubtful = kept.trouble.is_some();
        kept.trouble = told(&mut self.bad, kept.judged.take(), kept.trouble.take());
        let digest = match &kept.state {
            State::Serving(digest) => digest.clone(),
            State::Starting(_) => None,
        };
        // What the tag is now can be compared with it.
        if is_due && self.digest.is_none() && digest.is_some() {
            kept.again = Some(Duration::ZERO);
        }
        if self.is_assumed {
            kept.again = Some(kept.again.map_or(RETRY, |it| it.min(RETRY)));
        }
        self.digest = digest;
        self.patience.is_read();
        Ok(kept)
    }

    fn wanted<'b>(
        &'b self,
        source: &'b CatalogSource,
        options: &'b Options,
        content: Content<'b>,
    ) -> Wanted<'b> {
        Wanted {
            source,
            image: self.of.image,
            options,
            content,
        }
    }

    /// Reads in which folder the catalog is, and again where the tag may name another image by now. While nobody tells, as
    /// after a restart with the registry away, it is where the pod that is there has it.
    async fn read_labels(&mut self, options: &Options, is_other: bool) -> Result<(), Error> {
        let is_pinned = self.of.image.contains('@');
        let again = (is_other || self.is_doubtful) && !is_pinned;
        let is_unread = matches!(self.place, Place::Unread);
        if !is_unread && !self.is_assumed && !again {
            return Ok(());
        }
        self.is_doubtful = false;
        let error = match self.labeled().await {
            Ok(place) => {
                self.place = place;
                self.is_assumed = false;
                return Ok(());
            }
            Err(error) => error,
        };
        if is_unread {
            let wanted = self.wanted(&self.source, options, Content::Entrypoint);
            let pods = pods(&self.ctx.client, &wanted).await?;
            let Some(place) = place_in(&pods, self.of.image) else {
                return Err(error);
            };
            self.place = place;
            self.is_assumed = true;
        }
        // A node may know more than we do.
        let why = unpacker::job::chain(&error);
        warn!(catalog = %self.key(), error = why, "the labels of a catalog's image cannot be read, and its pod stays as it is");
        Ok(())
    }

    async fn labeled(&self) -> Result<Place, Error> {
        Ok(place(&self.labels().await?)?)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.until_due(now).is_some_and(|it| it.is_zero())
    }

    /// How long until the registry is to be asked.
    fn until_due(&self, now: Timestamp) -> Option<Duration> {
        // What is pinned stays what it is.
        let poll = self.of.poll.filter(|_| !self.of.image.contains('@'))?;
        let passed = self.asked.map_or(poll, |asked| {
            // Clocks differ: what was asked in the future was asked now.
            Duration::try_from(now.duration_since(asked)).unwrap_or_default()
        });
        Some(poll.saturating_sub(passed))
    }

    fn wait(&mut self, kept: &Result<Kept, Error>) -> Duration {
        let Ok(kept) = kept else {
            return self.patience.pause(Instant::now());
        };
        let due = self.until_due((self.ctx.now)());
        let all = [Some(LOOK), kept.again, due.filter(|it| !it.is_zero())];
        all.into_iter().flatten().min().unwrap_or(LOOK)
    }

    async fn access(&self) -> Result<(Image, Access), Error> {
        let reference: Reference = self.of.image.parse().map_err(|problem| Invalid::Option {
            field: "the catalog's image".to_owned(),
            problem: format!("{problem}"),
        })?;
        let access = access::of(self.ctx, &self.key(), &self.source).await;
        let access = access.map_err(|error| Error::Image(Box::new(error)))?;
        let platform = None;
        Ok((
            Image {
                reference,
                platform,
            },
            access,
        ))
    }

    async fn labels(&self) -> Result<BTreeMap<String, String>, Error> {
        let (image, access) = self.access().await?;
        let asking = Box::pin(image::labels(&image, &access));
        let labels = timeout(ANSWER, asking).await;
        let labels = labels.map_err(|error| Error::Image(Box::new(error)))?;
        labels.map_err(|error| Error::Image(Box::new(error)))
    }

    /// The digest that the tag names now, if the registry says it.
    async fn now_named(&self) -> Option<String> {
        let (image, access) = self.access().await.ok()?;
        let source = Source::Image(image);
        let resolving = Box::pin(unpacker::resolve(&source, &access));
        match timeout(RESOLVE, resolving).await {
            Ok(Ok(Source::Image(pinned))) => pinned.reference.digest().map(str::to_owned),
            _ => None,
        }
    }
}

/// When the registry was asked last, as far as the CatalogSource says it. Clocks differ, and anybody may have written that:
/// what was asked in the future was asked now, once and for all.
fn last_asked(source: &CatalogSource, now: Timestamp) -> Option<Timestamp> {
    let status = source.status.as_ref();
    let asked = status.and_then(|it| it.latest_image_registry_poll.as_ref());
    let asked = asked.or(source.metadata.creation_timestamp.as_ref());
    asked.map(|it| it.0.min(now))
}

/// Where the pod that is there has the catalog of this image; of several, one that serves.
fn place_in(pods: &[Pod], image: &str) -> Option<Place> {
    let of = |pod: &Pod| {
        let containers = pod.spec.as_ref().map(|it| it.containers.iter());
        let mut containers = containers.into_iter().flatten();
        let container = containers.find(|it| it.name == CONTAINER)?;
        if container.image.as_deref() != Some(image) {
            return None;
        }
        if container.command.is_none() {
            return Some(Place::Untold);
        }
        let path = container.args.as_ref()?.get(1)?;
        Some(Place::Path(path.clone()))
    };
    let seen = pods.iter().map(|pod| (Seen::of(pod), pod));
    let mut here: Vec<_> = seen.filter(|(it, _)| it.stay == Stay::Here).collect();
    here.sort_by_key(|(it, _)| (!it.is_ready, it.since));
    here.into_iter().find_map(|(_, pod)| of(pod))
}

/// What a CatalogSource says of its pod, and in which field.
fn said(source: &CatalogSource) -> (&'static str, Option<&Value>) {
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

/// What is wrong with a catalog: what is wrong now, or what was found out last of the image that its tag names, for as long
/// as nothing better is known of that.
fn told(
    bad: &mut Option<String>,
    judged: Option<Result<(), String>>,
    now: Option<String>,
) -> Option<String> {
    match judged {
        Some(Ok(())) => *bad = None,
        Some(Err(why)) => *bad = Some(why),
        None => {}
    }
    now.or_else(|| bad.clone())
}

/// The path that an image's labels name, absolute.
fn place(labels: &BTreeMap<String, String>) -> Result<Place, Invalid> {
    let label = LABELS
        .iter()
        .find_map(|&label| Some((label, labels.get(label).filter(|it| !it.is_empty())?)));
    let Some((label, path)) = label else {
        return Ok(Place::Untold);
    };
    let relative = path.trim_start_matches('/');
    if matches!(relative.trim_end_matches('/'), "" | ".") {
        return Ok(Place::Path("/".to_owned()));
    }
    match normalize(relative) {
        Ok(path) => Ok(Place::Path(format!("/{path}"))),
        Err(problem) => Err(Invalid::Option {
            field: format!("the image's label {label}"),
            problem: problem.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests;
