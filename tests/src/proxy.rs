//! An HTTP proxy.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{address, process::Process};

/// A real HTTP proxy (Debian's `tinyproxy`) without access control. Dropping the value stops the proxy.
#[derive(Debug)]
pub struct HttpProxy {
    process: Process,
    address: SocketAddr,
}

impl HttpProxy {
    /// Starts a proxy on a free port.
    pub fn start() -> Self {
        // tinyproxy needs a port number, and another process can take a free port before tinyproxy starts.
        for _ in 0..10 {
            if let Some(proxy) = Self::on(free()) {
                return proxy;
            }
        }
        panic!("tinyproxy finds no free port");
    }

    fn on(address: SocketAddr) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("proxy-").tempdir().unwrap();
        let log = dir.path().join("log");
        let (port, ip, log) = (address.port(), address.ip(), log.display());
        let settings = "Timeout 60\nMaxClients 50\nLogLevel Connect";
        let config = format!("Port {port}\nListen {ip}\n{settings}\nLogFile \"{log}\"\n");
        let path = dir.path().join("tinyproxy.conf");
        fs::write(&path, config).unwrap();
        let process = Process::start(dir, "tinyproxy", &["-d", "-c", &path.display().to_string()]);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if TcpStream::connect(address).is_ok() {
                return Some(Self { process, address });
            }
            sleep(Duration::from_millis(20));
        }
        None
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of requests for a host. A tunnel counts as one request.
    pub fn requests(&self, host: &str) -> usize {
        let log = fs::read_to_string(self.process.dir().join("log")).unwrap_or_default();
        let is_request =
            |line: &&str| line.contains("Request (file descriptor") && line.contains(host);
        log.lines().filter(is_request).count()
    }
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind((address(), 0)).unwrap();
    listener.local_addr().unwrap()
}
