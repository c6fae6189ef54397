//! What was stored before there was v1, or a rule, and what v1 makes of it.

use super::*;
use crate::support::merge_status;

/// Stores one that says no source, as a definition without rules takes it, and then defines those with rules.
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

/// In OLM's form much may stand that nobody reads. In v1 it stays, and does not hinder who writes something else.
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
        let seen = new.get(name).await.unwrap();
        let mut expected = source;
        expected
            .as_object_mut()
            .unwrap()
            .extend(unread.as_object().unwrap().clone());
        assert_eq!(seen.data["spec"], expected);

        merge(&new, name, &json!({"spec": {"displayName": "Mine"}})).await;
        spec["displayName"] = "Mine".into();
        assert_eq!(old.get(name).await.unwrap().data["spec"], spec);
        merge_status(&new, name, &json!({"status": {"message": "told"}})).await;
        // What is changed is written anew, and so is what is made in v1.
        for change in [
            json!({"secrets": ["t"]}),
            json!({"updateStrategy": {"registryPoll": {"interval": "5m"}}}),
        ] {
            let (params, change) = (
                PatchParams::default(),
                Patch::Merge(json!({"spec": change})),
            );
            let said = new.patch(name, &params, &change).await;
            let said = said.unwrap_err().to_string();
            let words = "Forbidden: only for catalogImageSource";
            assert!(said.contains(words), "{said}");
        }
        let anew = super::source("v1", "anew", &expected);
        let said = new.create(&PostParams::default(), &anew).await;
        let said = said.unwrap_err().to_string();
        assert!(said.contains("spec.updateStrategy: Forbidden"), "{said}");
        assert!(said.contains("spec.secrets: Forbidden"), "{said}");
        // Whoever removes it may use either version.
        release(name).await;
    }
    // One that says no source has none in v1, and can be removed there all the same.
    assert_eq!(new.get("odd").await.unwrap().data["spec"], json!({}));
    release("odd").await;
    // One that is as large as annotations may be does not keep the others from being listed.
    let spec = json!({"catalogImageSource": {"catalogImage": "a:1"}});
    let mut large = super::source("v1alpha1", "large", &spec);
    let annotations = [("mine".to_owned(), "x".repeat((256 << 10) - 4))];
    large.metadata.annotations = Some(annotations.into());
    create(&old, &large).await;
    assert_eq!(list(&new).await.len(), 3);
    merge(&new, "large", &json!({"spec": {"displayName": "Mine"}})).await;
    delete(&old, "large").await;
}

/// Nested so often that a client that reads it with others reads none of them.
fn deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!({"a": inner}))
}

/// What nobody reads is dropped, and what is read has an end.
pub(super) async fn nothing_is_nested_without_end(new: &Api<DynamicObject>) {
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
    let said = refused.unwrap_err().to_string();
    let words = "podSpecOverrides.nodeSelector.a: Invalid value";
    assert!(said.contains(words), "{said}");
}

/// A definition that left the options of a pod open has let in what clients cannot read. The others can be listed all the
/// same, in either version, with that definition and with ours.
pub(super) async fn what_is_too_deep_is_converted(cluster: &Cluster, address: SocketAddr) {
    let client = cluster.client().unwrap();
    define_as(cluster, address, |definition| {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        for (version, options) in [
            (0, "grpcPodConfig"),
            (0, "catalogImageSource/properties/podSpecOverrides"),
            (1, "catalogImageSource/properties/podSpecOverrides"),
        ] {
            let spec = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec");
            let spec = definition.pointer_mut(&spec).unwrap();
            *spec.pointer_mut(&format!("/properties/{options}")).unwrap() = open.clone();
            // What is open cannot be compared.
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
