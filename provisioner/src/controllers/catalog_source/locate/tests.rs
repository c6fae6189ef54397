use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{super::cluster_facts::FactSource, *};

fn source(spec: &Value, status: &Value) -> CatalogSource {
    object!({"metadata": {"name": "mine", "namespace": "ours"}, "spec": spec, "status": status})
}

fn image(reference: &str, poll: Option<PollInterval>) -> CatalogLocation {
    CatalogLocation::Image {
        reference: reference.to_owned(),
        poll,
    }
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
    let served = |address: &str| CatalogLocation::Address(address.to_owned());
    let wait = |why: &str, left| CatalogLocation::Pending {
        why: why.to_owned(),
        left: Duration::from_secs(left),
    };
    for (spec, status, has_olm, waited, expected) in ::tests::rows![
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
    ] {
        assert_rows!(decide(&source(spec, status), has_olm, waited) => expected, "{spec} {status} {has_olm} {waited}");
    }
    let configmap = source(&json!({"sourceType": "configmap", "configMap": "a"}), &none);
    for has_olm in [false, true] {
        assert_rows!(decide(&configmap, has_olm, 180) => CatalogLocation::ConfigMap("a".to_owned()));
    }
    let waiting = decide(&configmap, true, 0);
    assert!(
        matches!(waiting, CatalogLocation::Pending { .. }),
        "{waiting:?}"
    );
}

// parity: serve-22
#[test]
fn only_mutable_images_are_polled() {
    let interval = |seconds| PollInterval {
        period: Duration::from_secs(seconds),
        problem: None,
    };
    for (reference, strategy, expected) in ::tests::rows![
        "r/c:v1", json!({"registryPoll": {"interval": "10m"}}) => Some(interval(600));
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
    let one = "Cannot construct catalog image reference, variable \"ocp_minor_version\" couldn't be resolved";
    let spec = json!({"sourceType": "grpc", "image": template});
    let source = source(&spec, &json!({}));
    let version = |text: &str| manifests::image_template::server(text);
    let mut around = around(false);
    around.pending = [FactSource::Openshift].into();
    let now = Duration::ZERO;
    let still =
        |before, around: &ClusterFacts| is_unchanged(before, &source, &source, around, None, now);
    assert_eq!(plan(&source, &around, None, now), None);
    assert!(still(None, &around));
    around.pending.clear();
    assert!(!still(None, &around));
    for (kube, openshift, expected) in ::tests::rows![
        None, None => unresolved(both);
        version("v1.20.3"), None => unresolved(one);
        version("v1.20.3"), version("4.8.1") => image("r/c:v20-8", None);
        version("v1.21.0"), version("4.9.0") => image("r/c:v21-9", None);
    ] {
        let before = plan(&source, &around, None, now);
        around.values.kube = kube;
        around.values.openshift = openshift;
        let decided = plan(&source, &around, None, now);
        let is_same = is_unchanged(before.as_ref(), &source, &source, &around, None, now);
        assert_eq!(is_same, before == decided, "{before:?}");
        assert_eq!(decided.unwrap().catalog, expected);
    }
    // An invalid template does not wait.
    around.pending = [FactSource::Openshift].into();
    let wrong = json!({"sourceType": "grpc", "image": "r/c:{foobar}"});
    let decided = decide_in(&self::source(&wrong, &json!({})), &around, 0);
    assert_rows!(matches!(&decided, CatalogLocation::Unresolved(template) if template.is_for_good) => true, "{decided:?}");
}

#[test]
fn annotation_sets_the_image_of_a_source_without_image() {
    let mut source = source(&json!({"sourceType": "grpc"}), &json!({}));
    let around = with!(around(false) => values.kube: manifests::image_template::server("v1.20.3"));
    let invalid = "image and address unset: at least one must be set for sourcetype: grpc";
    assert_rows!(decide_in(&source, &around, 0) => CatalogLocation::Invalid(invalid.to_owned()));
    let template = "r/c:v{kube_minor_version}".to_owned();
    source.metadata.annotations =
        Some([(CATALOG_IMAGE_TEMPLATE.to_owned(), template.clone())].into());
    let planned = plan(&source, &around, None, Duration::ZERO).unwrap();
    let written = planned.image.unwrap().write;
    assert_eq!(written.as_deref(), Some("r/c:v20"));
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
        &address, &[CATALOG_IMAGE_TEMPLATE][..], false => Some(CATALOG_IMAGE_TEMPLATE);
        &address, &[CATALOG_IMAGE_TEMPLATE], true => Some(CATALOG_IMAGE_TEMPLATE);
        &map, &[CATALOG_IMAGE_TEMPLATE], false => Some(CATALOG_IMAGE_TEMPLATE);
        &address, &[olms], false => Some(olms);
        &address, &[olms], true => None;
        &address, &[], false => None;
        &image, &[CATALOG_IMAGE_TEMPLATE], false => None;
    ] {
        let mut source = source(spec, &json!({}));
        let annotations = annotations.iter();
        let annotations = annotations.map(|&name| (name.to_owned(), "r/c:v1".to_owned()));
        source.metadata.annotations = Some(annotations.collect());
        let planned = plan(&source, &around(has_olm), None, Duration::ZERO);
        let warning = planned.unwrap().warning;
        let expected = named.map(|name| {
            format!("annotation {name} is ignored because the catalog is not an image; remove it")
        });
        assert_eq!(warning, expected, "{spec} {has_olm}");
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
    let unresolved = unresolved("no");
    for (catalog, has_olm, expected) in [
        (image("r/c:v1", None), false, true),
        (image("r/c:v1", None), true, false),
        // An existing pod is kept while the template has no value.
        (unresolved.clone(), false, true),
        (unresolved, true, false),
        (CatalogLocation::Address("b:50051".to_owned()), false, false),
        (CatalogLocation::ConfigMap("a".to_owned()), false, false),
        (CatalogLocation::Invalid("no".to_owned()), false, false),
    ] {
        let plan = CatalogPlan {
            catalog,
            image: None,
            warning: None,
            olm_serves: has_olm,
        };
        assert_eq!(plan.may_have_pod(), expected, "{plan:?}");
    }
}

#[test]
fn annotation_precedes_a_template_in_the_image() {
    let text = "r/c:v{kube_minor_version}";
    for (image, annotation, expected) in [
        ("r/c:v1", None, None),
        (text, None, Some(text)),
        ("r/c:v20", Some(text), Some(text)),
        ("", Some(text), Some(text)),
        ("r/{x}", Some(text), Some(text)),
        ("r/c:v1", Some(""), None),
    ] {
        let mut source = source(&json!({"sourceType": "grpc", "image": image}), &json!({}));
        let annotation = annotation.map(str::to_owned);
        source.metadata.annotations =
            annotation.map(|template| [(CATALOG_IMAGE_TEMPLATE.to_owned(), template)].into());
        assert_eq!(template_of(&source), expected, "{source:?}");
    }
}
