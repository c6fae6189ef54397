use serde_json::json;

use super::*;

fn entry(manager: &str, operation: &str, subresource: &str, fields: &Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z",
    })
}

fn metadata(entries: &[Value]) -> Value {
    json!({"name": "a", "managedFields": entries})
}

#[test]
fn fingerprint_covers_only_our_entry() {
    let fields =
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:replicas": {}}});
    let other_fields = json!({"f:data": {}});
    let mut own_entry = entry("rukpak", "Apply", "", &fields);
    own_entry["time"] = json!("2026-01-02T00:00:00Z");
    let alone = Fingerprint::from_metadata(&metadata(std::slice::from_ref(&own_entry)), "rukpak");
    assert!(alone.is_some());
    let entries = [
        entry("rukpak", "Update", "", &other_fields),
        entry("rukpak", "Apply", "status", &other_fields),
        entry("kubectl", "Apply", "", &other_fields),
        own_entry,
    ];
    let shared = metadata(&entries);
    assert_eq!(Fingerprint::from_metadata(&shared, "rukpak"), alone);
    assert_ne!(Fingerprint::from_metadata(&shared, "kubectl"), alone);
    let typed: Vec<ManagedFieldsEntry> = serde_json::from_value(json!(entries)).unwrap();
    assert_eq!(Fingerprint::from_entries(&typed, "rukpak"), alone);
    assert_eq!(
        last_applied(&typed, "rukpak"),
        "2026-01-02T00:00:00Z".parse().ok()
    );
    assert_eq!(last_applied(&typed, "other"), None);
}

#[test]
fn fingerprint_depends_on_fields_but_not_on_their_order() {
    let of = |text: &str| Fingerprint::from_fields(&serde_json::from_str(text).unwrap()).unwrap();
    let one = of(r#"{"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}"#);
    assert_eq!(of(r#"{"f:b": {"f:d": {}, "f:c": {}}, "f:a": {}}"#), one);
    assert_ne!(of(r#"{"f:a": {}, "f:b": {"f:c": {}}}"#), one);
    assert_ne!(of(r#"{"f:a": {"f:b": {"f:c": {}, "f:d": {}}}}"#), one);
}

#[test]
fn metadata_without_our_fields_has_no_fingerprint() {
    let all = json!([
        {}, {"managedFields": null}, {"managedFields": "text"}, {"managedFields": [1, null, {}]},
        metadata(&[entry("kubectl", "Apply", "", &json!({"f:a": {}}))]), metadata(&[entry("rukpak", "Apply", "", &json!({}))]),
        metadata(&[entry("rukpak", "Apply", "", &json!("f:a"))]),
    ]);
    let mut all = all.as_array().unwrap().iter();
    assert_rows!(all.find(|metadata| Fingerprint::from_metadata(metadata, "rukpak").is_some()) => None);
}

#[test]
fn fingerprints_are_written_and_read_as_twelve_digits() {
    // Fingerprints are stored in status: another format in a newer provisioner would apply each object again.
    let fingerprint = Fingerprint::from_fields(&json!({"f:data": {"f:key": {}}})).unwrap();
    assert_eq!(fingerprint.to_string(), "30921c65d9cd");
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    assert_rows!("000000000001".parse::<Fingerprint>().unwrap().to_string() => "000000000001");
    let wrong = "1 00000000000g 00000000000A +00000000001 0000000000001 ääääää";
    let mut wrong = wrong.split(' ').chain([""]);
    assert_rows!(wrong.find(|text| text.parse::<Fingerprint>() != Err(InvalidHash)) => None);
}
