//! Stores in their directory: build, reuse, rejection and omission.

use std::os::unix::fs::PermissionsExt;

use catalog::registry::{Error, StoreError};

use crate::dynamic::Dynamic;
use crate::fixture::{Served, anchor, build, bundle, buoy, chained, dir, write};
use crate::testing::{has, starts};
use crate::*;

fn load(cache: &Cache, catalog: &Path) -> Result<Store, Error> {
    cache.load(Source::Directory(catalog), &Limits::default())
}

fn load_or_build(cache: &Cache, catalog: &Path) -> (Store, bool) {
    let source = Source::Directory(catalog);
    cache.load_or_build(source, &Limits::default()).unwrap()
}

fn only(directory: &Path) -> PathBuf {
    let mut files = fs::read_dir(directory).unwrap();
    let file = files.next().unwrap().unwrap();
    assert!(files.next().is_none());
    file.path()
}

// parity: grpc-7, complaint-18
#[test]
fn store_is_built_once_and_loaded_for_the_same_content() {
    let catalog = dir(&[("a.json", &anchor())]);
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("deep/cache");
    let cache = Cache::open(&directory).unwrap();
    let error = load(&cache, catalog.path()).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error:?}");
    let error = load(&cache, &catalog.path().join("absent")).unwrap_err();
    assert!(matches!(error, Error::Source(_)), "{error:?}");

    let [(first, is_new), (second, is_new_again)] =
        [(); 2].map(|()| load_or_build(&cache, catalog.path()));
    assert_eq!((is_new, is_new_again), (true, false));
    assert_eq!(first.digest(), second.digest());
    assert_eq!(load(&cache, catalog.path()).unwrap().packages(), 1);

    // Only names and bytes are significant.
    let copy = dir(&[("a.json", &anchor())]);
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(copy.path().join("a.json"), mode).unwrap();
    assert!(!load_or_build(&cache, copy.path()).1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&only(&directory))), (0o770, 0o660));

    write(catalog.path(), "b.json", &buoy());
    let reported = first.digest().to_string();
    let start = format!("cache requires rebuild: cache reports digest as {reported:?}");
    let error = load(&cache, catalog.path()).unwrap_err();
    starts(error, &(start + ", but computed digest is \""));

    // The old store is deleted, but open readers continue.
    let (new, is_new) = load_or_build(&cache, catalog.path());
    assert!(is_new && new.packages() == 2);
    assert!(only(&directory).ends_with(format!("{}.registry", new.digest())));
    first.verify().unwrap();
}

// parity: grpc-7
#[test]
fn only_leftovers_of_killed_processes_are_removed() {
    let catalog = dir(&[("a.json", &anchor())]);
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::open(place.path()).unwrap();
    let [abandoned, written] = ["unfinished-1", "unfinished-2"].map(|name| place.path().join(name));
    fs::write(&abandoned, "half").unwrap();
    let writing = fs::File::create(&written).unwrap();
    writing.lock().unwrap();
    load_or_build(&cache, catalog.path());
    assert_eq!((abandoned.exists(), written.exists()), (false, true));

    // A foreign directory is not modified.
    let place = tempfile::tempdir().unwrap();
    for name in ["pogreb.v1", "cache", "digest"] {
        fs::create_dir(place.path().join(name)).unwrap();
    }
    Cache::open(place.path()).unwrap();
    fs::write(place.path().join("precious"), "").unwrap();
    fs::write(place.path().join("also"), "").unwrap();
    let start = "cache directory has unexpected contents: also,precious";
    starts(Cache::open(place.path()).unwrap_err(), start);
}

#[test]
fn store_is_limited_to_its_quota() {
    // YAML aliases expand a short text to a long one.
    let bundle = "schema: olm.bundle\npackage: a\nname: a.v1\nimage: b:1\nproperties:\n- {type: olm.package, value: {packageName: a, version: 1.0.0}}\n- type: long\n  value: &long [";
    let text = format!("{bundle}{}]\n", "x".repeat(10_000));
    let again = "- {type: again, value: *long}\n".repeat(200);
    let catalog = tempfile::tempdir().unwrap();
    fs::write(catalog.path().join("a.yaml"), format!("{text}{again}")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let build = |most: Option<u64>, limits: &Limits| {
        let cache = Cache::open(place.path()).unwrap();
        let cache = most.map_or(cache.clone(), |most| cache.at_most(most));
        cache.load_or_build(Source::Directory(catalog.path()), limits)
    };
    for (most, limit) in [(Some(1 << 19), 1 << 19), (None, 1 << 20)] {
        let error = build(most, &with!(Limits, total: 1 << 20)).unwrap_err();
        let is_expected =
            matches!(error, Error::Store(StoreError::TooLarge { most }) if most == limit);
        assert!(is_expected, "{error}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
    assert!(build(None, &Limits::default()).is_ok());
}

// parity: grpc-7, complaint-18
#[test]
fn truncated_and_foreign_files_are_rebuilt() {
    let catalog = dir(&[("a.json", &anchor()), ("b.json", &buoy())]);
    let place = tempfile::tempdir().unwrap();
    let cache = Cache::open(place.path()).unwrap();
    load_or_build(&cache, catalog.path());
    let file = only(place.path());
    let good = fs::read(&file).unwrap();
    let magic = b"rkregis\x01";
    let mut bad = vec![vec![], magic.to_vec(), magic.repeat(20)];
    bad.extend([1, 79, 80, 200].map(|length| good[..good.len() - length].to_vec()));
    let longer = [&good[..], b"more"].concat();
    bad.extend([vec![0; good.len()], good[1..].to_vec(), longer]);
    // The index claims the length of the whole file.
    let mut long = good.clone();
    let at = long.len() - 80;
    long[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    bad.push(long);
    let rebuild = || {
        assert!(load(&cache, catalog.path()).is_err());
        let (store, is_new) = load_or_build(&cache, catalog.path());
        assert!(is_new);
        store.verify().unwrap();
    };
    for bytes in bad {
        fs::write(&file, &bytes).unwrap();
        let error = Store::open(&file).unwrap_err();
        assert_rows!(matches!(error, StoreError::Damaged { .. }) => true, "{} bytes: {error:?}", bytes.len());
        rebuild();
    }
    // The store can be opened, but its content is damaged.
    let mut damaged = good;
    damaged[8] ^= 1;
    fs::write(&file, damaged).unwrap();
    Store::open(&file).unwrap();
    rebuild();
}

/// A digest or a checksum covers every byte of the file, or the byte is never read.
// parity: grpc-7
#[test]
fn changed_bytes_are_never_served() {
    let catalog = dir(&[("a.json", &anchor()), ("b.json", &buoy())]);
    let (store, place) = build(catalog.path());
    let file = only(place.path());
    let good = fs::read(&file).unwrap();
    drop(store);
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&file, &bytes).unwrap();
        let read = Store::open(&file).and_then(|store| store.verify());
        assert!(read.is_err(), "byte {at} of {}", good.len());
    }
    fs::write(&file, &good).unwrap();
    Store::open(&file).unwrap().verify().unwrap();
}

fn plain(mut bundle: Value) -> Value {
    let property = json!({"type": "olm.bundle.mediatype", "value": "plain+v0"});
    bundle["properties"].as_array_mut().unwrap().push(property);
    bundle
}

// parity: platform-28
#[tokio::test]
async fn edges_bypass_bundles_of_other_formats() {
    let metas = [
        json!({"schema": "olm.package", "name": "mixed", "defaultChannel": "new"}),
        json!({"schema": "olm.channel", "package": "mixed", "name": "all", "entries": [
            {"name": "mixed.v1.0.0"},
            {"name": "mixed.v2.0.0", "replaces": "mixed.v1.0.0", "skips": ["mixed.v1.5.0"]},
            {"name": "mixed.v3.0.0", "replaces": "mixed.v2.0.0"},
            {"name": "mixed.v4.0.0", "replaces": "mixed.v3.0.0"},
        ]}),
        json!({"schema": "olm.channel", "package": "mixed", "name": "new", "entries": [{"name": "mixed.v4.0.0"}]}),
        bundle("mixed", "1.0.0", &[]),
        plain(bundle("mixed", "2.0.0", &[])),
        bundle("mixed", "3.0.0", &[]),
        plain(bundle("mixed", "4.0.0", &[])),
    ];
    let other = chained("plain", "c", &[plain(bundle("plain", "1.0.0", &[]))]);
    let catalog = dir(&[("mixed.json", &metas), ("plain.json", &other)]);
    let served = Served::start(catalog.path()).await;
    let client = Dynamic::connect(served.address).await;
    let call = async |rpc: &str, asked| client.call(rpc, asked).await.unwrap();
    let bundles = call("ListBundles", json!({})).await;
    let edges = ["csvName", "replaces", "skips"].map(|field| &bundles[1][field]);
    let channels = json!([{"name": "all", "csvName": "mixed.v3.0.0"}]);
    assert_rows! {
        call("GetPackage", json!({"name": "mixed"})).await
            => [json!({"name": "mixed", "channels": channels, "defaultChannelName": "all"})];
        (bundles.len(), json!(edges)) => (2, json!(["mixed.v3.0.0", "mixed.v1.0.0", ["mixed.v1.5.0"]]));
        call("ListPackages", json!({})).await => [json!({"name": "mixed"})];
    }
}

// parity: validate-11, grpc-5
#[test]
fn broken_package_does_not_affect_others() {
    let broken = [
        json!({"schema": "olm.package", "name": "broken", "defaultChannel": "no"}),
        json!({"schema": "olm.channel", "package": "broken", "name": "c", "entries": [{"name": "broken.v1"}]}),
    ];
    let two = json!({"type": "olm.csv.metadata", "value": {"displayName": "x"}});
    let double = bundle("double", "1.0.0", &[two.clone(), two]);
    let double = chained("double", "c", &[double]);
    let value = json!({"type": "x", "value": "x".repeat(5 << 20)});
    let large = bundle("large", "1.0.0", &[value]);
    let large = chained("large", "c", &[large]);
    let odd = [
        json!({"schema": "../odd", "name": "x"}),
        json!({"schema": "fine", "package": "a b"}),
    ];
    let catalog = dir(&[
        ("anchor.json", &anchor()),
        ("broken.json", &broken),
        ("double.json", &double),
        ("large.json", &large),
        ("odd.json", &odd),
    ]);
    let garbage = "{\"schema\": \"olm.bundle\", \"package\": \"garbage\", ";
    fs::write(catalog.path().join("garbage.json"), garbage).unwrap();
    let (store, _place) = build(catalog.path());
    assert_eq!(store.packages(), 1);
    store.verify().unwrap();
    let left_out = store.skipped().join("\n");
    for name in ["broken", "double", "large", "../odd", "a b"] {
        has(&left_out, name);
    }
    has(&left_out, "garbage.json:1: unexpected end of JSON input");
}
