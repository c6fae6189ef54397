//! A catalog of 10,000 bundles: rendering in both formats, compared with one run of the real opm.

#![allow(clippy::unwrap_used, missing_docs, reason = "benches may panic")]

use std::{io, path::Path, time::Instant};

use catalog::{
    Limits, Source,
    generate::CatalogShape,
    render::{Format, Level, Render},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn run(dir: &Path, format: Format, out: &mut dyn io::Write) {
    let mut render = Render::new(Level::None);
    render
        .catalog(Source::Directory(dir), &Limits::default())
        .unwrap();
    render.finish().write(format, out).unwrap();
}

fn render(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    CatalogShape::default().write(dir.path()).unwrap();
    let mut group = criterion.benchmark_group("render 10,000 bundles");
    group.sample_size(10);
    for format in [Format::Json, Format::Yaml] {
        let name = format.extension();
        let started = Instant::now();
        let theirs = tests::opm(dir.path(), &["render", ".", "-o", name]);
        assert!(theirs.status.success());
        println!("opm, {name}: {:?}", started.elapsed());
        let mut output = Vec::new();
        run(dir.path(), format, &mut output);
        assert!(
            output == theirs.stdout,
            "the output differs from that of opm"
        );
        group.throughput(Throughput::Bytes(output.len() as u64));
        drop((output, theirs));
        group.bench_function(name, |bencher| {
            bencher.iter(|| run(dir.path(), format, &mut io::sink()));
        });
    }
    group.finish();
}

criterion_group!(benches, render);
criterion_main!(benches);
