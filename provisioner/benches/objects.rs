//! Work per object of an instance, with ten thousand objects: planning in each attempt, the comparison with the watches
//! in each reconcile, and hashing the fields of each event.

#![allow(clippy::unwrap_used, missing_docs, reason = "benches may panic")]

use std::{collections::BTreeSet, hint::black_box, sync::Arc};

use apply::{
    discovery::{ApiKind, DiscoveredKinds},
    drift,
    health::Health,
    informers::{InstanceView, ObservedObject},
    inventory::{Entry, Inventory},
    managed_fields::Fingerprint,
    plan::{self, InstanceOwner},
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kube::core::{ApiResource, GroupVersionKind};
use manifests::object::Object;
use serde_json::{Value, json};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const COUNT: u64 = 10_000;
const MANAGER: &str = "rukpak";

fn objects() -> Vec<Object> {
    let object = |number| {
        Object::try_from(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{number}"), "namespace": "operators"},
            "data": {"number": format!("{number}")},
        }))
    };
    (0..COUNT).map(|number| object(number).unwrap()).collect()
}

/// The managedFields of a Deployment: the provisioner's entry and that of the Deployment controller.
fn metadata() -> Value {
    let fields: serde_json::Map<String, Value> = (0..60)
        .map(|number| (format!("f:field{number}"), json!({"f:nested": {}})))
        .collect();
    json!({"managedFields": [
        {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": fields}},
    ]})
}

fn of_ten_thousand(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("objects");
    group.throughput(Throughput::Elements(COUNT));

    let resource = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let kind = ApiKind {
        resource: ApiResource::from_gvk(&resource),
        namespaced: true,
    };
    let kinds = DiscoveredKinds::from([(resource, Some(Arc::new(kind)))]);
    let owner = InstanceOwner {
        name: "bench".to_owned(),
        uid: "00000000-0000-0000-0000-000000000000".to_owned(),
    };
    let fields = Fingerprint::from_metadata(&metadata(), MANAGER);
    let inventory: Inventory = objects()
        .iter()
        .map(|object| {
            let entry = Entry {
                version: "v1".to_owned(),
                fields,
                recreating: false,
            };
            (object.identity(), entry)
        })
        .collect();
    let optional = BTreeSet::new();
    group.bench_function("plan", |bencher| {
        bencher.iter_batched(
            objects,
            |objects| plan::new(objects, &kinds, &inventory, &owner, "operators", &optional),
            BatchSize::LargeInput,
        );
    });

    let observed = ObservedObject {
        hash: None,
        version: 1,
        fields,
        deleting: false,
        health: Health::Current,
        writer: None,
    };
    let mut view = InstanceView {
        synced: true,
        objects: inventory
            .keys()
            .map(|identity| (identity.clone(), observed.clone()))
            .collect(),
        ..InstanceView::default()
    };
    let changed = inventory.keys().next().unwrap();
    view.objects.get_mut(changed).unwrap().fields = None;
    assert_eq!(drift::drifted(&inventory, &view).len(), 1);
    group.bench_function("drift", |bencher| {
        bencher.iter(|| drift::drifted(black_box(&inventory), black_box(&view)).len());
    });
    group.finish();

    let metadata = metadata();
    criterion.bench_function("fingerprint", |bencher| {
        bencher.iter(|| Fingerprint::from_metadata(black_box(&metadata), MANAGER));
    });
}

criterion_group!(benches, of_ten_thousand);
criterion_main!(benches);
