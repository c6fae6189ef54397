//! Requests to the webhook that never end. Every client in the cluster can send them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use super::*;

/// Number of stalled connections at any time.
const STALLED: usize = 24;
/// Bytes that each of them has sent: few, or more than most requests have.
const SENT: [usize; 2] = [1, 512 << 10];

fn connector(ca: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Sends a part of a request, and then waits until the connection is closed; then again.
async fn stall(tls: TlsConnector, address: SocketAddr, size: usize, begun: Arc<AtomicUsize>) {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let head = b"POST /convert HTTP/1.1\r\nhost: a\r\ncontent-length: 1048576\r\n\r\n";
    loop {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = tls.connect(name.clone(), stream).await.unwrap();
        stream.write_all(head).await.unwrap();
        stream.flush().await.unwrap();
        begun.fetch_add(1, Ordering::Relaxed);
        // Neither succeeds.
        let _ = stream.write_all(&vec![b' '; size]).await;
        let _ = stream.flush().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
}

pub(super) async fn stalled_requests_do_not_delay_others(
    address: SocketAddr,
    ca: &[u8],
    new: &Api<DynamicObject>,
) {
    let begun = Arc::new(AtomicUsize::new(0));
    let mut stalled = JoinSet::new();
    let tls = connector(ca);
    for size in SENT.into_iter().cycle().take(STALLED) {
        stalled.spawn(stall(tls.clone(), address, size, Arc::clone(&begun)));
    }
    let begun = async || begun.load(Ordering::Relaxed);
    until("all of them stall", begun, |begun| *begun >= STALLED).await;
    for _ in 0..3 {
        new.get("after").await.unwrap();
    }
    assert_eq!(stalled.len(), STALLED);
    assert!(stalled.try_join_next().is_none(), "they continue");
    stalled.shutdown().await;
}
