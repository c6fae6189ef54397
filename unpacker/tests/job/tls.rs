//! Certificates of receivers.

use tests::TestCa;

use crate::*;

#[tokio::test]
async fn only_certificates_of_trusted_cas_are_accepted() {
    let (own, other) = (TestCa::default(), TestCa::new("other"));
    let values = Values::default()
        .with("own", own.pem())
        .with("other", other.pem());
    let rows = "
        # name in the certificate, --ca-file, outcome
        own         | 127.0.0.1   | {own}        | stored
        second      | 127.0.0.1   | {other}{own} | stored
        of system   | 127.0.0.1   |              | stored
        other       | 127.0.0.1   | {other}      | ConnectFailed: *TLS handshake*failed; check its certificate and --ca-file*
        malformed   | 127.0.0.1   | no certificate | InvalidConfiguration: *failed to read the CA certificates in*
        other name  | example.com | {own}        | ConnectFailed: *TLS handshake*
    ";
    table::check(rows, &values, async |[name, roots]: &[Cell; 2]| {
        let (bundle, roots) = (bundle(), roots.text());
        let tls = own.server(&[name.raw()], |_| {});
        let receiver = Receiver::new(ReceiveOptions::default(), Some(tls)).await;
        let url = format!("https://{}/content/x", receiver.host);
        let mut run = Run::from_to(bundle.path(), &url).args(["--tries", "1"]);
        if roots.is_empty() {
            let path = bundle.path().join("roots.pem");
            std::fs::write(&path, own.pem()).unwrap();
            run.command.env("SSL_CERT_FILE", path);
        } else {
            run = run.file("--ca-file", &roots);
        }
        let ran = run.run().await;
        if ran.code == Some(0) {
            ran.succeeded();
            assert_eq!(receiver.file_counts(), (1, 0));
            return "stored".to_owned();
        }
        assert_eq!(receiver.file_counts(), (0, 0), "{ran:?}");
        ran.failure()
    })
    .await;
}
