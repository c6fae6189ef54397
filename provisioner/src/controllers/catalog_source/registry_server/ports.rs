//! Allocation of ports to catalogs.
//!
//! A node may route a Service to the old port for a moment after that port changed, even after a restart in the same pod.
//! Each catalog therefore starts the search for a free port at its own offset in the range. A released port cools down
//! before another catalog gets it.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

use super::Error;
use crate::{controllers::catalog_source::CatalogKey, runtime::settings::Ports};

/// Time for which a released port is not used again. Nodes observe endpoint changes long before that.
const REUSE_DELAY: Duration = Duration::from_secs(60);

/// Allocator of the ports for served catalogs.
#[derive(Debug)]
pub(super) struct PortAllocator {
    range: Ports,
    /// Wildcard address of the pod's IP family.
    wildcard: IpAddr,
    /// Released ports that are cooling down, with the time of their release.
    cooling_down: BTreeMap<u16, Instant>,
}

// === impl PortAllocator ===

impl PortAllocator {
    pub(super) fn new(range: Ports, address: IpAddr) -> Self {
        Self {
            range,
            wildcard: match address {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            cooling_down: BTreeMap::new(),
        }
    }

    /// Listens on a port for a catalog. Ports that are cooling down are used only if no other port is free.
    pub(super) fn bind(&mut self, key: &CatalogKey, now: Instant) -> Result<TcpListener, Error> {
        self.cooling_down
            .retain(|_, since| now.saturating_duration_since(*since) < REUSE_DELAY);
        let listen = |port| {
            let listener = TcpListener::bind(SocketAddr::new(self.wildcard, port))?;
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>(listener)
        };
        let (ready, cooling_down): (Vec<u16>, Vec<u16>) =
            candidates(key, self.range).partition(|port| !self.cooling_down.contains_key(port));
        for port in ready.into_iter().chain(cooling_down) {
            match listen(port) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(source) => return Err(Error::Listen { port, source }),
            }
        }
        Err(Error::Ports(self.range))
    }

    /// Releases a port and starts its cool-down.
    pub(super) fn release(&mut self, port: u16, now: Instant) {
        self.cooling_down.insert(port, now);
    }
}

/// Returns the ports to try, in order; 0 lets the system choose one.
fn candidates(key: &CatalogKey, range: Ports) -> impl Iterator<Item = u16> {
    let (first, count) = match range {
        Ports::Any => (0, 1),
        Ports::Range { first, last } => (first, u32::from(last.saturating_sub(first)) + 1),
    };
    let hash: [u8; 32] = Sha256::digest(key.to_string()).into();
    let offset = hash
        .iter()
        .take(4)
        .fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
        % count;
    // The sum is below 65,536, because it lies within the range.
    (0..count).filter_map(move |at| u16::try_from(u32::from(first) + (offset + at) % count).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> CatalogKey {
        CatalogKey::new("catalogs", name)
    }

    #[test]
    fn port_candidates_are_stable_and_spread() {
        let (first, last) = (20_000, 20_003);
        let range = Ports::Range { first, last };
        let all: Vec<u16> = candidates(&key("a"), range).collect();
        let keys = (0..40).map(|at| key(&at.to_string()));
        let first = keys.filter_map(|key| candidates(&key, range).next());
        assert_rows! {
            candidates(&key("a"), range).collect::<Vec<u16>>() => all;
            with!(all => |sorted| sorted.sort_unstable()) => [20_000, 20_001, 20_002, 20_003];
            first.collect::<std::collections::BTreeSet<u16>>().len() => 4, "catalogs are spread";
            candidates(&key("a"), Ports::Range { first: 1, last: u16::MAX }).count() => 65_535;
            candidates(&key("a"), Ports::Any).collect::<Vec<_>>() => [0];
        }
    }

    #[test]
    fn used_ports_are_skipped_and_released_ones_cool_down() {
        // Two ports that are very likely free.
        let address = Ipv4Addr::LOCALHOST.into();
        let two_ports = |_| {
            let one = TcpListener::bind("0.0.0.0:0").unwrap();
            let first = one.local_addr().unwrap().port();
            let last = first.checked_add(1)?;
            drop(TcpListener::bind(("0.0.0.0", last)).ok()?);
            Some((first, last, one))
        };
        let (first, last, taken) = (0..100).find_map(two_ports).unwrap();
        let range = Ports::Range { first, last };
        let port = |bound: &TcpListener| bound.local_addr().unwrap().port();
        let mut ports = PortAllocator::new(range, address);
        let now = Instant::now();
        let other = ports.bind(&key("a"), now).unwrap();
        assert_eq!(port(&other), last);
        let none = ports.bind(&key("b"), now).unwrap_err();
        ::tests::assert_has(&none, &format!("{first}-{last}"));
        ::tests::assert_has(&none, "--catalog-ports");
        // Both are free: the one that cools down comes last, the others follow in the order of the offset.
        drop((taken, other));
        for released in [first, last] {
            let mut ports = PortAllocator::new(range, address);
            ports.release(released, now);
            for name in ["a", "b", "c", "d"] {
                let bound = ports.bind(&key(name), now).unwrap();
                assert_ne!(port(&bound), released, "{name}");
            }
            assert_rows!(Some(port(&ports.bind(&key("a"), now + REUSE_DELAY).unwrap())) => candidates(&key("a"), range).next());
        }
    }
}
