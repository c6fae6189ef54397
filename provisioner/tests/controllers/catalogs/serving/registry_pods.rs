//! Catalogs that get a separate pod, and lose it.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};

use super::super::api_errors::{allow, deny};
use super::*;
use crate::support::kubelet::{container, waits};
use crate::support::{account_object, assert_part};

const SERVED: [&str; 1] = [r#"{namespace="catalogs",name="tides"} 1"#];

async fn until_no_slice(shelf: &Shelf) {
    let own = async || shelf.own::<EndpointSlice>(labels::CATALOG).await;
    until("no own slice", own, Vec::is_empty).await;
}

// parity: pod-1
#[tokio::test]
async fn catalog_with_pod_config_has_its_own_pod() {
    let shelf = stage().await;
    shelf.allow_pods().await;
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
    tests::assert_rows!(pod.spec.clone().unwrap().node_selector.unwrap()["catalogs"] => "here");
    // The shared server continues until the pod is ready; the status reports the problem of the pod.
    let waiting = container("registry-server", &waits("ImagePullBackOff", ""));
    let waiting = json!({"status": {"containerStatuses": [waiting]}});
    merge_status(&pods, &pod.name_any(), &waiting).await;
    let reported = json!({
        "connectionState": {"lastObservedState": "READY", "address": "tides.catalogs.svc:50051"},
        "message": "*ImagePullBackOff*",
    });
    shelf.reports("tides", reported).await;
    shelf.serves("tides", &ONE).await;
    // A choice from the catalog does not wait for the pod.
    assert_eq!(leader.offers("tide"), ["catalogs/tides: tide.v1.0.0"]);

    // The status that a kubelet reports of a serving pod.
    let ready = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [],
    }});
    merge_status(&pods, &pod.name_any(), &ready).await;
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
    let address = |service: &Service| service.spec.clone().unwrap().cluster_ip;
    assert_eq!(address(&before), address(&after));
    // Kubernetes' controller reports the pod, and the slice of the provisioner is no longer needed.
    set_pod_endpoint(&shelf, true).await;
    until_no_slice(&shelf).await;
    let ready = json!({"lastObservedState": "READY"});
    let reported = json!({"connectionState": ready, "message": null});
    shelf.reports("tides", reported).await;
    served_are(&leader, &SERVED).await;

    the_shared_server_takes_over_again(&shelf, &leader, &before).await;
    served_are(&leader, &SERVED).await;
    leader.end().await;

    objects_of_olm_are_kept(&shelf, &image).await;

    let (sources, services) = (shelf.sources("catalogs"), shelf.services("catalogs"));
    let own = json!({"spec": {"grpcPodConfig": {"priorityClassName": ""}}});
    merge(&sources, "tides", &own).await;
    let next = Leader::start(&shelf.cluster, THERE);
    let our_pods = async || shelf.own::<Pod>(labels::CATALOG_POD).await;
    found("a pod again", async || our_pods().await.pop()).await;
    let parts = r#"apiserver_longrunning_requests{ resource="serviceaccounts" scope="namespace" verb="WATCH""#;
    let watches = async || apiserver_metric(&shelf, parts).await;
    until("watched", watches, |count| *count > 0).await;
    // The slice of an earlier process leads nowhere.
    until_no_slice(&shelf).await;
    served_are(&next, &[r#"{namespace="catalogs",name="tides"} 0"#]).await;
    let other = json!({"spec": {"grpcPodConfig": null, "image": null, "address": "127.0.0.1:1"}});
    merge(&sources, "tides", &other).await;
    until("no pod", our_pods, |left| are_terminating(left)).await;
    wait_deleted(services, "tides").await;
    served_are(&next, &[]).await;
    // No catalog of the namespace has a pod.
    until("not watched", watches, |count| *count == 0).await;
    next.end().await;

    pod_is_kept_while_an_edited_template_has_no_image(&shelf, &registry).await;
}

/// The pod is deleted when the shared server has the catalog, and the Service is unchanged.
async fn the_shared_server_takes_over_again(shelf: &Shelf, leader: &Leader, before: &Service) {
    let pods = shelf.api::<Pod>("catalogs");
    let (services, slices) = (shelf.services("catalogs"), shelf.slices("catalogs"));
    let pod = list(&pods).await.remove(0);
    let dry_run = tests::with!(DeleteParams::default() => dry_run: true);
    let attempt = async || pods.delete(&pod.name_any(), &dry_run).await;
    deny(&shelf.cluster, "DELETE", ("", "pods"), attempt).await;
    let failed_polls = "rukpak_catalog_polls_total{outcome=\"failed\"} ";
    let failed_before = metric(&leader.ctx, failed_polls);
    let plain = json!({"spec": {"grpcPodConfig": null}});
    merge(&shelf.sources("catalogs"), "tides", &plain).await;
    // A pod that cannot be deleted is reported, and the catalog is served.
    let reported = json!({
        "connectionState": {"lastObservedState": "READY"},
        "message": "*failed to delete the registry pod of the catalog after the handover*nothing is done here*",
    });
    shelf.reports("tides", reported).await;
    // The failed deletion is not counted as a failed poll of the image.
    assert_eq!(metric(&leader.ctx, failed_polls), failed_before);
    tests::assert_rows!(leader.ctx.catalogs.states().iter().find_map(|state| state.trouble.as_ref()) => None);
    allow(&shelf.cluster, "pods").await;
    let left = async || list(&pods).await;
    until("no pod", left, |left| are_terminating(left)).await;
    // Before the pod was deleted, clients were directed to the provisioner.
    let [slice] = &shelf.own::<EndpointSlice>(labels::CATALOG).await[..] else {
        panic!("one slice");
    };
    let port = slice.ports.as_ref().unwrap()[0].port.unwrap();
    tests::assert_rows!(bundles(u16::try_from(port).unwrap()).await.unwrap() => ONE);
    let endpoints = shelf.api::<Endpoints>("catalogs");
    let old = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "tides", "namespace": "catalogs"},
        "subsets": [{"addresses": [{"ip": "192.0.2.77"}], "ports": [{"name": "grpc", "port": 50051}]}],
    });
    apply(&shelf.cluster, &old).await;
    set_pod_endpoint(shelf, false).await;
    let service = async || services.get("tides").await.unwrap();
    let is_ours = |service: &Service| {
        let labels = service.labels();
        let selector = service.spec.as_ref().unwrap().selector.as_ref();
        selector.is_none_or(BTreeMap::is_empty)
            && labels.contains_key(labels::CATALOG)
            && !labels.contains_key(labels::CATALOG_POD)
    };
    tests::assert_rows!(before.uid() => until("the Service selects nothing", service, is_ours).await.uid());
    // Kubernetes' controllers ignore such a Service, so their objects are deleted.
    assert_eq!(slices.get_opt("tides-x").await.unwrap(), None);
    assert_eq!(endpoints.get_opt("tides").await.unwrap(), None);
    shelf.serves("tides", &ONE).await;
}

/// Writes the slice that Kubernetes' controller creates for the pods of a Service.
async fn set_pod_endpoint(shelf: &Shelf, is_ready: bool) {
    let endpoint = json!({"addresses": ["192.0.2.77"], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = is_ready.then_some(endpoint).into_iter().collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "tides-x", "namespace": "catalogs", "labels": {
            "kubernetes.io/service-name": "tides", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "grpc", "port": 50051, "protocol": "TCP"}],
    });
    apply(&shelf.cluster, &slice).await;
}

/// Objects of OLM are not mistaken for those of the provisioner.
async fn objects_of_olm_are_kept(shelf: &Shelf, image: &str) {
    let pods = shelf.api::<Pod>("catalogs");
    let source = shelf.sources("catalogs").get("tides").await.unwrap();
    let labels = json!({"olm.catalogSource": "tides", "olm.managed": "true"});
    let owner = source.owner_ref(&()).unwrap();
    let theirs = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "tides-olm", "namespace": "catalogs", "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "registry-server", "image": image}]},
    });
    for object in [account_object("catalogs", "default"), theirs] {
        shelf.apply(&object).await;
    }
    let parts = r#"apiserver_request_total{ resource="pods" verb="LIST""#;
    let lists = async || apiserver_metric(shelf, parts).await;
    let lists_before = lists().await;
    let next = Leader::start(&shelf.cluster, THERE);
    shelf.hands_out(THERE, "catalogs/tides", &ONE).await;
    // One list for each label.
    until("it has listed pods", lists, |count| {
        *count >= lists_before + 2
    })
    .await;
    tests::assert_rows!(pods.get("tides-olm").await.unwrap().metadata.deletion_timestamp => None);
    next.end().await;
}

/// The pod of the former template serves until the edited template has an image. If deleted, the pod is recreated, also
/// after a restart.
async fn pod_is_kept_while_an_edited_template_has_no_image(shelf: &Shelf, registry: &Registry) {
    let image = push_tide(registry, "org/catalog:k1", &["1.0.0"]);
    let template = |tag: &str| {
        let image = registry.image(&format!("org/catalog:{tag}"));
        json!({"image": image, "grpcPodConfig": {"priorityClassName": ""}})
    };
    let served = |leader: &Leader| {
        let served = leader.served();
        served.contains(&r#"{namespace="catalogs",name="dynamic"} 0"#.to_owned())
    };
    let pods = shelf.api::<Pod>("catalogs");
    let pod = async || {
        let mut pods = list(&pods).await.into_iter();
        pods.find(|pod| {
            pod.name_any().starts_with("dynamic-") && pod.metadata.deletion_timestamp.is_none()
        })
    };
    let mut leader = Leader::start(&shelf.cluster, HERE);
    let resolved = template("k{kube_major_version}");
    shelf.declare("catalogs", "dynamic", resolved).await;
    let mut before = found("a pod", pod).await;
    let unresolved = json!({"spec": template("{ocp_major_version}")});
    merge(&shelf.sources("catalogs"), "dynamic", &unresolved).await;
    let reported = json!({"conditions": [{"reason": "UnableToResolve"}]});
    shelf.reports("dynamic", reported).await;
    for is_restarted in [false, true] {
        if is_restarted {
            leader.end().await;
            leader = Leader::start(&shelf.cluster, THERE);
        }
        until("counted", async || served(&leader), |counted| *counted).await;
        delete(&pods, &before.name_any()).await;
        let is_new = |pod: &Option<Pod>| {
            let pod = pod.as_ref();
            pod.is_some_and(|pod| pod.uid() != before.uid())
        };
        before = until("recreated", pod, is_new).await.unwrap();
        let spec = json!({"containers": [{"image": image}]});
        assert_part(&before, &json!({"spec": spec}));
    }
    leader.end().await;
}

fn are_terminating(pods: &[Pod]) -> bool {
    let mut pods = pods.iter();
    pods.all(|pod| pod.metadata.deletion_timestamp.is_some())
}

async fn served_are(leader: &Leader, expected: &[&str]) {
    let served = async || leader.served();
    until("counted", served, |served| *served == expected).await;
}
