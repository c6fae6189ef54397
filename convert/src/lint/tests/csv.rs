use super::*;

// parity: check-8, check-9, check-10, check-14
#[test]
fn fields_of_the_csv_are_checked() {
    let good = Bundle::good;
    let released = |release: &str| {
        csv("/spec/release", release).csv("/metadata/name", format!("etcd-v1.2.3-{release}").into())
    };
    let mode = |type_: &str| {
        let mode = json!({"type": type_, "supported": true});
        csv("/spec/installModes/-", mode)
    };
    let webhooks = json!([{"type": "ConversionWebhook", "conversionCRDs": ["a"]}]);
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {
        "name": "a", "annotations": {"olm.providedApis": ""},
    }});
    let image = |image: &str| csv("/spec/relatedImages/0/image", image);
    check(::tests::rows![
        good().remove(CSV, "/spec/displayName") => "RequiredField manifests/csv.yaml (spec)";
        csv("/spec/displayName", "") => "RequiredField manifests/csv.yaml (spec.displayName)";
        good().remove(CSV, "/spec/install/strategy") => "RequiredField manifests/csv.yaml (spec.install)";
        csv("/metadata/name", "a.b.v1.2.3-rc.1") => "";
        csv("/spec/version", "1.2") => "Version manifests/csv.yaml (spec.version)";
        good().remove(CSV, "/spec/version") => "Version manifests/csv.yaml (spec)";
        released("2") => "";
        released("1.abcdefghijklmnopqr") => "";
        released("1.abcdefghijklmnopqrs") => "Release manifests/csv.yaml (spec.release)";
        csv("/spec/release", "2") => "Release manifests/csv.yaml (metadata.name)";
        released("2").csv("/spec/version", "1.2.3+b".into()).csv("/metadata/name", "etcd-v1.2.3+b-2".into())
            => "Release manifests/csv.yaml (spec.version)";
        released("2").annotation("olm.substitutesFor", "etcd.v1.2.2")
            => r#"Release manifests/csv.yaml (metadata.annotations["olm.substitutesFor"])"#;
        mode("MultiNamespace") => "";
        mode("AllNamespaces") => "InstallModeList manifests/csv.yaml (spec.installModes[2].type)";
        mode("Everywhere") => "InstallModeList manifests/csv.yaml (spec.installModes[2].type)";
        mode("MultiNamespace").csv("/spec/webhookdefinitions", webhooks)
            => "InstallModeList manifests/csv.yaml (spec.webhookdefinitions[0].conversionCRDs)";
        good().remove(CSV, "/spec/minKubeVersion") => "MinKubeVersion manifests/csv.yaml (spec)";
        good().annotation("olm.skiprange", "<1.0.0")
            => r#"AnnotationCase manifests/csv.yaml (metadata.annotations["olm.skiprange"])"#;
        good().file("manifests/group.yaml", group)
            => r#"AnnotationCase manifests/group.yaml (metadata.annotations["olm.providedApis"])"#;
        good().annotation("olm.properties", "[]")
            => r#"PropertiesAnnotation manifests/csv.yaml (metadata.annotations["olm.properties"])"#;
        image("busybox:1") => "";
        image("") => "RelatedImage manifests/csv.yaml (spec.relatedImages[0])";
        image("Example/A:b:c") => "RelatedImage manifests/csv.yaml (spec.relatedImages[0])";
        good().remove(CSV, "/spec/relatedImages/0/image") => "RelatedImage manifests/csv.yaml (spec.relatedImages[0])";
    ]);
    let name = "CSVName manifests/csv.yaml (metadata.name)";
    check(["etcd", "etcd.1.2.3", "etcd.v1.2"].map(|bad| (csv("/metadata/name", bad), name)));
    let min = "MinKubeVersion manifests/csv.yaml (spec.minKubeVersion)";
    check(["1.25", "v1.25.0", "1.99.0"].map(|bad| (csv("/spec/minKubeVersion", bad), min)));
    assert_rows!(good().advice(&with!(Options, kube_version: "1.24".parse().unwrap())) => min);
}

// parity: check-19
#[test]
fn upgrade_edges_are_checked() {
    const REPLACES: &str = "UpgradeGraph manifests/csv.yaml (spec.replaces)";
    let bad_range = r#"UpgradeGraph manifests/csv.yaml (metadata.annotations["olm.skipRange"])"#;
    let skips = |at: usize| format!("UpgradeGraph manifests/csv.yaml (spec.skips[{at}])");
    let range = |range: &str| Bundle::good().annotation("olm.skipRange", range);
    let names = "etcd.v1.2.3|1.2.2|v1.2.2|Etcd.v1.2.2".split('|');
    check(names.map(|name| (csv("/spec/replaces", name), REPLACES)));
    check(::tests::rows![
        csv("/spec/replaces", "") => "";
        csv("/spec/replaces", "a".repeat(64)) => REPLACES;
        csv("/spec/skips", json!(["etcd.v1.2.1"])) => "";
        csv("/spec/skips", json!(["etcd.v1.2.1", "", "1.2.0", "etcd.v1.2.3"])) => &[1, 2, 3].map(skips).join(", ");
        range(">=1.0.0 <1.2.3") => "";
        range("^1.0.0") => bad_range;
        range("") => bad_range;
    ]);
}

// parity: check-17
#[test]
fn operator_hub_fields_are_checked() {
    const MAINTAINER: &str = "Maintainer manifests/csv.yaml (spec.maintainers[0])";
    const LINK: &str = "Link manifests/csv.yaml (spec.links[0])";
    const ICON: &str = "Icon manifests/csv.yaml (spec.icon)";
    let maintainer = |name: &str, email: &str| {
        let maintainer = json!({"name": name, "email": email});
        csv("/spec/maintainers/0", maintainer)
    };
    let link = |name: &str, url: &str| csv("/spec/links/0", json!({"name": name, "url": url}));
    let icon = |at: &str, data: &str, media_type: &str| {
        let icon = json!({"base64data": data, "mediatype": media_type});
        csv(&format!("/spec/icon/{at}"), icon)
    };
    let annotated = |key: &str, value: &str| Bundle::good().annotation(key, value);
    check(::tests::rows![
        csv("/spec/provider", json!({})) => "Provider manifests/csv.yaml (spec.provider)";
        maintainer("a", "Team <team@example.com>") => "";
        maintainer("", "team@example.com") => MAINTAINER;
        maintainer("a", "") => MAINTAINER;
        maintainer("a", "https://example.com") => MAINTAINER;
        maintainer("a", "a@b@c") => MAINTAINER;
        link("a", "mailto:team@example.com") => "";
        link("", "https://example.com") => LINK;
        link("a", "example.com") => LINK;
        link("a", "https://") => LINK;
        link("a", "https://a b") => LINK;
        Bundle::good().remove(CSV, "/spec/icon") => "Icon manifests/csv.yaml (spec)";
        icon("-", "a", "image/png") => ICON;
        icon("0", "", "image/png") => ICON;
        icon("0", "a", "image/webp") => ICON;
        annotated("capabilities", "Basic") => "Capabilities manifests/csv.yaml (metadata.annotations.capabilities)";
        annotated("categories", "Database,Toys") => "Categories manifests/csv.yaml (metadata.annotations.categories)";
        Bundle::good().set(ANNOTATIONS, "/annotations/x", "y".into()) => "";
    ]);
}
