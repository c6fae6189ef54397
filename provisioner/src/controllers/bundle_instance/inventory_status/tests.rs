use super::*;
use crate::{controllers::bundle_instance::revisions::tests::status, fixtures::identity};

fn sample(objects: usize) -> Inventory {
    (0..objects)
        .map(|n| {
            let group = ["", "apps"][n % 2];
            let namespace = ["", "etcd"][n / 2 % 2];
            // Names of roles may contain spaces, and may look like fingerprints.
            let mut names = "n|n |n 0f1e2d3c4b5a |0f1e2d3c4b5a 0f1e2d3c4b+recreate".split('|');
            let name = names.nth(n % 4).unwrap();
            let fields = (n % 3 == 0).then(|| "0f1e2d3c4b5a".parse().unwrap());
            let entry = with!(Entry::default() => version: "v1".to_owned(), fields: fields, recreating: n % 5 == 0);
            let name = format!("{name}{n:02}");
            (identity(group, "Kind", namespace, &name), entry)
        })
        .collect()
}

#[test]
fn listed_objects_read_back() {
    for objects in [0, 1, 7, 100] {
        let inventory = sample(objects);
        let status = list(&inventory, MAX_IN_STATUS);
        assert!(status.is_whole());
        assert_rows!(parse(&status.kinds).collect::<Inventory>() => inventory, "{objects}");
    }
}

#[test]
fn status_lists_unrecorded_objects_first() {
    let names = (0..MAX_IN_STATUS + 10).map(|number| format!("n{number:04}"));
    let identities = names.map(|name| identity("", "ConfigMap", "etcd", &name));
    let mut inventory: Inventory = identities.map(|name| (name, Entry::default())).collect();
    inventory.last_entry().unwrap().get_mut().recreating = true;
    let status = list(&inventory, MAX_IN_STATUS);
    let read: Inventory = parse(&status.kinds).collect();
    let next = identity("", "ConfigMap", "etcd", "n0499");
    assert_rows! {
        (status.count, status.more, status.is_whole()) => (510, None, false);
        (read.len(), read.last_key_value()) => (MAX_IN_STATUS, inventory.last_key_value());
        inventory.contains_key(&next) && !read.contains_key(&next) => true;
        // An older provisioner listed the others in a ConfigMap.
        Listed { more: Some(1), ..status }.is_whole() => true;
    }
}

#[test]
fn inventory_is_readable() {
    let fields = Some("0f1e2d3c4b5a".parse().unwrap());
    let entry = |fields| with!(Entry, version: "v1".to_owned(), fields);
    let recreated = with!(entry(fields) => recreating: true);
    let deployment = |name| identity("apps", "Deployment", "etcd", name);
    let inventory = Inventory::from([
        (deployment("operator"), entry(fields)),
        (deployment("server"), recreated),
        (identity("", "Namespace", "", "etcd"), entry(None)),
    ]);
    assert_rows! {
        serde_json::to_value(list(&inventory, MAX_IN_STATUS)).unwrap() => serde_json::json!({"count": 3, "kinds": [
            {"apiVersion": "v1", "kind": "Namespace", "objects": ["etcd"]},
            {"apiVersion": "apps/v1", "kind": "Deployment", "objects": [
                "etcd/operator 0f1e2d3c4b5a", "etcd/server 0f1e2d3c4b5a+recreate",
            ]},
        ]});
    }
}

#[test]
fn unknown_objects_are_counted_as_before() {
    let inventory = sample(7);
    let before = |count| with!(BundleInstanceStatus::default() => inventory: Some(Listed { count, ..Listed::default() }));
    let built = |more, unread, count| {
        let listed = build(&inventory, more, unread, &before(count));
        (listed.count, listed.is_whole())
    };
    assert_each!(|more, unread, count, expected| built(more, unread, count) => expected;
        0, None, 9 => (7, true);
        0, Some(1), 9 => (9, false);
        0, Some(1), 5 => (7, true);
        2, None, 7 => (9, false);
    );
}

#[test]
fn config_maps_are_read_until_former_objects_are_pruned() {
    use RevisionState::{Active, Archived, RollingOut};
    let listed = |more| with!(Listed::default() => more: more);
    let before = with!(BundleInstanceStatus::default() => inventory: Some(listed(Some(2))));
    let leaving = vec!["ConfigMap a/b".to_owned()];
    for (states, removing, expected) in [
        (&[][..], &[][..], Some(2)),
        (&[RollingOut], &[], Some(2)),
        (&[Active, RollingOut], &[], Some(2)),
        (&[Archived, Active], &leaving, Some(2)),
        (&[Archived, Active], &[], None),
    ] {
        let mut status =
            with!(status(states) => inventory: Some(listed(None)), removing: removing.to_vec());
        retain_config_maps(&mut status, &before);
        assert_rows!(status.inventory.unwrap().more => expected, "{states:?} {removing:?}");
    }
}
