//! The pull configuration of an OpenShift cluster: its CRDs, real registries as source and mirror, and a real proxy. Some
//! of the objects are singletons, so each test has a dedicated control plane.

mod cas;

use cluster::Lease;
use kube::{
    Api, Client,
    core::{DynamicObject, GroupVersionKind},
};
use manifests::{
    api::bundle::{Bundle, BundleSource},
    content::Content,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::{Auth, HttpProxy, OWNER, Registry, TestCa};

use crate::{
    content::support::{account, apply_roles, visit},
    openshift::definition_of,
    platform::support::insecure_conf,
    support::{
        self, Options, Provisioner, SYSTEM, apply, config_map, create, define, delete, insecure,
        merge_status, namespace_object, notes_about, plain, publish, trusting, unique, until,
        without_controllers,
    },
};

const CONFIG: &str = "config.openshift.io/v1";

/// Makes a change, and waits until the provisioner has updated its pull configuration.
async fn change_pull_config(provisioner: &Provisioner, change: impl Future<Output = ()>) {
    let is_update = |line: &&Value| line["message"] == "updated pull configuration";
    let updates = || provisioner.lines().iter().filter(is_update).count();
    let before = updates();
    change.await;
    until(
        "the configuration is updated",
        async || updates(),
        |updates| *updates > before,
    )
    .await;
}

/// A cluster that can become an OpenShift cluster.
struct Lab {
    cluster: Lease,
}

impl Lab {
    async fn new() -> Self {
        let cluster = without_controllers().await;
        support::prepare(&cluster).await;
        let lab = Self { cluster };
        lab.apply(&namespace_object("openshift-config")).await;
        lab
    }

    /// Creates all OpenShift objects that the provisioner reads.
    async fn openshift(&self) {
        for file in [
            "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagedigestmirrorsets.crd.yaml",
            "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagetagmirrorsets.crd.yaml",
            "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_images.crd.yaml",
            "config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
            "operator/v1alpha1/zz_generated.crd-manifests/0000_10_config-operator_01_imagecontentsourcepolicies.crd.yaml",
        ] {
            let crd = definition_of("github.com/openshift/api", file);
            define(&self.cluster, &crd).await;
        }
    }

    fn client(&self) -> Client {
        self.cluster.client().unwrap()
    }

    fn bundles(&self) -> Api<Bundle> {
        Api::all(self.client())
    }

    async fn apply(&self, object: &Value) {
        apply(&self.cluster, object).await;
    }

    /// Returns the API of an object's kind, and the object's name.
    async fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kind = GroupVersionKind::try_from(&object.types.unwrap()).unwrap();
        let client = self.client();
        let (resource, _) = kube::discovery::pinned_kind(&client, &kind).await.unwrap();
        let api = Api::all_with(client, &resource);
        (api, object.metadata.name.unwrap())
    }

    async fn delete(&self, object: &Value) {
        let (api, name) = self.api(object).await;
        delete(&api, &name).await;
    }

    async fn status(&self, object: &Value, status: &Value) {
        let (api, name) = self.api(object).await;
        merge_status(&api, &name, &json!({"status": status})).await;
    }

    async fn provisioner(&self, flags: &[&str]) -> Provisioner {
        let flags = [&["--controllers=bundle"], flags].concat();
        Provisioner::start(&self.cluster, Options::with_flags(&flags)).await
    }

    /// Creates a Bundle from an image, with TLS verification.
    async fn bundle(&self, image: &str) -> String {
        let mut source = support::image(image);
        source.image.as_mut().unwrap().insecure_skip_tls_verify = false;
        self.bundle_of(source).await
    }

    async fn bundle_of(&self, source: BundleSource) -> String {
        let name = unique("pull");
        create(&self.bundles(), &support::bundle(&name, "plain", source)).await;
        name
    }

    async fn unpacked(&self, name: &str) -> Bundle {
        support::unpacked(&self.bundles(), name).await
    }

    async fn fails(&self, name: &str, text: &str) {
        support::wait_message(&self.bundles(), name, "", text).await;
    }
}

fn content(text: &str) -> Content {
    plain(&[config_map("default", "small", text)])
}

fn image_config(registries: &Value) -> Value {
    json!({
        "apiVersion": CONFIG, "kind": "Image", "metadata": {"name": "cluster"},
        "spec": {"registrySources": registries},
    })
}

fn mirror_set(kind: &str, name: &str, source: &str, mirrors: &[String]) -> Value {
    let (version, field) = match kind {
        "ImageDigestMirrorSet" => (CONFIG, "imageDigestMirrors"),
        "ImageTagMirrorSet" => (CONFIG, "imageTagMirrors"),
        _ => ("operator.openshift.io/v1alpha1", "repositoryDigestMirrors"),
    };
    let set = json!({"source": source, "mirrors": mirrors});
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {field: [set]}})
}

// parity: complaint-17
#[tokio::test]
async fn mirrors_and_blocked_registries_are_followed() {
    let lab = Lab::new().await;
    let (source, mirror) = (Registry::plain(), Registry::plain());
    publish(&mirror.image("copies/app:v1"), &content("one"), &insecure()).await;
    // The CRDs are created while the provisioner runs, as on day 0.
    let provisioner = lab.provisioner(&[]).await;
    let tagged = lab.bundle(&source.image("org/app:v1")).await;
    lab.fails(&tagged, "127.0.0.1").await;
    lab.openshift().await;
    // Neither registry uses TLS.
    let hosts = json!({"insecureRegistries": [source.host(), mirror.host()]});
    lab.apply(&image_config(&hosts)).await;
    lab.fails(&tagged, "does not exist").await;

    let copies = [mirror.image("copies")];
    let place = source.image("org");
    let tags = mirror_set("ImageTagMirrorSet", "tags", &place, &copies);
    lab.apply(&tags).await;
    lab.unpacked(&tagged).await;
    provisioner.wait_log("updated pull configuration").await;

    // Tag mirrors are not used for digests.
    let other = mirror.image("copies/other:v1");
    let digest = publish(&other, &content("other"), &insecure()).await;
    let pinned = source.image(&format!("org/other@{digest}"));
    let by_digest = lab.bundle(&pinned).await;
    lab.fails(&by_digest, "does not exist").await;
    let set = mirror_set("ImageDigestMirrorSet", "digests", &place, &copies);
    lab.apply(&set).await;
    let bundle = lab.unpacked(&by_digest).await;
    let resolved = bundle.status.unwrap().resolved_source.unwrap();
    tests::assert_rows!(resolved.image.unwrap().reference => pinned, "the name is that of the source");

    // A deleted mirror is no longer used. The older policy kind works as well.
    change_pull_config(&provisioner, lab.delete(&set)).await;
    let next = mirror.image("copies/next:v1");
    let digest = publish(&next, &content("three"), &insecure()).await;
    let next = source.image(&format!("org/next@{digest}"));
    let next = lab.bundle(&next).await;
    lab.fails(&next, "does not exist").await;
    let policy = mirror_set("ImageContentSourcePolicy", "old", &place, &copies);
    lab.apply(&policy).await;
    lab.unpacked(&next).await;
    lab.delete(&policy).await;
    lab.delete(&tags).await;
    drop(provisioner);

    // Blocked sources are not contacted.
    let (source, mirror) = (Registry::plain(), Registry::plain());
    publish(&source.image("org/app:v1"), &content("one"), &insecure()).await;
    let hosts = [source.host(), mirror.host()];
    lab.apply(&image_config(&json!({"insecureRegistries": hosts})))
        .await;
    let (copies, place) = ([mirror.image("copies")], source.image("org"));
    let mut set = mirror_set("ImageTagMirrorSet", "never", &place, &copies);
    set["spec"]["imageTagMirrors"][0]["mirrorSourcePolicy"] = "NeverContactSource".into();
    lab.apply(&set).await;
    // All of this is observed before the first image is pulled.
    let early = lab.bundle(&source.image("org/app:v1")).await;
    let provisioner = lab.provisioner(&[]).await;
    lab.fails(&early, "does not exist").await;
    set["spec"]["imageTagMirrors"][0]["mirrorSourcePolicy"] = "AllowContactingSource".into();
    lab.apply(&set).await;
    lab.unpacked(&early).await;

    let blocked = json!({"insecureRegistries": hosts, "blockedRegistries": [source.host()]});
    change_pull_config(&provisioner, lab.apply(&image_config(&blocked))).await;
    let late = lab.bundle(&source.image("org/app:v1")).await;
    let blocks = "image.config.openshift.io/cluster blocks";
    lab.fails(&late, blocks).await;
    let allowed = json!({"insecureRegistries": hosts, "allowedRegistries": [mirror.host()]});
    lab.apply(&image_config(&allowed)).await;
    lab.fails(&late, "allows only other registries").await;
    let listed = [source.image("org/app:v1")];
    let both = json!({"insecureRegistries": hosts, "allowedRegistries": listed});
    lab.apply(&image_config(&both)).await;
    lab.unpacked(&late).await;

    // A provisioner that does not follow the cluster pulls images that the cluster blocks, according to the admin's file.
    drop(provisioner);
    lab.apply(&image_config(&blocked)).await;
    let conf = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(conf.path(), insecure_conf(source.host())).unwrap();
    let conf = format!("--registries-conf={}", conf.path().display());
    let provisioner = lab.provisioner(&["--follow-openshift=false", &conf]).await;
    let last = lab.bundle(&source.image("org/app:v1")).await;
    lab.unpacked(&last).await;
    drop(provisioner);

    processes_without_controllers_follow_the_cluster(&lab).await;
}

/// Returns the status of a download from a new process without controllers, whose store is empty.
async fn served(lab: &Lab, bundle: &str, token: &str) -> StatusCode {
    let provisioner = lab.provisioner(&["--controllers=none"]).await;
    let (browser, base) = visit(lab.client(), &provisioner).await;
    let request = browser.get(format!("{base}/bundles/{bundle}.tgz"));
    request.bearer_auth(token).send().await.unwrap().status()
}

/// A process without controllers fetches the content that it serves.
async fn processes_without_controllers_follow_the_cluster(lab: &Lab) {
    let (source, mirror) = (Registry::plain(), Registry::plain());
    let copy = mirror.image("copies/app:v1");
    let digest = publish(&copy, &content("served"), &insecure()).await;
    let hosts = [source.host(), mirror.host()];
    lab.apply(&image_config(&json!({"insecureRegistries": hosts})))
        .await;
    let (place, copies) = (source.image("org"), [mirror.image("copies")]);
    let set = mirror_set("ImageDigestMirrorSet", "served", &place, &copies);
    lab.apply(&set).await;
    // The Bundle itself accepts the source without TLS.
    let pinned = support::image(&source.image(&format!("org/app@{digest}")));
    let name = lab.bundle_of(pinned).await;
    let provisioner = lab.provisioner(&[]).await;
    lab.unpacked(&name).await;
    drop(provisioner);

    apply_roles(&lab.cluster).await;
    let (_, token) = account(&lab.cluster, SYSTEM, &["bundle-reader"]).await;
    // Only the mirror has the image.
    assert_eq!(served(lab, &name, &token).await, StatusCode::OK);
    // The source has the image too, and is blocked.
    publish(&source.image("org/app:v1"), &content("served"), &insecure()).await;
    let blocked = json!({"insecureRegistries": hosts, "blockedRegistries": hosts});
    lab.apply(&image_config(&blocked)).await;
    tests::assert_rows!(served(lab, &name, &token).await => StatusCode::SERVICE_UNAVAILABLE);
}
