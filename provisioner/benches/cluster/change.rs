//! Many small instances: the cost of creating, changing and deleting each of them, and of a restart. Measures only this
//! provisioner.
//!
//! `RUKPAK_INSTANCES=300,1000` names the numbers of instances; each number has a separate control plane. The cost of an
//! instance must not depend on the number.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    core::DynamicObject,
    runtime::watcher,
};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::api_requests::Calls;
use crate::bundles::{self, Class};
use crate::environment::{Environment, is_healthy};
use crate::subject::Contender;
use crate::table::{milliseconds, ratio};

const NAMESPACE: &str = "many";
/// The number of objects of an instance. A change changes all of them.
const OBJECTS: usize = 4;
const CONCURRENCY: usize = 8;
const PHASE_TIMEOUT: Duration = Duration::from_secs(3600);
/// The numbers of instances, unless `RUKPAK_INSTANCES` names others.
const NUMBERS: &str = "300,1000";

/// Returns the rows of the table.
pub(crate) async fn measure() -> Vec<String> {
    let numbers = std::env::var("RUKPAK_INSTANCES").unwrap_or_else(|_| NUMBERS.to_owned());
    let mut all = Vec::new();
    for number in numbers.split(',') {
        all.extend(one(number.trim().parse().unwrap()).await);
    }
    all
}

async fn one(instances: usize) -> [String; 4] {
    eprintln!("== {instances} instances of {OBJECTS} objects");
    let mut environment = Environment::new(Contender::Ours).await;
    environment.namespace(NAMESPACE).await;
    let api = Contender::Ours.api(environment.client.clone());
    let mut versions = Vec::new();
    for version in 1..=2 {
        let contents = (0..instances).map(|number| {
            let name = format!("instance-{number}");
            let objects = (0..OBJECTS).map(|object| {
                let mut map = bundles::config_map(NAMESPACE, &format!("{name}-{object}"));
                map["data"]["text"] = format!("{name} {version}").into();
                map
            });
            let content = bundles::plain(&objects.collect::<Vec<_>>());
            (format!("{name}-v{version}"), content)
        });
        versions.push(environment.push_all(Class::Plain, contents.collect()).await);
    }
    let declare = async |number: usize| {
        let bundle = bundles::Bundle {
            name: format!("instance-{number}"),
            ..versions[0][number].clone()
        };
        environment.declare(&bundle, NAMESPACE).await;
    };
    let created = until(&api, instances, |instance| is_active(instance, 1));
    let create = phase(&environment, "created", instances, declare, created).await;
    let change = async |number: usize| {
        let source = json!({"image": {"ref": versions[1][number].image}});
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"source": source}}}}));
        let (name, params) = (format!("instance-{number}"), PatchParams::default());
        api.patch(&name, &params, &patch).await.unwrap();
    };
    let changed = until(&api, instances, |instance| is_active(instance, 2));
    let update = phase(&environment, "changed", instances, change, changed).await;
    let mark = environment.mark();
    environment = environment.restart().await;
    wait_until_reconciled(&environment, instances).await;
    let process = &environment.provisioner.process;
    let (took, cpu) = (process.started.elapsed(), process.cpu());
    let calls = environment.calls(mark, jiff::Timestamp::now());
    let restart = row("found after a restart", instances, [took, cpu], &calls);
    let delete = async |number: usize| {
        let name = format!("instance-{number}");
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    };
    let deleted = until(&api, 0, |_| true);
    let delete = phase(&environment, "deleted", instances, delete, deleted).await;
    [create, update, restart, delete]
}

/// Measures work on each instance until the watch reports its end, and returns the row. Later work counts as well.
async fn phase(
    environment: &Environment,
    action: &str,
    instances: usize,
    work: impl AsyncFn(usize),
    end: impl Future<Output = ()>,
) -> String {
    let (mark, cpu) = (environment.mark(), environment.provisioner.process.cpu());
    let start = Instant::now();
    let work = stream::iter(0..instances).for_each_concurrent(CONCURRENCY, |number| work(number));
    tokio::join!(work, end);
    let took = start.elapsed();
    sleep(Duration::from_secs(10)).await;
    let cpu = environment.provisioner.process.cpu().saturating_sub(cpu);
    let calls = environment.calls(mark, jiff::Timestamp::now());
    row(action, instances, [took, cpu], &calls)
}

/// Waits until this number of instances exists and the predicate is true for each of them.
async fn until(api: &Api<DynamicObject>, count: usize, predicate: impl Fn(&DynamicObject) -> bool) {
    let (mut existing, mut those) = (HashSet::new(), HashSet::new());
    let mut events = std::pin::pin!(watcher(api.clone(), watcher::Config::default()));
    let waited = timeout(PHASE_TIMEOUT, async {
        let mut is_listed = false;
        while !is_listed || existing.len() != count || those.len() != count {
            let Some(Ok(event)) = events.next().await else {
                continue;
            };
            match event {
                watcher::Event::Init => {
                    existing.clear();
                    those.clear();
                    is_listed = false;
                }
                watcher::Event::InitDone => is_listed = true,
                watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                    let name = object.name_any();
                    if predicate(&object) {
                        those.insert(name.clone());
                    } else {
                        those.remove(&name);
                    }
                    existing.insert(name);
                }
                watcher::Event::Delete(object) => {
                    existing.remove(&object.name_any());
                    those.remove(&object.name_any());
                }
            }
        }
    });
    let is_done = waited.await.is_ok();
    let found = those.len();
    assert!(is_done, "{found} of {count} after {PHASE_TIMEOUT:?}");
}

/// Reports whether the revision with this number is the newest one, active and healthy.
fn is_active(instance: &DynamicObject, number: i64) -> bool {
    let newest = instance.data["status"]["revisions"].as_array();
    let newest = newest.and_then(|all| all.last());
    newest.is_some_and(|newest| newest["number"] == number && newest["state"] == "Active")
        && is_healthy(instance)
}

/// Waits until a new process has reconciled every instance, and the queue is empty.
async fn wait_until_reconciled(environment: &Environment, instances: usize) {
    let waited = timeout(PHASE_TIMEOUT, async {
        loop {
            let metric = async |name: &str| {
                let name = format!("{name}{{controller=\"Instance\"");
                environment.provisioner.metric(&name).await
            };
            let begun = metric("rukpak_reconciles_total").await;
            let queued = metric("rukpak_queue_length").await;
            #[expect(clippy::cast_precision_loss)] // thousands
            if begun >= instances as f64 && queued < 1.0 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap();
}

/// Returns the row of the table: the time and the processor time for each instance, and the requests.
fn row(action: &str, instances: usize, times: [Duration; 2], calls: &Calls) -> String {
    let lines = calls.lines();
    eprintln!("  {instances} {action} in {:.1?}:\n{lines}", times[0]);
    let count = u32::try_from(instances).unwrap();
    let [took, cpu] = times.map(|all| milliseconds(all / count));
    let calls = ratio(calls.count(), instances);
    format!("| {action}, {instances} instances | {took} | {cpu} | {calls} |")
}
