//! The time until deleted or changed objects are repaired.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event},
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout_at},
};

use crate::bundles::{self, Class};
use crate::environment::Environment;

const NAMESPACE: &str = "repaired";
const BUNDLES: usize = 5;
/// The number of Deployments and of ConfigMaps of each bundle.
const EACH: usize = 5;
const REPAIR_TIMEOUT: Duration = Duration::from_secs(30);

/// Times between the watch event of a change and the watch event of its repair; `None` if the repair is missing.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    pub(crate) deleted: Vec<Option<Duration>>,
    pub(crate) changed: Vec<Option<Duration>>,
}

pub(crate) async fn measure(environment: &Environment) -> Repairs {
    environment.namespace(NAMESPACE).await;
    for number in 0..BUNDLES {
        let name = format!("repaired-{number}");
        let maps = (0..EACH).map(|at| bundles::config_map(NAMESPACE, &format!("{name}-{at}")));
        let deployments =
            (0..EACH).map(|at| bundles::deployment(NAMESPACE, &format!("{name}-{at}")));
        let content = bundles::plain(&maps.chain(deployments).collect::<Vec<_>>());
        let bundle = environment.push(&name, Class::Plain, &content).await;
        environment.declare(&bundle, NAMESPACE).await;
        let timed = environment.verdicts.wait_for(&name).await;
        assert!(timed.verdict.is_ok(), "{timed:?}");
    }
    // The watches have started, and the events of the installation have arrived.
    sleep(Duration::from_secs(3)).await;
    let mut repairs = Repairs::default();
    for (group, kind) in [("", "ConfigMap"), ("apps", "Deployment")] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let api = Api::namespaced_with(environment.client.clone(), NAMESPACE, &resource);
        let mut observed_events = ObservedEvents::watch(api.clone());
        for at in 0..EACH {
            for number in 0..BUNDLES {
                let name = format!("repaired-{number}-{at}");
                if kind == "ConfigMap" {
                    let time = observed_events.change(&api, &name).await;
                    repairs.changed.push(time);
                }
                let time = observed_events.delete(&api, &name).await;
                repairs.deleted.push(time);
            }
        }
    }
    repairs
}

/// Events of a watch, with the time of their arrival.
struct ObservedEvents(mpsc::UnboundedReceiver<(Instant, Event<DynamicObject>)>);

impl ObservedEvents {
    fn watch(api: Api<DynamicObject>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
            while let Some(event) = events.next().await {
                let event = event.expect("the API server answers");
                if sender.send((Instant::now(), event)).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }

    async fn delete(&mut self, api: &Api<DynamicObject>, name: &str) -> Option<Duration> {
        sleep(Duration::from_millis(100)).await;
        api.delete(name, &DeleteParams::default()).await.unwrap();
        let deleted_at = self
            .when(|event| matches!(event, Event::Delete(object) if object.name_any() == name))
            .await?;
        let repaired_at = self
            .when(|event| matches!(event, Event::Apply(object) if object.name_any() == name))
            .await?;
        Some(repaired_at - deleted_at)
    }

    async fn change(&mut self, api: &Api<DynamicObject>, name: &str) -> Option<Duration> {
        sleep(Duration::from_millis(100)).await;
        let patch = Patch::Merge(json!({"data": {"text": "otherwise"}}));
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
        let has = |event: &Event<DynamicObject>, text: &str| matches!(event, Event::Apply(object) if object.name_any() == name && object.data["data"]["text"] == text);
        let changed_at = self.when(|event| has(event, "otherwise")).await?;
        Some(self.when(|event| has(event, "as declared")).await? - changed_at)
    }

    async fn when(
        &mut self,
        matches_event: impl Fn(&Event<DynamicObject>) -> bool,
    ) -> Option<Instant> {
        let end = tokio::time::Instant::now() + REPAIR_TIMEOUT;
        loop {
            let (at, event) = timeout_at(end, self.0.recv()).await.ok()??;
            if matches_event(&event) {
                return Some(at);
            }
        }
    }
}
