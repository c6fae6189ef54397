//! Helpers for the unit tests and the test programs of this crate.

#![allow(dead_code, unused_imports)] // a test program uses only a part of the helpers

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use manifests::content::{self, Builder, Content};
use serde_json::{Value, json};

pub(crate) use ::tests::assert_has as has;

#[track_caller]
pub(crate) fn starts(text: impl Display, start: &str) {
    let text = text.to_string();
    assert!(text.starts_with(start), "{text:.2000}\nwithout {start}");
}

pub(crate) fn content<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Content {
    let mut builder = Builder::new(::tests::with!(content::Limits, total: 1 << 30, file: 1 << 30));
    for (path, bytes) in files {
        builder.add(path, 0o644, &mut bytes.as_ref()).unwrap();
    }
    builder.finish()
}

pub(crate) fn package(name: &str, default_channel: &str) -> Value {
    json!({"schema": "olm.package", "name": name, "defaultChannel": default_channel})
}

pub(crate) fn channel(package: &str, name: &str, entries: &Value) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

pub(crate) fn bundle(package: &str, name: &str, version: &str) -> Value {
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": "quay.io/foo/bundle:v1", "properties": [
        {"type": "olm.package", "value": {"packageName": package, "version": version}}]})
}

/// Returns a package whose bundles replace one another in one channel.
pub(crate) fn chained(package: &str, channel: &str, bundles: &[Value]) -> Vec<Value> {
    let mut before = Value::Null;
    let entry = |bundle: &Value| {
        let name = bundle["name"].clone();
        json!({"name": name, "replaces": std::mem::replace(&mut before, name.clone())})
    };
    let channel_blob = self::channel(package, channel, &bundles.iter().map(entry).collect());
    [
        &[self::package(package, channel), channel_blob][..],
        bundles,
    ]
    .concat()
}

/// Returns a property with a manifest.
pub(crate) fn object(manifest: &str) -> Value {
    json!({"type": "olm.bundle.object", "value": {"data": BASE64_STANDARD.encode(manifest)}})
}

/// Returns a file with one document per line.
pub(crate) fn lines(documents: &[Value]) -> String {
    list(documents, |document| format!("{document}\n"))
}

/// Returns the files of a bundle, whose ClusterServiceVersion has this name and version, and more metadata and spec.
pub(crate) fn bundle_files(package: &str, name: &str, version: &str, more: &Value) -> Content {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"version": version, "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    for part in ["metadata", "spec"] {
        let more = more[part].as_object().cloned().unwrap_or_default();
        csv[part].as_object_mut().unwrap().extend(more);
    }
    content(&::tests::rows![
        "manifests/csv.json" => csv.to_string();
        "metadata/annotations.yaml" => ::tests::registry_annotations(package, "other,stable").to_string();
    ])
}

/// Concatenates the texts of all items.
pub(crate) fn list<I: IntoIterator, T: Display>(
    items: I,
    mut text: impl FnMut(I::Item) -> T,
) -> String {
    let texts = items.into_iter().map(|item| text(item).to_string());
    texts.collect()
}

pub(crate) fn within<T>(seconds: u64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(seconds), "took {took:?}");
    done
}

/// Generous, because other work runs on the machine. Quadratic run time would take hours.
pub(crate) fn in_time<T>(work: impl FnOnce() -> T) -> T {
    within(60, work)
}
