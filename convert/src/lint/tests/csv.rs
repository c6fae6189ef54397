use super::*;

const NAME: &str = "manifests/csv.yaml (metadata.name)";

// parity: check-8
#[test]
fn required_fields() {
    check(::tests::rows![
        Bundle::good().remove(CSV, "/spec/displayName") => &[(Code::RequiredField, "manifests/csv.yaml (spec)")] as &[_];
        Bundle::good().csv("/spec/displayName", "".into()) => &[(Code::RequiredField, "manifests/csv.yaml (spec.displayName)")];
        Bundle::good().remove(CSV, "/spec/install/strategy") => &[(Code::RequiredField, "manifests/csv.yaml (spec.install)")];
    ]);
}

// parity: check-8
#[test]
fn names_and_versions() {
    const VERSION: &str = "manifests/csv.yaml (spec.version)";
    check(::tests::rows![
        Bundle::good().csv("/metadata/name", "a.b.v1.2.3-rc.1".into()) => &[] as &[_];
        Bundle::good().csv("/metadata/name", "etcd".into()) => &[(Code::CSVName, NAME)];
        Bundle::good().csv("/metadata/name", "etcd.1.2.3".into()) => &[(Code::CSVName, NAME)];
        Bundle::good().csv("/metadata/name", "etcd.v1.2".into()) => &[(Code::CSVName, NAME)];
        Bundle::good().csv("/spec/version", "1.2".into()) => &[(Code::Version, VERSION)];
        Bundle::good().remove(CSV, "/spec/version") => &[(Code::Version, "manifests/csv.yaml (spec)")];
    ]);
}

// parity: check-8
#[test]
fn releases() {
    let released = |release: &str| {
        let name = format!("etcd-v1.2.3-{release}");
        Bundle::good()
            .csv("/spec/release", release.into())
            .csv("/metadata/name", name.into())
    };
    check(::tests::rows![
        released("2") => &[] as &[_];
        released("1.abcdefghijklmnopqr") => &[];
        released("1.abcdefghijklmnopqrs") => &[(Code::Release, "manifests/csv.yaml (spec.release)")];
        Bundle::good().csv("/spec/release", "2".into()) => &[(Code::Release, NAME)];
        released("2").csv("/spec/version", "1.2.3+b".into()).csv("/metadata/name", "etcd-v1.2.3+b-2".into())
            => &[(Code::Release, "manifests/csv.yaml (spec.version)")];
        released("2").annotation("olm.substitutesFor", "etcd.v1.2.2")
            => &[(Code::Release, r#"manifests/csv.yaml (metadata.annotations["olm.substitutesFor"])"#)];
    ]);
}

// parity: check-9
#[test]
fn install_modes() {
    let mode = |type_: &str| json!({"type": type_, "supported": true});
    check(::tests::rows![
        Bundle::good().csv("/spec/installModes/-", mode("MultiNamespace")) => &[] as &[_];
        Bundle::good().csv("/spec/installModes/-", mode("AllNamespaces"))
            => &[(Code::InstallModeList, "manifests/csv.yaml (spec.installModes[2].type)")];
        Bundle::good().csv("/spec/installModes/-", mode("Everywhere"))
            => &[(Code::InstallModeList, "manifests/csv.yaml (spec.installModes[2].type)")];
        Bundle::good().csv("/spec/installModes/-", mode("MultiNamespace")).csv("/spec/webhookdefinitions", json!([{
            "type": "ConversionWebhook", "conversionCRDs": ["a"],
        }])) => &[(Code::InstallModeList, "manifests/csv.yaml (spec.webhookdefinitions[0].conversionCRDs)")];
    ]);
}

// parity: check-10
#[test]
fn min_kube_versions() {
    const AT: &str = "manifests/csv.yaml (spec.minKubeVersion)";
    check(::tests::rows![
        Bundle::good().csv("/spec/minKubeVersion", "1.25".into()) => &[(Code::MinKubeVersion, AT)] as &[_];
        Bundle::good().csv("/spec/minKubeVersion", "v1.25.0".into()) => &[(Code::MinKubeVersion, AT)];
        Bundle::good().csv("/spec/minKubeVersion", "1.99.0".into()) => &[(Code::MinKubeVersion, AT)];
        Bundle::good().remove(CSV, "/spec/minKubeVersion") => &[(Code::MinKubeVersion, "manifests/csv.yaml (spec)")];
    ]);
    let older = with!(Options, kube_version: "1.24".parse().unwrap());
    assert_rows!(Bundle::good().advice(&older) => [(Code::MinKubeVersion, AT.to_owned())]);
}

// parity: check-10
#[test]
fn annotations() {
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {
        "name": "a", "annotations": {"olm.providedApis": ""},
    }});
    check(::tests::rows![
        Bundle::good().annotation("olm.skiprange", "<1.0.0")
            => &[(Code::AnnotationCase, r#"manifests/csv.yaml (metadata.annotations["olm.skiprange"])"#)] as &[_];
        Bundle::good().file("manifests/group.yaml", group)
            => &[(Code::AnnotationCase, r#"manifests/group.yaml (metadata.annotations["olm.providedApis"])"#)];
        Bundle::good().annotation("olm.properties", "[]")
            => &[(Code::PropertiesAnnotation, r#"manifests/csv.yaml (metadata.annotations["olm.properties"])"#)];
    ]);
}

// parity: check-14
#[test]
fn related_images() {
    const AT: &str = "manifests/csv.yaml (spec.relatedImages[0])";
    let image = |image| Bundle::good().csv("/spec/relatedImages/0/image", json!(image));
    check(::tests::rows![
        image("busybox:1") => &[] as &[_];
        image("") => &[(Code::RelatedImage, AT)];
        image("Example/A:b:c") => &[(Code::RelatedImage, AT)];
        Bundle::good().remove(CSV, "/spec/relatedImages/0/image") => &[(Code::RelatedImage, AT)];
    ]);
}

// parity: check-19
#[test]
fn upgrade_graph() {
    const REPLACES: &str = "manifests/csv.yaml (spec.replaces)";
    const RANGE: &str = r#"manifests/csv.yaml (metadata.annotations["olm.skipRange"])"#;
    let replaces = |name: &str| Bundle::good().csv("/spec/replaces", name.into());
    check(::tests::rows![
        replaces("") => &[] as &[_];
        replaces("etcd.v1.2.3") => &[(Code::UpgradeGraph, REPLACES)];
        replaces("1.2.2") => &[(Code::UpgradeGraph, REPLACES)];
        replaces("v1.2.2") => &[(Code::UpgradeGraph, REPLACES)];
        replaces("Etcd.v1.2.2") => &[(Code::UpgradeGraph, REPLACES)];
        replaces(&"a".repeat(64)) => &[(Code::UpgradeGraph, REPLACES)];
        Bundle::good().csv("/spec/skips", json!(["etcd.v1.2.1"])) => &[];
        Bundle::good().csv("/spec/skips", json!(["etcd.v1.2.1", "", "1.2.0", "etcd.v1.2.3"])) => &[
            (Code::UpgradeGraph, "manifests/csv.yaml (spec.skips[1])"),
            (Code::UpgradeGraph, "manifests/csv.yaml (spec.skips[2])"),
            (Code::UpgradeGraph, "manifests/csv.yaml (spec.skips[3])"),
        ];
        Bundle::good().annotation("olm.skipRange", ">=1.0.0 <1.2.3") => &[];
        Bundle::good().annotation("olm.skipRange", "^1.0.0") => &[(Code::UpgradeGraph, RANGE)];
        Bundle::good().annotation("olm.skipRange", "") => &[(Code::UpgradeGraph, RANGE)];
    ]);
}

// parity: check-17
#[test]
fn operator_hub() {
    const ICON: &str = "manifests/csv.yaml (spec.icon)";
    let maintainer = |name: &str, email: &str| {
        Bundle::good().csv("/spec/maintainers/0", json!({"name": name, "email": email}))
    };
    let link = |name: &str, url: &str| {
        Bundle::good().csv("/spec/links/0", json!({"name": name, "url": url}))
    };
    let icon = |data: &str, media_type: &str| json!({"base64data": data, "mediatype": media_type});
    check(::tests::rows![
        Bundle::good().csv("/spec/provider", json!({})) => &[(Code::Provider, "manifests/csv.yaml (spec.provider)")] as &[_];
        maintainer("a", "Team <team@example.com>") => &[];
        maintainer("", "team@example.com") => &[(Code::Maintainer, "manifests/csv.yaml (spec.maintainers[0])")];
        maintainer("a", "") => &[(Code::Maintainer, "manifests/csv.yaml (spec.maintainers[0])")];
        maintainer("a", "https://example.com") => &[(Code::Maintainer, "manifests/csv.yaml (spec.maintainers[0])")];
        maintainer("a", "a@b@c") => &[(Code::Maintainer, "manifests/csv.yaml (spec.maintainers[0])")];
        link("a", "mailto:team@example.com") => &[];
        link("", "https://example.com") => &[(Code::Link, "manifests/csv.yaml (spec.links[0])")];
        link("a", "example.com") => &[(Code::Link, "manifests/csv.yaml (spec.links[0])")];
        link("a", "https://") => &[(Code::Link, "manifests/csv.yaml (spec.links[0])")];
        link("a", "https://a b") => &[(Code::Link, "manifests/csv.yaml (spec.links[0])")];
        Bundle::good().remove(CSV, "/spec/icon") => &[(Code::Icon, "manifests/csv.yaml (spec)")];
        Bundle::good().csv("/spec/icon/-", icon("a", "image/png")) => &[(Code::Icon, ICON)];
        Bundle::good().csv("/spec/icon/0", icon("", "image/png")) => &[(Code::Icon, ICON)];
        Bundle::good().csv("/spec/icon/0", icon("a", "image/webp")) => &[(Code::Icon, ICON)];
        Bundle::good().annotation("capabilities", "Basic")
            => &[(Code::Capabilities, "manifests/csv.yaml (metadata.annotations.capabilities)")];
        Bundle::good().annotation("categories", "Database,Toys")
            => &[(Code::Categories, "manifests/csv.yaml (metadata.annotations.categories)")];
        Bundle::good().set(ANNOTATIONS, "/annotations/x", "y".into()) => &[];
    ]);
}
