//! Pulling follows an OpenShift cluster: its own definitions, real registries as source and mirror, a real proxy. There are
//! a few objects for the whole cluster, so each test has a control plane of its own.

mod authorities;
mod rights;

use std::{path::PathBuf, process::Command};

use cluster::Lease;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    core::DynamicObject,
};
use manifests::{
    api::bundle::{Bundle, BundleSource},
    content::Content,
    yaml,
};
use serde_json::{Value, json};
use tests::{Auth, Authority, HttpProxy, OWNER, Registry};
use unpacker::{
    Access, Digest,
    access::Trust,
    registry::{BundleImage, Credentials},
};

use crate::support::{
    self, Options, Provisioner, apply, condition, config_map, eventually, insecure,
    namespace_object, plain, unique, wait_for, without_controllers,
};

const CONFIG: &str = "config.openshift.io/v1";

/// A cluster that may become an OpenShift.
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

    /// Applies the real definition of a kind.
    async fn define(&self, file: &str) {
        let text = std::fs::read(definitions().join(file)).unwrap();
        let definition: Value = yaml::documents(&text).next().unwrap().unwrap();
        self.apply(&definition).await;
        let name = definition["metadata"]["name"].as_str().unwrap();
        self.cluster.wait_established(name).await.unwrap();
    }

    /// All that is read of OpenShift.
    async fn openshift(&self) {
        for file in [
            "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagedigestmirrorsets.crd.yaml",
            "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagetagmirrorsets.crd.yaml",
            "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_images.crd.yaml",
            "config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
            "operator/v1alpha1/zz_generated.crd-manifests/0000_10_config-operator_01_imagecontentsourcepolicies.crd.yaml",
        ] {
            self.define(file).await;
        }
    }

    async fn apply(&self, object: &Value) {
        apply(&self.cluster, object).await;
    }

    /// What changes an object that is there: its kind's own API, and its name.
    async fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kind = object.types.unwrap();
        let kind = kube::core::GroupVersionKind::try_from(&kind).unwrap();
        let client = self.cluster.client().unwrap();
        let (resource, _) = kube::discovery::pinned_kind(&client, &kind).await.unwrap();
        let api = Api::all_with(client, &resource);
        (api, object.metadata.name.unwrap())
    }

    async fn delete(&self, object: &Value) {
        let (api, name) = self.api(object).await;
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// Sets the status as the cluster's own operators do.
    async fn status(&self, object: &Value, status: &Value) {
        let (api, name) = self.api(object).await;
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        api.patch_status(&name, &params, &patch).await.unwrap();
    }

    async fn provisioner(&self, flags: &[&str]) -> Provisioner {
        let options = Options {
            flags: ["--controllers=bundle"]
                .iter()
                .chain(flags)
                .map(ToString::to_string)
                .collect(),
            ..Options::default()
        };
        Provisioner::start(&self.cluster, options).await
    }

    /// Creates a Bundle from an image, which has to be believed.
    async fn bundle(&self, image: &str) -> String {
        let mut source = support::image(image);
        source.image.as_mut().unwrap().insecure_skip_tls_verify = false;
        self.bundle_of(source).await
    }

    async fn bundle_of(&self, source: BundleSource) -> String {
        let name = unique("pull");
        let bundle = json!({
            "apiVersion": "core.rukpak.io/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": name},
            "spec": {"provisionerClassName": "core-rukpak-io-plain", "source": source},
        });
        self.apply(&bundle).await;
        name
    }

    async fn unpacked(&self, name: &str) -> Bundle {
        let api = Api::all(self.cluster.client().unwrap());
        let is_there = |bundle: &Bundle| {
            let status = bundle.status.as_ref()?;
            support::has(&status.conditions, "Unpacked", "True").then_some(())
        };
        wait_for(api, name, "unpacked", is_there).await
    }

    /// Waits until the condition of a Bundle says why it is not unpacked.
    async fn fails(&self, name: &str, text: &str) {
        let api = Api::all(self.cluster.client().unwrap());
        let says = |bundle: &Bundle| {
            let conditions = &bundle.status.as_ref()?.conditions;
            let message = &condition(conditions, "Unpacked")?.message;
            message.contains(text).then_some(())
        };
        wait_for(api, name, text, says).await;
    }
}

/// The folder of the module that has OpenShift's definitions.
fn definitions() -> PathBuf {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/cluster/openshift/definitions.sh"
    );
    let output = Command::new(script).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap().trim_end().into()
}

fn content(text: &str) -> Content {
    plain(&[config_map("default", "small", text)])
}

async fn push(image: &str, content: &Content, access: &Access) -> Digest {
    let bundle = BundleImage::new(content).unwrap();
    let image = image.parse().unwrap();
    unpacker::registry::push(&image, &bundle, access)
        .await
        .unwrap()
}

fn image_config(registries: &Value) -> Value {
    json!({
        "apiVersion": CONFIG, "kind": "Image", "metadata": {"name": "cluster"},
        "spec": {"registrySources": registries},
    })
}

fn mirror_set(kind: &str, name: &str, source: &str, mirrors: &[String], policy: &str) -> Value {
    let (version, field) = match kind {
        "ImageDigestMirrorSet" => (CONFIG, "imageDigestMirrors"),
        "ImageTagMirrorSet" => (CONFIG, "imageTagMirrors"),
        _ => ("operator.openshift.io/v1alpha1", "repositoryDigestMirrors"),
    };
    let mut set = json!({"source": source, "mirrors": mirrors});
    if !policy.is_empty() {
        set["mirrorSourcePolicy"] = policy.into();
    }
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {field: [set]}})
}

// parity: complaint-17
#[tokio::test]
async fn mirrors_and_blocked_registries_are_followed() {
    let lab = Lab::new().await;
    mirrors_are_followed_without_a_restart(&lab).await;
    blocked_sources_are_not_contacted(&lab).await;
}

/// Leaves no mirrors.
async fn mirrors_are_followed_without_a_restart(lab: &Lab) {
    let (source, mirror) = (Registry::plain(), Registry::plain());
    push(&mirror.image("copies/app:v1"), &content("one"), &insecure()).await;
    // The definitions come while it runs, as they do on day 0.
    let provisioner = lab.provisioner(&[]).await;
    let tagged = lab.bundle(&source.image("org/app:v1")).await;
    lab.fails(&tagged, "127.0.0.1").await;
    lab.openshift().await;
    // Neither speaks TLS.
    let hosts = json!({"insecureRegistries": [source.host(), mirror.host()]});
    lab.apply(&image_config(&hosts)).await;
    lab.fails(&tagged, "does not exist").await;

    let copies = [mirror.image("copies")];
    let place = source.image("org");
    let tags = mirror_set("ImageTagMirrorSet", "tags", &place, &copies, "");
    lab.apply(&tags).await;
    lab.unpacked(&tagged).await;
    provisioner.says("pulling follows the cluster").await;

    // A digest is nothing for mirrors of tags.
    let other = mirror.image("copies/other:v1");
    let digest = push(&other, &content("other"), &insecure()).await;
    let pinned = source.image(&format!("org/other@{digest}"));
    let by_digest = lab.bundle(&pinned).await;
    lab.fails(&by_digest, "does not exist").await;
    let set = mirror_set("ImageDigestMirrorSet", "digests", &place, &copies, "");
    lab.apply(&set).await;
    let bundle = lab.unpacked(&by_digest).await;
    let resolved = bundle
        .status
        .unwrap()
        .resolved_source
        .unwrap()
        .image
        .unwrap();
    assert_eq!(
        resolved.reference, pinned,
        "the name stays that of the source"
    );

    // What is gone is not asked any more; the older policy serves as well.
    lab.delete(&set).await;
    let digest = push(
        &mirror.image("copies/next:v1"),
        &content("three"),
        &insecure(),
    )
    .await;
    let next = lab
        .bundle(&source.image(&format!("org/next@{digest}")))
        .await;
    lab.fails(&next, "does not exist").await;
    let policy = mirror_set("ImageContentSourcePolicy", "old", &place, &copies, "");
    lab.apply(&policy).await;
    lab.unpacked(&next).await;
    lab.delete(&policy).await;
    lab.delete(&tags).await;
}

async fn blocked_sources_are_not_contacted(lab: &Lab) {
    let (source, mirror) = (Registry::plain(), Registry::plain());
    push(&source.image("org/app:v1"), &content("one"), &insecure()).await;
    let hosts = [source.host(), mirror.host()];
    lab.apply(&image_config(&json!({"insecureRegistries": hosts})))
        .await;
    let copies = [mirror.image("copies")];
    let place = source.image("org");
    let never = mirror_set(
        "ImageTagMirrorSet",
        "never",
        &place,
        &copies,
        "NeverContactSource",
    );
    lab.apply(&never).await;
    // All of that is heard before the first image is pulled.
    let early = lab.bundle(&source.image("org/app:v1")).await;
    let provisioner = lab.provisioner(&[]).await;
    lab.fails(&early, "does not exist").await;
    push(&mirror.image("copies/app:v1"), &content("two"), &insecure()).await;
    lab.apply(&mirror_set(
        "ImageTagMirrorSet",
        "never",
        &place,
        &copies,
        "AllowContactingSource",
    ))
    .await;
    lab.unpacked(&early).await;

    let blocked = json!({"insecureRegistries": hosts, "blockedRegistries": [source.host()]});
    lab.apply(&image_config(&blocked)).await;
    let late = lab.bundle(&source.image("org/app:v1")).await;
    lab.fails(&late, "image.config.openshift.io/cluster blocks")
        .await;
    let allowed = json!({"insecureRegistries": hosts, "allowedRegistries": [mirror.host()]});
    lab.apply(&image_config(&allowed)).await;
    lab.fails(&late, "allows only other registries").await;
    let both =
        json!({"insecureRegistries": hosts, "allowedRegistries": [source.image("org/app:v1")]});
    lab.apply(&image_config(&both)).await;
    lab.unpacked(&late).await;

    // A provisioner that does not follow the cluster pulls what the cluster blocks, as the admin's own file says.
    drop(provisioner);
    lab.apply(&image_config(&blocked)).await;
    let conf = tempfile::NamedTempFile::new().unwrap();
    let host = source.host();
    let text = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
    std::fs::write(conf.path(), text).unwrap();
    let conf = format!("--registries-conf={}", conf.path().display());
    let _provisioner = lab.provisioner(&["--follow-openshift=false", &conf]).await;
    lab.unpacked(&lab.bundle(&source.image("org/app:v1")).await)
        .await;
}
