//! Lookup of bundles and of the max OpenShift versions that catalogs declare.

use super::*;

#[test]
fn a_maximum_counts_for_the_same_package_bundle_and_digest() {
    let mut cache = listing(&["ours"]);
    cache.listed("ours");
    let all = ::tests::rows!["a", 0, "sha256:1" => "4.12"; "b", 5, "sha256:1" => "4.13"; "c", 9, "sha256:2" => "4.14";];
    for (name, priority, digest, max) in all {
        let read = stocked(digest, max);
        put(&mut cache, &CatalogKey::new("ours", name), priority, read);
    }
    for missing in [CatalogMaximum::NotFound, CatalogMaximum::Unavailable(None)] {
        assert_rows! {
            cache.declared_maximum("etcd", "etcd.v1", "sha256:1") => declares("4.13");
            cache.declared_maximum("etcd", "etcd.v1", "sha256:2") => declares("4.14");
            cache.declared_maximum("etcd", "etcd.v1", "sha256:3") => missing;
            cache.declared_maximum("etcd", "etcd.v2", "sha256:1") => missing;
            cache.declared_maximum("other", "etcd.v1", "sha256:1") => missing;
        }
        // The last observed value of an unavailable catalog counts; a package that it did not have may have been added.
        for (name, ..) in all {
            cache.set_problem(&CatalogKey::new("ours", name), &ANY, "refused".to_owned());
        }
    }
}

// parity: serve-17, complaint-3
#[test]
fn unread_catalog_of_higher_priority_is_not_overruled() {
    let [first, later] = ["first", "later"].map(|name| CatalogKey::new("ours", name));
    let value = |cache: &CatalogCache| cache.declared_maximum("etcd", "etcd.v1", "sha256:1");
    let read = |cache: &mut CatalogCache, content: CatalogContent| {
        cache.read(&first, &ANY, content);
        value(cache)
    };
    let mut cache = CatalogCache::default();
    assert_rows!(value(&cache) => CatalogMaximum::Unavailable(None), "not observed yet");
    // After a restart, the catalog of lower priority is read first.
    cache.reset(&["ours".to_owned(), "theirs".to_owned()]);
    put(&mut cache, &later, 0, stocked("sha256:1", "4.14"));
    let mut silent = package("etcd", "etcd.v1", "r/b@sha256:1", "");
    let bundle = silent.bundles.get_mut("etcd.v1");
    bundle.unwrap().max_openshift = None;
    let broken = with!(Catalog, broken: [("etcd".to_owned(), 1)].into());
    assert_rows! {
        { cache.listed("ours"); value(&cache) } => away("4.14"), "there may be others";
        { cache.listed("theirs"); value(&cache) } => declares("4.14");
        { cache.add(&first, &ANY, 10); value(&cache) } => away("4.14");
        { cache.set_problem(&first, &ANY, "connection refused".to_owned()); value(&cache) } => away("4.14");
        read(&mut cache, stocked("sha256:1", "4.12")) => declares("4.12");
        // It declares no value, and then does not contain the bundle.
        read(&mut cache, all(vec![silent])) => CatalogMaximum::Declared(None);
        read(&mut cache, all(Vec::new())) => declares("4.14");
        // Its package has become unusable.
        read(&mut cache, some(&["etcd"], Vec::new(), &["etcd"])) => away("4.14");
        read(&mut cache, CatalogContent::Full(Arc::new(broken))) => away("4.14");
        // It was not queried for this package.
        read(&mut cache, some(&["other"], Vec::new(), &[])) => away("4.14");
        // Its identity has changed.
        read(&mut cache, stocked("sha256:1", "4.12")) => declares("4.12");
        { cache.add(&first, &as_image("1", "b:1"), 10); value(&cache) } => away("4.14");
        { cache.remove(&first); value(&cache) } => declares("4.14");
        { cache.remove(&later); value(&cache) } => CatalogMaximum::NotFound;
        // A namespace that cannot be listed has the default priority.
        { cache.refused("theirs", "no".to_owned()); value(&cache) } => CatalogMaximum::Unavailable(None);
        { put(&mut cache, &later, 0, stocked("sha256:1", "4.14")); value(&cache) } => declares("4.14"), "its name comes first";
        { cache.add(&later, &ANY, -1); value(&cache) } => away("4.14");
    }
}

#[test]
fn the_catalog_of_a_subscription_declares_a_bundles_value() {
    let ask = |cache: &CatalogCache, key: &_| cache.said_by(key, "etcd", "etcd.v1", "1.0.0");
    let mut cache = CatalogCache::default();
    let [first, second] = ["first", "second"].map(|name| CatalogKey::new("ours", name));
    let away = Some(CatalogMaximum::Unavailable(None));
    let missing = Some(CatalogMaximum::NotFound);
    assert_rows! {
        ask(&cache, &first) => away, "no catalog is known yet";
        { cache.reset(&["ours".to_owned()]); ask(&cache, &first) } => away, "catalogs are not listed yet";
        // Tenants' catalogs are ignored, whether or not the admin's are listed.
        ask(&cache, &CatalogKey::new("theirs", "first")) => None;
        { cache.listed("ours"); ask(&cache, &first) } => None, "it does not exist";
        { cache.add(&first, &ANY, 0); ask(&cache, &first) } => away, "it is not read yet";
    }
    put(&mut cache, &second, 10, stocked("sha256:2", "4.14"));
    cache.read(&first, &ANY, stocked("sha256:1", "4.13"));
    assert_rows! {
        // Only the named catalog counts, and priorities do not.
        ask(&cache, &first) => Some(declares("4.13"));
        ask(&cache, &second) => Some(declares("4.14"));
        cache.said_by(&first, "etcd", "etcd.v1", "1.0.1") => missing;
        cache.said_by(&first, "etcd", "etcd.v1", "1.0") => missing;
        cache.said_by(&first, "etcd", "etcd.v2", "1.0.0") => missing;
        cache.said_by(&first, "other", "etcd.v1", "1.0.0") => missing;
        { cache.set_problem(&first, &ANY, "connection refused".to_owned()); ask(&cache, &first) } => Some(declares("4.13"));
        cache.said_by(&first, "other", "etcd.v1", "1.0.0") => away;
        // The read packages do not include this one.
        { cache.read(&first, &ANY, some(&["other"], Vec::new(), &[])); ask(&cache, &first) } => away;
        { cache.read(&first, &ANY, some(&["etcd"], Vec::new(), &["etcd"])); ask(&cache, &first) } => away;
        { cache.remove(&first); cache.refused("ours", "forbidden".to_owned()); ask(&cache, &first) } => away;
        { cache.clear(); ask(&cache, &first) } => None;
    }
}

#[test]
fn the_lowest_value_is_that_of_all_catalogs_together() {
    let lowest = |cache: &CatalogCache| cache.lowest("etcd", "etcd.v1", "1.0.0");
    let unknown = CatalogMaximum::Unavailable(None);
    let [first, second] = ["first", "second"].map(|name| CatalogKey::new("ours", name));
    let read = |cache: &mut CatalogCache, content: CatalogContent| {
        cache.read(&second, &ANY, content);
        lowest(cache)
    };
    let mut cache = CatalogCache::default();
    assert_rows!(lowest(&cache) => unknown, "nothing is listed yet");
    cache.reset(&["ours".to_owned(), "more".to_owned()]);
    cache.listed("ours");
    put(&mut cache, &first, 0, stocked("sha256:1", "4.13"));
    assert_rows! {
        lowest(&cache) => unknown, "a namespace is not listed yet";
        { cache.listed("more"); lowest(&cache) } => declares("4.13");
        { cache.refused("more", "forbidden".to_owned()); lowest(&cache) } => unknown, "a namespace cannot be listed";
        { cache.listed("more"); cache.add(&second, &ANY, -10); lowest(&cache) } => unknown, "a catalog is not read yet";
        // Neither priorities nor images matter.
        read(&mut cache, stocked("sha256:2", "4.12")) => declares("4.12");
        read(&mut cache, stocked("sha256:2", "4.14")) => declares("4.13");
        read(&mut cache, stocked("sha256:2", "4.x")) => declares("4.13");
        // The package was not requested, does not exist, or is broken.
        read(&mut cache, some(&["other"], Vec::new(), &[])) => unknown;
        read(&mut cache, some(&["etcd"], Vec::new(), &[])) => declares("4.13");
        read(&mut cache, some(&["etcd"], Vec::new(), &["etcd"])) => unknown;
        read(&mut cache, stocked("sha256:2", "4.12")) => declares("4.12");
        cache.lowest("etcd", "etcd.v1", "1.0.1") => CatalogMaximum::Declared(None);
        cache.lowest("etcd", "etcd.v2", "1.0.0") => CatalogMaximum::Declared(None);
        // The last reading counts.
        { cache.set_problem(&second, &ANY, "connection refused".to_owned()); lowest(&cache) } => declares("4.12");
    }
}
