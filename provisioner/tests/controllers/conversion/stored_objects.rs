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
    let old = sources(&cluster.client().unwrap(), "v1alpha1");
    create(&old, &odd).await;
    crate::support::define(cluster, base).await;
}

/// OLM's form can contain fields that are not read. In v1 they are kept, and do not block changes of other fields.
pub(super) async fn is_written_in_v1(client: &Client) {
    let (old, new) = (sources(client, "v1alpha1"), sources(client, "v1"));
    let release = async |name: &str| {
        delete(&new, name).await;
        merge(&new, name, &json!({"metadata": {"finalizers": null}})).await;
        assert!(old.get_opt(name).await.unwrap().is_none(), "{name}");
    };
    let unread = json!({"updateStrategy": {"registryPoll": {"interval": "30m"}}, "secrets": ["s"]});
    for (name, spec, source) in tests::rows![
        "address", json!({"sourceType": "grpc", "address": "a:1"}) => json!({"catalogServiceSource": {"address": "a:1"}});
        "map", json!({"sourceType": "internal", "configMap": "m"}) => json!({"configMapSource": {"configMap": "m"}});
    ] {
        let mut spec = spec;
        spec.as_object_mut()
            .unwrap()
            .extend(unread.as_object().unwrap().clone());
        let mut before = super::source("v1alpha1", name, &spec);
        before.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
        create(&old, &before).await;
        let object = new.get(name).await.unwrap();
        let mut expected = source;
        expected
            .as_object_mut()
            .unwrap()
            .extend(unread.as_object().unwrap().clone());
        assert_eq!(object.data["spec"], expected);

        merge(&new, name, &json!({"spec": {"displayName": "Mine"}})).await;
        spec["displayName"] = "Mine".into();
        assert_eq!(old.get(name).await.unwrap().data["spec"], spec);
        merge_status(&new, name, &json!({"status": {"message": "told"}})).await;
        // Changed values are validated again, and so are objects that are created in v1.
        for change in [
            json!({"secrets": ["t"]}),
            json!({"updateStrategy": {"registryPoll": {"interval": "5m"}}}),
        ] {
            let (params, change) = (
                PatchParams::default(),
                Patch::Merge(json!({"spec": change})),
            );
            let error = new.patch(name, &params, &change).await;
            let error = error.unwrap_err().to_string();
            let forbidden = "Forbidden: only for catalogImageSource";
            assert!(error.contains(forbidden), "{error}");
        }
        let anew = super::source("v1", "anew", &expected);
        let error = new.create(&PostParams::default(), &anew).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("spec.updateStrategy: Forbidden"), "{error}");
        assert!(error.contains("spec.secrets: Forbidden"), "{error}");
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
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let more = of(json!({"later": deep(), "affinity": {"a": deep()}}));
    let taken = new.create(&params, &source("v1", "deep", &more)).await;
    assert_eq!(taken.unwrap().data["spec"], of(json!({"affinity": {}})));
    let bad = of(json!({"nodeSelector": {"a": deep()}}));
    let refused = new.create(&params, &source("v1", "deep", &bad)).await;
    let error = refused.unwrap_err().to_string();
    let invalid = "podSpecOverrides.nodeSelector.a: Invalid value";
    assert!(error.contains(invalid), "{error}");
}

/// A CRD that left the options of a pod open has accepted values that clients cannot parse. The others can be listed
/// all the same, in either version, with that CRD and with the project's.
pub(super) async fn deep_options_are_converted(cluster: &Cluster, address: SocketAddr) {
    let client = cluster.client().unwrap();
    define_as(cluster, address, |crd| {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        for (version, options) in [
            (0, "grpcPodConfig"),
            (0, "catalogImageSource/properties/podSpecOverrides"),
            (1, "catalogImageSource/properties/podSpecOverrides"),
        ] {
            let spec = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec");
            let spec = crd.pointer_mut(&spec).unwrap();
            *spec.pointer_mut(&format!("/properties/{options}")).unwrap() = open.clone();
            // Open values cannot be compared.
            let spec = spec.as_object_mut().unwrap();
            spec.remove("x-kubernetes-validations");
        }
    })
    .await;
    let spec = json!({"sourceType": "grpc", "image": "a:1", "grpcPodConfig": {"memoryTarget": "1Mi", "later": deep()}});
    let text = async |method: &str, version: &str, name: &str, body: Vec<u8>| {
        let path = format!(
            "/apis/operators.coreos.com/{version}/namespaces/{NAMESPACE}/catalogsources{name}"
        );
        let request = http::Request::builder().method(method).uri(path);
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let answered = client.request_text(request.unwrap()).await;
        answered.map_err(|error| error.to_string())
    };
    let object = serde_json::to_vec(&super::source("v1alpha1", "deep", &spec)).unwrap();
    let is_stored_whole = async || {
        let stored = text("POST", "v1alpha1", "", object.clone()).await?;
        if stored.contains(&deep().to_string()) {
            return Ok(());
        }
        text("DELETE", "v1alpha1", "/deep", Vec::new()).await?;
        Err("the definition is not there yet".to_owned())
    };
    eventually("it is stored as deep as it is", is_stored_whole).await;
    let all_are_listed = async || {
        let listed = text("GET", "v1", "", Vec::new()).await.unwrap();
        for name in ["before", "after", "odd", "deep"] {
            assert!(listed.contains(&format!("\"name\":\"{name}\"")), "{listed}");
        }
    };
    all_are_listed().await;
    define(cluster, address).await;
    eventually("nothing of it is deep any more", async || {
        let stored = text("GET", "v1alpha1", "/deep", Vec::new()).await?;
        let spec = stored.split("\"spec\":").nth(1).unwrap_or_default();
        let is_shallow = !spec.contains(r#"{"a":{"a""#);
        is_shallow.then_some(()).ok_or(stored)
    })
    .await;
    all_are_listed().await;
    let deleted = text("DELETE", "v1alpha1", "/deep", Vec::new()).await;
    deleted.unwrap();
}
