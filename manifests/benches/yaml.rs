//! Reading and writing YAML, in bytes of YAML per second.
//!
//! The input is generated: CRD-like documents of nested schemas and CSV-like ones of long text. The `bundles` bench of
//! `convert` also reads real bundles.

#![allow(clippy::unwrap_used, missing_docs)] // a benchmark may fail loudly, and its macros document nothing

use std::{fmt::Write, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use manifests::yaml;
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn reading_and_writing(criterion: &mut Criterion) {
    measure(criterion, "schemas", &schemas(8, 4));
    measure(criterion, "prose", &prose(2_000));
}

fn measure(criterion: &mut Criterion, name: &str, file: &str) {
    let mut group = criterion.benchmark_group(name);
    let bytes = Throughput::Bytes(file.len() as u64);
    group.throughput(bytes).sample_size(10);
    group.bench_function("read", |bencher| bencher.iter(|| read(file)));
    // The document end marker requires the complete reader.
    let ended = format!("{file}\n...\n");
    group.bench_function("read completely", |bencher| bencher.iter(|| read(&ended)));
    let values = read(file);
    let write = || values.iter().map(write).sum::<usize>();
    group.throughput(Throughput::Bytes(write() as u64));
    group.bench_function("write", |bencher| bencher.iter(write));
    group.finish();
}

fn read(input: &str) -> Vec<Value> {
    let documents = yaml::documents(black_box(input.as_bytes()));
    documents.map(Result::unwrap).collect()
}

fn write(value: &Value) -> usize {
    let mut text = String::new();
    yaml::write(&mut text, black_box(value));
    text.len()
}

/// A CRD-like document with `width` properties on each of `depth` levels.
fn schemas(width: usize, depth: usize) -> String {
    let mut text =
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n".to_owned();
    schema(&mut text, width, depth, "  ");
    text
}

fn schema(text: &mut String, width: usize, depth: usize, indent: &str) {
    let mut add = |line: &str| writeln!(text, "{indent}{line}").unwrap();
    add("description: The meaning of the field and of all fields below, with text that");
    add("  continue on another line. See https://example.com/#docs for more");
    let fields: &[&str] = match depth {
        0 => &["format: int32", "maximum: 65535", "type: integer"],
        _ => &["type: object", "required:", "- property0", "properties:"],
    };
    for line in fields {
        add(line);
    }
    if depth > 0 {
        for number in 0..width {
            writeln!(text, "{indent}  property{number}:").unwrap();
            schema(text, width, depth - 1, &format!("{indent}    "));
        }
    }
}

/// A CSV-like document with many paragraphs, examples and lists.
fn prose(paragraphs: usize) -> String {
    let mut text =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n".to_owned();
    text.push_str("spec:\n  description: |\n");
    for number in 0..paragraphs {
        let line = "It explains the purpose of the operator.";
        writeln!(text, "    ## Section {number}\n\n    {line}").unwrap();
    }
    text.push_str("  links:\n");
    for number in 0..paragraphs {
        writeln!(text, "  - name: \"Link {number}\"\n    on: 'no'").unwrap();
        writeln!(text, "    url: https://example.com/{number}").unwrap();
    }
    text
}

criterion_group!(benches, reading_and_writing);
criterion_main!(benches);
