//! A thousand instances of twenty objects each. Measures only this provisioner.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::api_requests::Calls;
use crate::bundles::{self, Class};
use crate::environment::{Environment, Recorded};
use crate::process::Memory;
use crate::subject::Contender;

const NAMESPACE: &str = "thousand";
/// The numbers of instances after which the time is taken.
const STEPS: [usize; 3] = [100, 300, 1000];
const IDLE_PERIOD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Scale {
    /// For each step: the number of instances, and the time per new instance.
    pub(crate) steps: Vec<(usize, Duration)>,
    pub(crate) cpu: Duration,
    /// Memory directly after the installation of all instances.
    pub(crate) memory: Memory,
    pub(crate) recorded: Recorded,
    pub(crate) rest: Calls,
    /// Time from the start of a process that finds all instances until it is ready.
    pub(crate) ready: Duration,
    /// Time from that start until the process has reconciled each instance.
    pub(crate) reconciled: Duration,
    pub(crate) memory_again: Memory,
    /// Requests of the new process until it had reconciled each instance.
    pub(crate) calls_again: Calls,
}

pub(crate) async fn measure() -> Scale {
    let mut environment = Environment::new(Contender::Ours).await;
    environment.namespace(NAMESPACE).await;
    let most = STEPS.into_iter().max().unwrap_or_default();
    let contents = (0..most).map(|number| {
        let name = format!("instance-{number}");
        let content = bundles::plain(&bundles::twenty(NAMESPACE, &name));
        (name, content)
    });
    let bundles = environment.push_all(Class::Plain, contents.collect()).await;
    let mut steps = Vec::new();
    let mut created = 0;
    for step in STEPS {
        let start = Instant::now();
        let new = &bundles[created..step];
        stream::iter(new)
            .for_each_concurrent(8, |bundle| environment.declare(bundle, NAMESPACE))
            .await;
        let all = environment.verdicts.until(step).await;
        let last = all.values().map(|timed| timed.at).max().unwrap_or(start);
        let failed = all.iter().filter(|(_, timed)| !timed.verdict.installed);
        let failed: Vec<_> = failed.collect();
        assert!(failed.is_empty(), "{failed:?}");
        let took = (last - start) / u32::try_from(new.len()).unwrap();
        eprintln!(
            "  {step} instances: {took:?} each, {:?}",
            environment.provisioner.process.memory()
        );
        steps.push((step, took));
        created = step;
    }
    // The component that creates the pods of Deployments is slower: statuses change until it has finished.
    environment.wait_until_healthy().await;
    sleep(Duration::from_secs(15)).await;
    let cpu = environment.provisioner.process.cpu();
    let memory = environment.provisioner.process.memory();
    let recorded = environment.recorded().await;
    let rest = environment.calls_at_rest(IDLE_PERIOD).await;

    let mark = environment.mark();
    environment = environment.restart().await;
    let ready = environment.provisioner.process.started.elapsed();
    let reconciles = "rukpak_reconciles_total{controller=\"Instance\"";
    #[expect(clippy::cast_precision_loss)] // a thousand
    while environment.provisioner.metric(reconciles).await < most as f64 {
        assert!(environment.provisioner.process.started.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10)).await;
    }
    let reconciled = environment.provisioner.process.started.elapsed();
    sleep(Duration::from_secs(10)).await;
    Scale {
        steps,
        cpu,
        memory,
        recorded,
        rest,
        ready,
        reconciled,
        memory_again: environment.provisioner.process.memory(),
        calls_again: environment.calls(mark, jiff::Timestamp::now()),
    }
}
