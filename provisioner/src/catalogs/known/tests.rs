use catalog::model::{Bundle, Package};
use manifests::version::Version;

use super::*;

fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn package(name: &str, bundle: &str, image: &str, max: &str) -> Package {
    let mut package = Package {
        name: name.to_owned(),
        ..Package::default()
    };
    let bundle = Bundle {
        image: image.to_owned(),
        max_openshift: vec![max.to_owned()],
        ..Bundle::new(bundle, Version::new(1, 0, 0))
    };
    package.bundles.insert(bundle.name.clone(), bundle);
    package
}

fn all(packages: Vec<Package>) -> Read {
    Read::All(Arc::new(Catalog {
        packages: packages
            .into_iter()
            .map(|it| (it.name.clone(), it))
            .collect(),
        ..Catalog::default()
    }))
}

fn some(asked: &[&str], packages: Vec<Package>, broken: &[&str]) -> Read {
    Read::Some {
        asked: Arc::new(asked.iter().map(|&it| it.to_owned()).collect()),
        packages: Arc::new(Packages {
            packages: packages
                .into_iter()
                .map(|it| (it.name.clone(), it))
                .collect(),
            broken: broken
                .iter()
                .map(|&it| (it.to_owned(), "it is bad".to_owned()))
                .collect(),
        }),
    }
}

fn said(known: &Known, package: &str, only: Option<&CatalogRef>) -> Vec<String> {
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
    let mut known = Known::default();
    known.begin(&["ours".to_owned()]);
    let mine = key("ours", "mine");
    assert!(known.add(&mine, 5));
    assert!(!known.add(&mine, 5));
    assert_eq!(said(&known, "etcd", None), ["ours/mine 5: pending"]);
    assert!(known.trouble(&mine, "nobody is there".to_owned()));
    assert!(!known.trouble(&mine, "nobody is there".to_owned()));
    assert_eq!(said(&known, "etcd", None), ["ours/mine 5: nobody is there"]);
    let read = all(vec![package("etcd", "etcd.v1", "r/b@sha256:1", "4.12")]);
    assert!(known.read(&mine, read));
    assert_eq!(said(&known, "etcd", None), ["ours/mine 5: has etcd"]);
    assert_eq!(said(&known, "other", None), ["ours/mine 5: absent"]);
    assert!(known.trouble(&mine, "nobody is there".to_owned()));
    assert_eq!(said(&known, "etcd", None), ["ours/mine 5: has etcd"]);
    assert_eq!(
        known.states(),
        [State {
            catalog: mine.clone(),
            is_read: true,
            trouble: Some("nobody is there".to_owned()),
        }]
    );
    assert!(known.is_well(&mine));
    assert!(!known.is_well(&mine));
    assert!(known.remove(&mine));
    assert!(said(&known, "etcd", None).is_empty());
    assert!(!known.read(&mine, all(Vec::new())), "it comes too late");
}

#[test]
fn of_what_others_serve_only_what_was_asked_for_is_known() {
    let mut known = Known::default();
    known.begin(&["ours".to_owned()]);
    let mine = key("ours", "mine");
    known.add(&mine, 0);
    let etcd = package("etcd", "etcd.v1", "r/b@sha256:1", "4.12");
    known.read(&mine, some(&["bad", "etcd", "none"], vec![etcd], &["bad"]));
    for (package, answer) in [
        ("etcd", "has etcd"),
        ("none", "absent"),
        ("bad", "it is bad"),
        ("other", "pending"),
    ] {
        assert_eq!(
            said(&known, package, None),
            [format!("ours/mine 0: {answer}")]
        );
    }
}

#[test]
fn a_catalog_without_a_namespace_is_looked_for_in_the_order_of_the_namespaces() {
    let mut known = Known::default();
    known.begin(&["z".to_owned(), "a".to_owned()]);
    for (namespace, name) in [("a", "mine"), ("z", "mine"), ("a", "other")] {
        known.add(&key(namespace, name), 0);
        known.read(&key(namespace, name), all(Vec::new()));
    }
    for (namespace, name, expected) in [
        (None, "mine", vec!["z/mine 0: absent"]),
        (Some("a"), "mine", vec!["a/mine 0: absent"]),
        (None, "other", vec!["a/other 0: absent"]),
        (Some("z"), "other", vec![]),
        (Some("b"), "mine", vec![]),
    ] {
        let only = CatalogRef {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        assert_eq!(said(&known, "etcd", Some(&only)), expected, "{only:?}");
    }
    assert_eq!(said(&known, "etcd", None).len(), 3);
    assert!(!known.are_listed());
    assert!(known.listed("a"));
    assert!(!known.are_listed());
    assert!(known.listed("z"));
    assert!(!known.listed("z"));
    assert!(known.are_listed());
}

#[test]
fn a_maximum_counts_for_the_same_package_bundle_and_digest() {
    let mut known = Known::default();
    known.begin(&["ours".to_owned()]);
    for (name, priority, digest, max) in [
        ("a", 0, "sha256:1", "4.12"),
        ("b", 5, "sha256:1", "4.13"),
        ("c", 9, "sha256:2", "4.14"),
    ] {
        let key = key("ours", name);
        known.add(&key, priority);
        let image = format!("registry:5000/b@{digest}");
        known.read(&key, all(vec![package("etcd", "etcd.v1", &image, max)]));
        known.trouble(&key, "away".to_owned()); // the last seen value counts
    }
    for (package, bundle, digest, expected) in [
        ("etcd", "etcd.v1", "sha256:1", Some("4.13")),
        ("etcd", "etcd.v1", "sha256:2", Some("4.14")),
        ("etcd", "etcd.v1", "sha256:3", None),
        ("etcd", "etcd.v2", "sha256:1", None),
        ("other", "etcd.v1", "sha256:1", None),
    ] {
        let found = known.maximum(package, bundle, digest);
        let expected = expected.map(|it| vec![it.to_owned()]);
        assert_eq!(found, expected, "{package} {bundle} {digest}");
    }
}
