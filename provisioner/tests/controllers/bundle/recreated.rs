//! Bundles that are deleted and created again with another source, while their content is fetched.

use std::sync::Arc;

use tests::Site;
use tokio::sync::Semaphore;

use super::*;

#[tokio::test]
async fn content_of_a_deleted_bundle_is_not_that_of_its_successor() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("recreated");
    let content = small(&format!("{name} former"));
    let former = archive(&content);
    let (asked, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let site = Site::start(None, {
        let (asked, may_answer) = (Arc::clone(&asked), Arc::clone(&may_answer));
        move |_| {
            let (asked, may_answer) = (Arc::clone(&asked), Arc::clone(&may_answer));
            let former = bytes::Bytes::from(former.clone());
            async move {
                asked.add_permits(1);
                may_answer.acquire().await.unwrap().forget();
                http::Response::new(former)
            }
        }
    });
    world
        .bundle(&name, "plain", http(&site.url("/former.tgz")))
        .await;
    asked.acquire().await.unwrap().forget();

    let api: Api<Bundle> = world.api();
    api.delete(&name, &DeleteParams::default()).await.unwrap();
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
    let digest = unpacker::pack(&content, Format::Tar, std::io::sink()).unwrap();
    eventually("content that no Bundle names is removed", async || {
        (!is_in_store(&digest.to_string()).await)
            .then_some(())
            .ok_or_else(|| "it is stored".to_owned())
    })
    .await;
}
