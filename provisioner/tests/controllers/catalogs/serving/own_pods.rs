//! Catalogs that get a pod of their own, and lose it.

use k8s_openapi::api::core::v1::{Endpoints, Pod};
use manifests::api::install;

use super::{
    super::denied::{allow, deny},
    *,
};
use crate::support::account_object;

// parity: pod-1
#[tokio::test]
async fn a_catalog_that_says_how_its_pod_has_to_be_has_one_as_long_as_it_says_so() {
    let shelf = stage().await;
    let binding = install::catalog_pods(&install::Options::default(), "catalogs");
    apply(&shelf.cluster, &binding).await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let leader = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "tides", grpc(&image)).await;
    shelf.serves("tides", &ONE).await;

    let services = shelf.services("catalogs");
    let before = services.get("tides").await.unwrap();
    let spec = json!({"image": image, "grpcPodConfig": {"nodeSelector": {"catalogs": "here"}}});
    shelf.declare("catalogs", "tides", spec).await;
    let pods = shelf.api::<Pod>("catalogs");
    let pod = found("a pod", async || list(&pods).await.pop()).await;
    let selector = pod.spec.clone().unwrap().node_selector.unwrap();
    assert_eq!(selector["catalogs"], "here");
    // Nobody has to do without it until the pod is ready, of which is told what is wrong with it.
    let waiting = json!({"status": {"containerStatuses": [{
        "name": "registry-server", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}},
    }]}});
    merge_status(&pods, &pod.name_any(), &waiting).await;
    let reported = json!({
        "connectionState": {"lastObservedState": "READY", "address": "tides.catalogs.svc:50051"},
        "message": "*ImagePullBackOff*",
    });
    shelf.reports("tides", reported).await;
    shelf.serves("tides", &ONE).await;
    // Who chooses from it does not wait for a pod.
    assert_eq!(leader.offers("tide"), ["catalogs/tides: tide.v1.0.0"]);

    is_ready(&pods, &pod.name_any()).await;
    let selector = async || services.get("tides").await.unwrap().spec.unwrap().selector;
    let labels = pod.labels();
    let selects_it = |selector: &Option<BTreeMap<String, String>>| {
        let selector = selector.clone().unwrap_or_default();
        let mut all = selector.iter();
        !selector.is_empty() && all.all(|(key, value)| labels.get(key) == Some(value))
    };
    until("the Service selects it", selector, selects_it).await;
    let after = services.get("tides").await.unwrap();
    assert_eq!(before.uid(), after.uid(), "and is the same one");
    let address = |it: &Service| it.spec.as_ref().and_then(|it| it.cluster_ip.clone());
    assert_eq!(address(&before), address(&after));
    // Kubernetes' own controller says that it has found the pod, and we are not needed any more.
    let slices = shelf.slices("catalogs");
    leads_to_pod(&shelf, true).await;
    let ours = ListParams::default().labels(labels::CATALOG);
    let our_slices = async || slices.list(&ours).await.unwrap().items;
    until("nothing else leads there", our_slices, Vec::is_empty).await;
    let ready = json!({"lastObservedState": "READY"});
    let reported = json!({"connectionState": ready, "message": null});
    shelf.reports("tides", reported).await;
    served_are(&leader, &[r#"{namespace="catalogs",name="tides"} 1"#]).await;

    the_one_server_takes_over_again(&shelf, &before).await;
    served_are(&leader, &[r#"{namespace="catalogs",name="tides"} 1"#]).await;
    leader.end().await;

    what_olm_has_left_stays(&shelf, &image).await;
    a_pod_goes_whatever_the_catalog_becomes(&shelf).await;
}

/// The pod goes when the one server has the catalog, and the Service stays the same one.
async fn the_one_server_takes_over_again(shelf: &Shelf, before: &Service) {
    let pods = shelf.api::<Pod>("catalogs");
    let (services, slices) = (shelf.services("catalogs"), shelf.slices("catalogs"));
    let ours = ListParams::default().labels(labels::CATALOG);
    let gone = json!({"spec": {"grpcPodConfig": null}});
    let sources = shelf.sources("catalogs");
    let pod = list(&pods).await.remove(0);
    let attempt = async || pods.delete(&pod.name_any(), &dry_run()).await;
    deny(&shelf.cluster, "DELETE", ("", "pods"), attempt).await;
    merge(&sources, "tides", &gone).await;
    // One that cannot be removed is told, and keeps nobody from being served.
    let reported = json!({
        "connectionState": {"lastObservedState": "READY"},
        "message": "*failed to delete its registry pod after the handover*nothing is done here*",
    });
    shelf.reports("tides", reported).await;
    allow(&shelf.cluster, "pods").await;
    let left = async || list(&pods).await;
    until("no pod", left, |left| are_leaving(left)).await;
    // Before it went, clients were led to us.
    let [slice] = &slices.list(&ours).await.unwrap().items[..] else {
        panic!("one of ours");
    };
    let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
    let port = u16::try_from(port).unwrap();
    assert_eq!(bundles(port).await.unwrap(), ["tide.v1.0.0"]);
    let endpoints = shelf.api::<Endpoints>("catalogs");
    let old = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "tides", "namespace": "catalogs"},
        "subsets": [{"addresses": [{"ip": "192.0.2.77"}], "ports": [{"name": "grpc", "port": 50051}]}],
    });
    apply(&shelf.cluster, &old).await;
    leads_to_pod(shelf, false).await;
    let service = async || services.get("tides").await.unwrap();
    let is_ours = |service: &Service| {
        let labels = service.labels();
        let selector = service.spec.as_ref().unwrap().selector.as_ref();
        selector.is_none_or(BTreeMap::is_empty)
            && labels.contains_key(labels::CATALOG)
            && !labels.contains_key(labels::CATALOG_POD)
    };
    let back = until("the Service selects nothing", service, is_ours).await;
    assert_eq!(before.uid(), back.uid());
    // Kubernetes' controllers do not look at such a Service, so nothing of theirs is left.
    assert_eq!(slices.get_opt("tides-x").await.unwrap(), None);
    assert_eq!(endpoints.get_opt("tides").await.unwrap(), None);
    shelf.serves("tides", &ONE).await;
}

/// What a kubelet says of a pod that serves.
async fn is_ready(pods: &Api<Pod>, name: &str) {
    let status = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [],
    }});
    merge_status(pods, name, &status).await;
}

/// What Kubernetes' own controller writes of the pods that a Service selects.
async fn leads_to_pod(shelf: &Shelf, is_there: bool) {
    let mut endpoints = json!([]);
    if is_there {
        endpoints = json!([{"addresses": ["192.0.2.77"], "conditions": {"ready": true}}]);
    }
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "tides-x", "namespace": "catalogs", "labels": {
            "kubernetes.io/service-name": "tides", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "grpc", "port": 50051, "protocol": "TCP"}],
    });
    apply(&shelf.cluster, &slice).await;
}

/// What OLM has made is not taken for what we have made.
async fn what_olm_has_left_stays(shelf: &Shelf, image: &str) {
    let pods = shelf.api::<Pod>("catalogs");
    let source = shelf.sources("catalogs").get("tides").await.unwrap();
    let theirs = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "tides-olm", "namespace": "catalogs",
            "labels": {"olm.catalogSource": "tides", "olm.managed": "true"},
            "ownerReferences": [{
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "tides", "uid": source.uid(),
            }],
        },
        "spec": {"containers": [{"name": "registry-server", "image": image}]},
    });
    for object in [account_object("catalogs", "default"), theirs] {
        shelf.apply(&object).await;
    }
    let next = Leader::start(&shelf.cluster, THERE);
    shelf.hands_out(THERE, "catalogs/tides", &ONE).await;
    // That it was pulled is counted when all was done that serving it takes.
    let polls = "rukpak_catalog_polls_total{outcome=\"new\"} ";
    let polled = async || metric(&next.ctx, polls);
    let is_done = |count: &Option<String>| count.as_ref().is_some_and(|count| count != "0");
    until("it has looked for pods", polled, is_done).await;
    let kept = pods.get("tides-olm").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);
    next.end().await;
}

async fn a_pod_goes_whatever_the_catalog_becomes(shelf: &Shelf) {
    let pods = shelf.api::<Pod>("catalogs");
    let (sources, services) = (shelf.sources("catalogs"), shelf.services("catalogs"));
    let own = json!({"spec": {"grpcPodConfig": {"priorityClassName": ""}}});
    // What an earlier process has left leads nowhere any more, as soon as it can be removed.
    let slices = shelf.slices("catalogs");
    let left = ListParams::default().labels(labels::CATALOG);
    let slice = slices.list(&left).await.unwrap().items.remove(0);
    let resource = ("discovery.k8s.io", "endpointslices");
    let attempt = async || slices.delete(&slice.name_any(), &dry_run()).await;
    deny(&shelf.cluster, "DELETE", resource, attempt).await;
    merge(&sources, "tides", &own).await;
    let next = Leader::start(&shelf.cluster, THERE);
    let ours = ListParams::default().labels(labels::CATALOG_POD);
    let our_pods = async || pods.list(&ours).await.unwrap().items;
    found("a pod again", async || our_pods().await.pop()).await;
    assert!(slices.get_opt(&slice.name_any()).await.unwrap().is_some());
    allow(&shelf.cluster, resource.1).await;
    let our_slices = async || slices.list(&left).await.unwrap().items;
    until("nothing else leads there", our_slices, Vec::is_empty).await;
    served_are(&next, &[r#"{namespace="catalogs",name="tides"} 0"#]).await;
    let elsewhere =
        json!({"spec": {"grpcPodConfig": null, "image": null, "address": "127.0.0.1:1"}});
    merge(&sources, "tides", &elsewhere).await;
    until("no pod", our_pods, |left| are_leaving(left)).await;
    gone(services, "tides").await;
    served_are(&next, &[]).await;
    next.end().await;
}

fn are_leaving(pods: &[Pod]) -> bool {
    let mut pods = pods.iter();
    pods.all(|it| it.metadata.deletion_timestamp.is_some())
}

fn dry_run() -> DeleteParams {
    DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    }
}

/// Waits until the metric tells this of who is served.
async fn served_are(leader: &Leader, expected: &[&str]) {
    let served = async || leader.served();
    until("counted", served, |served| *served == expected).await;
}
