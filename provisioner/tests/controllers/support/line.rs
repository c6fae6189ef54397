//! A line to a server, which a test can cut, mend and freeze.

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

/// Passes connections on, until it is cut.
pub(crate) struct Line {
    here: SocketAddr,
    there: String,
    /// How many connections are frozen: all those whose number is smaller.
    frozen: watch::Sender<u64>,
    connections: Arc<AtomicU64>,
    work: Option<AbortHandle>,
}

impl Line {
    /// A line to `host:port`.
    pub(crate) async fn new(there: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut line = Self {
            here: listener.local_addr().unwrap(),
            there: there.to_owned(),
            frozen: watch::Sender::new(0),
            connections: Arc::default(),
            work: None,
        };
        line.serve(listener);
        line
    }

    /// A line to the apiserver, and the configuration that uses it.
    pub(crate) async fn to(mut config: Config) -> (Self, Config) {
        let line = Self::new(config.cluster_url.authority().unwrap().as_str()).await;
        config.cluster_url = format!("https://{}", line.here).parse().unwrap();
        (line, config)
    }

    /// A line to the apiserver, and the text of the kubeconfig that uses it.
    pub(crate) async fn of_kubeconfig(cluster: &cluster::Cluster) -> (Self, String) {
        let apiserver = cluster.config().cluster_url.authority().unwrap().as_str();
        let line = Self::new(apiserver).await;
        let text = std::fs::read_to_string(cluster.kubeconfig_path()).unwrap();
        let text = text.replace(apiserver, &line.here.to_string());
        (line, text)
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> String {
        self.here.to_string()
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ends all connections; there are no new ones.
    pub(crate) fn cut(&mut self) {
        self.work.take().unwrap().abort();
    }

    /// Lets new connections through.
    pub(crate) async fn mend(&mut self) {
        // What was cut takes a moment to end.
        let listener = eventually("the port is free", async || {
            let bound = TcpListener::bind(self.here).await;
            bound.map_err(|error| error.to_string())
        });
        let listener = listener.await;
        self.serve(listener);
    }

    /// From now on nothing comes through the connections that there are, and nobody is told, as when a machine between
    /// has forgotten them. New ones work.
    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(self.connections());
    }

    fn serve(&mut self, listener: TcpListener) {
        let there = self.there.clone();
        let frozen = self.frozen.subscribe();
        let count = Arc::clone(&self.connections);
        let work = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (from, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let (there, mut frozen) = (there.clone(), frozen.clone());
                connections.spawn(async move {
                    // A server that is away refuses; then so do we, by ending.
                    let Ok(to) = TcpStream::connect(there).await else {
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
                    // Both ends stay open, and nobody reads.
                    std::future::pending::<()>().await;
                });
            }
        });
        self.work = Some(work.abort_handle());
    }
}

/// Passes on what comes, until one side ends.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
