//! A proxy that requests can go through.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{address, process::Process};

/// A real proxy for HTTP (`tinyproxy` of Debian), which lets everybody through. Dropping it ends it.
#[derive(Debug)]
pub struct HttpProxy {
    process: Process,
    address: SocketAddr,
}

impl HttpProxy {
    /// A proxy on a port of its own.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start() -> Self {
        // It takes only a port that is named; one that is free now may be taken when it starts.
        for _ in 0..10 {
            if let Some(proxy) = Self::on(free()) {
                return proxy;
            }
        }
        panic!("tinyproxy finds no free port");
    }

    fn on(address: SocketAddr) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("proxy-").tempdir().unwrap();
        let log = folder.path().join("log");
        let config = format!(
            "Port {}\nListen {}\nTimeout 60\nMaxClients 50\nLogLevel Connect\nLogFile \"{}\"\n",
            address.port(),
            address.ip(),
            log.display()
        );
        let path = folder.path().join("tinyproxy.conf");
        fs::write(&path, config).unwrap();
        let config = path.display().to_string();
        let process = Process::start(folder, "tinyproxy", &["-d", "-c", &config]);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if TcpStream::connect(address).is_ok() {
                return Some(Self { process, address });
            }
            sleep(Duration::from_millis(20));
        }
        None
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests for a host it has been sent; those in tunnels count as one each.
    pub fn requests(&self, host: &str) -> usize {
        let log = fs::read_to_string(self.process.folder().join("log")).unwrap_or_default();
        let requests = log
            .lines()
            .filter(|line| line.contains("Request (file descriptor"));
        requests.filter(|line| line.contains(host)).count()
    }
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind((address(), 0)).unwrap();
    listener.local_addr().unwrap()
}
