//! What was stored before there was v1, or a rule, and what v1 makes of it.

use super::*;

/// Stores one that says no source, as a definition without rules takes it, and then defines those with rules.
pub(super) async fn no_source(cluster: &Cluster, base: &Value) {
    let mut lax = base.clone();
    lax.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .and_then(Value::as_object_mut)
        .and_then(|spec| spec.remove("x-kubernetes-validations"))
        .unwrap();
    cluster.apply(&lax, DryRun::No).await.unwrap();
    cluster.wait_established(DEFINITION).await.unwrap();
    let spec = json!({"sourceType": "foo", "image": "a:1"});
    let mut odd = source("v1alpha1", "odd", &spec);
    odd.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
    let old = sources(&cluster.client().unwrap(), "v1alpha1");
    old.create(&PostParams::default(), &odd).await.unwrap();
    cluster.apply(base, DryRun::No).await.unwrap();
}

/// In OLM's form much may stand that nobody reads. In v1 it stays, and does not hinder who writes something else.
pub(super) async fn is_written_in_v1(client: &Client) {
    let (old, new) = (sources(client, "v1alpha1"), sources(client, "v1"));
    let (create, params) = (PostParams::default(), PatchParams::default());
    let unread = json!({"updateStrategy": {"registryPoll": {"interval": "30m"}}, "secrets": ["s"]});
    for (name, spec, source) in [
        (
            "address",
            json!({"sourceType": "grpc", "address": "a:1"}),
            json!({"catalogServiceSource": {"address": "a:1"}}),
        ),
        (
            "map",
            json!({"sourceType": "internal", "configMap": "m"}),
            json!({"configMapSource": {"configMap": "m"}}),
        ),
    ] {
        let mut spec = spec;
        spec.as_object_mut()
            .unwrap()
            .extend(unread.as_object().unwrap().clone());
        let mut before = super::source("v1alpha1", name, &spec);
        before.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
        old.create(&create, &before).await.unwrap();
        let seen = new.get(name).await.unwrap();
        let mut expected = source;
        expected
            .as_object_mut()
            .unwrap()
            .extend(unread.as_object().unwrap().clone());
        assert_eq!(seen.data["spec"], expected);

        let change = Patch::Merge(json!({"spec": {"displayName": "Mine"}}));
        new.patch(name, &params, &change).await.unwrap();
        spec["displayName"] = "Mine".into();
        assert_eq!(old.get(name).await.unwrap().data["spec"], spec);
        let status = Patch::Merge(json!({"status": {"message": "told"}}));
        new.patch_status(name, &params, &status).await.unwrap();
        // What is changed is written anew, and so is what is made in v1.
        for change in [
            json!({"secrets": ["t"]}),
            json!({"updateStrategy": {"registryPoll": {"interval": "5m"}}}),
        ] {
            let change = Patch::Merge(json!({"spec": change}));
            let said = new.patch(name, &params, &change).await;
            let said = said.unwrap_err().to_string();
            assert!(
                said.contains("Forbidden: only for catalogImageSource"),
                "{said}"
            );
        }
        let anew = super::source("v1", "anew", &expected);
        let said = new.create(&create, &anew).await.unwrap_err().to_string();
        assert!(said.contains("spec.updateStrategy: Forbidden"), "{said}");
        assert!(said.contains("spec.secrets: Forbidden"), "{said}");
        // Whoever removes it may use either version.
        new.delete(name, &DeleteParams::default()).await.unwrap();
        let finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        new.patch(name, &params, &finalizers).await.unwrap();
        assert!(old.get_opt(name).await.unwrap().is_none());
    }
    // One that says no source has none in v1, and can be removed there all the same.
    assert_eq!(new.get("odd").await.unwrap().data["spec"], json!({}));
    new.delete("odd", &DeleteParams::default()).await.unwrap();
    let finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    new.patch("odd", &params, &finalizers).await.unwrap();
    assert!(old.get_opt("odd").await.unwrap().is_none());
    // One that is as large as annotations may be does not keep the others from being listed.
    let mut large = super::source(
        "v1alpha1",
        "large",
        &json!({"catalogImageSource": {"catalogImage": "a:1"}}),
    );
    let annotations = [("mine".to_owned(), "x".repeat((256 << 10) - 4))];
    large.metadata.annotations = Some(annotations.into());
    old.create(&create, &large).await.unwrap();
    let all = new.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 3);
    let change = Patch::Merge(json!({"spec": {"displayName": "Mine"}}));
    new.patch("large", &params, &change).await.unwrap();
    old.delete("large", &DeleteParams::default()).await.unwrap();
}
