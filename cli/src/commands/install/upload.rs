//! Upload of local content to the Bundle of an instance.

use std::time::Duration;

use kube::ResourceExt as _;
use manifests::api::{
    bundle::{Bundle, Phase},
    bundle_instance::BundleInstance,
    condition::{self, reason},
    labels,
};
use tokio::time::{Instant, sleep};

use super::request::Upload;
use crate::{
    args::InstallArgs,
    cluster::{
        Cluster,
        content_service::{ContentService, UploadResult},
    },
    commands::status::bundles_of,
    output::progress,
};

/// Interval between two requests for the Bundle, which the provisioner creates shortly after the instance.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Delay before another upload, after a temporary failure such as a pod that is not the leader.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Uploads the content to its Bundle, unless it was unpacked already. A temporary failure is retried, and `rejection`
/// contains its reason.
pub(super) async fn run(
    cluster: &Cluster,
    args: &InstallArgs,
    instance: &BundleInstance,
    upload: &Upload,
    rejection: &mut String,
) -> anyhow::Result<()> {
    let bundle = find(cluster, instance, upload).await?;
    if is_unpacked(&bundle) {
        return Ok(());
    }
    let name = bundle.name_any();
    loop {
        let service = ContentService::new(cluster, &args.service).await?;
        let sent = service.upload(&name, upload.archive.clone()).await;
        if matches!(sent, Ok(UploadResult::Accepted)) {
            return Ok(());
        }
        // Another client may have uploaded the same content concurrently.
        if let Ok(bundle) = cluster.bundles().get(&name).await
            && is_unpacked(&bundle)
        {
            return Ok(());
        }
        if let UploadResult::RetryLater(reason) = sent? {
            progress::display(&format!("{reason}; retrying"));
            *rejection = reason;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Waits until the provisioner has created the Bundle.
async fn find(
    cluster: &Cluster,
    instance: &BundleInstance,
    upload: &Upload,
) -> anyhow::Result<Bundle> {
    let mut unrecorded = None;
    loop {
        let now = cluster.instance(&instance.name_any()).await?;
        let bundles = bundles_of(cluster, &now).await?;
        let found = bundles
            .into_iter()
            .find(|bundle| is_for(bundle, instance, upload));
        if let Some(bundle) = found {
            return Ok(bundle);
        }
        if let super::WaitState::Failed(text) =
            super::assess::evaluate(&now, instance.metadata.generation)
        {
            anyhow::bail!("no Bundle was created for the content: {text}");
        }
        if !is_unrecorded(&now, instance.metadata.generation) {
            unrecorded = None;
        } else if unrecorded.get_or_insert_with(Instant::now).elapsed() > super::UNHEALTHY_GRACE {
            anyhow::bail!(
                "BundleInstance {} does not record its Bundle in status.bundles: the provisioner or the CRD of \
                 BundleInstances is older than this command; apply the install file of this version",
                instance.name_any()
            );
        }
        progress::display("waiting for the provisioner to create a Bundle for the content");
        sleep(POLL_INTERVAL).await;
    }
}

/// Reports whether the provisioner waits for the first Bundle of this generation without a record of it, as an older one
/// does. Without the record the Bundle could be that of another client.
fn is_unrecorded(instance: &BundleInstance, generation: Option<i64>) -> bool {
    instance.status.as_ref().is_some_and(|status| {
        let mut conditions = status.conditions.iter();
        let is_pending = conditions.any(|condition| {
            condition.type_ == condition::PROGRESSING
                && condition.reason == reason::UNPACK_PENDING
                && condition.observed_generation >= generation
        });
        is_pending && status.bundles.is_empty() && status.installed_bundle_name.is_none()
    })
}

/// Reports whether a Bundle was created for this content and class.
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
    bundle.status.as_ref().and_then(|status| status.phase) == Some(Phase::Unpacked)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{condition, instance};

    #[test]
    fn an_older_provisioner_records_no_bundle() {
        let pending = |generation: i64, reason: &str| {
            let mut condition = condition(("Progressing", "True", reason, ""));
            condition["observedGeneration"] = generation.into();
            json!({"conditions": [condition]})
        };
        let with = |field: &str, value: Value| {
            let mut status = pending(2, "UnpackPending");
            status[field] = value;
            status
        };
        let bundle = json!({"name": "a-1", "uid": "1", "templateHash": "1"});
        ::tests::assert_each!(|status, expected| is_unrecorded(&instance(&json!({"status": status})), Some(2)) => expected;
            Value::Null => false;
            pending(1, "UnpackPending") => false;
            pending(2, "Retrying") => false;
            pending(2, "UnpackPending") => true;
            with("bundles", json!([bundle])) => false;
            // Before the provisioner is upgraded, ownerReferences are trusted.
            with("installedBundleName", json!("a-1")) => false;
        );
    }
}
