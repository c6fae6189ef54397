//! Bundles without a [`super::World`], and their sources.

use kube::Api;
use manifests::{
    api::bundle::{Bundle, BundleSource, BundleSpec, UploadSource},
    content::Content,
};
use unpacker::{
    Access, Digest,
    access::Trust,
    registry::{BundleImage, Credentials},
};

use super::wait::{condition, wait_for, wait_status};

/// Returns a Bundle of class `plain` or `registry`.
pub(crate) fn bundle(name: &str, class: &str, source: BundleSource) -> Bundle {
    let spec = BundleSpec {
        provisioner_class_name: format!("core-rukpak-io-{class}"),
        source,
    };
    Bundle::new(name, spec)
}

pub(crate) async fn unpacked(api: &Api<Bundle>, name: &str) -> Bundle {
    wait_status(api.clone(), name, ["Unpacked", "True"]).await
}

/// Waits until the condition Unpacked of a Bundle contains this text, with this reason unless that is empty, and returns
/// the Bundle.
pub(crate) async fn wait_message(
    api: &Api<Bundle>,
    name: &str,
    reason: &str,
    text: &str,
) -> Bundle {
    let description = format!("{reason}: {text}");
    wait_for(api.clone(), name, &description, |bundle: &Bundle| {
        let unpacked = condition(&bundle.status.as_ref()?.conditions, "Unpacked")?;
        let is_reason = reason.is_empty() || unpacked.reason == reason;
        (is_reason && unpacked.message.contains(text)).then_some(())
    })
    .await
}

pub(crate) fn trusting(ca: &tests::TestCa, login: Option<&str>) -> Access {
    let credentials = login.map(|text| Credentials::from_docker_config(text.as_bytes()).unwrap());
    let trust = tests::with!(Trust, roots: ca.pem());
    tests::with!(Access, registries: credentials.unwrap_or_default(), trust)
}

pub(crate) async fn publish(image: &str, content: &Content, access: &Access) -> Digest {
    let bundle = BundleImage::new(content).unwrap();
    let pushed = unpacker::registry::push(&image.parse().unwrap(), &bundle, access).await;
    pushed.unwrap()
}

pub(crate) fn upload(digest: Option<String>) -> BundleSource {
    let upload = Some(UploadSource { digest });
    tests::with!(BundleSource, type_: "upload".to_owned(), upload)
}
