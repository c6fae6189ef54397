//! A thousand instances of twenty objects each: ours alone.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::{
    bundles::{self, Class},
    calls::Calls,
    contender::Contender,
    place::{Place, Recorded},
    process::Memory,
};

const NAMESPACE: &str = "thousand";
/// After how many instances the time is taken.
const STEPS: [usize; 3] = [100, 300, 1000];
const REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Scale {
    /// For each step: how many instances there are then, and how long each of the new ones took.
    pub(crate) steps: Vec<(usize, Duration)>,
    /// Processor time for all of them.
    pub(crate) cpu: Duration,
    /// With all of them, right after.
    pub(crate) memory: Memory,
    /// With all of them, in etcd.
    pub(crate) recorded: Recorded,
    pub(crate) rest: Calls,
    /// From the start of a process that finds them all until it is ready.
    pub(crate) ready: Duration,
    /// The same, until it has looked at each of them.
    pub(crate) looked: Duration,
    /// Of the new process.
    pub(crate) memory_again: Memory,
    /// What the new process has asked until it had looked at each.
    pub(crate) calls_again: Calls,
}

pub(crate) async fn measure() -> Scale {
    let mut place = Place::new(Contender::Ours).await;
    place.namespace(NAMESPACE).await;
    let most = STEPS.into_iter().max().unwrap_or_default();
    let contents = (0..most).map(|number| {
        let name = format!("instance-{number}");
        let content = bundles::plain(bundles::twenty(NAMESPACE, &name));
        (name, content)
    });
    let bundles = place.push_all(Class::Plain, contents.collect()).await;
    let mut steps = Vec::new();
    let mut there = 0;
    for step in STEPS {
        let start = Instant::now();
        let new = &bundles[there..step];
        stream::iter(new)
            .for_each_concurrent(8, |bundle| place.declare(bundle, NAMESPACE))
            .await;
        let all = place.verdicts.until(step).await;
        let last = all.values().map(|told| told.at).max().unwrap_or(start);
        let failed = all.iter().filter(|(_, told)| !told.verdict.installed);
        let failed: Vec<_> = failed.collect();
        assert!(failed.is_empty(), "{failed:?}");
        let took = (last - start) / u32::try_from(new.len()).unwrap();
        eprintln!(
            "  {step} instances: {took:?} each, {:?}",
            place.provisioner.process.memory()
        );
        steps.push((step, took));
        there = step;
    }
    // Whoever makes pods of Deployments is slower: until then statuses change.
    place.all_healthy().await;
    sleep(Duration::from_secs(15)).await;
    let cpu = place.provisioner.process.cpu();
    let memory = place.provisioner.process.memory();
    let recorded = place.recorded().await;
    let rest = place.rest(REST).await;

    let mark = place.mark();
    place = place.restart().await;
    let ready = place.provisioner.process.started.elapsed();
    let reconciles = "rukpak_reconciles_total{controller=\"Instance\"";
    #[expect(clippy::cast_precision_loss)] // a thousand
    while place.provisioner.metric(reconciles).await < most as f64 {
        assert!(place.provisioner.process.started.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10)).await;
    }
    let looked = place.provisioner.process.started.elapsed();
    sleep(Duration::from_secs(10)).await;
    Scale {
        steps,
        cpu,
        memory,
        recorded,
        rest,
        ready,
        looked,
        memory_again: place.provisioner.process.memory(),
        calls_again: place.calls(mark, jiff::Timestamp::now()),
    }
}
