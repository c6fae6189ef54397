//! What runs in the process, and how it ends.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use unpacker::Store;

use super::{
    Error, Fence, Task, admission, args::Configuration, cluster, cluster::Woken, http,
    http::Service, leader::Label, lease, lease::Lease, log::Level, signals::Signals,
};
use crate::{
    bundle, catalogs, content,
    context::Context,
    instance,
    platform::{aggregator, operator, upgrade},
    pulling,
};

/// What runs; each part has a name to be called by when it ends too early.
#[derive(Default)]
struct Parts {
    /// Comes to its end when it is told to stop.
    work: JoinSet<&'static str>,
    /// Tells about the former, and therefore outlives it.
    tell: JoinSet<&'static str>,
}

/// Runs everything until it has to end.
pub(super) async fn run(configuration: Configuration, level: Level) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let signals = Signals::listen().map_err(Error::Signals)?;
    // Not one of the parts: it goes on while they come to their ends.
    tokio::spawn(signals.run(stop.clone()));

    let config = cluster::config(configuration.kubeconfig.as_deref()).await?;
    let store = open(&configuration).await?;
    let (ctx, woken) = cluster::context(config, configuration.settings.clone(), store)?;
    let began = ctx.ready.task("controllers");
    let namespace = &configuration.settings.system_namespace;
    let label = Label::new(ctx.client.clone(), namespace);
    if let Some(label) = &label {
        label.leave().await;
    }
    ctx.leading.set(false);
    // Probes and metrics last longer than what they tell about.
    let end = CancellationToken::new();
    let mut parts = Parts::default();
    serve(&mut parts, &configuration, &ctx, level, (&stop, &end)).await?;

    let fence = Fence::default();
    let lease = configuration.lease.map(|duration| {
        let me = cluster::name().unwrap_or_else(|| "provisioner".to_owned());
        let me = format!("{me}_{:08x}", fastrand::u32(..));
        Lease::new(ctx.client.clone(), namespace, me, duration, fence.clone())
    });
    // What every replica does, serving content, does not end with the Lease.
    let working = ctx.fenced(fence)?;
    let Some(lease) = lease else {
        let led = lead(&configuration, &working, label, &stop);
        begin(&mut parts, &configuration, &working, woken, &stop);
        began.done();
        let finished = finish(parts, &stop, &end, configuration.grace).await;
        let _ = led.await;
        return finished;
    };
    // Whoever waits to lead is ready to: content is served, and a rollout can go on.
    began.done();
    let acquired = tokio::select! {
        since = lease.acquire() => Some(since),
        () = stop.cancelled() => None,
        name = first(&mut parts) => return Err(Error::Ended(name)),
    };
    let finished = if let Some(since) = acquired {
        let led = lead(&configuration, &working, label, &stop);
        begin(&mut parts, &configuration, &working, woken, &stop);
        let finished = tokio::select! {
            finished = finish(parts, &stop, &end, configuration.grace) => finished,
            () = lease.keep(since) => return Err(Error::Lost(lease::NAME.to_owned())),
        };
        // Whoever leads next labels its own pod.
        let _ = led.await;
        finished
    } else {
        finish(parts, &stop, &end, configuration.grace).await
    };
    lease.release().await;
    finished
}

async fn open(configuration: &Configuration) -> Result<Store, Error> {
    let (path, budget) = (configuration.storage.clone(), configuration.budget);
    let opened = tokio::task::spawn_blocking(move || {
        Store::open(&path, budget).map_err(|source| Error::Store {
            path,
            source: Box::new(source),
        })
    });
    opened
        .await
        .unwrap_or(Err(Error::Ended("opening the store")))
}

/// Starts what answers requests.
async fn serve(
    parts: &mut Parts,
    configuration: &Configuration,
    ctx: &Context,
    level: Level,
    (stop, end): (&CancellationToken, &CancellationToken),
) -> Result<(), Error> {
    if let Some(address) = configuration.probes {
        let router = http::probes(ctx.ready.clone(), stop.clone());
        let flag = "--health-probe-bind-address";
        let service = Service::bind("probes", flag, address, router).await?;
        part(&mut parts.tell, "the probes", service.run(end.clone()));
    }
    if let Some(address) = configuration.metrics {
        let router = http::metrics(ctx.metrics.clone());
        let service = Service::bind("metrics", "--metrics-bind-address", address, router).await?;
        part(&mut parts.tell, "the metrics", service.run(end.clone()));
    }
    if let Some(address) = configuration.admin {
        let router = http::admin(level);
        let service = Service::bind("admin", "--admin-bind-address", address, router).await?;
        part(&mut parts.tell, "the log level", service.run(end.clone()));
    }
    let service = content::Service::bind(ctx.into(), &configuration.content).await?;
    info!(service = "content", address = %service.address(), "listening");
    let (mut ready, task) = (service.ready(), ctx.ready.task("content service"));
    tokio::spawn(async move {
        // An error says that the service has ended, and then this process does.
        let _ = ready.wait_for(|ready| *ready).await;
        task.done();
    });
    part(
        &mut parts.work,
        "the content service",
        service.run(stop.clone()),
    );
    Ok(())
}

/// Takes content from now on, and says so by a label, until it is told to stop. Whoever does not look after Bundles has
/// no use for their content. The label is held behind the fence, which must not keep us from leaving it.
fn lead(
    configuration: &Configuration,
    working: &Context,
    label: Option<Label>,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let takes = configuration.controllers.bundle;
    let alone = configuration.lease.is_some();
    let (leading, stop) = (working.leading.clone(), stop.clone());
    leading.set(takes);
    let label = label.filter(|_| takes);
    let held = label.as_ref().map(|it| it.with(working.client.clone()));
    tokio::spawn(async move {
        let hold = async {
            match &held {
                Some(label) => label.hold(alone).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hold => {}
            () = stop.cancelled() => {}
        }
        leading.set(false);
        if let Some(label) = &label {
            label.leave().await;
        }
    })
}

/// Starts what changes the cluster.
fn begin(
    parts: &mut Parts,
    configuration: &Configuration,
    ctx: &Context,
    woken: Woken,
    stop: &CancellationToken,
) {
    ctx.metrics.leads(true);
    let controllers = configuration.controllers;
    let catalogs = controllers.platform || controllers.aggregator;
    if controllers.bundle || controllers.instance || controllers.platform {
        let run = admission::run(ctx.clone(), stop.clone());
        part(&mut parts.work, "the check of admission policies", run);
    }
    let follows = (controllers.bundle || catalogs) && ctx.settings.follow_openshift;
    if follows {
        ctx.pulling.begin();
        let run = pulling::run(ctx.clone(), stop.clone());
        part(&mut parts.work, "the watch of how to pull", run);
    }
    if follows || controllers.instance || catalogs {
        let kinds = ctx.kinds.clone();
        let kinds_stop = stop.clone();
        part(&mut parts.work, "the watch of definitions", async move {
            kinds.run(kinds_stop).await;
        });
    }
    let (bundles, watch) = bundle::watch(ctx.client.clone());
    if controllers.bundle || controllers.instance {
        let stop = stop.clone();
        part(&mut parts.work, "the watch of Bundles", async move {
            stop.run_until_cancelled_owned(watch).await;
        });
    }
    if controllers.bundle {
        let run = bundle::run(ctx.clone(), Arc::clone(&bundles), stop.clone());
        let began = ctx.ready.task("the controller of Bundles");
        part(
            &mut parts.work,
            "the controller of Bundles",
            begun(run, began),
        );
    }
    if catalogs {
        let run = catalogs::run(ctx.clone(), stop.clone());
        part(&mut parts.work, "the catalogs", run);
    }
    if controllers.aggregator {
        let run = aggregator::run(ctx.clone(), stop.clone());
        part(&mut parts.work, "the aggregator", run);
        let run = upgrade::run(ctx.clone(), stop.clone());
        part(&mut parts.work, "the counts of API calls", run);
    }
    if controllers.platform {
        let run = operator::run(ctx.clone(), stop.clone());
        part(&mut parts.work, "the controller of PlatformOperators", run);
    }
    if controllers.instance {
        let run = instance::run(ctx.clone(), bundles, woken, stop.clone());
        let began = ctx.ready.task("the controller of BundleInstances");
        part(
            &mut parts.work,
            "the controller of BundleInstances",
            begun(run, began),
        );
    }
}

/// Drops the task once the future has begun, and with that taken tasks of its own.
async fn begun<F: Future>(future: F, task: Task) -> F::Output {
    let mut future = pin!(future);
    let mut task = Some(task);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        drop(task.take());
        polled
    })
    .await
}

fn part(
    parts: &mut JoinSet<&'static str>,
    name: &'static str,
    run: impl Future<Output = ()> + Send + 'static,
) {
    parts.spawn(async move {
        run.await;
        name
    });
}

/// The first part that ends.
async fn first(parts: &mut Parts) -> &'static str {
    let ended = tokio::select! {
        Some(ended) = parts.work.join_next() => ended,
        Some(ended) = parts.tell.join_next() => ended,
        else => std::future::pending().await,
    };
    // A panic is in the log already.
    ended.unwrap_or("a part that panicked")
}

/// Waits for the signal, and then for what has begun, as long as that may take.
async fn finish(
    mut parts: Parts,
    stop: &CancellationToken,
    end: &CancellationToken,
    grace: Duration,
) -> Result<(), Error> {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        name = first(&mut parts) => {
            error!(part = name, "ended unexpectedly");
            stop.cancel();
            return Err(Error::Ended(name));
        }
    }
    let drained = async { while parts.work.join_next().await.is_some() {} };
    if timeout(grace, drained).await.is_err() {
        warn!(?grace, "what has begun did not end in time");
    }
    end.cancel();
    Ok(())
}
