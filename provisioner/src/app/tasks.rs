//! Tasks of the process, and its shutdown.

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

use super::{Error, admission, args::RuntimeConfig, setup, setup::WakeReceiver};
use crate::{
    cluster::pull_config::PullConfigController,
    content,
    controllers::{
        bundle, bundle_instance, catalog_source, cluster_operator, cluster_operator::removed_apis,
        context::Context, platform_operator,
    },
    runtime::{
        fence::Fence, http, http::Service, leader_election, leader_election::LeaderLease,
        leader_label::LeaderLabel, log::LogLevelHandle, readiness::ReadinessTask, signals::Signals,
    },
};

/// Running tasks. Each has a name that is reported when it ends too early.
#[derive(Default)]
struct ProcessTasks {
    /// Tasks that finish when `stop` is cancelled.
    workers: JoinSet<&'static str>,
    /// Tasks that serve probes, metrics and the log level. They outlive the other tasks.
    reporters: JoinSet<&'static str>,
}

/// Runs the process until a signal or a failure.
pub(super) async fn run(configuration: RuntimeConfig, level: LogLevelHandle) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let signals = Signals::listen().map_err(Error::Signals)?;
    // Not among the tasks, because it has to run while they finish.
    tokio::spawn(signals.run(stop.clone()));

    let config = setup::config(configuration.kubeconfig.as_deref()).await?;
    let store = open(&configuration).await?;
    let (ctx, woken) = setup::context(config, configuration.settings.clone(), store)?;
    let start_task = ctx.ready.task("controllers");
    let namespace = &configuration.settings.system_namespace;
    let label = LeaderLabel::new(ctx.client.clone(), namespace);
    if let Some(label) = &label {
        label.remove().await;
    }
    ctx.leader.set(false);
    // Probes and metrics outlive the tasks that they report on.
    let end = CancellationToken::new();
    let mut parts = ProcessTasks::default();
    watch_cluster(&mut parts, &configuration, &ctx, &stop);
    serve(&mut parts, &configuration, &ctx, level, (&stop, &end)).await?;

    let fence = Fence::default();
    let lease = configuration.lease.map(|duration| {
        let identity = setup::name().unwrap_or_else(|| "provisioner".to_owned());
        let identity = format!("{identity}_{:08x}", fastrand::u32(..));
        LeaderLease::new(
            ctx.client.clone(),
            namespace,
            identity,
            duration,
            fence.clone(),
        )
    });
    // Serving content, which every replica does, does not end with the Lease.
    let working = ctx
        .fenced(fence)
        .map_err(|error| Error::Client(Box::new(error)))?;
    let Some(lease) = lease else {
        let led = lead(&configuration, &working, label, &stop);
        start_controllers(&mut parts, &configuration, &working, woken, &stop);
        start_task.done();
        let finished = shut_down(parts, &stop, &end, configuration.grace).await;
        let _ = led.await;
        return finished;
    };
    // A replica that waits for the Lease is ready: it serves content, and a rollout can continue.
    start_task.done();
    let acquired = unless_stopped(&mut parts, &stop, lease.acquire()).await?;
    let finished = if let Some(since) = acquired {
        let led = lead(&configuration, &working, label, &stop);
        start_controllers(&mut parts, &configuration, &working, woken, &stop);
        let finished = tokio::select! {
            finished = shut_down(parts, &stop, &end, configuration.grace) => finished,
            () = lease.maintain(since) => return Err(Error::LeaseLost(leader_election::NAME.to_owned())),
        };
        // The next leader labels its own pod.
        let _ = led.await;
        finished
    } else {
        shut_down(parts, &stop, &end, configuration.grace).await
    };
    lease.release().await;
    finished
}

async fn open(configuration: &RuntimeConfig) -> Result<Store, Error> {
    let (path, budget) = (configuration.storage.clone(), configuration.budget);
    let opened = tokio::task::spawn_blocking(move || {
        Store::open(&path, budget).map_err(|source| Error::Store {
            path,
            source: Box::new(source),
        })
    });
    opened
        .await
        .unwrap_or(Err(Error::TaskExited("opening the content store")))
}

/// Starts the watches of the pull configuration, and of the CRDs by which kinds become served. Every process that follows
/// OpenShift needs them, because each replica fetches missing content that it serves.
fn watch_cluster(
    parts: &mut ProcessTasks,
    configuration: &RuntimeConfig,
    ctx: &Context,
    stop: &CancellationToken,
) {
    let controllers = configuration.controllers;
    let follows_openshift = ctx.settings.follow_openshift;
    if follows_openshift {
        ctx.pull_config.require_sync();
        let controller = PullConfigController {
            client: ctx.client.clone(),
            kinds: Arc::clone(&ctx.discovery),
            pulling: Arc::clone(&ctx.pull_config),
            metrics: Arc::clone(&ctx.metrics),
            events: Arc::clone(&ctx.events),
        };
        let run = controller.run(stop.clone());
        spawn(
            &mut parts.workers,
            "the watch of the pull configuration",
            run,
        );
    }
    let needs_kinds = controllers.instance || controllers.platform || controllers.aggregator;
    if follows_openshift || needs_kinds {
        let kinds = ctx.discovery.clone();
        let kinds_stop = stop.clone();
        spawn(&mut parts.workers, "the watch of CRDs", async move {
            kinds.run(kinds_stop).await;
        });
    }
}

/// Starts the HTTP services and the content service.
async fn serve(
    parts: &mut ProcessTasks,
    configuration: &RuntimeConfig,
    ctx: &Context,
    level: LogLevelHandle,
    (stop, end): (&CancellationToken, &CancellationToken),
) -> Result<(), Error> {
    if let Some(address) = configuration.probes {
        let router = http::probes(ctx.ready.clone(), stop.clone());
        let flag = "--health-probe-bind-address";
        let service = Service::bind("probes", flag, address, router).await?;
        spawn(&mut parts.reporters, "the probes", service.run(end.clone()));
    }
    if let Some(address) = configuration.metrics {
        let router = http::metrics(ctx.metrics.clone());
        let service = Service::bind("metrics", "--metrics-bind-address", address, router).await?;
        spawn(
            &mut parts.reporters,
            "the metrics",
            service.run(end.clone()),
        );
    }
    if let Some(address) = configuration.admin {
        let router = http::admin(level);
        let service = Service::bind("admin", "--admin-bind-address", address, router).await?;
        spawn(
            &mut parts.reporters,
            "the log level",
            service.run(end.clone()),
        );
    }
    let service = content::Service::bind(ctx.into(), &configuration.content).await?;
    info!(service = "content", address = %service.address(), "listening");
    let (mut ready, task) = (service.ready(), ctx.ready.task("content service"));
    tokio::spawn(async move {
        // An error means that the service has ended, which ends the process.
        let _ = ready.wait_for(|ready| *ready).await;
        task.done();
    });
    spawn(
        &mut parts.workers,
        "the content service",
        service.run(stop.clone()),
    );
    Ok(())
}

/// Marks this replica as the leader until `stop` is cancelled: it accepts content, and its pod gets the leader label. A
/// replica without the Bundle controller does not need content. The label is maintained behind the fence, but removed
/// without it.
fn lead(
    configuration: &RuntimeConfig,
    working: &Context,
    label: Option<LeaderLabel>,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let accepts_content = configuration.controllers.bundle;
    let alone = configuration.lease.is_some();
    let (leading, stop) = (working.leader.clone(), stop.clone());
    leading.set(accepts_content);
    let label = label.filter(|_| accepts_content);
    let fenced_label = label
        .as_ref()
        .map(|label| label.with_client(working.client.clone()));
    tokio::spawn(async move {
        let hold = async {
            match &fenced_label {
                Some(label) => label.maintain(alone).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hold => {}
            () = stop.cancelled() => {}
        }
        leading.set(false);
        if let Some(label) = &label {
            label.remove().await;
        }
    })
}

/// Starts the controllers, which write to the cluster.
fn start_controllers(
    parts: &mut ProcessTasks,
    configuration: &RuntimeConfig,
    ctx: &Context,
    woken: WakeReceiver,
    stop: &CancellationToken,
) {
    ctx.metrics.set_leader(true);
    let controllers = configuration.controllers;
    let catalogs = controllers.platform || controllers.aggregator;
    if controllers.bundle || controllers.instance || controllers.platform {
        let run = admission::run(ctx.clone(), stop.clone());
        spawn(&mut parts.workers, "the check of admission policies", run);
    }
    let (bundles, watch) = bundle::watch(ctx.client.clone());
    if controllers.bundle || controllers.instance {
        let stop = stop.clone();
        spawn(&mut parts.workers, "the watch of Bundles", async move {
            stop.run_until_cancelled_owned(watch).await;
        });
    }
    if controllers.bundle {
        let run = bundle::run(ctx.clone(), Arc::clone(&bundles), stop.clone());
        let start_task = ctx.ready.task("the Bundle controller");
        spawn(
            &mut parts.workers,
            "the Bundle controller",
            with_start_task(run, start_task),
        );
    }
    if catalogs {
        let run = catalog_source::run(ctx.clone(), stop.clone());
        spawn(&mut parts.workers, "the catalog controller", run);
    }
    if controllers.aggregator {
        let run = cluster_operator::controller::run(ctx.clone(), stop.clone());
        spawn(&mut parts.workers, "the aggregator", run);
        let run = removed_apis::run(ctx.clone(), stop.clone());
        spawn(&mut parts.workers, "the check for removed APIs", run);
    }
    if controllers.platform {
        let run = platform_operator::controller::run(ctx.clone(), stop.clone());
        spawn(&mut parts.workers, "the PlatformOperator controller", run);
    }
    if controllers.instance {
        let run = bundle_instance::controller::run(ctx.clone(), bundles, woken, stop.clone());
        let start_task = ctx.ready.task("the BundleInstance controller");
        spawn(
            &mut parts.workers,
            "the BundleInstance controller",
            with_start_task(run, start_task),
        );
    }
}

/// Drops the task after the first poll of the future, which by then has registered its tasks.
async fn with_start_task<F: Future>(future: F, task: ReadinessTask) -> F::Output {
    let mut future = pin!(future);
    let mut task = Some(task);
    poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        drop(task.take());
        polled
    })
    .await
}

fn spawn(
    parts: &mut JoinSet<&'static str>,
    name: &'static str,
    run: impl Future<Output = ()> + Send + 'static,
) {
    parts.spawn(async move {
        run.await;
        name
    });
}

/// Waits for the first task that ends, and returns its name.
async fn first_exit(parts: &mut ProcessTasks) -> &'static str {
    let ended = tokio::select! {
        Some(ended) = parts.workers.join_next() => ended,
        Some(ended) = parts.reporters.join_next() => ended,
        else => std::future::pending().await,
    };
    // The panic is already logged.
    ended.unwrap_or("a task that panicked")
}

/// Waits until a future is ready. Returns `None` if `stop` is cancelled first: the tasks that end then have not failed.
///
/// # Errors
/// Returns an error if a task ends earlier.
async fn unless_stopped<T>(
    parts: &mut ProcessTasks,
    stop: &CancellationToken,
    waiting: impl Future<Output = T>,
) -> Result<Option<T>, Error> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Ok(None),
        name = first_exit(parts) => Err(Error::TaskExited(name)),
        result = waiting => Ok(Some(result)),
    }
}

/// Waits for `stop`, and then for running tasks to finish, for at most `grace`.
async fn shut_down(
    mut parts: ProcessTasks,
    stop: &CancellationToken,
    end: &CancellationToken,
    grace: Duration,
) -> Result<(), Error> {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        name = first_exit(&mut parts) => {
            error!(part = name, "stopped unexpectedly");
            stop.cancel();
            return Err(Error::TaskExited(name));
        }
    }
    let drained = async { while parts.workers.join_next().await.is_some() {} };
    if timeout(grace, drained).await.is_err() {
        warn!(?grace, "shutdown timed out");
    }
    end.cancel();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future;

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn workers_that_end_after_a_signal_have_not_failed() {
        // Without `biased`, each iteration could return either result.
        for _ in 0..100 {
            let (stop, mut parts) = (CancellationToken::new(), ProcessTasks::default());
            let worker = parts.workers.spawn(async { "a worker" });
            while !worker.is_finished() {
                yield_now().await;
            }
            stop.cancel();
            let result = unless_stopped(&mut parts, &stop, future::pending::<()>()).await;
            assert!(matches!(result, Ok(None)), "{result:?}");
        }
        let (stop, mut parts) = (CancellationToken::new(), ProcessTasks::default());
        parts.workers.spawn(async { "a worker" });
        let result = unless_stopped(&mut parts, &stop, future::pending::<()>()).await;
        assert_rows!(matches!(result, Err(Error::TaskExited("a worker"))) => true, "{result:?}");
    }
}
