//! A catalog of 10,000 bundles: loading and validating it from a directory, and choosing a bundle.

#![allow(clippy::unwrap_used, missing_docs, reason = "benches may panic")]

use std::{hint::black_box, ops::ControlFlow};

use catalog::{
    Limits, Meta, Source,
    choose::{self, CatalogAnswer, Installed, Offer, Request},
    generate::CatalogShape,
    model::REGISTRY_V1,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns the sum of a value of all metas.
fn sum(source: Source<'_>, limits: &Limits, value: impl Fn(&Meta<'_>) -> usize) -> usize {
    let mut sum = 0;
    let visited = catalog::walk(source, limits, |meta| {
        sum += value(&meta.unwrap());
        ControlFlow::<()>::Continue(())
    });
    assert!(visited.unwrap().is_continue());
    sum
}

fn catalogs(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    CatalogShape::default().write(dir.path()).unwrap();
    let source = Source::Directory(dir.path());
    let limits = Limits::default();
    let bytes = sum(source, &limits, |meta| meta.root.source().len());
    let loaded = catalog::load(source, &limits).unwrap();
    assert!(loaded.is_valid() && loaded.packages.len() == 100);

    let mut group = criterion.benchmark_group("catalog");
    let bytes = Throughput::Bytes(bytes as u64);
    group.sample_size(10).throughput(bytes);
    group.bench_function("walk 10,000 bundles", |bencher| {
        bencher.iter(|| sum(source, &limits, |meta| meta.name.len()));
    });
    group.bench_function("load and validate 10,000 bundles", |bencher| {
        bencher.iter(|| catalog::load(source, &limits).unwrap().packages.len());
    });
    group.finish();

    let package = loaded.packages.get("operator-0042").unwrap();
    let bundle = package.bundle("operator-0042.v1.3.0").unwrap();
    let installed = Installed {
        name: bundle.name.clone(),
        version: Some(bundle.version.clone()),
        catalog: None,
    };
    let request = Request {
        package: "operator-0042",
        channel: None,
        range: None,
        minor: None,
        newest: None,
        installed: Some(&installed),
        openshift: Some("4.21.0".parse().unwrap()),
        kubernetes: None,
        overrides: &[],
        media_types: &[REGISTRY_V1],
    };
    let offer = Offer {
        catalog: "catalog",
        priority: 0,
        answer: CatalogAnswer::Package(package),
    };
    criterion.bench_function("choose of 100 bundles", |bencher| {
        bencher.iter(|| choose::choose(black_box(&request), &[offer]));
    });
}

criterion_group!(benches, catalogs);
criterion_main!(benches);
