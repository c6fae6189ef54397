//! Addresses to listen on, as Go writes them.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    str::FromStr,
};

/// `:8081`, `127.0.0.1:8081`, `[::1]:8081`, or `0` for nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(Option<SocketAddr>);

impl Address {
    /// Where to listen, if anywhere.
    pub(super) fn socket(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self(None));
        }
        let every = text
            .strip_prefix(':')
            .and_then(|port| port.parse().ok())
            .map(every);
        every
            .or_else(|| text.parse().ok())
            .map(|address| Self(Some(address)))
            .ok_or("write :PORT, IP:PORT, or 0 for nowhere")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("0"),
        }
    }
}

/// All addresses of this machine: IPv6 and with it IPv4, unless the kernel was told to have none of it.
fn every(port: u16) -> SocketAddr {
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok() {
        (Ipv6Addr::UNSPECIFIED, port).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, port).into()
    }
}
