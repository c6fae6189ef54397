//! Receivers that prove who they are, and those that do not.

#[path = "../web/certificates.rs"]
#[allow(dead_code)] // other tests need more of it
mod certificates;

use certificates::Authority;
use unpacker::wire::Terms;

use crate::{bundle, command::Run, receiver::Receiver};

async fn receiver(authority: &Authority, name: &str) -> Receiver {
    Receiver::with(Terms::default(), Some(authority.server(&[name])), []).await
}

#[tokio::test]
async fn a_private_authority_is_believed_if_it_is_named_and_no_other_is() {
    let (bundle, ours, other) = (bundle(), Authority::new(), Authority::new());
    let receiver = receiver(&ours, "127.0.0.1").await;
    let run = || Run::from_to(bundle.path(), &receiver.url()).args(["--tries", "1"]);
    run().file("--ca-file", &ours.pem()).run().await.succeeded();
    assert_eq!(receiver.kept(), (1, 0));

    let both = other.pem() + &ours.pem();
    run().file("--ca-file", &both).run().await.succeeded();

    let ran = run().file("--ca-file", &other.pem()).run().await;
    ran.failed(
        "ConnectFailed",
        "on TLS; check its certificate and --ca-file",
    );
    let ran = run().file("--ca-file", "no certificate").run().await;
    ran.failed(
        "InvalidConfiguration",
        "failed to read the certificates of authorities in",
    );
    assert_eq!(receiver.seen().len(), 2);
}

#[tokio::test]
async fn the_system_is_asked_for_authorities_if_none_is_named() {
    let (bundle, authority) = (bundle(), Authority::new());
    let receiver = receiver(&authority, "127.0.0.1").await;
    let path = bundle.path().join("roots.pem");
    std::fs::write(&path, authority.pem()).unwrap();
    let mut run = Run::from_to(bundle.path(), &receiver.url());
    run.command.env("SSL_CERT_FILE", path);
    run.run().await.succeeded();
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_taken() {
    let (bundle, authority) = (bundle(), Authority::new());
    let receiver = receiver(&authority, "example.com").await;
    let run = Run::from_to(bundle.path(), &receiver.url()).args(["--tries", "1"]);
    let ran = run.file("--ca-file", &authority.pem()).run().await;
    ran.failed("ConnectFailed", "on TLS");
    assert!(receiver.seen().is_empty());
}
