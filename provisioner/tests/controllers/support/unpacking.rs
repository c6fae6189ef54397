//! Bundles without a [`super::World`], and what they are unpacked from.

use kube::Api;
use manifests::{
    api::bundle::{Bundle, BundleSource, BundleSpec, UploadSource},
    content::Content,
};
use tests::Authority;
use unpacker::{
    Access, Digest,
    access::Trust,
    registry::{BundleImage, Credentials},
};

use super::wait::{condition, has, wait_for};

/// A Bundle of class `plain` or `registry`.
pub(crate) fn bundle(name: &str, class: &str, source: BundleSource) -> Bundle {
    let spec = BundleSpec {
        provisioner_class_name: format!("core-rukpak-io-{class}"),
        source,
    };
    Bundle::new(name, spec)
}

/// Waits until a Bundle is unpacked, and returns it.
pub(crate) async fn unpacked(api: &Api<Bundle>, name: &str) -> Bundle {
    wait_for(api.clone(), name, "unpacked", |it: &Bundle| {
        has(&it.status.as_ref()?.conditions, "Unpacked", "True").then_some(())
    })
    .await
}

/// Waits until the condition Unpacked of a Bundle contains this text, with this reason unless that is empty, and returns the
/// Bundle.
pub(crate) async fn says(api: &Api<Bundle>, name: &str, reason: &str, text: &str) -> Bundle {
    let what = format!("{reason}: {text}");
    wait_for(api.clone(), name, &what, |it: &Bundle| {
        let unpacked = condition(&it.status.as_ref()?.conditions, "Unpacked")?;
        let is_reason = reason.is_empty() || unpacked.reason == reason;
        (is_reason && unpacked.message.contains(text)).then_some(())
    })
    .await
}

/// With what a registry of this authority is reached, with a login of Docker if there is one.
pub(crate) fn trusting(authority: &Authority, login: Option<&str>) -> Access {
    let credentials = login.map(|text| Credentials::from_docker_config(text.as_bytes()).unwrap());
    Access {
        registries: credentials.unwrap_or_default(),
        trust: Trust {
            roots: authority.pem(),
            ..Trust::default()
        },
        ..Access::default()
    }
}

/// Publishes content as an image.
pub(crate) async fn publish(image: &str, content: &Content, access: &Access) -> Digest {
    let bundle = BundleImage::new(content).unwrap();
    let image = image.parse().unwrap();
    let pushed = unpacker::registry::push(&image, &bundle, access).await;
    pushed.unwrap()
}

/// An upload as source, which must have this digest if one is given.
pub(crate) fn upload(digest: Option<String>) -> BundleSource {
    BundleSource {
        type_: "upload".to_owned(),
        upload: Some(UploadSource { digest }),
        ..BundleSource::default()
    }
}
