use super::*;
use crate::testing::merge;

fn instance(more: &Value) -> BundleInstance {
    let source =
        json!({"type": "image", "image": {"ref": "a.io/b:1", "pullSecret": "s"}, "upload": null});
    let mut value = json!({
        "metadata": {"uid": "1", "resourceVersion": "7"},
        "spec": {"provisionerClassName": "core-rukpak-io-registry", "template": {"spec": {"source": source}}},
    });
    merge(&mut value, more);
    crate::testing::instance(&value)
}

#[test]
fn package_annotation_precedes_package_in_status() {
    let annotated =
        |package: &str| json!({"metadata": {"annotations": {"core.rukpak.io/package": package}}});
    let has = |package: &str| json!({"status": {"package": package}});
    let both = ::tests::with!(annotated("other") => |both| merge(&mut both, &has("tide")));
    ::tests::assert_each!(|more, expected| is_of(&instance(&more), "tide") => expected;
        json!({}) => false;
        annotated("tide") => true;
        annotated("other") => false;
        has("tide") => true;
        has("other") => false;
        both => false;
    );
}

#[test]
fn only_images_of_registry_bundles_have_a_next_version() {
    let class =
        |name: &str| json!({"spec": {"template": {"spec": {"provisionerClassName": name}}}});
    let upload = json!({"spec": {"template": {"spec": {"source": {"type": "upload", "image": null, "upload": {}}}}}});
    for (more, expected) in ::tests::rows![
        json!({}) => Ok("a.io/b:1");
        class("core.rukpak.io/registry") => Ok("a.io/b:1");
        class("core.rukpak.io/converter") => Ok("a.io/b:1");
        class("core-rukpak-io-plain") => Err("*has content of class core-rukpak-io-plain*");
        upload => Err("*from source upload*");
    ] {
        let instance = instance(&more);
        let found = requested_image(&instance).map(|image| image.reference.as_str());
        ::tests::table::assert_outcome(found, expected, more);
    }
}

#[test]
fn installed_version_requires_an_installed_bundle() {
    let source = json!({"type": "image", "image": {"ref": "a.io/b@sha256:1"}});
    let with = |status: Value| instance(&json!({"status": status}));
    ::tests::assert_each!(|instance, expected| installed(instance.status.as_ref()) => expected;
        with(json!({})) => None;
        with(json!({"clusterServiceVersion": "tide.v1"})) => None;
        with(json!({"clusterServiceVersion": "tide.v1", "installedBundleName": "x", "resolvedSource": source}))
            => Some(("tide.v1", Some("a.io/b@sha256:1")));
    );
}

#[test]
fn namespace_in_status_precedes_namespace_in_spec() {
    ::tests::assert_each!(|more, expected| install_namespace(&instance(&more)) => expected;
        json!({}) => None;
        json!({"spec": {"installNamespace": "a"}}) => Some("a");
        json!({"spec": {"installNamespace": ""}}) => None;
        json!({"status": {"installNamespace": "b"}}) => Some("b");
        json!({"spec": {"installNamespace": "a"}, "status": {"installNamespace": "b"}}) => Some("b");
    );
}

#[test]
fn change_can_be_reverted() {
    let annotations = json!({labels::CSV_NAME: "tide.v1", "other": "x"});
    let before = instance(&json!({"metadata": {"annotations": annotations}}));
    let (image, annotations) = previous_image(&before, super::requested_image(&before).unwrap());
    let annotated = json!({
        INDEX_IMAGE: null, INJECTED_BUNDLES: null, labels::PACKAGE: null, labels::CSV_NAME: "tide.v1", labels::VERSION: null,
        labels::PREVIOUS_IMAGE: null,
    });
    let source = json!({"ref": "a.io/b:1", "pullSecret": "s", "insecureSkipTLSVerify": false, "certificateData": null});
    let expected = json!({
        "metadata": {"uid": "1", "resourceVersion": "7", "annotations": annotated},
        "spec": {"template": {"spec": {"source": {"image": source}}}},
    });
    assert_eq!(change(&before, &image, &annotations), expected);
}

#[test]
fn flags_of_a_later_run_take_effect() {
    let flags = |secret: Option<&str>, certificates: Option<&str>, is_insecure| PullAccess {
        pull_secret: secret.map(str::to_owned),
        certificates: certificates.map(str::to_owned),
        is_insecure,
    };
    let pulled = |secret: Option<&str>, certificates: Option<&str>, is_insecure| {
        let [pull_secret, certificates] =
            [secret, certificates].map(|text| text.map(str::to_owned));
        ::tests::with!(ImageSource, reference: "a.io/b:1".to_owned(), pull_secret, insecure_skip_tls_verify: is_insecure,
            certificate_data: certificates)
    };
    ::tests::assert_each!(|flags, before, expected| corrected(&flags, &before) => expected;
        flags(None, None, false), pulled(None, None, false) => None;
        // Settings without a flag are kept.
        flags(None, None, false), pulled(Some("s"), Some("c"), true) => None;
        flags(Some("s"), Some("c"), true), pulled(Some("s"), Some("c"), true) => None;
        flags(Some("s"), None, false), pulled(None, None, false) => Some(pulled(Some("s"), None, false));
        flags(Some("t"), None, false), pulled(Some("s"), Some("c"), true) => Some(pulled(Some("t"), Some("c"), true));
        flags(None, Some("d"), false), pulled(Some("s"), Some("c"), false) => Some(pulled(Some("s"), Some("d"), false));
        flags(None, None, true), pulled(Some("s"), None, false) => Some(pulled(Some("s"), None, true));
    );
}

#[test]
fn rollback_restores_the_installed_image() {
    let pinned = |digit: &str| format!("a.io/b@sha256:{}", digit.repeat(64));
    let list = |images: &[String]| {
        let mut history = History::default();
        for image in images {
            history.push(image, None).unwrap();
        }
        history.to_annotations()[INJECTED_BUNDLES].clone()
    };
    let (one, two) = (pinned("1"), pinned("2"));
    let status = json!({
        "installedBundleName": "x", "clusterServiceVersion": "tide.v1", "version": "1.0.0",
        "resolvedSource": {"type": "image", "image": {"ref": one}},
    });
    let with_image = |image: &str, injected: Option<&String>, status: &Value| {
        let annotations = injected.map(|injected| {
            json!({
                INJECTED_BUNDLES: injected, labels::CSV_NAME: "tide.v2", labels::VERSION: "2.0.0",
                labels::PREVIOUS_IMAGE: pinned("1"),
            })
        });
        instance(&json!({
            "metadata": {"annotations": annotations}, "status": status,
            "spec": {"template": {"spec": {"source": {"image": {"ref": image}}}}},
        }))
    };
    let both = list(&[one.clone(), two.clone()]);
    let unchanged = [both.as_str(), "tide.v2", "2.0.0", one.as_str()].map(Some);
    let first = list(std::slice::from_ref(&one));
    let inconsistent = list(std::slice::from_ref(&two));
    let tagged = one.replace("a.io/b", "c.io/b:tag");
    for (requested, injected, status, image, expected) in ::tests::rows![
        // The requested image runs.
        one.as_str(), Some(&both), &status, one.as_str() => unchanged;
        &tagged, Some(&both), &status, &tagged => unchanged;
        &two, Some(&both), &json!({}), &two => unchanged;
        // The requested image never ran.
        &two, Some(&both), &status, &one => [Some(&*first), Some("tide.v1"), Some("1.0.0"), None];
        &two, Some(&inconsistent), &status, &one => [None, Some("tide.v1"), Some("1.0.0"), None];
        // The instance was not created by "run bundle".
        "a.io/b:2", None, &status, &one => [None; 4];
    ] {
        let instance = with_image(requested, injected, status);
        let source = super::requested_image(&instance).unwrap();
        let (found, annotations) = previous_image(&instance, source);
        let running = running_instead(&instance, source).map(|running| running.1);
        ::tests::assert_rows! {
            (found.reference.as_str(), found.pull_secret.as_deref()) => (image, Some("s")), "{requested}";
            running => Some(image).filter(|image| *image != requested), "{requested}";
            [INJECTED_BUNDLES, labels::CSV_NAME, labels::VERSION, labels::PREVIOUS_IMAGE].map(|key| annotations[key].as_deref())
                => expected, "{requested}";
        }
    }
}
