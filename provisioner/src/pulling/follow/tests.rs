#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use kube::core::DynamicObject;
use serde_json::json;

use super::*;
use apply::api_error::is_refusal;

fn served(sources: &[Source]) -> BTreeMap<Source, ApiResource> {
    let all = kinds().into_iter();
    let chosen = all.filter(|(source, _)| sources.contains(source));
    let kinds = chosen.map(|(source, kind)| (source, ApiResource::from_gvk(&kind)));
    kinds.collect()
}

fn one(source: Source, spec: serde_json::Value) -> (Source, Vec<DynamicObject>) {
    let object =
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "cluster"}, "spec": spec});
    (source, vec![serde_json::from_value(object).unwrap()])
}

#[test]
fn what_is_served_and_named_is_watched_and_nothing_else() {
    use Source::*;
    let ca = |name: &str| one(Image, json!({"additionalTrustedCA": {"name": name}}));
    for (sources, objects, watched) in ::tests::rows![
        &[][..], vec![] => vec![];
        &[ImageContentSourcePolicy], vec![] => vec!["ImageContentSourcePolicy /*"];
        &[ImageDigestMirrorSet, Image], vec![]
            => vec!["ImageDigestMirrorSet /*", "Image /cluster", "Secret openshift-config/pull-secret"];
        &[Image, Proxy], vec![ca("cas"), one(Proxy, json!({"trustedCA": {"name": "more"}}))]
            => vec![
                "Image /cluster",
                "Proxy /cluster",
                "Secret openshift-config/pull-secret",
                "ConfigMap openshift-config/cas",
                "ConfigMap openshift-config/more",
            ];
        &[Image], vec![ca("cas,metadata.name!=x")] => vec!["Image /cluster", "Secret openshift-config/pull-secret"];
    ] {
        let wanted = targets(&served(sources), &objects.into_iter().collect());
        let shown = wanted.values().map(|target| {
            let name = target.name.as_deref().unwrap_or("*");
            let namespace = target.namespace.unwrap_or_default();
            format!("{} {namespace}/{name}", target.resource.kind)
        });
        let shown: Vec<_> = shown.collect();
        assert_eq!(shown, watched);
    }
}

#[test]
fn a_refusal_is_told_from_an_outage() {
    assert!([401, 403, 404].into_iter().all(is_refusal));
    assert!(![410, 429, 500, 503].into_iter().any(is_refusal));
}

#[tokio::test]
async fn a_watch_that_is_refused_is_not_waited_for_and_one_that_hangs_is() {
    let target = Target {
        resource: ApiResource::from_gvk(&kinds()[0].1),
        namespace: None,
        name: None,
    };
    let mut known = WatchState::default();
    assert!(!known.is_incomplete());
    let watch = Watch {
        target: target.clone(),
        task: tokio::spawn(async {}),
        failing: None,
    };
    let source = Source::ImageDigestMirrorSet;
    known.watches.insert(source, watch);
    assert!(known.is_incomplete());
    let failure = |is_refusal| {
        WatchEvent::Failed(Failure {
            problem: "no".to_owned(),
            is_refusal,
        })
    };
    known.observe(source, &target, failure(false));
    assert!(known.is_incomplete());
    known.observe(source, &target, failure(true));
    assert!(!known.is_incomplete());
    known.observe(source, &target, WatchEvent::Objects(Vec::new()));
    assert!(!known.is_incomplete() && known.watches[&source].failing.is_none());
    // What was known counts although its watch fails.
    known.observe(source, &target, failure(false));
    assert!(!known.is_incomplete() && known.objects.contains_key(&source));
    // What has ended has nothing to say any more.
    let other = with!(target => name: Some("x".to_owned()));
    known.objects.clear();
    known.observe(source, &other, WatchEvent::Objects(Vec::new()));
    assert!(known.objects.is_empty());
}
