use super::*;
use crate::managed_fields::Fingerprint;

fn identity(name: &str) -> Identity {
    crate::tests::identity("apps", "Deployment", "shop", name)
}

fn recorded(fields: Option<Fingerprint>) -> Entry {
    with!(Entry, version: "v1".to_owned(), fields)
}

#[test]
fn deleted_and_changed_objects_are_drift() {
    let [own, foreign] = ["00000000000a", "00000000000b"].map(|text| text.parse().unwrap());
    let observed = |fields, deleting| with!(ObservedObject, hash: None, fields, deleting);
    // Recorded fields, observed object, whether the watch is synced, whether it is drift.
    for (name, fields, object, is_synced, expected) in ::tests::rows![
        "as applied", Some(own), Some(observed(Some(own), false)), true => false;
        "changed", Some(own), Some(observed(Some(foreign), false)), true => true;
        "all taken", Some(own), Some(observed(None, false)), true => true;
        "changed before all is listed", Some(own), Some(observed(Some(foreign), false)), false => true;
        "deleted", Some(own), None, true => true;
        "not listed yet", Some(own), None, false => false;
        "being deleted", Some(own), Some(observed(Some(foreign), true)), true => false;
        "interrupted before it was applied", None, None, true => true;
        "interrupted after it was applied", None, Some(observed(Some(own), false)), true => true;
        "without managedFields in this cluster", None, Some(observed(None, false)), true => false;
    ] {
        let inventory = Inventory::from([(identity(name), recorded(fields))]);
        let mut view = with!(InstanceView, synced: is_synced);
        match object {
            Some(observed) => drop(view.objects.insert(identity(name), observed)),
            None if is_synced => drop(view.absent.insert(identity(name))),
            None => drop(view.unknown.insert(identity(name))),
        }
        assert_rows!(drifted(&inventory, &view) => expected.then(|| identity(name)).into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn failed_watch_hides_no_drift_of_other_kinds() {
    let own = "00000000000a".parse().ok();
    let inventory = ["deleted", "hidden"].map(|name| (identity(name), recorded(own)));
    let inventory = Inventory::from(inventory);
    let view = with!(InstanceView, synced: false, absent: [identity("deleted")].into(), unknown: [identity("hidden")].into());
    assert_eq!(drifted(&inventory, &view), [identity("deleted")]);
    // Without a view of the instance, no drift is known.
    assert_rows!(drifted(&inventory, &InstanceView::default()) => [] as [Identity; 0]);
}
