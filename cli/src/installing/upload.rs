//! From an instance to its Bundle, and the content to that.

use std::time::Duration;

use kube::ResourceExt as _;
use manifests::api::{
    bundle::{Bundle, Phase},
    instance::BundleInstance,
    labels,
};
use tokio::time::sleep;

use super::wanted::Upload;
use crate::{args::InstallArgs, cluster::Cluster, progress, service::Service, status::bundles_of};

/// Between two looks for the Bundle; it is there a moment after the instance.
const PAUSE: Duration = Duration::from_millis(200);

/// Sends the content to the Bundle that stands for it, unless it has it already.
pub(super) async fn run(
    cluster: &Cluster,
    args: &InstallArgs,
    instance: &BundleInstance,
    upload: &Upload,
) -> anyhow::Result<()> {
    let bundle = find(cluster, instance, upload).await?;
    if is_unpacked(&bundle) {
        return Ok(());
    }
    let service = Service::new(cluster, &args.service).await?;
    let sent = service
        .upload(&bundle.name_any(), upload.archive.clone())
        .await;
    // Somebody else may have sent the same at the same time.
    match sent {
        Err(error) => {
            let bundle = cluster.bundles().get(&bundle.name_any()).await;
            match bundle {
                Ok(bundle) if is_unpacked(&bundle) => Ok(()),
                _ => Err(error),
            }
        }
        done => done,
    }
}

/// Waits for the Bundle.
async fn find(
    cluster: &Cluster,
    instance: &BundleInstance,
    upload: &Upload,
) -> anyhow::Result<Bundle> {
    loop {
        let bundles = bundles_of(cluster, instance).await?;
        let found = bundles
            .into_iter()
            .find(|bundle| is_for(bundle, instance, upload));
        if let Some(bundle) = found {
            return Ok(bundle);
        }
        let now = cluster.instance(&instance.name_any()).await?;
        if let super::Verdict::Failed(text) = super::verdict::of(&now, instance.metadata.generation)
        {
            anyhow::bail!("no Bundle was made for the content: {text}");
        }
        progress::show("waiting for the provisioner to make a Bundle for the content");
        sleep(PAUSE).await;
    }
}

/// Whether a Bundle was made for this content, in this class.
fn is_for(bundle: &Bundle, instance: &BundleInstance, upload: &Upload) -> bool {
    let template = &instance.spec.template.spec;
    let class = template.provisioner_class_name.as_ref();
    let class = class.unwrap_or(&instance.spec.provisioner_class_name);
    bundle.labels().get(labels::CONTENT_DIGEST) == Some(&upload.digest)
        && bundle.spec.source.type_ == "upload"
        && bundle.spec.provisioner_class_name == *class
        && bundle.metadata.deletion_timestamp.is_none()
}

fn is_unpacked(bundle: &Bundle) -> bool {
    bundle.status.as_ref().and_then(|it| it.phase) == Some(Phase::Unpacked)
}
