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
use crate::{controllers::catalog_source::max_openshift::CatalogMaximum, fixtures::key};

fn named(namespace: Option<&str>, name: &str) -> CatalogRef {
    CatalogRef {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

/// Returns a cache of these namespaces before their catalogs are listed.
fn listing(namespaces: &[&str]) -> CatalogCache {
    let mut cache = CatalogCache::default();
    let namespaces: Vec<String> = namespaces.iter().map(|&name| name.to_owned()).collect();
    cache.reset(&namespaces);
    cache
}

fn put(cache: &mut CatalogCache, key: &CatalogKey, priority: i64, read: CatalogContent) {
    cache.add(key, &CatalogIdentity::default(), priority);
    cache.read(key, &CatalogIdentity::default(), read);
}

fn as_image(uid: &str, image: &str) -> CatalogIdentity {
    CatalogIdentity {
        uid: Some(uid.to_owned()),
        origin: Some(("image", image.to_owned())),
    }
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

fn some(asked: &[&str], packages: Vec<Package>, broken: &[&str]) -> CatalogContent {
    CatalogContent::Partial(Arc::new(with!(Packages::default() =>
        requested: asked.iter().map(|&name| name.to_owned()).collect(),
        packages: packages.into_iter().map(|one| (one.name.clone(), Arc::new(one))).collect(),
        broken: broken.iter().map(|&one| (one.to_owned(), "it is bad".to_owned())).collect(),
    )))
}

fn offer_lines(cache: &CatalogCache, package: &str, only: Option<&CatalogRef>) -> Vec<String> {
    let offers = cache.offers(package, only);
    let list = offers.list();
    list.iter()
        .map(|offer| {
            let answer = match offer.answer {
                CatalogAnswer::Package(package) => format!("has {}", package.name),
                CatalogAnswer::NotFound => "absent".to_owned(),
                CatalogAnswer::Unavailable(why) => why.to_owned(),
                CatalogAnswer::Pending => "pending".to_owned(),
            };
            format!("{} {}: {answer}", offer.catalog, offer.priority)
        })
        .collect()
}

#[test]
fn loaded_content_is_kept_while_a_catalog_is_unavailable() {
    let mut cache = listing(&["ours"]);
    let mine = key("ours", "mine");
    let away = || "nobody is there".to_owned();
    let read = all(vec![package("etcd", "etcd.v1", "r/b@sha256:1", "4.12")]);
    assert_rows! {
        cache.add(&mine, &CatalogIdentity::default(), 5) => true;
        cache.add(&mine, &CatalogIdentity::default(), 5) => false;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: pending"];
        cache.set_problem(&mine, &CatalogIdentity::default(), away()) => true;
        cache.set_problem(&mine, &CatalogIdentity::default(), away()) => false;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: nobody is there"];
        cache.read(&mine, &CatalogIdentity::default(), read) => true;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: has etcd"];
        offer_lines(&cache, "other", None) => ["ours/mine 5: absent"];
        cache.set_problem(&mine, &CatalogIdentity::default(), away()) => true;
        offer_lines(&cache, "etcd", None) => ["ours/mine 5: has etcd"];
        cache.states() => [CatalogState { catalog: mine.clone(), is_read: true, trouble: Some(away()) }];
        cache.mark_ready(&mine, &CatalogIdentity::default()) => true;
        !cache.mark_ready(&mine, &CatalogIdentity::default()) => true;
        cache.remove(&mine) => true;
        offer_lines(&cache, "etcd", None).is_empty() => true;
        cache.read(&mine, &CatalogIdentity::default(), all(Vec::new())) => false, "it comes too late";
    }
}

#[test]
fn content_of_a_replaced_catalog_is_dropped() {
    let mut cache = listing(&["ours"]);
    let mine = key("ours", "mine");
    let package = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    let first = as_image("1", "a:1");
    for next in [
        as_image("1", "b:1"), // which may be one that these secrets are not good for
        as_image("2", "a:1"),
        with!(first.clone() => origin: Some(("service", "a:1".to_owned()))),
    ] {
        cache.add(&mine, &first, 0);
        assert!(cache.read(&mine, &first, all(vec![package.clone()])));
        assert!(cache.is_read(&mine, &first));
        // Other changes do not drop the content.
        cache.set_problem(&mine, &first, "away".to_owned());
        assert!(cache.add(&mine, &first, 7));
        assert_eq!(offer_lines(&cache, "etcd", None), ["ours/mine 7: has etcd"]);
        assert!(cache.add(&mine, &next, 7));
        let unread = ["ours/mine 7: pending"];
        assert_eq!(offer_lines(&cache, "etcd", None), unread);
        assert_eq!(
            cache.declared_maximum("etcd", "etcd.v1", "sha256:1"),
            CatalogMaximum::Unavailable(None)
        );
        // Content of the former catalog arrives too late.
        assert!(!cache.read(&mine, &first, all(vec![package.clone()])));
        assert!(!cache.set_problem(&mine, &first, "away".to_owned()));
        assert!(!cache.is(&mine, &first) && !cache.is_read(&mine, &next));
        assert_eq!(offer_lines(&cache, "etcd", None), unread);
    }
}

// parity: platform-12, complaint-19
#[test]
fn served_catalogs_contain_only_requested_packages() {
    let mut cache = listing(&["ours"]);
    let mine = key("ours", "mine");
    let etcd = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    let read = some(&["bad", "etcd", "none"], vec![etcd], &["bad"]);
    put(&mut cache, &mine, 0, read);
    for (package, answer) in [
        ("etcd", "has etcd"),
        ("none", "absent"),
        ("bad", "it is bad"),
        ("other", "pending"),
    ] {
        assert_rows!(offer_lines(&cache, package, None) => [format!("ours/mine 0: {answer}")]);
    }
}

#[test]
fn catalog_is_pending_until_its_first_answer_or_problem() {
    let mut cache = listing(&["ours"]);
    let (mine, other) = (key("ours", "mine"), key("ours", "other"));
    cache.add(&mine, &CatalogIdentity::default(), 0);
    cache.add(&other, &CatalogIdentity::default(), 0);
    let pending = |cache: &CatalogCache, package: &str| {
        let offers = cache.offers(package, None);
        let list = with!(offers.list() => |list| list.retain(|one| matches!(one.answer, CatalogAnswer::Pending)));
        let names: Vec<&str> = list.iter().map(|offer| offer.catalog).collect();
        names.join(" ")
    };
    assert_eq!(pending(&cache, "etcd"), "ours/mine ours/other");
    cache.set_problem(
        &other,
        &CatalogIdentity::default(),
        "nobody is there".to_owned(),
    );
    assert_eq!(pending(&cache, "etcd"), "ours/mine");
    let etcd = some(&["etcd"], Vec::new(), &[]);
    cache.read(&mine, &CatalogIdentity::default(), etcd);
    assert_eq!(pending(&cache, "etcd"), "");
    // The catalog was not queried for this package before.
    assert_eq!(pending(&cache, "other"), "ours/mine");
    cache.set_problem(
        &mine,
        &CatalogIdentity::default(),
        "nobody is there".to_owned(),
    );
    assert_eq!(pending(&cache, "other"), "");
    // The states are from the same moment.
    let offers = cache.offers("etcd", None);
    cache.mark_ready(&mine, &CatalogIdentity::default());
    assert_rows!(offers.states().map(|one| one.trouble.is_some()).collect::<Vec<_>>() => [true, true]);
}

// parity: serve-15
#[test]
fn unqualified_catalog_is_searched_in_namespace_order() {
    let mut cache = listing(&["z", "a"]);
    for (namespace, name) in [("a", "mine"), ("z", "mine"), ("a", "other")] {
        put(&mut cache, &key(namespace, name), 0, all(Vec::new()));
    }
    for (namespace, name, expected) in [
        (None, "mine", vec!["z/mine 0: absent"]),
        (Some("a"), "mine", vec!["a/mine 0: absent"]),
        (None, "other", vec!["a/other 0: absent"]),
        (Some("z"), "other", vec![]),
        (Some("b"), "mine", vec![]),
    ] {
        let only = named(namespace, name);
        assert_eq!(
            offer_lines(&cache, "etcd", Some(&only)),
            expected,
            "{only:?}"
        );
    }
    assert_eq!(offer_lines(&cache, "etcd", None).len(), 3);
    assert!(!cache.are_listed());
    assert!(cache.listed("a") && !cache.are_listed());
    assert!(cache.listed("z") && !cache.listed("z") && cache.are_listed());
}

#[test]
fn forbidden_namespace_counts_as_an_unavailable_catalog() {
    let mut cache = listing(&["z", "a"]);
    put(&mut cache, &key("a", "mine"), 0, all(Vec::new()));
    assert!(cache.listed("a"));
    assert!(!cache.refused("other", "no".to_owned()));
    assert!(!cache.are_listed());
    assert!(cache.refused("z", "no".to_owned()));
    assert!(!cache.refused("z", "no".to_owned()));
    assert!(cache.are_listed(), "there is nothing to wait for");
    let (mine, hidden) = ("a/mine 0: absent", "z/* 0: no");
    for (only, expected) in [
        (None, vec![mine, hidden]),
        (Some(named(Some("a"), "mine")), vec![mine]),
        (Some(named(Some("a"), "none")), vec![]),
        (Some(named(Some("z"), "mine")), vec![hidden]),
        (Some(named(None, "mine")), vec![mine]),
        (Some(named(None, "none")), vec![hidden]),
    ] {
        assert_eq!(
            offer_lines(&cache, "etcd", only.as_ref()),
            expected,
            "{only:?}"
        );
    }
    let offers = cache.offers("etcd", None);
    let mut list = offers.list().into_iter();
    assert_rows! {
        list.all(|one| !matches!(one.answer, CatalogAnswer::Pending)) => true;
        cache.states()[1] => CatalogState { catalog: key("z", "*"), is_read: false, trouble: Some("no".to_owned()) };
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
        put(&mut cache, &key(namespace, "x"), 0, read);
        cache.listed(namespace);
    }
    let offers = cache.offers("etcd", None);
    let list = with!(offers.list() => |list| list.sort_by(|a, b| a.catalog.cmp(b.catalog)));
    assert_eq!(list[0].catalog, "a-b/x");
    assert_eq!(
        cache.declared_maximum("etcd", "etcd.v1", "sha256:1"),
        declares("4.13")
    );
}

/// Writing the value of a template to the image does not change the catalog.
// parity: switch-1
#[test]
fn new_value_of_a_template_keeps_the_catalog_identity() {
    use manifests::{api::labels::CATALOG_IMAGE_TEMPLATE, image_template::ANNOTATION};

    let of = |spec: &str, annotation: Option<(&str, &str)>| {
        let mut source = serde_json::json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "mine", "uid": "1"}, "spec": {"sourceType": "grpc"},
        });
        if let Some((name, text)) = annotation {
            source["metadata"]["annotations"][name] = text.into();
        }
        if let Some((name, value)) = spec.split_once('=') {
            source["spec"][name] = value.into();
        }
        CatalogIdentity::from_source(&serde_json::from_value(source).unwrap())
    };
    let (old, new) = ("image=r/c:v36", "image=r/c:v37");
    let template = "r/c:v{kube_minor_version}";
    let own = Some((CATALOG_IMAGE_TEMPLATE, template));
    let olms = Some((ANNOTATION, template));
    let other = Some((CATALOG_IMAGE_TEMPLATE, "r/c:{kube_minor_version}"));
    let plain = Some((CATALOG_IMAGE_TEMPLATE, "r/c:v36"));
    for (one, two, is_same) in [
        (of(old, own), of(new, own), true),
        (of(old, olms), of(new, olms), true),
        (of("", own), of(old, own), true),
        (of(&format!("image={template}"), None), of(old, own), true),
        (of(old, own), of(old, other), false),
        (of(old, own), of(old, None), false),
        (of(old, None), of(new, None), false),
        (of(old, plain), of(new, plain), false),
        (of("", None), of("", own), false),
        // Without an image, an annotation is ignored.
        (of("address=a:1", own), of("address=a:1", None), true),
        (of("address=a:1", own), of("address=b:1", own), false),
        (of("address=a:1", own), of(old, own), false),
    ] {
        assert_eq!(one == two, is_same, "{one:?} {two:?}");
    }
}
