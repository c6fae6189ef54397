//! The real receiver in an HTTP server.

use crate::*;

pub(crate) struct Receiver {
    /// `127.0.0.1:PORT`.
    pub(crate) host: String,
    pub(crate) store: Store,
    pub(crate) directory: tempfile::TempDir,
    serving: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Receiver {
    pub(crate) async fn new(terms: ReceiveOptions, tls: Option<ServerConfig>) -> Self {
        let (directory, disk, memory) = (tempfile::tempdir().unwrap(), 1 << 30, 1 << 20);
        let store = Store::open(directory.path(), Budget { disk, memory }).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let shared = (store.clone(), terms);
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, shared) = (tls.clone(), shared.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, shared).await,
                        Some(tls) => serve(tls.accept(stream).await.ok()?, shared).await,
                    }
                });
            }
        });
        Self {
            host,
            store,
            directory,
            serving,
        }
    }

    /// Returns the numbers of files of content and of uploads in the store.
    pub(crate) fn file_counts(&self) -> (usize, usize) {
        let count = |path: &Path| fs::read_dir(path).unwrap().count();
        let content = self.directory.path().join("content");
        (count(&content), count(self.store.spool()))
    }

    /// Waits until the store has these files: readers need time to detect the end of an upload.
    pub(crate) async fn settled(&self, expected: (usize, usize)) {
        let settled = async {
            while self.file_counts() != expected {
                tokio::task::yield_now().await;
            }
        };
        let settled = time::timeout(Duration::from_secs(10), settled).await;
        let counts = self.file_counts();
        assert!(settled.is_ok(), "{counts:?}, not {expected:?}");
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (store, terms): (Store, ReceiveOptions),
) -> Option<()> {
    let service = service_fn(|request: Request<Incoming>| {
        let (store, terms) = (store.clone(), terms.clone());
        async move {
            let result = transfer::receive(&store, &terms, request).await;
            Ok::<_, hyper::Error>(transfer::answer(&result).map(Full::<Bytes>::from))
        }
    });
    // The client reports failures of a connection.
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    served.await.ok()
}
