//! Decisions after each change of a platform operator: the upgrade gate and the status of the ClusterOperator. Measured
//! with a thousand platform operators, some of which fail.

#![allow(clippy::unwrap_used, missing_docs, reason = "benches may panic")]

use std::{collections::BTreeMap, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use manifests::{
    api::{bundle_instance::BundleInstance, platform_operator::PlatformOperator},
    openshift::Release,
};
use provisioner::controllers::cluster_operator::{
    instance::ObservedInstance,
    model::{self, Input},
    upgradeable::{ClusterKind, InstalledOperator, assess},
};
use serde_json::{Value, json};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const COUNT: u64 = 1000;

fn condition(type_: &str, number: u64) -> Value {
    let is_well = !number.is_multiple_of(10);
    json!({
        "type": type_, "status": if is_well { "True" } else { "False" },
        "reason": if is_well { "InstallSuccessful" } else { "UnpackFailed" },
        "message": "what there is to be said about it, in a sentence or two".repeat(4),
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    })
}

fn operator(number: u64) -> PlatformOperator {
    serde_json::from_value(json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": format!("operator-{number}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"package": {"name": format!("package-{number}")}},
        "status": {
            "conditions": [condition("Installed", number), condition("Upgradeable", number)],
            "activeBundleInstance": {"name": format!("operator-{number}")},
        },
    }))
    .unwrap()
}

fn instance(number: u64) -> BundleInstance {
    serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
        "metadata": {"name": format!("operator-{number}")},
        "spec": {
            "provisionerClassName": "core-rukpak-io-registry",
            "template": {"spec": {"source": {"type": "image", "image": {"ref": "quay.io/example/bundle:v1"}}}},
        },
        "status": {
            "installedBundleName": format!("operator-{number}-abc"), "installNamespace": format!("system-{number}"),
            "package": format!("package-{number}"), "version": "1.2.3", "maxOpenShiftVersion": format!("4.{}", 12 + number % 3),
            "conditions": [condition("Installed", number), condition("Healthy", number)],
        },
    }))
    .unwrap()
}

fn of_a_thousand(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("platform");
    group.throughput(Throughput::Elements(COUNT));
    let operators: Vec<PlatformOperator> = (0..COUNT).map(operator).collect();
    let instances = (0..COUNT).map(|number| ObservedInstance::new(&instance(number)));
    let instances: Vec<ObservedInstance> = instances.collect();
    let cluster = ClusterKind::OpenShift(Ok(Release::new(4, 12)));
    let gate = || {
        let maxima = BTreeMap::new();
        let installed: Vec<InstalledOperator> = instances
            .iter()
            .filter_map(|instance| InstalledOperator::of_instance(instance, &maxima))
            .collect();
        assess(black_box(&cluster), &installed, &[])
    };
    group.bench_function("gate", |bencher| bencher.iter(gate));

    let verdict = gate();
    let input = || Input {
        operators: Ok(operators.iter().collect()),
        instances: instances.iter().collect(),
        is_installing: false,
        is_updating: false,
        gate: &verdict,
        catalog_maxima: BTreeMap::new(),
        now: "2026-01-02T00:00:00Z".parse().unwrap(),
    };
    let before = model::cluster_operator(None, &input(), "rukpak-system", None).status;
    assert_eq!(before.conditions.len(), 4);
    group.bench_function("aggregate", |bencher| {
        bencher.iter(|| {
            let before = black_box(Some(&before));
            model::cluster_operator(before, &input(), "rukpak-system", None)
        });
    });
    group.finish();
}

criterion_group!(benches, of_a_thousand);
criterion_main!(benches);
