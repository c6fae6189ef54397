use serde_json::json;

use super::*;
use crate::fixtures::identity;

#[test]
fn recorded_object_without_namespace_requires_its_api() {
    let instance: BundleInstance = crate::fixtures::object(json!({"metadata": {"name": "a"}}));
    let namespace = Some("tide".to_owned());
    let status = with!(BundleInstanceStatus, install_namespace: namespace);
    let (group, view) = ("monitoring.coreos.com", InstanceView::default());
    let monitor = |namespace| identity(group, "ServiceMonitor", namespace, "m");
    for (recorded, drifted, is_required) in ::tests::rows![
        "", "tide" => true;
        "tide", "tide" => true;
        "tide", "" => true;
        "", "elsewhere" => false;
        "other", "tide" => false;
    ] {
        let absent = MissingKind {
            api_version: "monitoring.coreos.com/v1".to_owned(),
            kind: "ServiceMonitor".to_owned(),
            needed_by: vec![monitor(recorded)],
        };
        let objects = [monitor(drifted)];
        let drift = DriftedObjects {
            instance: &instance,
            status: &status,
            objects: &objects,
            view: &view,
        };
        let required = drift.still_required(&[absent]).into_iter();
        let found: Vec<_> = required.flat_map(|absent| absent.needed_by).collect();
        assert_rows!(found => is_required.then(|| monitor(drifted)).into_iter().collect::<Vec<_>>(), "{recorded:?} {drifted:?}");
    }
}
