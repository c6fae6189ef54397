//! A thousand instances of twenty objects each. Measures only this provisioner.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::bundles::{self, Class};
use crate::environment::Environment;
use crate::subject::Contender;
use crate::table::{at_rest, milliseconds, seconds};

const NAMESPACE: &str = "thousand";
/// The numbers of instances after which the time is taken.
const STEPS: [usize; 3] = [100, 300, 1000];
const IDLE_PERIOD: Duration = Duration::from_secs(60);

/// Returns the rows of the table.
pub(crate) async fn measure() -> Vec<(String, String)> {
    let mut environment = Environment::new(Contender::Ours).await;
    environment.namespace(NAMESPACE).await;
    let most = STEPS.into_iter().max().unwrap_or_default();
    let contents = (0..most).map(|number| {
        let name = format!("instance-{number}");
        let content = bundles::plain(&bundles::twenty(NAMESPACE, &name));
        (name, content)
    });
    let bundles = environment.push_all(Class::Plain, contents.collect()).await;
    let mut rows = Vec::new();
    let mut created = 0;
    for step in STEPS {
        let start = Instant::now();
        let new = &bundles[created..step];
        stream::iter(new)
            .for_each_concurrent(8, |bundle| environment.declare(bundle, NAMESPACE))
            .await;
        let all = environment.verdicts.until(step).await;
        let last = all.values().map(|timed| timed.at).max().unwrap_or(start);
        let failed = all.iter().filter(|(_, timed)| timed.verdict.is_err());
        let failed: Vec<_> = failed.collect();
        assert!(failed.is_empty(), "{failed:?}");
        let took = (last - start) / u32::try_from(new.len()).unwrap();
        let memory = environment.provisioner.process.memory();
        eprintln!("  {step} instances: {took:?} each, {memory}");
        let first = created + 1;
        let label = format!("each of instances {first} to {step}, all created at once");
        rows.push((label, milliseconds(took)));
        created = step;
    }
    // The component that creates the pods of Deployments is slower: statuses change until it has finished.
    environment.wait_until_healthy().await;
    sleep(Duration::from_secs(15)).await;
    let cpu = environment.provisioner.process.cpu();
    let memory = environment.provisioner.process.memory();
    let recorded = environment.recorded().await;
    let recorded = recorded.map(|bytes| format!("{} kB", bytes / 1000));
    let rest = environment.calls_at_rest(IDLE_PERIOD).await;
    let lists = rest.count_if(|label| label.starts_with("list "));

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
    let again = environment.calls(mark, jiff::Timestamp::now());
    eprintln!("at rest:\n{}restarted:\n{}", rest.lines(), again.lines());
    let figures = ::tests::rows![
        "processor time for all" => seconds(cpu);
        "memory then" => memory;
        "in etcd: BundleInstances, Bundles, recorded revisions" => recorded.join(", ");
        "API calls in a minute at rest" => at_rest(&rest);
        "list calls among them" => lists.to_string();
        "restart with all of them: ready after" => format!("{:.2} s", ready.as_secs_f64());
        "every instance looked at after" => format!("{:.2} s", reconciled.as_secs_f64());
        "memory after the restart" => environment.provisioner.process.memory();
        "API calls of the restart" => again.count().to_string();
    ];
    rows.extend(figures.map(|(label, figure)| (label.to_owned(), figure)));
    rows
}
