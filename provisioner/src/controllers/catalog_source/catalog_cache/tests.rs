mod lookup;

use catalog::{
    choose::CatalogAnswer,
    model::{Bundle, Package},
};
use manifests::{
    openshift::{MaxOpenShiftVersion, Spelling},
    version::Version,
};

use super::*;
use crate::controllers::catalog_source::max_openshift::CatalogMaximum;

fn named(namespace: Option<&str>, name: &str) -> CatalogRef {
    let (name, namespace) = (name.to_owned(), namespace.map(str::to_owned));
    CatalogRef { name, namespace }
}

/// Returns a cache of these namespaces before their catalogs are listed.
fn listing(namespaces: &[&str]) -> CatalogCache {
    let mut cache = CatalogCache::default();
    let namespaces: Vec<String> = namespaces.iter().map(|&name| name.to_owned()).collect();
    cache.reset(&namespaces);
    cache
}

/// The identity of catalogs whose identity does not matter.
static ANY: CatalogIdentity = CatalogIdentity {
    uid: None,
    origin: None,
};

fn put(cache: &mut CatalogCache, key: &CatalogKey, priority: i64, read: CatalogContent) {
    cache.add(key, &ANY, priority);
    cache.read(key, &ANY, read);
}

fn as_image(uid: &str, image: &str) -> CatalogIdentity {
    let (uid, origin) = (Some(uid.to_owned()), Some(("image", image.to_owned())));
    CatalogIdentity { uid, origin }
}

fn package(name: &str, bundle: &str, image: &str, max: &str) -> Package {
    let max = MaxOpenShiftVersion::new(max, Spelling::CatalogProperties);
    let bundle = Bundle::new(bundle, Version::new(1, 0, 0));
    let bundle = with!(bundle => image: image.to_owned(), max_openshift: Some(max));
    with!(Package, name: name.to_owned(), bundles: [(bundle.name.clone(), bundle)].into())
}

fn all(packages: Vec<Package>) -> CatalogContent {
    let packages = packages.into_iter().map(|one| (one.name.clone(), one));
    CatalogContent::Full(Arc::new(with!(Catalog, packages: packages.collect())))
}

fn some(requested: &[&str], packages: Vec<Package>, broken: &[&str]) -> CatalogContent {
    CatalogContent::Partial(Arc::new(with!(Packages::default() =>
        requested: requested.iter().map(|&name| name.to_owned()).collect(),
        packages: packages.into_iter().map(|one| (one.name.clone(), Arc::new(one))).collect(),
        broken: broken.iter().map(|&one| (one.to_owned(), "it is bad".to_owned())).collect(),
    )))
}

fn offer_lines(cache: &CatalogCache, package: &str, only: Option<&CatalogRef>) -> Vec<String> {
    let offers = cache.offers(package, only);
    let list = offers.list();
    let lines = list.iter().map(|offer| {
        let answer = match offer.answer {
            CatalogAnswer::Package(package) => format!("has {}", package.name),
            CatalogAnswer::NotFound => "absent".to_owned(),
            CatalogAnswer::Unavailable(why) => why.to_owned(),
            CatalogAnswer::Pending => "pending".to_owned(),
        };
        format!("{} {}: {answer}", offer.catalog, offer.priority)
    });
    lines.collect()
}

#[test]
fn loaded_content_is_kept_while_a_catalog_is_unavailable() {
    let mut cache = listing(&["ours"]);
    let mine = CatalogKey::new("ours", "mine");
    let refused = || "connection refused".to_owned();
    let read = all(vec![package("etcd", "etcd.v1", "r/b@sha256:1", "4.12")]);
    assert_rows! {
        cache.add(&mine, &ANY, 5) => true;
        cache.add(&mine, &ANY, 5) => false;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: pending"];
        cache.set_problem(&mine, &ANY, refused()) => true;
        cache.set_problem(&mine, &ANY, refused()) => false;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: connection refused"];
        cache.read(&mine, &ANY, read) => true;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: has etcd"];
        offer_lines(&cache, "other", None) => ["ours/mine 5: absent"];
        cache.set_problem(&mine, &ANY, refused()) => true;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: has etcd"];
        cache.states() => [CatalogState { catalog: mine.clone(), is_read: true, trouble: Some(refused()) }];
        cache.mark_ready(&mine, &ANY) => true;
        cache.mark_ready(&mine, &ANY) => false;
        cache.remove(&mine) => true;
        offer_lines(&cache, "etcd", None).is_empty() => true;
        cache.read(&mine, &ANY, all(Vec::new())) => false, "the catalog was removed";
    }
}

#[test]
fn content_of_a_replaced_catalog_is_dropped() {
    let mut cache = listing(&["ours"]);
    let mine = CatalogKey::new("ours", "mine");
    let package = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    let first = as_image("1", "a:1");
    for next in [
        as_image("1", "b:1"), // The secrets of the source may not be valid for this image.
        as_image("2", "a:1"),
        with!(first.clone() => origin: Some(("service", "a:1".to_owned()))),
    ] {
        cache.add(&mine, &first, 0);
        assert_rows! {
            cache.read(&mine, &first, all(vec![package.clone()])) => true;
            cache.is_read(&mine, &first) => true;
            // Other changes do not drop the content.
            cache.set_problem(&mine, &first, "refused".to_owned()) => true;
            cache.add(&mine, &first, 7) => true;
            offer_lines(&cache, "etcd", None) => ["ours/mine 7: has etcd"];
            cache.add(&mine, &next, 7) => true;
            offer_lines(&cache, "etcd", None) => ["ours/mine 7: pending"];
            cache.declared_maximum("etcd", "etcd.v1", "sha256:1") => CatalogMaximum::Unavailable(None);
            // Content of the former catalog arrives too late.
            cache.read(&mine, &first, all(vec![package.clone()])) => false;
            cache.set_problem(&mine, &first, "refused".to_owned()) => false;
            cache.is(&mine, &first) || cache.is_read(&mine, &next) => false;
            offer_lines(&cache, "etcd", None) => ["ours/mine 7: pending"];
        }
    }
}

// parity: platform-12, complaint-19
#[test]
fn served_catalogs_contain_only_requested_packages() {
    let mut cache = listing(&["ours"]);
    let mine = CatalogKey::new("ours", "mine");
    let etcd = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    let read = some(&["bad", "etcd", "none"], vec![etcd], &["bad"]);
    put(&mut cache, &mine, 0, read);
    assert_rows! {
        offer_lines(&cache, "etcd", None) => ["ours/mine 0: has etcd"];
        offer_lines(&cache, "none", None) => ["ours/mine 0: absent"];
        offer_lines(&cache, "bad", None) => ["ours/mine 0: it is bad"];
        // The catalog was not queried for this package before.
        offer_lines(&cache, "other", None) => ["ours/mine 0: pending"];
        cache.set_problem(&mine, &ANY, "connection refused".to_owned()) => true;
        offer_lines(&cache, "other", None) => ["ours/mine 0: connection refused"];
    }
    // The states are from the same moment.
    let offers = cache.offers("etcd", None);
    cache.mark_ready(&mine, &ANY);
    let has_trouble: Vec<bool> = offers
        .states()
        .map(|state| state.trouble.is_some())
        .collect();
    assert_eq!(has_trouble, [true]);
}

// parity: serve-15
#[test]
fn unqualified_catalog_is_searched_in_namespace_order() {
    let mut cache = listing(&["z", "a"]);
    for (namespace, name) in [("a", "mine"), ("z", "mine"), ("a", "other")] {
        let key = CatalogKey::new(namespace, name);
        put(&mut cache, &key, 0, all(Vec::new()));
    }
    assert_each!(|namespace, name, expected| offer_lines(&cache, "etcd", Some(&named(namespace, name))) => expected;
        None, "mine" => vec!["z/mine 0: absent"];
        Some("a"), "mine" => vec!["a/mine 0: absent"];
        None, "other" => vec!["a/other 0: absent"];
        Some("z"), "other" => vec![];
        Some("b"), "mine" => vec![];
    );
    assert_eq!(offer_lines(&cache, "etcd", None).len(), 3);
    assert!(!cache.are_listed() && cache.listed("a") && !cache.are_listed());
    assert!(cache.listed("z") && !cache.listed("z") && cache.are_listed());
}

#[test]
fn forbidden_namespace_counts_as_an_unavailable_catalog() {
    let mut cache = listing(&["z", "a"]);
    let key = CatalogKey::new("a", "mine");
    put(&mut cache, &key, 0, all(Vec::new()));
    assert!(cache.listed("a") && !cache.refused("other", "no".to_owned()) && !cache.are_listed());
    assert!(cache.refused("z", "no".to_owned()) && !cache.refused("z", "no".to_owned()));
    assert!(cache.are_listed(), "there is nothing to wait for");
    let (mine, hidden) = ("a/mine 0: absent", "z/* 0: no");
    assert_each!(|only, expected| offer_lines(&cache, "etcd", only.as_ref()) => expected;
        None => vec![mine, hidden];
        Some(named(Some("a"), "mine")) => vec![mine];
        Some(named(Some("a"), "none")) => vec![];
        Some(named(Some("z"), "mine")) => vec![hidden];
        Some(named(None, "mine")) => vec![mine];
        Some(named(None, "none")) => vec![hidden];
    );
    assert_rows! {
        cache.states()[1] => CatalogState { catalog: CatalogKey::new("z", "*"), is_read: false, trouble: Some("no".to_owned()) };
        cache.listed("z") => true;
        offer_lines(&cache, "etcd", None) => [mine];
    }
}

fn declares(value: &str) -> CatalogMaximum {
    CatalogMaximum::Declared(Some(value.to_owned()))
}

fn away(others: &str) -> CatalogMaximum {
    CatalogMaximum::Unavailable(Some(others.to_owned()))
}

/// Returns a catalog that has `etcd.v1` in the image with this digest.
fn stocked(digest: &str, max: &str) -> CatalogContent {
    let image = format!("registry:5000/b@{digest}");
    all(vec![package("etcd", "etcd.v1", &image, max)])
}

#[test]
fn equal_priorities_are_ordered_by_namespace_and_name() {
    let mut cache = listing(&["a", "a-b"]);
    for (namespace, max) in [("a", "4.12"), ("a-b", "4.13")] {
        let read = stocked("sha256:1", max);
        put(&mut cache, &CatalogKey::new(namespace, "x"), 0, read);
        cache.listed(namespace);
    }
    let offers = cache.offers("etcd", None);
    let list = with!(offers.list() => |list| list.sort_by(|a, b| a.catalog.cmp(b.catalog)));
    assert_eq!(list[0].catalog, "a-b/x");
    assert_rows!(cache.declared_maximum("etcd", "etcd.v1", "sha256:1") => declares("4.13"));
}

// parity: switch-1
#[test]
fn new_value_of_a_template_keeps_the_catalog_identity() {
    use manifests::{api::labels::CATALOG_IMAGE_TEMPLATE, image_template::ANNOTATION};

    let of = |field: &str, value: &str, annotation: Option<(&str, &str)>| {
        let annotations: BTreeMap<&str, &str> = annotation.into_iter().collect();
        let source = object!({
            "metadata": {"name": "mine", "uid": "1", "annotations": annotations},
            "spec": {"sourceType": "grpc", field: value},
        });
        CatalogIdentity::from_source(&source)
    };
    let template = "r/c:v{kube_minor_version}";
    let own = Some((CATALOG_IMAGE_TEMPLATE, template));
    let olms = Some((ANNOTATION, template));
    let other = Some((CATALOG_IMAGE_TEMPLATE, "r/c:{kube_minor_version}"));
    let plain = Some((CATALOG_IMAGE_TEMPLATE, "r/c:v36"));
    assert_each!(|one, two, is_same| one == two => is_same;
        of("image", "r/c:v36", own), of("image", "r/c:v37", own) => true;
        of("image", "r/c:v36", olms), of("image", "r/c:v37", olms) => true;
        of("image", "", own), of("image", "r/c:v36", own) => true;
        of("image", template, None), of("image", "r/c:v36", own) => true;
        of("image", "r/c:v36", own), of("image", "r/c:v36", other) => false;
        of("image", "r/c:v36", own), of("image", "r/c:v36", None) => false;
        of("image", "r/c:v36", None), of("image", "r/c:v37", None) => false;
        of("image", "r/c:v36", plain), of("image", "r/c:v37", plain) => false;
        of("image", "", None), of("image", "", own) => false;
        // Without an image, an annotation is ignored.
        of("address", "a:1", own), of("address", "a:1", None) => true;
        of("address", "a:1", own), of("address", "b:1", own) => false;
        of("address", "a:1", own), of("image", "r/c:v36", own) => false;
    );
}
