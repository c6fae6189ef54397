//! Images that a node pulls: the unpack Job, its outcomes, and the content that is accepted. The tests have no node;
//! they act as the kubelet.

mod authorization;
mod failures;
mod policies;
mod queue;
mod replicas;

use cluster::Cluster;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ImageVolumeSource, Pod},
};
use kube::ResourceExt;
use manifests::api::bundle::PullMode;
use tokio::sync::OnceCell;

use super::*;
use crate::support::{
    Kubelet, Options, Provisioner, account_object, apply, kubelet, list, own, storage,
};

/// Returns a control plane without a node, with a provisioner.
async fn place() -> &'static World {
    static PLACE: OnceCell<World> = OnceCell::const_new();
    let start = async || {
        let cluster = own(&cluster::Options::default()).await;
        let cluster: &'static Cluster = Box::leak(Box::new(cluster));
        unpack_account(cluster).await;
        let provisioner = Provisioner::start(cluster, Options::default()).await;
        World::with_provisioner(cluster, provisioner)
    };
    PLACE.get_or_init(start).await
}

/// Creates the ServiceAccount of the install file that unpack Jobs run as.
async fn unpack_account(cluster: &Cluster) {
    let mut account = account_object(SYSTEM, "unpack");
    account["automountServiceAccountToken"] = false.into();
    apply(cluster, &account).await;
}

async fn node(world: &World) -> Kubelet {
    Kubelet::new(world.client(), &world.provisioner().await.url("content"))
}

fn pulled(reference: &str) -> BundleSource {
    let mut source = image(reference);
    source.image.as_mut().unwrap().pull = Some(PullMode::Job);
    source
}

/// Returns the source of an image that no registry has.
fn nowhere(name: &str) -> BundleSource {
    pulled(&format!("127.0.0.1:1/{name}:v1"))
}

fn image_volume(pod: &Pod) -> ImageVolumeSource {
    let mut volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
    volumes.find_map(|volume| volume.image.clone()).unwrap()
}

/// Creates a Bundle whose image only a node could pull, and returns its name.
async fn unpacking(world: &World, prefix: &str) -> String {
    let name = unique(prefix);
    world.bundle(&name, "plain", nowhere(&name)).await;
    name
}

async fn condition_is(world: &World, name: &str, reason: &str, text: &str) -> Bundle {
    crate::support::wait_message(&world.api(), name, reason, text).await
}

async fn next_job(node: &Kubelet, bundle: &str, before: &Job) -> Job {
    found("another Job", async || {
        let job = node.find_job(bundle).await;
        job.filter(|job| job.uid() != before.uid())
    })
    .await
}

// parity: platform-23, rukpak-7, g1
#[tokio::test]
async fn node_delivers_content_and_job_is_deleted_with_bundle() {
    let world = place().await;
    let name = unique("job");
    let content = small(&name);
    let tag = world.push(&format!("{name}:v1"), &content).await;
    let bundle = world.bundle(&name, "plain", pulled(&tag)).await;
    let node = node(world).await;
    let pod = node.pod(&name).await;
    let job = node.job(&name).await;

    // The tag is resolved beforehand, and the image is a volume.
    let reference = image_volume(&pod).reference.unwrap();
    tests::assert_rows!(reference.starts_with(&tag.replace(":v1", "@sha256:")) => true, "{reference}");
    let spec = json!({"serviceAccountName": "unpack", "automountServiceAccountToken": false});
    assert_part(&pod, &json!({"spec": spec}));
    assert_eq!(job.owner_references()[0].uid, bundle.uid().unwrap());
    assert_eq!(job.labels()["core.rukpak.io/owner-name"], name);
    condition_is(world, &name, "UnpackPending", "").await;
    node.report(&pod, "Running", &json!({"running": {}})).await;
    tests::assert_rows!(condition_is(world, &name, "Unpacking", "").await.status.unwrap().phase => Some(Phase::Unpacking));

    let sent = node.run(&pod, &content).await.unwrap();
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    let status = bundle.status.as_ref().unwrap();
    assert_eq!(status.content_digest, Some(sent.packed.digest.to_string()));
    tests::assert_rows!(status.resolved_source.as_ref().unwrap().image.as_ref().unwrap().reference => reference);
    assert_eq!(message(&bundle), "Successfully unpacked the image Bundle");
    assert_eq!(status.facts.conversion.as_ref().unwrap().objects, 1);

    // A completed Job is kept for a while, and is not created again.
    let complete = json!({"status": {"conditions": [{"type": "Complete"}]}});
    wait_part(node.jobs(), &job.name_any(), complete).await;
    assert_eq!(node.job(&name).await.uid(), job.uid());
    delete(&world.api::<Bundle>(), &name).await;
    wait_deleted::<Job>(node.jobs(), &job.name_any()).await;
    wait_deleted::<Pod>(node.pods(), &pod.name_any()).await;
}
