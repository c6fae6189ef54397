//! Writes to the content store, verified reads from disk, and reads from memory.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench fails by panicking"
)]

use std::{fmt::Write as _, hint::black_box, io};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use manifests::content::{Builder, Limits};
use tests::fuzz::Random;
use unpacker::{Content, Format, Store, Tree, store::Budget};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LIMITS: Limits = Limits {
    total: 1 << 30,
    file: 1 << 30,
    entries: 10_000,
    path: 1024,
    depth: 32,
};

/// Returns files of 50 kB that compress like manifests.
fn content(size: usize, seed: u64) -> Content {
    let (mut files, mut random) = (Builder::new(LIMITS), Random::new(seed));
    for at in 0..size / 50_000 {
        let mut text = String::new();
        while text.len() < 50_000 {
            let number = random.number();
            writeln!(text, "key{}: {}", number >> 50, number >> 40).unwrap();
        }
        let path = format!("manifests/{at}.yaml");
        files.add(&path, 0o644, &mut text.as_bytes()).unwrap();
    }
    files.finish()
}

fn store(c: &mut Criterion) {
    for (name, size) in [("1 MB", 1_000_000), ("200 MB", 200_000_000)] {
        let mut group = c.benchmark_group(format!("store/{name}"));
        group
            .throughput(Throughput::Bytes(size as u64))
            .sample_size(10);
        let directory = tempfile::tempdir().unwrap();
        let open = |memory| {
            let disk = 4 << 30;
            Store::open(directory.path(), Budget { disk, memory }).unwrap()
        };
        let (cold, warm) = (open(0), open(1 << 30));
        let tree = Tree::from_content(content(size, 1));
        let digest = cold.put(&tree).unwrap().digest;
        group.bench_function("put", |b| {
            let remove = || cold.remove(&digest).unwrap();
            let put = |()| cold.put(&tree).unwrap().size;
            b.iter_batched(remove, put, BatchSize::PerIteration);
        });
        cold.put(&tree).unwrap();
        group.bench_function("get from disk", |b| {
            b.iter(|| black_box(cold.get(&digest, &LIMITS).unwrap()));
        });
        warm.get(&digest, &LIMITS).unwrap();
        group.bench_function("get from memory", |b| {
            b.iter(|| black_box(warm.get(&digest, &LIMITS).unwrap()));
        });
        for (name, format) in [("serve tar", Format::Tar), ("serve tar.gz", Format::TarGz)] {
            group.bench_function(name, |b| {
                b.iter(|| {
                    let mut served = cold.served(&digest, format).unwrap();
                    io::copy(&mut served, &mut io::sink()).unwrap()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, store);
criterion_main!(benches);
