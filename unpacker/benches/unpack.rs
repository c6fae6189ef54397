//! Reads an image layer into a tree, in bytes of tar per second.
//!
//! The generated layers contain manifests that compress like real ones, and files of an operating system. One benchmark
//! selects a directory, as for bundles on top of base images, and one selects all files.

#![allow(clippy::unwrap_used, missing_docs)] // benchmarks may panic, and criterion's macros have no docs

use std::{
    fmt::Write as _,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, write::GzEncoder};
use tests::fuzz::Random;
use unpacker::{Options, Selection, layers::Layers};

/// Bytes of the uncompressed tar of a bundle and of a base image.
const SIZES: [(&str, u64); 2] = [("1MB", 1 << 20), ("200MB", 200 << 20)];

fn unpacking(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    for (name, size) in SIZES {
        let gzip = directory.path().join(format!("{name}.gz"));
        let zstd = directory.path().join(format!("{name}.zst"));
        let file = |path: &Path| BufWriter::new(File::create(path).unwrap());
        let encoder = GzEncoder::new(file(&gzip), Compression::default());
        let mut done = layer(encoder, size).finish().unwrap();
        done.flush().unwrap();
        let encoder = zstd::Encoder::new(file(&zstd), 3).unwrap();
        layer(encoder, size).finish().unwrap().flush().unwrap();

        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(size)).sample_size(10);
        for (format, path) in [("gzip", &gzip), ("zstd", &zstd)] {
            let only = Selection::Only(vec!["manifests".to_owned()]);
            for (selected, select) in [("one folder", only), ("everything", Selection::All)] {
                group.bench_function(format!("{format}, {selected}"), |bencher| {
                    bencher.iter(|| read(path, &select));
                });
            }
        }
        group.finish();
    }
}

fn read(path: &Path, select: &Selection) -> u64 {
    let options = tests::with!(Options::default() => limits.total: 1 << 30, limits.entries: 1_000_000, select: select.clone());
    let mut layers = Layers::new(&options).unwrap();
    layers.push("layer", File::open(path).unwrap()).unwrap();
    layers.finish().0.size()
}

/// Writes a bundle, followed by other files up to the size.
fn layer<W: Write>(writer: W, size: u64) -> W {
    let mut tar = tar::Builder::new(writer);
    let (mut written, mut number, mut random) = (0, 0, Random::new(1));
    while written < size {
        let path = match number {
            0..10 => format!("manifests/{number}.yaml"),
            _ => format!("usr/lib/{}/{number}.so", number % 100),
        };
        let text = text(&mut random, 20_000);
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
        written += text.len() as u64 + 1024;
        number += 1;
    }
    tar.into_inner().unwrap()
}

/// Returns text with numbers, which gzip compresses to about a quarter.
fn text(random: &mut Random, size: usize) -> String {
    let mut text = String::new();
    while text.len() < size {
        let (line, value) = (text.len(), random.number());
        write!(
            text,
            "    - name: field-{line}\n      description: what it is for\n"
        )
        .unwrap();
        writeln!(text, "      value: {value:x}").unwrap();
    }
    text
}

criterion_group!(benches, unpacking);
criterion_main!(benches);
