//! Bodies that are read by blocking readers.

use crate::*;

#[test]
fn reader_without_its_runtime_is_not_at_the_end() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let part = || Ok::<_, Error>(bytes::Bytes::from_static(b"abc"));
    let body = futures::stream::once(async move { part() }).chain(futures::stream::pending());
    let mut reader = runtime.block_on(async { reader(Box::pin(body)) });
    reader.read_exact(&mut [0; 3]).unwrap();
    drop(runtime);
    let error = reader.read(&mut [0; 3]).unwrap_err();
    assert!(error.to_string().contains("aborted"), "{error}");
}

#[tokio::test]
async fn dropped_reader_ends_the_transfer() {
    let (sender, mut ended) = tokio::sync::mpsc::channel::<()>(1);
    let body = futures::stream::unfold(sender, async |sender| {
        let part = bytes::Bytes::from_static(&[0; 1024]);
        tokio::task::yield_now().await;
        Some((Ok::<_, Error>(part), sender))
    });
    drop(reader(Box::pin(body)));
    // Closed as soon as the body, which holds the other end, is dropped.
    assert_rows!(tokio::time::timeout(Duration::from_secs(10), ended.recv()).await.unwrap() => None);
}
