use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{super::cluster_facts::FactSource, *};

fn source(spec: &Value, status: &Value) -> CatalogSource {
    object!({"metadata": {"name": "mine", "namespace": "ours"}, "spec": spec, "status": status})
}

fn annotated(spec: &Value, annotations: &[(&str, &str)]) -> CatalogSource {
    let annotations = annotations.iter();
    let annotations = annotations.map(|&(name, text)| (name.to_owned(), text.to_owned()));
    with!(source(spec, &json!({})) => metadata.annotations: Some(annotations.collect()))
}

fn image(reference: &str, poll: Option<PollInterval>) -> CatalogLocation {
    let reference = reference.to_owned();
    CatalogLocation::Image { reference, poll }
}

fn unresolved(why: &str) -> CatalogLocation {
    CatalogLocation::Unresolved(UnresolvedImage {
        why: why.to_owned(),
        is_for_good: false,
        last: None,
    })
}

/// Returns a cluster whose relevant facts are all known.
fn around(has_olm: bool) -> ClusterFacts {
    with!(ClusterFacts::default() => has_olm: has_olm, pending: BTreeSet::new())
}

fn decide_in(source: &CatalogSource, around: &ClusterFacts, waited: u64) -> CatalogLocation {
    let plan = plan(source, around, None, Duration::from_secs(waited));
    plan.unwrap().catalog
}

fn decide(source: &CatalogSource, has_olm: bool, waited: u64) -> CatalogLocation {
    decide_in(source, &around(has_olm), waited)
}

#[test]
fn catalog_is_read_from_its_server_or_after_a_delay_from_image() {
    let none = json!({});
    let ready =
        json!({"connectionState": {"address": "a.svc:50051", "lastObservedState": "READY"}});
    let state = json!({"address": "a.svc:50051", "lastObservedState": "CONNECTING"});
    let starting = json!({"connectionState": state, "message": "the pod is pulled"});
    let by_image = json!({"sourceType": "grpc", "image": "r/c:v1"});
    let by_address = json!({"sourceType": "grpc", "address": "b:50051"});
    let by_map = json!({"sourceType": "configmap", "configMap": "a"});
    let served = |address: &str| CatalogLocation::Address(address.to_owned());
    let map = CatalogLocation::ConfigMap("a".to_owned());
    let wait = |why: &str, left| {
        let (why, left) = (why.to_owned(), Duration::from_secs(left));
        CatalogLocation::Pending { why, left }
    };
    assert_each!(|spec, status, has_olm, waited, expected| decide(&source(spec, status), has_olm, waited) => expected;
        &by_image, &none, false, 0 => image("r/c:v1", None);
        &by_image, &ready, true, 0 => served("a.svc:50051");
        // The writer of that status was removed, and its server as well.
        &by_image, &ready, false, 0 => image("r/c:v1", None);
        &by_address, &ready, false, 0 => served("b:50051");
        &by_address, &ready, true, 0 => served("a.svc:50051");
        &by_image, &none, true, 0 => wait("OLM does not serve the catalog yet", 180);
        &by_image, &starting, true, 100 => wait("OLM does not serve the catalog yet: the pod is pulled", 80);
        &by_image, &starting, true, 180 => image("r/c:v1", None);
        &by_address, &none, false, 0 => served("b:50051");
        &by_address, &none, true, 0 => served("b:50051");
        &by_map, &none, false, 180 => map.clone();
        &by_map, &none, true, 180 => map;
        &by_map, &none, true, 0 => wait("OLM does not serve the catalog yet", 180);
    );
}

// parity: serve-22
#[test]
fn only_mutable_images_are_polled() {
    for (reference, strategy, expected) in ::tests::rows![
        "r/c:v1", json!({"registryPoll": {"interval": "10m"}})
            => Some(PollInterval { period: Duration::from_secs(600), problem: None });
        "r/c:v1", json!({}) => None;
        "r/c@sha256:00", json!({"registryPoll": {"interval": "10m"}}) => None;
    ] {
        let spec = json!({"sourceType": "grpc", "image": reference, "updateStrategy": strategy});
        assert_rows!(decide(&source(&spec, &json!({})), false, 0) => image(reference, expected), "{spec}");
    }
}

#[test]
fn a_template_is_resolved_or_waits_for_the_cluster() {
    let template = "r/c:v{kube_minor_version}-{ocp_minor_version}";
    let both = "Cannot construct catalog image reference, variables \"kube_minor_version\", \"ocp_minor_version\" \
                couldn't be resolved";
    let spec = json!({"sourceType": "grpc", "image": template});
    let source = source(&spec, &json!({}));
    let version = |text: &str| manifests::image_template::server(text);
    let mut around = around(false);
    around.pending = [FactSource::Openshift].into();
    let now = Duration::ZERO;
    let still = |before: Option<&CatalogPlan>, around: &ClusterFacts| {
        is_unchanged(before, &source, &source, around, None, now)
    };
    assert_eq!(plan(&source, &around, None, now), None);
    assert!(still(None, &around));
    around.pending.clear();
    for (kube, openshift, expected) in ::tests::rows![
        None, None => unresolved(both);
        version("v1.20.3"), version("4.8.1") => image("r/c:v20-8", None);
        version("v1.21.0"), version("4.9.0") => image("r/c:v21-9", None);
    ] {
        let before = plan(&source, &around, None, now);
        around.values.kube = kube;
        around.values.openshift = openshift;
        let decided = plan(&source, &around, None, now);
        assert_eq!(still(before.as_ref(), &around), before == decided);
        assert!(!still(None, &around));
        assert_eq!(decided.unwrap().catalog, expected);
    }
}

#[test]
fn annotation_sets_the_image_of_a_source_without_image() {
    let spec = json!({"sourceType": "grpc"});
    let around = with!(around(false) => values.kube: manifests::image_template::server("v1.20.3"));
    let invalid = "image and address unset: at least one must be set for sourcetype: grpc";
    assert_rows!(decide_in(&annotated(&spec, &[]), &around, 0) => CatalogLocation::Invalid(invalid.to_owned()));
    let template = "r/c:v{kube_minor_version}";
    let source = annotated(&spec, &[(CATALOG_IMAGE_TEMPLATE, template)]);
    assert_rows!(plan(&source, &around, None, Duration::ZERO).unwrap().image.unwrap().write.as_deref() => Some("r/c:v20"));
    assert_eq!(templates(&source).collect::<Vec<_>>(), [template]);
}

// parity: switch-olm-8
#[test]
fn annotation_without_image_is_reported() {
    let olms = manifests::image_template::ANNOTATION;
    let address = json!({"sourceType": "grpc", "address": "b:50051"});
    let map = json!({"configMapSource": {"configMap": "a"}});
    let image = json!({"sourceType": "grpc", "image": "r/c:v1"});
    for (spec, annotations, has_olm, named) in ::tests::rows![
        &address, &[(CATALOG_IMAGE_TEMPLATE, "r/c:v1")][..], false => Some(CATALOG_IMAGE_TEMPLATE);
        &address, &[(CATALOG_IMAGE_TEMPLATE, "r/c:v1")], true => Some(CATALOG_IMAGE_TEMPLATE);
        &map, &[(CATALOG_IMAGE_TEMPLATE, "r/c:v1")], false => Some(CATALOG_IMAGE_TEMPLATE);
        &address, &[(olms, "r/c:v1")], false => Some(olms);
        &address, &[(olms, "r/c:v1")], true => None;
        &address, &[], false => None;
        &image, &[(CATALOG_IMAGE_TEMPLATE, "r/c:v1")], false => None;
    ] {
        let source = annotated(spec, annotations);
        let planned = plan(&source, &around(has_olm), None, Duration::ZERO);
        let expected = named.map(|name| {
            format!("annotation {name} is ignored because the catalog is not an image; remove it")
        });
        assert_eq!(planned.unwrap().warning, expected, "{spec} {has_olm}");
    }
}

#[test]
fn status_updates_of_olm_do_not_interrupt_reading() {
    let status = |state: &str, at: &str| json!({"connectionState": {"address": "a.svc:50051", "lastConnect": at, "lastObservedState": state}});
    let of = |uid: &str, spec: &Value, status: &Value| with!(source(spec, status) => metadata.uid: Some(uid.to_owned()));
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z");
    let spec = json!({"sourceType": "grpc", "image": "r/c:v1"});
    let secret = json!({"sourceType": "grpc", "image": "r/c:v1", "secrets": ["a"]});
    let budget = OLM_STARTUP_TIMEOUT.as_secs();
    for (waited, before, uid, spec_now, now, expected) in ::tests::rows![
        // Connected.
        0, status("READY", early), "1", &spec, status("READY", late) => true;
        0, status("READY", early), "1", &spec, status("CONNECTING", late) => false;
        // OLM had enough time, and the image is pulled.
        budget, status("CONNECTING", early), "1", &spec, status("TRANSIENT_FAILURE", late) => true;
        budget, status("CONNECTING", early), "1", &spec, status("READY", late) => false;
        budget, status("CONNECTING", early), "1", &secret, status("CONNECTING", early) => false;
        budget, status("CONNECTING", early), "2", &spec, status("CONNECTING", early) => false;
    ] {
        let (before, now) = (of("1", &spec, &before), of(uid, spec_now, &now));
        let waited = Duration::from_secs(waited);
        let planned = plan(&before, &around(true), None, waited);
        let still = is_unchanged(planned.as_ref(), &before, &now, &around(true), None, waited);
        assert_eq!(still, expected, "{planned:?} {now:?}");
    }
}

#[test]
fn only_image_catalogs_can_have_a_pod() {
    assert_each!(|catalog, olm_serves, expected| CatalogPlan { catalog, image: None, warning: None, olm_serves }.may_have_pod() => expected;
        image("r/c:v1", None), false => true;
        image("r/c:v1", None), true => false;
        // An existing pod is kept while the template has no value.
        unresolved("no"), false => true;
        unresolved("no"), true => false;
        CatalogLocation::Address("b:50051".to_owned()), false => false;
        CatalogLocation::ConfigMap("a".to_owned()), false => false;
        CatalogLocation::Invalid("no".to_owned()), false => false;
    );
}

#[test]
fn edited_template_is_followed_even_if_it_has_the_same_image() {
    let spec = json!({"sourceType": "grpc", "image": "r/c:1.20"});
    let around = with!(around(false) => values.kube: manifests::image_template::server("v1.20.3"));
    let of = |template| annotated(&spec, &[(CATALOG_IMAGE_TEMPLATE, template)]);
    let template = "r/c:{kube_major_version}.{kube_minor_version}";
    let before = of(template);
    let planned = plan(&before, &around, None, Duration::ZERO);
    let (planned, waited) = (planned.as_ref(), Duration::ZERO);
    let still = |now: &CatalogSource| is_unchanged(planned, &before, now, &around, None, waited);
    let edited = of("r/c:1.{kube_minor_version}");
    // PlatformOperators stop using content of the former template at once, so the catalog is read again.
    assert_rows! {
        plan(&edited, &around, None, waited).as_ref() => planned;
        still(&before) => true;
        still(&edited) => false;
        // Other annotations are ignored.
        still(&annotated(&spec, &[(CATALOG_IMAGE_TEMPLATE, template), ("example.com/note", "a:{kube_minor_version}")])) => true;
    }
}
