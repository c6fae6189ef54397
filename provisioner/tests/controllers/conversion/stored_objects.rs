//! Objects that were stored before v1, or before a rule, and their conversion to v1.

use super::*;
use crate::support::merge_status;

/// Stores an object without a source under a CRD without rules, and then applies the CRD with rules.
pub(super) async fn no_source(cluster: &Cluster, base: &Value) {
    let mut lax = base.clone();
    lax.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .and_then(Value::as_object_mut)
        .and_then(|spec| spec.remove("x-kubernetes-validations"))
        .unwrap();
    crate::support::define(cluster, &lax).await;
    let spec = json!({"sourceType": "foo", "image": "a:1"});
    let mut odd = source("v1alpha1", "odd", &spec);
    odd.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
    create(&sources(&cluster.client().unwrap(), "v1alpha1"), &odd).await;
    crate::support::define(cluster, base).await;
}

/// OLM's form can contain fields that are not read. In v1 they are kept, and do not block changes of other fields.
pub(super) async fn unread_fields_are_kept(client: &Client) {
    let (old, new) = (sources(client, "v1alpha1"), sources(client, "v1"));
    let release = async |name: &str| {
        delete(&new, name).await;
        merge(&new, name, &json!({"metadata": {"finalizers": null}})).await;
        assert!(old.get_opt(name).await.unwrap().is_none(), "{name}");
    };
    for (name, legacy, form) in tests::rows![
        "address", json!({"sourceType": "grpc", "address": "a:1"}) => json!({"catalogServiceSource": {"address": "a:1"}});
        "map", json!({"sourceType": "internal", "configMap": "m"}) => json!({"configMapSource": {"configMap": "m"}});
    ] {
        let [mut spec, expected] = [legacy, form].map(|spec| {
            tests::with!(spec => |spec|
                spec["updateStrategy"] = json!({"registryPoll": {"interval": "30m"}});
                spec["secrets"] = json!(["s"]))
        });
        let mut before = super::source("v1alpha1", name, &spec);
        before.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
        create(&old, &before).await;
        assert_eq!(new.get(name).await.unwrap().data["spec"], expected);

        merge(&new, name, &json!({"spec": {"displayName": "Mine"}})).await;
        spec["displayName"] = "Mine".into();
        assert_eq!(old.get(name).await.unwrap().data["spec"], spec);
        merge_status(&new, name, &json!({"status": {"message": "reported"}})).await;
        // Changed values are validated again, and so are objects that are created in v1.
        for change in [
            json!({"secrets": ["t"]}),
            json!({"updateStrategy": {"registryPoll": {"interval": "5m"}}}),
        ] {
            let change = Patch::Merge(json!({"spec": change}));
            let error = new.patch(name, &PatchParams::default(), &change).await;
            tests::assert_has(error.unwrap_err(), "Forbidden: only for catalogImageSource");
        }
        let another = super::source("v1", "another", &expected);
        let error = new.create(&PostParams::default(), &another).await;
        let error = error.unwrap_err().to_string();
        for field in ["updateStrategy", "secrets"] {
            tests::assert_has(&error, &format!("spec.{field}: Forbidden"));
        }
        // Either version can be used for removal.
        release(name).await;
    }
    // An object without a source has an empty spec in v1, and can be removed there all the same.
    assert_eq!(new.get("odd").await.unwrap().data["spec"], json!({}));
    release("odd").await;
    // An object with the largest possible annotations does not break lists.
    let spec = json!({"catalogImageSource": {"catalogImage": "a:1"}});
    let mut large = super::source("v1alpha1", "large", &spec);
    let annotations = [("mine".to_owned(), "x".repeat((256 << 10) - 4))];
    large.metadata.annotations = Some(annotations.into());
    create(&old, &large).await;
    assert_eq!(list(&new).await.len(), 3);
    merge(&new, "large", &json!({"spec": {"displayName": "Mine"}})).await;
    delete(&old, "large").await;
}

/// Returns a value nested so deeply that a client cannot parse a list that contains it.
fn deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!({"a": inner}))
}

/// Unknown fields are dropped, and known fields have bounded depth.
pub(super) async fn nesting_is_bounded(new: &Api<DynamicObject>) {
    let of = |options: Value| json!({"catalogImageSource": {"catalogImage": "a:1", "podSpecOverrides": options}});
    let params = tests::with!(PostParams::default() => dry_run: true);
    let more = of(json!({"later": deep(), "affinity": {"a": deep()}}));
    let taken = new.create(&params, &source("v1", "deep", &more)).await;
    assert_eq!(taken.unwrap().data["spec"], of(json!({"affinity": {}})));
    let bad = of(json!({"nodeSelector": {"a": deep()}}));
    let rejected = new.create(&params, &source("v1", "deep", &bad)).await;
    let invalid = "podSpecOverrides.nodeSelector.a: Invalid value";
    tests::assert_has(rejected.unwrap_err(), invalid);
}
