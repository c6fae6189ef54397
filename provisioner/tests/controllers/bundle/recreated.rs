//! Bundles that are deleted before a status names their content.

use std::sync::Arc;

use tests::Site;
use tokio::sync::Semaphore;

use super::*;

/// Waits until the store of the provisioner lacks content.
async fn is_removed(content: &Content) {
    let digest = unpacker::pack(content, Format::Tar, std::io::sink()).unwrap();
    eventually("content is removed", async || {
        (!is_in_store(&digest.to_string()).await)
            .then_some(())
            .ok_or_else(|| "it is stored".to_owned())
    })
    .await;
}

#[tokio::test]
async fn content_of_a_deleted_bundle_is_not_that_of_its_successor() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("recreated");
    let content = small(&format!("{name} former"));
    let former = bytes::Bytes::from(archive(&content));
    let asked = Arc::new(Semaphore::new(0));
    let may_answer = Arc::new(Semaphore::new(0));
    let site = Site::start(None, {
        let (asked, may_answer) = (Arc::clone(&asked), Arc::clone(&may_answer));
        move |_| {
            let (asked, may_answer) = (Arc::clone(&asked), Arc::clone(&may_answer));
            let former = former.clone();
            async move {
                asked.add_permits(1);
                may_answer.acquire().await.unwrap().forget();
                http::Response::new(former)
            }
        }
    });
    let source = http(&site.url("/former.tgz"));
    world.bundle(&name, "plain", source).await;
    asked.acquire().await.unwrap().forget();

    delete::<Bundle>(&world.api(), &name).await;
    let files = FileServer::start(None, None);
    let url = files.add(
        "successor.tgz",
        archive(&small(&format!("{name} successor"))),
    );
    let successor = world.bundle(&name, "plain", http(&url)).await;
    may_answer.add_permits(1);

    let unpacked = world.wait_bundle(&name, "Unpacked", "True").await;
    assert_eq!(unpacked.metadata.uid, successor.metadata.uid);
    let status = unpacked.status.as_ref().unwrap();
    assert_eq!(status.resolved_source, Some(http(&url)));
    assert!(is_stored(&unpacked).await);
    is_removed(&content).await;
}

#[tokio::test]
async fn refused_content_is_stored_as_long_as_its_bundle_exists() {
    let name = unique("refused");
    let content = plain(&[json!({"kind": name})]);
    let files = FileServer::start(None, None);
    let url = files.add("refused.tgz", archive(&content));
    failing(&name, http(&url), "apiVersion").await;
    let digest = unpacker::pack(&content, Format::Tar, std::io::sink()).unwrap();
    assert!(is_in_store(&digest.to_string()).await);
    delete::<Bundle>(&world().await.api(), &name).await;
    is_removed(&content).await;
}
