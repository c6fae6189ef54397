use serde_json::json;

use super::*;

fn identity(name: &str) -> Identity {
    crate::tests::identity("apps", "Deployment", "shop", name)
}

fn remembered(fields: Option<Fingerprint>) -> Entry {
    with!(Entry, version: "v1".to_owned(), fields)
}

fn entry(manager: &str, operation: &str, subresource: &str, fields: &Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z",
    })
}

fn metadata(entries: &[Value]) -> Value {
    json!({"name": "a", "managedFields": entries})
}

fn fingerprint(text: &str) -> Fingerprint {
    text.parse().unwrap()
}

#[test]
fn the_fingerprint_is_of_our_entry_and_of_no_other() {
    let fields = json!({"f:spec": {"f:replicas": {}}});
    let others = json!({"f:data": {}});
    let ours = entry("rukpak", "Apply", "", &fields);
    let alone = Fingerprint::of(&metadata(std::slice::from_ref(&ours)), "rukpak");
    assert!(alone.is_some());
    let crowd = metadata(&[
        entry("rukpak", "Update", "", &others),
        entry("rukpak", "Apply", "status", &others),
        entry("kubectl", "Apply", "", &others),
        ours,
    ]);
    assert_eq!(Fingerprint::of(&crowd, "rukpak"), alone);
    assert_ne!(Fingerprint::of(&crowd, "kubectl"), alone);
}

#[test]
fn typed_and_untyped_metadata_have_the_same_fingerprint() {
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {}});
    let entries = [
        entry("rukpak", "Apply", "status", &json!({"f:status": {}})),
        entry("rukpak", "Apply", "", &fields),
    ];
    let typed: Vec<ManagedFieldsEntry> = serde_json::from_value(json!(entries)).unwrap();
    let fingerprint = Fingerprint::of(&metadata(&entries), "rukpak");
    assert!(fingerprint.is_some());
    assert_eq!(Fingerprint::from_entries(&typed, "rukpak"), fingerprint);
}

#[test]
fn order_of_fields_does_not_count_and_every_field_does() {
    let of = |text: &str| Fingerprint::from_fields(&serde_json::from_str(text).unwrap()).unwrap();
    let one = of(r#"{"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}"#);
    assert_eq!(of(r#"{"f:b": {"f:d": {}, "f:c": {}}, "f:a": {}}"#), one);
    assert_ne!(of(r#"{"f:a": {}, "f:b": {"f:c": {}}}"#), one);
    assert_ne!(of(r#"{"f:a": {"f:b": {"f:c": {}, "f:d": {}}}}"#), one);
}

#[test]
fn nothing_that_is_ours_has_no_fingerprint() {
    for metadata in [
        json!({}),
        json!({"managedFields": null}),
        json!({"managedFields": "text"}),
        json!({"managedFields": [1, null, {}]}),
        metadata(&[entry("kubectl", "Apply", "", &json!({"f:a": {}}))]),
        metadata(&[entry("rukpak", "Apply", "", &json!({}))]),
        metadata(&[entry("rukpak", "Apply", "", &json!("f:a"))]),
    ] {
        assert_eq!(Fingerprint::of(&metadata, "rukpak"), None, "{metadata}");
    }
}

#[test]
fn fingerprints_are_written_and_read_as_twelve_digits() {
    // It is written into status: another text after an update of the provisioner would apply everything once more.
    let fingerprint = Fingerprint::from_fields(&json!({"f:data": {"f:key": {}}})).unwrap();
    assert_eq!(fingerprint.to_string(), "30921c65d9cd");
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    assert_rows!(self::fingerprint("000000000001").to_string() => "000000000001");
    let wrong = "1 00000000000g 00000000000A +00000000001 0000000000001 ääääää";
    for text in wrong.split(' ').chain([""]) {
        assert_eq!(text.parse::<Fingerprint>(), Err(InvalidHash), "{text}");
    }
}

#[test]
fn drift_is_what_is_gone_or_no_longer_ours() {
    let (ours, theirs) = (fingerprint("00000000000a"), fingerprint("00000000000b"));
    let seen = |fields, deleting| with!(Seen, hash: None, fields, deleting);
    // What is remembered, what is seen, whether the watch can tell, whether it is drift.
    let cases = ::tests::rows![
        "as applied", Some(ours), Some(seen(Some(ours), false)), true => false;
        "changed", Some(ours), Some(seen(Some(theirs), false)), true => true;
        "all taken", Some(ours), Some(seen(None, false)), true => true;
        "changed before all is listed", Some(ours), Some(seen(Some(theirs), false)), false => true;
        "gone", Some(ours), None, true => true;
        "not listed yet", Some(ours), None, false => false;
        "being deleted", Some(ours), Some(seen(Some(theirs), true)), true => false;
        "interrupted before it was applied", None, None, true => true;
        "interrupted after it was applied", None, Some(seen(Some(ours), false)), true => true;
        "without managedFields in this cluster", None, Some(seen(None, false)), true => false;
    ];
    for (name, fields, object, told, expected) in cases {
        let inventory = Inventory::from([(identity(name), remembered(fields))]);
        let mut view = with!(View, synced: told);
        match object {
            Some(seen) => drop(view.objects.insert(identity(name), seen)),
            None if told => drop(view.absent.insert(identity(name))),
            None => drop(view.unknown.insert(identity(name))),
        }
        assert_rows!(drifted(&inventory, &view) => expected.then(|| identity(name)).into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_watch_that_does_not_work_hides_no_drift_of_other_kinds() {
    let ours = Some(fingerprint("00000000000a"));
    let inventory = ["gone", "hidden"].map(|name| (identity(name), remembered(ours)));
    let inventory = Inventory::from(inventory);
    let view = with!(View, synced: false, absent: [identity("gone")].into(), unknown: [identity("hidden")].into());
    assert_eq!(drifted(&inventory, &view), [identity("gone")]);
    // Of an instance that has told nothing yet nothing is known at all.
    assert_eq!(drifted(&inventory, &View::default()), [] as [Identity; 0]);
}
