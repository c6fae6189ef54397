//! Conversion of a bundle's files to the text of its plain manifests: a typical bundle, a bundle of one megabyte, and,
//! with `RUKPAK_CORPUS`, a hundred published ones in one process.

#![allow(clippy::unwrap_used, missing_docs, reason = "benches may panic")]

use std::{fs, hint::black_box, path::Path, thread};

use convert::Options;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use manifests::{
    content::{Builder, Content, Limits},
    yaml,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn open(bundle: &Path) -> Content {
    unpacker::open(bundle, &unpacker::Options::default())
        .unwrap()
        .content
}

/// Converts and writes a bundle. The returned length keeps the optimizer from removing the work.
fn run(content: &Content) -> usize {
    let objects = convert::plain(content, &Options::default()).objects;
    let texts = objects.iter().flatten().map(yaml::to_string);
    texts.map(|text| text.unwrap().len()).sum()
}

/// The example with its large CRD four times, under different names.
fn megabyte(example: &Content) -> Content {
    let mut files = Builder::new(Limits::default());
    for (path, file) in example.files() {
        files.add(path, 0o644, &mut file.bytes.as_ref()).unwrap();
        if path.ends_with("stations.yaml") {
            let text = String::from_utf8(file.bytes.to_vec()).unwrap();
            for copy in 0..3 {
                let text = text
                    .replace("tations", &format!("tations{copy}"))
                    .replace("kind: Station", &format!("kind: Station{copy}"));
                let path = format!("manifests/copy{copy}.yaml");
                files.add(&path, 0o644, &mut text.as_bytes()).unwrap();
            }
        }
    }
    files.finish()
}

fn bundles(c: &mut Criterion) {
    let example =
        open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/bundles/tidewatch"));
    let megabyte = megabyte(&example);
    let mut group = c.benchmark_group("convert");
    for (name, content) in [("typical", &example), ("megabyte", &megabyte)] {
        group.throughput(Throughput::Bytes(content.size()));
        group.bench_function(name, |b| b.iter(|| black_box(run(content))));
    }
    if let Some(corpus) = std::env::var_os("RUKPAK_CORPUS") {
        let dirs = fs::read_dir(Path::new(&corpus).join("bundles")).unwrap();
        let all: Vec<Content> = dirs.map(|dir| open(&dir.unwrap().path())).collect();
        group.throughput(Throughput::Bytes(all.iter().map(Content::size).sum()));
        group.bench_function("corpus, one thread", |b| {
            b.iter(|| black_box(all.iter().map(run).sum::<usize>()));
        });
        let half = |start| all.iter().skip(start).step_by(2).map(run).sum::<usize>();
        group.bench_function("corpus, two threads", |b| {
            b.iter(|| {
                thread::scope(|scope| {
                    let second = scope.spawn(|| half(1));
                    black_box(half(0) + second.join().unwrap())
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bundles);
criterion_main!(benches);
