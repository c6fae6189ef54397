#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use kube::core::DynamicObject;
use serde_json::json;

use super::*;

fn one(source: Source, spec: serde_json::Value) -> (Source, Vec<DynamicObject>) {
    let object =
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "cluster"}, "spec": spec});
    (source, vec![serde_json::from_value(object).unwrap()])
}

#[test]
fn only_served_and_named_objects_are_watched() {
    use Source::*;
    let ca = |name: &str| one(Image, json!({"additionalTrustedCA": {"name": name}}));
    for (sources, objects, watched) in ::tests::rows![
        &[][..], vec![] => vec![];
        &[ImageContentSourcePolicy], vec![] => vec!["ImageContentSourcePolicy /*"];
        &[ImageDigestMirrorSet, Image], vec![]
            => vec!["ImageDigestMirrorSet /*", "Image /cluster", "Secret openshift-config/pull-secret"];
        &[Image, Proxy], vec![ca("cas"), one(Proxy, json!({"trustedCA": {"name": "more"}}))]
            => vec![
                "Image /cluster", "Proxy /cluster", "Secret openshift-config/pull-secret", "ConfigMap openshift-config/cas",
                "ConfigMap openshift-config/more",
            ];
        &[Image, Proxy], vec![ca("cas"), one(Proxy, json!({"trustedCA": {"name": ""}}))]
            => vec!["Image /cluster", "Proxy /cluster", "Secret openshift-config/pull-secret", "ConfigMap openshift-config/cas"];
        &[Image], vec![ca("cas,metadata.name!=x")] => vec!["Image /cluster", "Secret openshift-config/pull-secret"];
    ] {
        let kinds = kinds().into_iter();
        let served = kinds.filter(|(source, _)| sources.contains(source));
        let served = served.map(|(source, kind)| (source, ApiResource::from_gvk(&kind)));
        let desired = targets(&served.collect(), &objects.into_iter().collect());
        let descriptions = desired.values().map(|target| {
            let name = target.name.as_deref().unwrap_or("*");
            let namespace = target.namespace.unwrap_or_default();
            format!("{} {namespace}/{name}", target.resource.kind)
        });
        assert_eq!(descriptions.collect::<Vec<_>>(), watched);
    }
}

#[tokio::test]
async fn only_hanging_watches_delay_readiness() {
    let target = Target {
        resource: ApiResource::from_gvk(&kinds()[0].1),
        namespace: None,
        name: None,
    };
    let mut state = WatchState::default();
    assert!(!state.is_incomplete());
    let watch = Watch {
        target: target.clone(),
        task: tokio::spawn(async {}),
        failing: None,
    };
    let source = Source::ImageDigestMirrorSet;
    state.watches.insert(source, watch);
    assert!(state.is_incomplete());
    let failure = |is_refusal| {
        WatchEvent::Failed(Failure {
            problem: "no".to_owned(),
            is_refusal,
        })
    };
    state.observe(source, &target, failure(false));
    assert!(state.is_incomplete());
    state.observe(source, &target, failure(true));
    assert!(!state.is_incomplete());
    state.observe(source, &target, WatchEvent::Objects(Vec::new()));
    assert!(!state.is_incomplete() && state.watches[&source].failing.is_none());
    // Known objects count although their watch fails.
    state.observe(source, &target, failure(false));
    assert!(!state.is_incomplete() && state.objects.contains_key(&source));
    // Events of an ended watch are ignored.
    let other = with!(target => name: Some("x".to_owned()));
    state.objects.clear();
    state.observe(source, &other, WatchEvent::Objects(Vec::new()));
    assert!(state.objects.is_empty());
}
