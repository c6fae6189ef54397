//! Reading and writing YAML, in bytes of YAML per second.
//!
//! The input is generated: CRD-like documents of nested schemas and CSV-like ones of long text. With
//! `RUKPAK_CORPUS=folder` the YAML files below a directory are measured, too.

#![allow(clippy::unwrap_used, missing_docs)] // a benchmark may fail loudly, and its macros document nothing

use std::{env, fmt::Write, fs, hint::black_box, path::Path};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use manifests::yaml;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn reading_and_writing(criterion: &mut Criterion) {
    measure(criterion, "schemas", &[schemas(8, 4).into_bytes()]);
    measure(criterion, "prose", &[prose(2_000).into_bytes()]);
    if let Ok(corpus) = env::var("RUKPAK_CORPUS") {
        let mut files = Vec::new();
        collect(Path::new(&corpus), &mut files);
        measure(criterion, "corpus", &files);
    }
}

fn measure(criterion: &mut Criterion, name: &str, files: &[Vec<u8>]) {
    let bytes = files.iter().map(|file| file.len() as u64).sum();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("read", |bencher| {
        bencher.iter(|| files.iter().map(|file| read(file)).collect::<Vec<_>>());
    });
    // The document end marker requires the complete reader.
    let ended: Vec<_> = files
        .iter()
        .map(|file| [file.as_slice(), b"\n...\n"].concat())
        .collect();
    group.bench_function("read completely", |bencher| {
        bencher.iter(|| ended.iter().map(|file| read(file)).collect::<Vec<_>>());
    });
    let values: Vec<_> = files.iter().flat_map(|file| read(file)).collect();
    let write = || {
        values
            .iter()
            .map(|value| write(value).len() as u64)
            .sum::<u64>()
    };
    group.throughput(Throughput::Bytes(write()));
    group.bench_function("write", |bencher| bencher.iter(write));
    group.finish();
}

fn read(input: &[u8]) -> Vec<Value> {
    yaml::documents(black_box(input))
        .filter_map(Result::ok)
        .collect()
}

fn write(value: &Value) -> String {
    let mut text = String::new();
    yaml::write(&mut text, black_box(value));
    text
}

/// A CRD-like document with `width` properties on each of `depth` levels.
fn schemas(width: usize, depth: usize) -> String {
    let mut text =
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n".to_owned();
    schema(&mut text, width, depth, 2);
    text
}

fn schema(text: &mut String, width: usize, depth: usize, column: usize) {
    let indent = " ".repeat(column);
    writeln!(
        text,
        "{indent}description: What the field at column {column} is for, in words that"
    )
    .unwrap();
    writeln!(
        text,
        "{indent}  continue on another line. See https://example.com/#docs for more"
    )
    .unwrap();
    if depth == 0 {
        writeln!(
            text,
            "{indent}format: int32\n{indent}maximum: 65535\n{indent}type: integer"
        )
        .unwrap();
        return;
    }
    writeln!(
        text,
        "{indent}type: object\n{indent}required:\n{indent}- property0\n{indent}properties:"
    )
    .unwrap();
    for number in 0..width {
        writeln!(text, "{indent}  property{number}:").unwrap();
        schema(text, width, depth - 1, column + 4);
    }
}

/// A CSV-like document with many paragraphs, examples and lists.
fn prose(paragraphs: usize) -> String {
    let mut text =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nspec:\n"
            .to_owned();
    text.push_str("  description: |\n");
    for number in 0..paragraphs {
        writeln!(
            text,
            "    ## Section {number}\n\n    It explains what the operator does: everything."
        )
        .unwrap();
    }
    text.push_str("  links:\n");
    for number in 0..paragraphs {
        writeln!(
            text,
            "  - name: \"Link {number}\"\n    url: https://example.com/{number}\n    on: 'no'"
        )
        .unwrap();
    }
    text
}

fn collect(dir: &Path, files: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|kind| kind == "yaml" || kind == "yml")
        {
            files.push(fs::read(path).unwrap());
        }
    }
}

criterion_group!(benches, reading_and_writing);
criterion_main!(benches);
