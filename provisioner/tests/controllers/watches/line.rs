//! The line to the apiserver, which a test can cut.

use std::net::SocketAddr;

use kube::Config;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// Passes connections on, until it is cut.
pub(crate) struct Line {
    here: SocketAddr,
    apiserver: String,
    work: Option<AbortHandle>,
}

impl Line {
    /// A line, and the configuration that uses it.
    pub(crate) async fn to(mut config: Config) -> (Self, Config) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut line = Self {
            here: listener.local_addr().unwrap(),
            apiserver: config.cluster_url.authority().unwrap().to_string(),
            work: None,
        };
        config.cluster_url = format!("https://{}", line.here).parse().unwrap();
        line.serve(listener);
        (line, config)
    }

    /// Ends all connections; there are no new ones.
    pub(crate) fn cut(&mut self) {
        self.work.take().unwrap().abort();
    }

    /// Lets new connections through.
    pub(crate) async fn mend(&mut self) {
        let listener = TcpListener::bind(self.here).await.unwrap();
        self.serve(listener);
    }

    fn serve(&mut self, listener: TcpListener) {
        let apiserver = self.apiserver.clone();
        let work = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut from, _) = listener.accept().await.unwrap();
                let apiserver = apiserver.clone();
                connections.spawn(async move {
                    let mut to = TcpStream::connect(apiserver).await.unwrap();
                    let _ = copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
        self.work = Some(work.abort_handle());
    }
}
