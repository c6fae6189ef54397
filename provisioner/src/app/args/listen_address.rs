//! Listen addresses in the syntax of Go.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    str::FromStr,
};

/// Listen address: `:8081`, `127.0.0.1:8081`, `[::1]:8081`, or `0` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListenAddress(Option<SocketAddr>);

impl ListenAddress {
    /// Returns the socket address to listen on, or `None`.
    pub(super) fn socket(self) -> Option<SocketAddr> {
        self.0
    }
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "0" {
            return Ok(Self(None));
        }
        let all_addresses = text
            .strip_prefix(':')
            .and_then(|port| port.parse().ok())
            .map(unspecified_address);
        all_addresses
            .or_else(|| text.parse().ok())
            .map(|address| Self(Some(address)))
            .ok_or("use :PORT, IP:PORT, or 0 to disable it")
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("0"),
        }
    }
}

/// Returns the address of all interfaces: IPv6, which includes IPv4, unless the kernel has IPv6 disabled.
fn unspecified_address(port: u16) -> SocketAddr {
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok() {
        (Ipv6Addr::UNSPECIFIED, port).into()
    } else {
        (Ipv4Addr::UNSPECIFIED, port).into()
    }
}
