//! Lookup of bundles and of the max OpenShift versions that catalogs declare.

use super::*;

#[test]
fn a_maximum_counts_for_the_same_package_bundle_and_digest() {
    let mut cache = listing(&["ours"]);
    cache.listed("ours");
    let all = [
        ("a", 0, "sha256:1", "4.12"),
        ("b", 5, "sha256:1", "4.13"),
        ("c", 9, "sha256:2", "4.14"),
    ];
    let none = CatalogIdentity::default();
    for (name, priority, digest, max) in all {
        let read = stocked(digest, max);
        put(&mut cache, &key("ours", name), priority, read);
    }
    let expected = [
        ("etcd", "etcd.v1", "sha256:1", declares("4.13")),
        ("etcd", "etcd.v1", "sha256:2", declares("4.14")),
        ("etcd", "etcd.v1", "sha256:3", CatalogMaximum::NotFound),
        ("etcd", "etcd.v2", "sha256:1", CatalogMaximum::NotFound),
        ("other", "etcd.v1", "sha256:1", CatalogMaximum::NotFound),
    ];
    for (package, bundle, digest, expected) in &expected {
        assert_rows!(cache.declared_maximum(package, bundle, digest) => *expected, "{package} {bundle} {digest}");
    }
    // The last observed value of an unavailable catalog counts; a package that it did not have may have been added.
    for (name, ..) in all {
        cache.set_problem(&key("ours", name), &none, "away".to_owned());
    }
    for (package, bundle, digest, expected) in expected {
        assert_rows! {
            cache.declared_maximum(package, bundle, digest)
                => match expected { CatalogMaximum::NotFound => CatalogMaximum::Unavailable(None), other => other }, "{package} {bundle} {digest}";
        }
    }
}

// parity: serve-17, complaint-3
#[test]
fn unread_catalog_of_higher_priority_is_not_overruled() {
    let none = CatalogIdentity::default();
    let value = |cache: &CatalogCache| cache.declared_maximum("etcd", "etcd.v1", "sha256:1");
    // After a restart, the catalog of lower priority is read first.
    let mut cache = CatalogCache::default();
    assert_eq!(
        value(&cache),
        CatalogMaximum::Unavailable(None),
        "not observed yet"
    );
    cache.reset(&["ours".to_owned(), "theirs".to_owned()]);
    let (first, later) = (key("ours", "first"), key("ours", "later"));
    put(&mut cache, &later, 0, stocked("sha256:1", "4.14"));
    assert_rows! {
        { cache.listed("ours"); value(&cache) } => away("4.14"), "there may be others";
        { cache.listed("theirs"); value(&cache) } => declares("4.14");
        { cache.add(&first, &none, 10); value(&cache) } => away("4.14");
        { cache.set_problem(&first, &none, "nobody is there".to_owned()); value(&cache) } => away("4.14");
        { cache.read(&first, &none, stocked("sha256:1", "4.12")); value(&cache) } => declares("4.12");
    }
    // It declares no value, and then does not contain the bundle.
    let mut silent = package("etcd", "etcd.v1", "r/b@sha256:1", "");
    let bundle = silent.bundles.get_mut("etcd.v1");
    bundle.unwrap().max_openshift = None;
    cache.read(&first, &none, all(vec![silent]));
    assert_eq!(value(&cache), CatalogMaximum::Declared(None));
    cache.read(&first, &none, all(Vec::new()));
    assert_eq!(value(&cache), declares("4.14"));
    // Its package has become unusable.
    cache.read(&first, &none, some(&["etcd"], Vec::new(), &["etcd"]));
    assert_eq!(value(&cache), away("4.14"));
    let broken = with!(Catalog, broken: [("etcd".to_owned(), 1)].into());
    cache.read(&first, &none, CatalogContent::Full(Arc::new(broken)));
    assert_eq!(value(&cache), away("4.14"));
    // It was not queried for this package.
    cache.read(&first, &none, some(&["other"], Vec::new(), &[]));
    assert_eq!(value(&cache), away("4.14"));
    // Its identity has changed.
    cache.read(&first, &none, stocked("sha256:1", "4.12"));
    assert_rows! {
        { cache.add(&first, &as_image("1", "b:1"), 10); value(&cache) } => away("4.14");
        { cache.remove(&first); value(&cache) } => declares("4.14");
        { cache.remove(&later); value(&cache) } => CatalogMaximum::NotFound;
        // A namespace that cannot be listed has the default priority.
        { cache.refused("theirs", "no".to_owned()); value(&cache) } => CatalogMaximum::Unavailable(None);
        { put(&mut cache, &later, 0, stocked("sha256:1", "4.14")); value(&cache) } => declares("4.14"), "its name comes first";
        { cache.add(&later, &none, -1); value(&cache) } => away("4.14");
    }
}

#[test]
fn the_catalog_of_a_subscription_declares_a_bundles_value() {
    let none = CatalogIdentity::default();
    let ask = |cache: &CatalogCache, catalog: &CatalogKey| {
        cache.said_by(catalog, "etcd", "etcd.v1", "1.0.0")
    };
    let mut cache = CatalogCache::default();
    let (first, second) = (key("ours", "first"), key("ours", "second"));
    let away = Some(CatalogMaximum::Unavailable(None));
    assert_rows! {
        ask(&cache, &first) => away, "no catalog is known yet";
        { cache.reset(&["ours".to_owned()]); ask(&cache, &first) } => away, "catalogs are not listed yet";
        // Tenants' catalogs are ignored, whether or not the admin's are listed.
        ask(&cache, &key("theirs", "first")) => None;
        { cache.listed("ours"); ask(&cache, &first) } => None, "it does not exist";
        { cache.add(&first, &none, 0); ask(&cache, &first) } => away, "it is not read yet";
    }
    put(&mut cache, &second, 10, stocked("sha256:2", "4.14"));
    cache.read(&first, &none, stocked("sha256:1", "4.13"));
    // Only the named catalog counts, and priorities do not.
    assert_eq!(ask(&cache, &first), Some(declares("4.13")));
    assert_eq!(ask(&cache, &second), Some(declares("4.14")));
    for (package, bundle, version, expected) in [
        ("etcd", "etcd.v1", "1.0.0", declares("4.13")),
        ("etcd", "etcd.v1", "1.0.1", CatalogMaximum::NotFound),
        ("etcd", "etcd.v1", "1.0", CatalogMaximum::NotFound),
        ("etcd", "etcd.v2", "1.0.0", CatalogMaximum::NotFound),
        ("other", "etcd.v1", "1.0.0", CatalogMaximum::NotFound),
    ] {
        assert_rows!(cache.said_by(&first, package, bundle, version) => Some(expected), "{package} {bundle} {version}");
    }
    assert_rows! {
        { cache.set_problem(&first, &none, "connection refused".to_owned()); ask(&cache, &first) } => Some(declares("4.13"));
        cache.said_by(&first, "other", "etcd.v1", "1.0.0") => away;
        // The read packages do not include this one.
        { cache.read(&first, &none, some(&["other"], Vec::new(), &[])); ask(&cache, &first) } => away;
        { cache.read(&first, &none, some(&["etcd"], Vec::new(), &["etcd"])); ask(&cache, &first) } => away;
        { cache.remove(&first); cache.refused("ours", "forbidden".to_owned()); ask(&cache, &first) } => away;
        { cache.clear(); ask(&cache, &first) } => None;
    }
}

#[test]
fn the_lowest_value_is_that_of_all_catalogs_together() {
    let none = CatalogIdentity::default();
    let lowest = |cache: &CatalogCache| cache.lowest("etcd", "etcd.v1", "1.0.0");
    let is = |release: &str| CatalogMaximum::Declared(Some(release.to_owned()));
    let unknown = CatalogMaximum::Unavailable(None);
    let mut cache = CatalogCache::default();
    let (first, second) = (key("ours", "first"), key("ours", "second"));
    assert_eq!(lowest(&cache), unknown, "nothing is listed yet");
    cache.reset(&["ours".to_owned(), "more".to_owned()]);
    cache.listed("ours");
    put(&mut cache, &first, 0, stocked("sha256:1", "4.13"));
    assert_eq!(lowest(&cache), unknown, "a namespace is not listed yet");
    cache.listed("more");
    assert_eq!(lowest(&cache), is("4.13"));
    cache.refused("more", "forbidden".to_owned());
    assert_eq!(lowest(&cache), unknown, "a namespace cannot be listed");
    cache.listed("more");

    cache.add(&second, &none, -10);
    assert_eq!(lowest(&cache), unknown, "a catalog is not read yet");
    for (read, expected) in [
        // Neither priorities nor images matter.
        (stocked("sha256:2", "4.12"), is("4.12")),
        (stocked("sha256:2", "4.14"), is("4.13")),
        (stocked("sha256:2", "4.x"), is("4.13")),
        // The package was not asked for, does not exist, or is broken.
        (some(&["other"], Vec::new(), &[]), unknown.clone()),
        (some(&["etcd"], Vec::new(), &[]), is("4.13")),
        (some(&["etcd"], Vec::new(), &["etcd"]), unknown.clone()),
    ] {
        let content = format!("{read:?}");
        cache.read(&second, &none, read);
        assert_eq!(lowest(&cache), expected, "{content}");
    }
    cache.read(&second, &none, stocked("sha256:2", "4.12"));
    assert_eq!(
        cache.lowest("etcd", "etcd.v1", "1.0.1"),
        CatalogMaximum::Declared(None)
    );
    assert_eq!(
        cache.lowest("etcd", "etcd.v2", "1.0.0"),
        CatalogMaximum::Declared(None)
    );
    // The last reading counts.
    cache.set_problem(&second, &none, "connection refused".to_owned());
    assert_eq!(lowest(&cache), is("4.12"));
}
