//! One catalog, from the moment its CatalogSource is seen to the moment it is gone.

mod config_map;
mod in_image;
mod own_pod;
mod served;
mod tell;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::source::Files;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::EventType;
use manifests::api::catalog_source::CatalogSource;
use tokio::{sync::watch, time::sleep};
use tracing::warn;
use unpacker::Digest;

use self::own_pod::Reading;
pub(super) use self::own_pod::Told;
use super::{
    Key,
    around::Around,
    image::{self, Loaded, Remembered, Unfit},
    known::Identity,
    patience::Patience,
    plan::{Plan, Way, is_still, plan},
    pods::Watches,
    report::{self, Report},
    serving::{self, Offerer, Serving},
    status::{Connection, Problem, Reason, Seen},
};
use crate::context::Context;

/// How often the removal of a pod is attempted before the status tells that it stays.
const TRIES: u32 = 4;

/// What following catalogs takes.
pub(super) struct Shared {
    pub(super) ctx: Context,
    pub(super) loaded: Loaded,
    pub(super) remembered: Remembered,
    pub(super) around: watch::Sender<Around>,
    /// By which catalogs are served, if they are.
    pub(super) serving: Option<Arc<Serving>>,
    /// Who tells of the pods of catalogs.
    pub(super) pods: Watches,
}

/// Follows a catalog until its sender is dropped. `conditions` are ours in its status.
pub(super) async fn follow(
    shared: Arc<Shared>,
    key: Key,
    source: watch::Receiver<Arc<CatalogSource>>,
    conditions: watch::Receiver<Vec<Condition>>,
) {
    let serving = shared.serving.as_ref();
    let serving = serving.filter(|it| it.serves(&key.namespace));
    let (reports, written) = watch::channel(None);
    let (pod, told) = watch::channel(None);
    let writing = {
        let (shared, key, source) = (Arc::clone(&shared), key.clone(), source.clone());
        let serving = serving.cloned();
        async move {
            let serving = serving.as_deref();
            let reports = (written, told);
            report::write_all(&shared.ctx, &key, serving, reports, source, conditions).await;
        }
    };
    let mut following = Following {
        offerer: serving.map(|it| Arc::new(it.offerer(&key))),
        counts: shared.ctx.settings.counts(&key.namespace),
        shared,
        key,
        source,
        patience: Patience::default(),
        was_asked: false,
        from: None,
        unfit: None,
        seen: Seen::default(),
        identity: None,
        has_pod: None,
        is_in_pod: false,
        pod,
        reports,
    };
    let following = async {
        // A download is a large future, and most of the time there is none.
        while Box::pin(following.once()).await.is_some() {}
    };
    tokio::select! {
        () = following => {}
        () = writing => {}
    }
}

struct Following {
    shared: Arc<Shared>,
    key: Key,
    source: watch::Receiver<Arc<CatalogSource>>,
    patience: Patience,
    /// By which the catalog is served, if it is.
    offerer: Option<Arc<Offerer>>,
    /// Whether platform operators choose from it.
    counts: bool,
    /// Whether its registry was asked since we run.
    was_asked: bool,
    /// From where it was read last.
    from: Option<String>,
    /// What its image is that cannot be used.
    unfit: Option<Unfit>,
    /// How it is, for its status.
    seen: Seen,
    /// What was followed last.
    identity: Option<Identity>,
    /// Whether it has a pod of its own, as far as that is known.
    has_pod: Option<bool>,
    /// Whether it is to have one.
    is_in_pod: bool,
    /// How that pod is.
    pod: watch::Sender<Option<Told>>,
    reports: watch::Sender<Option<Report>>,
}

// === impl Following ===

impl Following {
    /// Does what is to be done now, and waits until that may be something else. `None` is the end.
    async fn once(&mut self) -> Option<()> {
        let source = Arc::clone(&self.source.borrow_and_update());
        let (mut newer, mut changes) = (self.source.clone(), self.shared.around.subscribe());
        let since = self.patience.since(Instant::now());
        let noted = image::last(&self.shared.remembered, &source).await;
        let noted = noted.as_deref();
        let plan = plan(
            &source,
            &changes.borrow_and_update(),
            noted,
            since.elapsed(),
        );
        let planned = plan.clone();
        let other = async {
            loop {
                tokio::select! {
                    changed = newer.changed() => changed.ok()?,
                    Ok(()) = changes.changed() => {}
                }
                let now = Arc::clone(&newer.borrow_and_update());
                let around = changes.borrow_and_update();
                let planned = planned.as_ref();
                if !is_still(planned, &source, &now, &around, noted, since.elapsed()) {
                    return Some(());
                }
            }
        };
        let working = async {
            match plan {
                Some(plan) => Box::pin(self.work(&source, plan)).await,
                None => self.ask(&source).await,
            }
        };
        tokio::select! {
            () = working => Some(()),
            // Whatever is under way is of the past.
            there = other => {
                self.patience.gives_up(Instant::now());
                there
            }
        }
    }

    /// Waits until the cluster has been asked. Nothing is said of the CatalogSource meanwhile: what was said of it before may
    /// still be true.
    async fn ask(&self, source: &CatalogSource) {
        let (catalogs, of) = (&self.shared.ctx.catalogs, Identity::of(source));
        let why = "the cluster is being asked for what its template wants to know";
        catalogs.change(|known| known.trouble(&self.key, &of, why.to_owned()));
        pause(None).await;
    }

    async fn work(&mut self, source: &Arc<CatalogSource>, plan: Plan) {
        let identity = Identity::of(source);
        if self.identity.as_ref() != Some(&identity) {
            // What was seen of another catalog is not true of this one.
            self.seen = Seen::default();
            self.identity = Some(identity);
        }
        let image = plan.image.as_ref();
        self.seen.conditions = image.map_or_else(Vec::new, |it| it.conditions.clone());
        if plan.has_olm || image.is_some_and(|it| it.write.is_some()) {
            self.report(source, &plan);
        }
        if plan.has_olm {
            // It makes a Service of the same name.
            self.withdraw().await;
        }
        self.is_in_pod = plan.may_have_pod() && self.wants_pod(source);
        // With OLM none at all: it would take ours, with its labels, for one of its own.
        // Of an image and of a ConfigMap it goes when we serve them ourselves.
        let keeps_pod = !plan.has_olm && !matches!(plan.catalog, Way::Served(_) | Way::Never(_));
        if !keeps_pod {
            self.leave_pod(source).await;
        }
        if let Some(warning) = &plan.warning {
            self.tell(source, EventType::Warning, "ImageTemplate", warning)
                .await;
        }
        match &plan.catalog {
            Way::Never(why) => {
                self.seen = Seen {
                    problem: Some(Problem {
                        reason: Reason::SpecInvalid,
                        message: why.clone(),
                    }),
                    ..Seen::default()
                };
                self.withdraw().await;
                self.report(source, &plan);
                self.trouble(source, why.clone()).await;
                pause(None).await;
            }
            Way::Unresolved(unresolved) => match &unresolved.last {
                Some(last) if self.is_in_pod => {
                    self.in_pod(source, &plan, last, Reading::Last(unresolved))
                        .await;
                }
                // A pod that is there is of another template, and stays as it is.
                _ => {
                    if self.is_in_pod {
                        self.may_have_pod(source).await;
                    }
                    self.unresolved(source, &plan, unresolved).await;
                }
            },
            Way::Wait { why, left } => {
                let (catalogs, of) = (&self.shared.ctx.catalogs, Identity::of(source));
                catalogs.change(|known| known.trouble(&self.key, &of, why.clone()));
                pause(Some(*left)).await;
            }
            Way::Served(address) => {
                self.withdraw().await;
                sleep(self.patience.rest(Instant::now())).await;
                self.patience.asks();
                match self.served(source, &plan, address).await {
                    // Not at once: there may be servers that end each connection.
                    Ok(()) => {
                        self.is_served(source, &plan, address, Connection::Connecting);
                        let rest = self.patience.pause(Instant::now());
                        pause(Some(rest)).await;
                    }
                    Err(error) => {
                        let why = unpacker::job::chain(&error);
                        self.seen.problem = Some(Problem {
                            reason: Reason::RegistryServer,
                            message: format!("couldn't connect to registry - {why}"),
                        });
                        self.is_served(source, &plan, address, Connection::Failing);
                        let rest = self.patience.pause(Instant::now());
                        self.failed(source, &error, rest).await;
                    }
                }
            }
            Way::ConfigMap(name) => self.config_map(source, &plan, name).await,
            Way::Image { reference, poll } if self.is_in_pod => {
                let reading = Reading::Tag(poll.as_ref());
                self.in_pod(source, &plan, reference, reading).await;
            }
            Way::Image { reference, poll } => {
                self.image(source, &plan, reference, poll.as_ref()).await;
            }
        }
    }

    /// Serves what was read, where no OLM does. A pod that has served it goes when that is done.
    async fn offer<F>(
        &mut self,
        source: &CatalogSource,
        digest: Digest,
        files: F,
    ) -> Result<(), serving::Error>
    where
        F: FnOnce() -> Result<Box<dyn Files + Send>, serving::Error> + Send + 'static,
    {
        if self.is_in_pod {
            return Ok(()); // which serves it
        }
        let has_olm = self.shared.around.borrow().has_olm;
        let Some(offerer) = self.offerer.as_ref().filter(|_| !has_olm) else {
            self.withdraw().await;
            return Ok(());
        };
        match offerer.offer(source, digest, files).await {
            Ok(_) => {
                let left = self.try_to_leave_pod(source, Some(TRIES)).await;
                left.map_err(|error| {
                    let why = unpacker::job::chain(&error);
                    serving::Error::Told(format!("the pod that has served it stays: {why}"))
                })
            }
            // What leads to the catalog is tried again by who serves it; but a pod goes only when that was done.
            Err(serving::Error::Told(_)) if !self.may_have_pod(source).await => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lets nobody be led to where the catalog was served before, if nothing serves it now.
    async fn has_nothing(&self) {
        let has_olm = self.shared.around.borrow().has_olm;
        let Some(offerer) = self.offerer.as_ref().filter(|_| !has_olm) else {
            return;
        };
        // Who may not write there has not led anybody anywhere.
        if let Err(error) = offerer.has_nothing().await
            && !matches!(error, serving::Error::Forbidden { .. })
        {
            let why = unpacker::job::chain(&error);
            warn!(catalog = %self.key, error = why, "clients may still be led to where a catalog was served before");
        }
    }

    /// Somebody else serves the catalog.
    async fn withdraw(&self) {
        let Some(offerer) = &self.offerer else {
            return;
        };
        if let Err(error) = offerer.withdraw().await {
            let why = unpacker::job::chain(&error);
            warn!(catalog = %self.key, error = why, "what led to a catalog stays");
        }
    }

    async fn failed(
        &mut self,
        source: &CatalogSource,
        error: &(dyn std::error::Error + Sync),
        rest: Duration,
    ) {
        let why = unpacker::job::chain(error);
        warn!(catalog = %self.key, error = why, "a catalog cannot be read");
        self.trouble(source, why).await;
        self.has_nothing().await;
        sleep(rest).await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Of the one server, that goes with who offers.
        if self.is_in_pod {
            self.shared.ctx.metrics.served_gone(&self.key);
        }
    }
}

/// Waits, without a time for ever.
async fn pause(left: Option<Duration>) {
    match left {
        Some(left) => sleep(left).await,
        None => std::future::pending().await,
    }
}
