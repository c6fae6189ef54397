use catalog::{
    choose::Answer,
    model::{Bundle, Package},
};
use manifests::{openshift::Spelling, version::Version};

use super::*;
use crate::fixtures::key;

fn named(namespace: Option<&str>, name: &str) -> CatalogRef {
    CatalogRef {
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

/// The namespaces whose catalogs count, before anything is known of them.
fn listing(namespaces: &[&str]) -> CatalogCache {
    let mut known = CatalogCache::default();
    let namespaces: Vec<String> = namespaces.iter().map(|&name| name.to_owned()).collect();
    known.reset(&namespaces);
    known
}

fn put(known: &mut CatalogCache, key: &Key, priority: i64, read: CatalogContent) {
    known.add(key, &CatalogIdentity::default(), priority);
    known.read(key, &CatalogIdentity::default(), read);
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
        asked: asked.iter().map(|&it| it.to_owned()).collect(),
        packages: packages.into_iter().map(|one| (one.name.clone(), Arc::new(one))).collect(),
        broken: broken.iter().map(|&one| (one.to_owned(), "it is bad".to_owned())).collect(),
    )))
}

fn said(known: &CatalogCache, package: &str, only: Option<&CatalogRef>) -> Vec<String> {
    let offers = known.offers(package, only);
    let list = offers.list();
    list.iter()
        .map(|offer| {
            let answer = match offer.answer {
                Answer::Package(package) => format!("has {}", package.name),
                Answer::Absent => "absent".to_owned(),
                Answer::Unknown(why) => why.to_owned(),
                Answer::Pending => "pending".to_owned(),
            };
            format!("{} {}: {answer}", offer.catalog, offer.priority)
        })
        .collect()
}

#[test]
fn what_was_read_stays_while_a_catalog_is_away() {
    let mut known = listing(&["ours"]);
    let mine = key("ours", "mine");
    let away = || "nobody is there".to_owned();
    let read = all(vec![package("etcd", "etcd.v1", "r/b@sha256:1", "4.12")]);
    assert_rows! {
        known.add(&mine, &CatalogIdentity::default(), 5) => true;
        known.add(&mine, &CatalogIdentity::default(), 5) => false;
        said(&known, "etcd", None) => ["ours/mine 5: pending"];
        known.set_problem(&mine, &CatalogIdentity::default(), away()) => true;
        known.set_problem(&mine, &CatalogIdentity::default(), away()) => false;
        said(&known, "etcd", None) => ["ours/mine 5: nobody is there"];
        known.read(&mine, &CatalogIdentity::default(), read) => true;
        said(&known, "etcd", None) => ["ours/mine 5: has etcd"];
        said(&known, "other", None) => ["ours/mine 5: absent"];
        known.set_problem(&mine, &CatalogIdentity::default(), away()) => true;
        said(&known, "etcd", None) => ["ours/mine 5: has etcd"];
        known.states() => [State { catalog: mine.clone(), is_read: true, trouble: Some(away()) }];
        known.is_ready(&mine, &CatalogIdentity::default()) => true;
        !known.is_ready(&mine, &CatalogIdentity::default()) => true;
        known.remove(&mine) => true;
        said(&known, "etcd", None).is_empty() => true;
        known.read(&mine, &CatalogIdentity::default(), all(Vec::new())) => false, "it comes too late";
    }
}

#[test]
fn what_was_read_of_another_catalog_of_the_name_is_forgotten() {
    let mut known = listing(&["ours"]);
    let mine = key("ours", "mine");
    let package = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    let first = as_image("1", "a:1");
    for next in [
        as_image("1", "b:1"), // which may be one that these secrets are not good for
        as_image("2", "a:1"),
        with!(first.clone() => origin: Some(("service", "a:1".to_owned()))),
    ] {
        known.add(&mine, &first, 0);
        assert!(known.read(&mine, &first, all(vec![package.clone()])));
        assert!(known.is_read(&mine, &first));
        // For nothing else it is forgotten.
        known.set_problem(&mine, &first, "away".to_owned());
        assert!(known.add(&mine, &first, 7));
        assert_eq!(said(&known, "etcd", None), ["ours/mine 7: has etcd"]);
        assert!(known.add(&mine, &next, 7));
        let unread = ["ours/mine 7: pending"];
        assert_eq!(said(&known, "etcd", None), unread);
        assert_eq!(known.said("etcd", "etcd.v1", "sha256:1"), Said::Away(None));
        // Who has read the former one meanwhile comes too late.
        assert!(!known.read(&mine, &first, all(vec![package.clone()])));
        assert!(!known.set_problem(&mine, &first, "away".to_owned()));
        assert!(!known.is(&mine, &first) && !known.is_read(&mine, &next));
        assert_eq!(said(&known, "etcd", None), unread);
    }
}

// parity: platform-12, complaint-19
#[test]
fn of_what_others_serve_only_what_was_asked_for_is_known() {
    let mut known = listing(&["ours"]);
    let mine = key("ours", "mine");
    let etcd = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    let read = some(&["bad", "etcd", "none"], vec![etcd], &["bad"]);
    put(&mut known, &mine, 0, read);
    for (package, answer) in [
        ("etcd", "has etcd"),
        ("none", "absent"),
        ("bad", "it is bad"),
        ("other", "pending"),
    ] {
        assert_rows!(said(&known, package, None) => [format!("ours/mine 0: {answer}")]);
    }
}

#[test]
fn a_first_answer_comes_until_there_is_one_or_trouble() {
    let mut known = listing(&["ours"]);
    let (mine, other) = (key("ours", "mine"), key("ours", "other"));
    known.add(&mine, &CatalogIdentity::default(), 0);
    known.add(&other, &CatalogIdentity::default(), 0);
    let pending = |known: &CatalogCache, package: &str| {
        let offers = known.offers(package, None);
        let list =
            with!(offers.list() => |list| list.retain(|one| matches!(one.answer, Answer::Pending)));
        let names: Vec<&str> = list.iter().map(|it| it.catalog).collect();
        names.join(" ")
    };
    assert_eq!(pending(&known, "etcd"), "ours/mine ours/other");
    known.set_problem(
        &other,
        &CatalogIdentity::default(),
        "nobody is there".to_owned(),
    );
    assert_eq!(pending(&known, "etcd"), "ours/mine");
    let etcd = some(&["etcd"], Vec::new(), &[]);
    known.read(&mine, &CatalogIdentity::default(), etcd);
    assert_eq!(pending(&known, "etcd"), "");
    // It was not asked for this one so far.
    assert_eq!(pending(&known, "other"), "ours/mine");
    known.set_problem(
        &mine,
        &CatalogIdentity::default(),
        "nobody is there".to_owned(),
    );
    assert_eq!(pending(&known, "other"), "");
    // How they are is as of the same moment.
    let offers = known.offers("etcd", None);
    known.is_ready(&mine, &CatalogIdentity::default());
    assert_rows!(offers.states().map(|one| one.trouble.is_some()).collect::<Vec<_>>() => [true, true]);
}

// parity: serve-15
#[test]
fn a_catalog_without_a_namespace_is_looked_for_in_the_order_of_the_namespaces() {
    let mut known = listing(&["z", "a"]);
    for (namespace, name) in [("a", "mine"), ("z", "mine"), ("a", "other")] {
        put(&mut known, &key(namespace, name), 0, all(Vec::new()));
    }
    for (namespace, name, expected) in [
        (None, "mine", vec!["z/mine 0: absent"]),
        (Some("a"), "mine", vec!["a/mine 0: absent"]),
        (None, "other", vec!["a/other 0: absent"]),
        (Some("z"), "other", vec![]),
        (Some("b"), "mine", vec![]),
    ] {
        let only = named(namespace, name);
        assert_eq!(said(&known, "etcd", Some(&only)), expected, "{only:?}");
    }
    assert_eq!(said(&known, "etcd", None).len(), 3);
    assert!(!known.are_listed());
    assert!(known.listed("a") && !known.are_listed());
    assert!(known.listed("z") && !known.listed("z") && known.are_listed());
}

#[test]
fn a_namespace_that_may_not_be_listed_stands_for_a_catalog_that_cannot_be_asked() {
    let mut known = listing(&["z", "a"]);
    put(&mut known, &key("a", "mine"), 0, all(Vec::new()));
    assert!(known.listed("a"));
    assert!(!known.refused("other", "no".to_owned()));
    assert!(!known.are_listed());
    assert!(known.refused("z", "no".to_owned()));
    assert!(!known.refused("z", "no".to_owned()));
    assert!(known.are_listed(), "there is nothing to wait for");
    let (mine, hidden) = ("a/mine 0: absent", "z/* 0: no");
    for (only, expected) in [
        (None, vec![mine, hidden]),
        (Some(named(Some("a"), "mine")), vec![mine]),
        (Some(named(Some("a"), "none")), vec![]),
        (Some(named(Some("z"), "mine")), vec![hidden]),
        (Some(named(None, "mine")), vec![mine]),
        (Some(named(None, "none")), vec![hidden]),
    ] {
        assert_eq!(said(&known, "etcd", only.as_ref()), expected, "{only:?}");
    }
    let offers = known.offers("etcd", None);
    let mut list = offers.list().into_iter();
    assert_rows! {
        list.all(|one| !matches!(one.answer, Answer::Pending)) => true;
        known.states()[1] => State { catalog: key("z", "*"), is_read: false, trouble: Some("no".to_owned()) };
        known.listed("z") => true;
        said(&known, "etcd", None) => [mine];
    }
}

fn says(value: &str) -> Said {
    Said::Says(Some(value.to_owned()))
}

fn away(others: &str) -> Said {
    Said::Away(Some(others.to_owned()))
}

/// A catalog that has `etcd.v1` in the image with this digest.
fn stocked(digest: &str, max: &str) -> CatalogContent {
    let image = format!("registry:5000/b@{digest}");
    all(vec![package("etcd", "etcd.v1", &image, max)])
}

#[test]
fn a_maximum_counts_for_the_same_package_bundle_and_digest() {
    let mut known = listing(&["ours"]);
    known.listed("ours");
    let all = [
        ("a", 0, "sha256:1", "4.12"),
        ("b", 5, "sha256:1", "4.13"),
        ("c", 9, "sha256:2", "4.14"),
    ];
    let none = CatalogIdentity::default();
    for (name, priority, digest, max) in all {
        let read = stocked(digest, max);
        put(&mut known, &key("ours", name), priority, read);
    }
    let expected = [
        ("etcd", "etcd.v1", "sha256:1", says("4.13")),
        ("etcd", "etcd.v1", "sha256:2", says("4.14")),
        ("etcd", "etcd.v1", "sha256:3", Said::Absent),
        ("etcd", "etcd.v2", "sha256:1", Said::Absent),
        ("other", "etcd.v1", "sha256:1", Said::Absent),
    ];
    for (package, bundle, digest, expected) in &expected {
        assert_rows!(known.said(package, bundle, digest) => *expected, "{package} {bundle} {digest}");
    }
    // Of those that are away the last seen value counts; and what they did not have, they may have by now.
    for (name, ..) in all {
        known.set_problem(&key("ours", name), &none, "away".to_owned());
    }
    for (package, bundle, digest, expected) in expected {
        assert_rows! {
            known.said(package, bundle, digest)
                => match expected { Said::Absent => Said::Away(None), other => other }, "{package} {bundle} {digest}";
        }
    }
}

// parity: serve-17, complaint-3
#[test]
fn what_comes_first_and_is_not_read_yet_is_not_overruled() {
    let none = CatalogIdentity::default();
    let said = |known: &CatalogCache| known.said("etcd", "etcd.v1", "sha256:1");
    // After a restart, the one that comes later is there first.
    let mut known = CatalogCache::default();
    assert_eq!(said(&known), Said::Away(None), "nobody has looked");
    known.reset(&["ours".to_owned(), "theirs".to_owned()]);
    let (first, later) = (key("ours", "first"), key("ours", "later"));
    put(&mut known, &later, 0, stocked("sha256:1", "4.14"));
    assert_rows! {
        { known.listed("ours"); said(&known) } => away("4.14"), "there may be others";
        { known.listed("theirs"); said(&known) } => says("4.14");
        { known.add(&first, &none, 10); said(&known) } => away("4.14");
        { known.set_problem(&first, &none, "nobody is there".to_owned()); said(&known) } => away("4.14");
        { known.read(&first, &none, stocked("sha256:1", "4.12")); said(&known) } => says("4.12");
    }
    // It says nothing, and it does not have it.
    let mut silent = package("etcd", "etcd.v1", "r/b@sha256:1", "");
    let bundle = silent.bundles.get_mut("etcd.v1");
    bundle.unwrap().max_openshift = None;
    known.read(&first, &none, all(vec![silent]));
    assert_eq!(said(&known), Said::Says(None));
    known.read(&first, &none, all(Vec::new()));
    assert_eq!(said(&known), says("4.14"));
    // Its package has become unusable.
    known.read(&first, &none, some(&["etcd"], Vec::new(), &["etcd"]));
    assert_eq!(said(&known), away("4.14"));
    let broken = with!(Catalog, broken: [("etcd".to_owned(), 1)].into());
    known.read(&first, &none, CatalogContent::Full(Arc::new(broken)));
    assert_eq!(said(&known), away("4.14"));
    // Nobody has asked it for this package.
    known.read(&first, &none, some(&["other"], Vec::new(), &[]));
    assert_eq!(said(&known), away("4.14"));
    // It is another catalog now.
    known.read(&first, &none, stocked("sha256:1", "4.12"));
    assert_rows! {
        { known.add(&first, &as_image("1", "b:1"), 10); said(&known) } => away("4.14");
        { known.remove(&first); said(&known) } => says("4.14");
        { known.remove(&later); said(&known) } => Said::Absent;
        // Nobody may see what there is: it has the priority of those that say none.
        { known.refused("theirs", "no".to_owned()); said(&known) } => Said::Away(None);
        { put(&mut known, &later, 0, stocked("sha256:1", "4.14")); said(&known) } => says("4.14"), "its name comes first";
        { known.add(&later, &none, -1); said(&known) } => away("4.14");
    }
}

#[test]
fn of_equal_priority_the_one_decides_that_is_chosen_from_first() {
    let mut known = listing(&["a", "a-b"]);
    for (namespace, max) in [("a", "4.12"), ("a-b", "4.13")] {
        let read = stocked("sha256:1", max);
        put(&mut known, &key(namespace, "x"), 0, read);
        known.listed(namespace);
    }
    let offers = known.offers("etcd", None);
    let list = with!(offers.list() => |list| list.sort_by(|a, b| a.catalog.cmp(b.catalog)));
    assert_eq!(list[0].catalog, "a-b/x");
    assert_eq!(known.said("etcd", "etcd.v1", "sha256:1"), says("4.13"));
}

/// Whoever writes the image that a template has become has not changed the catalog.
// parity: switch-1
#[test]
fn what_its_template_has_become_is_the_same_catalog() {
    use manifests::{api::labels::CATALOG_IMAGE_TEMPLATE, template::ANNOTATION};

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
    let ours = Some((CATALOG_IMAGE_TEMPLATE, template));
    let olms = Some((ANNOTATION, template));
    let other = Some((CATALOG_IMAGE_TEMPLATE, "r/c:{kube_minor_version}"));
    let plain = Some((CATALOG_IMAGE_TEMPLATE, "r/c:v36"));
    for (one, two, is_same) in [
        (of(old, ours), of(new, ours), true),
        (of(old, olms), of(new, olms), true),
        (of("", ours), of(old, ours), true),
        (of(&format!("image={template}"), None), of(old, ours), true),
        (of(old, ours), of(old, other), false),
        (of(old, ours), of(old, None), false),
        (of(old, None), of(new, None), false),
        (of(old, plain), of(new, plain), false),
        (of("", None), of("", ours), false),
        // In no image, an annotation counts for nothing.
        (of("address=a:1", ours), of("address=a:1", None), true),
        (of("address=a:1", ours), of("address=b:1", ours), false),
        (of("address=a:1", ours), of(old, ours), false),
    ] {
        assert_eq!(one == two, is_same, "{one:?} {two:?}");
    }
}

#[test]
fn the_catalog_of_a_subscription_declares_a_bundles_value() {
    let none = CatalogIdentity::default();
    let ask =
        |known: &CatalogCache, catalog: &Key| known.said_by(catalog, "etcd", "etcd.v1", "1.0.0");
    let mut known = CatalogCache::default();
    let (first, second) = (key("ours", "first"), key("ours", "second"));
    let away = Some(Said::Away(None));
    assert_rows! {
        ask(&known, &first) => away, "no catalog is known yet";
        { known.reset(&["ours".to_owned()]); ask(&known, &first) } => away, "catalogs are not listed yet";
        // Tenants' catalogs are ignored, whether or not the admin's are listed.
        ask(&known, &key("theirs", "first")) => None;
        { known.listed("ours"); ask(&known, &first) } => None, "it does not exist";
        { known.add(&first, &none, 0); ask(&known, &first) } => away, "it is not read yet";
    }
    put(&mut known, &second, 10, stocked("sha256:2", "4.14"));
    known.read(&first, &none, stocked("sha256:1", "4.13"));
    // Only the named catalog counts, and priorities do not.
    assert_eq!(ask(&known, &first), Some(says("4.13")));
    assert_eq!(ask(&known, &second), Some(says("4.14")));
    for (package, bundle, version, expected) in [
        ("etcd", "etcd.v1", "1.0.0", says("4.13")),
        ("etcd", "etcd.v1", "1.0.1", Said::Absent),
        ("etcd", "etcd.v1", "1.0", Said::Absent),
        ("etcd", "etcd.v2", "1.0.0", Said::Absent),
        ("other", "etcd.v1", "1.0.0", Said::Absent),
    ] {
        assert_rows!(known.said_by(&first, package, bundle, version) => Some(expected), "{package} {bundle} {version}");
    }
    assert_rows! {
        { known.set_problem(&first, &none, "connection refused".to_owned()); ask(&known, &first) } => Some(says("4.13"));
        known.said_by(&first, "other", "etcd.v1", "1.0.0") => away;
        // The read packages do not include this one.
        { known.read(&first, &none, some(&["other"], Vec::new(), &[])); ask(&known, &first) } => away;
        { known.read(&first, &none, some(&["etcd"], Vec::new(), &["etcd"])); ask(&known, &first) } => away;
        { known.remove(&first); known.refused("ours", "forbidden".to_owned()); ask(&known, &first) } => away;
        { known.clear(); ask(&known, &first) } => None;
    }
}

#[test]
fn the_lowest_value_is_that_of_all_catalogs_together() {
    let none = CatalogIdentity::default();
    let lowest = |known: &CatalogCache| known.lowest("etcd", "etcd.v1", "1.0.0");
    let is = |release: &str| Said::Says(Some(release.to_owned()));
    let unknown = Said::Away(None);
    let mut known = CatalogCache::default();
    let (first, second) = (key("ours", "first"), key("ours", "second"));
    assert_eq!(lowest(&known), unknown, "nothing is listed yet");
    known.reset(&["ours".to_owned(), "more".to_owned()]);
    known.listed("ours");
    put(&mut known, &first, 0, stocked("sha256:1", "4.13"));
    assert_eq!(lowest(&known), unknown, "a namespace is not listed yet");
    known.listed("more");
    assert_eq!(lowest(&known), is("4.13"));
    known.refused("more", "forbidden".to_owned());
    assert_eq!(lowest(&known), unknown, "a namespace cannot be listed");
    known.listed("more");

    known.add(&second, &none, -10);
    assert_eq!(lowest(&known), unknown, "a catalog is not read yet");
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
        let shown = format!("{read:?}");
        known.read(&second, &none, read);
        assert_eq!(lowest(&known), expected, "{shown}");
    }
    known.read(&second, &none, stocked("sha256:2", "4.12"));
    assert_eq!(known.lowest("etcd", "etcd.v1", "1.0.1"), Said::Says(None));
    assert_eq!(known.lowest("etcd", "etcd.v2", "1.0.0"), Said::Says(None));
    // The last reading counts.
    known.set_problem(&second, &none, "connection refused".to_owned());
    assert_eq!(lowest(&known), is("4.12"));
}
