//! A TCP proxy that a test can cut, mend and freeze.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::Config;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};

use super::wait::eventually;

/// Forwards connections to a server until a test cuts it.
pub(crate) struct Line {
    address: SocketAddr,
    target: String,
    /// The number of frozen connections: all those with a smaller number.
    frozen: watch::Sender<u64>,
    connections: Arc<AtomicU64>,
    work: Option<AbortHandle>,
}

impl Line {
    pub(crate) async fn new(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut line = Self {
            address: listener.local_addr().unwrap(),
            target: target.to_owned(),
            frozen: watch::Sender::new(0),
            connections: Arc::default(),
            work: None,
        };
        line.serve(listener);
        line
    }

    /// Creates a line to the API server, and the client configuration that uses it.
    pub(crate) async fn to(mut config: Config) -> (Self, Config) {
        let line = Self::new(config.cluster_url.authority().unwrap().as_str()).await;
        config.cluster_url = format!("https://{}", line.address).parse().unwrap();
        (line, config)
    }

    /// Creates a line to the API server, and the text of the kubeconfig that uses it.
    pub(crate) async fn of_kubeconfig(cluster: &cluster::Cluster) -> (Self, String) {
        let address = cluster.config().cluster_url.authority().unwrap().as_str();
        let line = Self::new(address).await;
        let text = std::fs::read_to_string(cluster.kubeconfig_path()).unwrap();
        let text = text.replace(address, &line.address.to_string());
        (line, text)
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ends all connections, and accepts no new ones.
    pub(crate) fn cut(&mut self) {
        self.work.take().unwrap().abort();
    }

    pub(crate) async fn restore(&mut self) {
        // The old listener takes a moment to end.
        let listener = eventually("the port is free", async || {
            let bound = TcpListener::bind(self.address).await;
            bound.map_err(|error| error.to_string())
        });
        let listener = listener.await;
        self.serve(listener);
    }

    /// Drops all data of the existing connections without an error, like a router that has lost their state. New
    /// connections work.
    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(self.connections());
    }

    fn serve(&mut self, listener: TcpListener) {
        let target = self.target.clone();
        let frozen = self.frozen.subscribe();
        let count = Arc::clone(&self.connections);
        let work = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (from, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let (target, mut frozen) = (target.clone(), frozen.clone());
                connections.spawn(async move {
                    // A server that is unavailable refuses connections; the line ends them.
                    let Ok(to) = TcpStream::connect(target).await else {
                        return;
                    };
                    let (mut from, mut to) = (from, to);
                    let passed = async {
                        let (from_there, to_there) = to.split();
                        let (from_here, to_here) = from.split();
                        tokio::select! {
                            () = pass(from_here, to_there) => {}
                            () = pass(from_there, to_here) => {}
                        }
                    };
                    tokio::select! {
                        () = passed => return,
                        _ = frozen.wait_for(|frozen| number < *frozen) => {}
                    }
                    // Both ends are kept open, and nothing is read.
                    std::future::pending::<()>().await;
                });
            }
        });
        self.work = Some(work.abort_handle());
    }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
