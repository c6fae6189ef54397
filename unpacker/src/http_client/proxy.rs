//! Selection of the proxy for a request.
//!
//! The matcher of `hyper_util::client::proxy` is not used: it connects directly if the proxy is invalid, sends requests
//! for local addresses to the proxy, and does not support ports, spaces or `*.` in `NO_PROXY`.

use std::{fmt, net::IpAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use super::{Error, Result};

/// The proxies for http and https requests, and the hosts that are reached without a proxy.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Result<Url, InvalidProxy>>,
    https: Option<Result<Url, InvalidProxy>>,
    no_proxy: Vec<NoProxyEntry>,
}

/// A variable without a usable proxy. It is an error only for requests that would use the proxy: a SOCKS proxy for
/// browsers does not affect direct requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InvalidProxy {
    variable: &'static str,
    problem: &'static str,
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NoProxyEntry {
    hosts: Hosts,
    /// The only port that the entry applies to; `None` means all ports.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// A domain and its subdomains.
    Domain(String),
    /// Only the subdomains of a domain.
    Subdomains(String),
    Network(IpNet),
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` from the environment, in upper or lower case. If a
    /// variable does not contain an HTTP proxy, the requests that would use that proxy fail.
    pub fn from_environment() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    /// Reads the same variables through a function. Local addresses are always reached without a proxy.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| {
            let non_empty = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
            non_empty(name).or_else(|| non_empty(&name.to_ascii_lowercase()))
        };
        let proxy = |name| match value(name) {
            Some(address) => Some(parse(name, address.trim())),
            None => value("ALL_PROXY").map(|address| parse("ALL_PROXY", address.trim())),
        };
        let entries = value("NO_PROXY").unwrap_or_default();
        Self {
            http: proxy("HTTP_PROXY"),
            https: proxy("HTTPS_PROXY"),
            no_proxy: parse_entries(&entries, Hosts::Domain),
        }
    }

    /// Creates the proxies of a cluster from its Proxy object, `proxy.config.openshift.io/cluster`. Empty settings
    /// are ignored. As in Go programs, and therefore in other cluster components, `.example.com` and `*.example.com`
    /// match the subdomains of `example.com`, but not that host.
    pub fn of_cluster(http: &str, https: &str, no_proxy: &str) -> Self {
        let proxy = |name, address: &str| match address.trim() {
            "" => None,
            address => Some(parse(name, address)),
        };
        Self {
            http: proxy("httpProxy of the cluster's Proxy", http),
            https: proxy("httpsProxy of the cluster's Proxy", https),
            no_proxy: parse_entries(no_proxy, Hosts::Subdomains),
        }
    }

    /// Reports whether any proxy is configured.
    pub fn names_any(&self) -> bool {
        self.http.is_some() || self.https.is_some()
    }

    /// Returns the proxy for a URL, or `None` for a direct connection.
    ///
    /// # Errors
    /// Returns an error if the proxy is unusable.
    pub(super) fn for_url(&self, url: &Url) -> Result<Option<&Url>> {
        let proxy = match url.scheme() {
            "https" => self.https.as_ref(),
            _ => self.http.as_ref(),
        };
        match proxy.filter(|_| !self.is_direct(url)) {
            Some(Ok(proxy)) => Ok(Some(proxy)),
            Some(Err(InvalidProxy { variable, problem })) => {
                Err(Error::Proxy { variable, problem })
            }
            None => Ok(None),
        }
    }

    /// Reports whether a URL is reached without a proxy: a local address, or an entry of `NO_PROXY`.
    pub fn is_direct(&self, url: &Url) -> bool {
        let host = match url.host() {
            Some(Host::Domain(name)) => Host::Domain(name.trim_end_matches('.')),
            Some(Host::Ipv6(ip)) => ip.to_ipv4_mapped().map_or(Host::Ipv6(ip), Host::Ipv4),
            Some(host) => host,
            None => return true,
        };
        let is_local = match &host {
            Host::Domain(name) => is_in_domain(name, "localhost"),
            Host::Ipv4(ip) => ip.is_loopback(),
            Host::Ipv6(ip) => ip.is_loopback(),
        };
        let port = url.port_or_known_default();
        is_local || self.no_proxy.iter().any(|entry| entry.matches(&host, port))
    }
}

impl NoProxyEntry {
    fn matches(&self, host: &Host<&str>, port: Option<u16>) -> bool {
        let is_listed = match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Domain(domain), Host::Domain(name)) => is_in_domain(name, domain),
            (Hosts::Subdomains(domain), Host::Domain(name)) => {
                name != domain && is_in_domain(name, domain)
            }
            (Hosts::Network(IpNet::V4(network)), Host::Ipv4(ip)) => network.contains(ip),
            (Hosts::Network(IpNet::V6(network)), Host::Ipv6(ip)) => network.contains(ip),
            _ => false,
        };
        is_listed && (self.port.is_none() || self.port == port)
    }
}

/// Reports whether a name is a domain or one of its subdomains.
fn is_in_domain(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain)
        .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
}

impl fmt::Debug for Proxies {
    /// Omits the proxies, because their addresses may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("no_proxy", &self.no_proxy)
            .finish_non_exhaustive()
    }
}

/// Parses `http://host:port` or `host:port`, optionally with a user name and password before the host.
fn parse(variable: &'static str, address: &str) -> Result<Url, InvalidProxy> {
    let fail = |problem| InvalidProxy { variable, problem };
    let full = match address.split_once("://") {
        Some(_) => address.to_owned(),
        None => format!("http://{address}"),
    };
    let url = Url::parse(&full).map_err(|_| fail("not a URL"))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        "http" | "https" => Err(fail("no host")),
        "socks4" | "socks4a" | "socks5" | "socks5h" => Err(fail("SOCKS proxies are not supported")),
        _ => Err(fail("unsupported scheme")),
    }
}

/// Parses the entries of `NO_PROXY`. `wildcard` is the meaning of a domain after a dot or `*.`.
fn parse_entries(entries: &str, wildcard: fn(String) -> Hosts) -> Vec<NoProxyEntry> {
    let entries = entries.split([',', ' ']);
    entries
        .filter_map(|entry| parse_entry(entry.trim(), wildcard))
        .collect()
}

fn parse_entry(entry: &str, wildcard: fn(String) -> Hosts) -> Option<NoProxyEntry> {
    // The last colon of an IPv6 address does not precede a port.
    let with_port = entry.rsplit_once(':').filter(|_| network(entry).is_none());
    let with_port = with_port.and_then(|(host, port)| Some((host, Some(port.parse().ok()?))));
    let (host, port) = with_port.unwrap_or((entry, None));
    let subdomains = host.strip_prefix('*').unwrap_or(host).strip_prefix('.');
    let domain = subdomains.unwrap_or(host).trim_matches('.');
    let domain = domain.to_ascii_lowercase();
    let hosts = match network(host.trim_matches(['[', ']'])) {
        Some(network) => Hosts::Network(network),
        None if entry == "*" => Hosts::All,
        None if domain.is_empty() => return None,
        None if subdomains.is_some() => wildcard(domain),
        None => Hosts::Domain(domain),
    };
    Some(NoProxyEntry { hosts, port })
}

/// Parses an IP address, optionally with a prefix length. IPv4-mapped networks become IPv4 networks, because hosts with
/// IPv4-mapped addresses are compared as IPv4.
fn network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let network = text.parse().or_else(|_| address()).ok()?;
    let mapped = |network: Ipv6Net| {
        let prefix = network.prefix_len().checked_sub(96)?;
        Ipv4Net::new(network.addr().to_ipv4_mapped()?, prefix).ok()
    };
    Some(match network {
        IpNet::V6(network) => mapped(network).map_or(IpNet::V6(network), IpNet::V4),
        IpNet::V4(network) => IpNet::V4(network),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::new(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// Returns the host of the proxy for a URL.
    fn chosen(proxies: &Proxies, url: &str) -> Result<Option<String>> {
        let proxy = proxies.for_url(&url.parse().unwrap())?;
        Ok(proxy.map(|proxy| proxy.host_str().unwrap().to_owned()))
    }

    fn assert_direct(proxies: &Proxies, direct: &str, through: &str) {
        let is_direct = |host: &str| {
            let host = chosen(proxies, &format!("http://{host}/"));
            host.unwrap().is_none()
        };
        let is_expected =
            direct.split_whitespace().all(is_direct) && !through.split_whitespace().any(is_direct);
        assert!(is_expected, "{direct:?} {through:?} {proxies:?}");
    }

    #[test]
    fn proxy_of_the_scheme_precedes_the_proxy_for_all() {
        for (variables, (http, https)) in ::tests::rows![
            &[][..] => (None, None);
            &[("HTTP_PROXY", "http://a:1")] => (Some("a"), None);
            &[("https_proxy", "a:1")] => (None, Some("a"));
            &[("ALL_PROXY", "http://a:1")] => (Some("a"), Some("a"));
            &[("ALL_PROXY", "http://a:1"), ("HTTPS_PROXY", "https://b")] => (Some("a"), Some("b"));
            &[("HTTP_PROXY", "a"), ("http_proxy", "b")] => (Some("a"), None);
            &[("HTTP_PROXY", " "), ("http_proxy", "http://name:word@b:3128/")] => (Some("b"), None);
            &[("ALL_PROXY", "socks5://s"), ("HTTP_PROXY", "a"), ("HTTPS_PROXY", "b")] => (Some("a"), Some("b"));
        ] {
            for (url, host) in [("http://h/x", http), ("https://h/x", https)] {
                assert_rows!(chosen(&proxies(variables), url).unwrap().as_deref() => host, "{variables:?}");
            }
        }
    }

    #[test]
    fn hosts_that_need_no_proxy_are_reached_directly() {
        // NO_PROXY, hosts that are reached directly, and hosts that are not.
        for (no_proxy, direct, through) in ::tests::rows![
            "", "localhost:5000 127.0.0.2 [::1]" => "h";
            "*", "h 10.0.0.1" => "";
            "h", "h a.h" => "ah";
            "H", "h" => "";
            "a.h", "" => "h";
            ".h", "a.h h" => "";
            "*.h", "a.h." => "";
            // Go accepts an asterisk only before a dot.
            "*h", "" => "h a.h ah";
            "::ffff:10.0.0.0/104 [::ffff:11.0.0.1]:80", "10.1.2.3 [::ffff:10.0.0.1] 11.0.0.1" => "12.0.0.1 [fd00::1]";
            "x, h ,y", "h" => "";
            "x h", "h" => "";
            "h:80", "h" => "";
            "h:8080", "h:8080" => "h";
            "10.0.0.0/8", "10.1.2.3 [::ffff:10.0.0.1]" => "11.1.2.3";
            "10.0.0.0/33", "" => "10.0.0.0";
            "0.0.0.0/0", "10.0.0.0" => "";
            "10.1.2.3", "10.1.2.3" => "";
            "10.1.2.3:81", "" => "10.1.2.3";
            "fd00::/8", "[fd00::1]" => "";
            "fd00::1", "[fd00::1]" => "[fd00::2]";
            "[fd00::1]:80", "[fd00::1]" => "";
        ] {
            let variables = [("HTTP_PROXY", "http://proxy:3128"), ("NO_PROXY", no_proxy)];
            assert_direct(&proxies(&variables), direct, through);
        }
    }

    #[test]
    fn cluster_proxy_is_parsed_as_in_go() {
        for (no_proxy, direct, through) in ::tests::rows![
            "", "" => "h";
            ".y.com", "x.y.com" => "y.com";
            "*.y.com", "a.x.y.com" => "y.com";
            "y.com", "y.com x.y.com" => "";
            ".y.com:81", "x.y.com:81" => "x.y.com";
            "*", "h" => "";
            ".cluster.local,.svc,10.0.0.0/16", "10.0.9.9 a.b.svc" => "10.1.0.1";
            "fd02::/112", "[fd02::1]" => "";
        ] {
            let proxies = Proxies::of_cluster("http://proxy:3128", "", no_proxy);
            assert_direct(&proxies, direct, through);
        }
        let proxies = Proxies::of_cluster("", "socks5://name:word@h", "");
        assert!(proxies.names_any() && !Proxies::of_cluster("", " ", "x").names_any());
        assert!(matches!(chosen(&proxies, "http://h/"), Ok(None)));
        let text = chosen(&proxies, "https://h/").unwrap_err().to_string();
        assert_rows!(text.contains("httpsProxy") && !text.contains("word") => true, "{text}");
    }

    #[test]
    fn invalid_proxy_fails_requests_without_showing_its_value() {
        for (variable, value, fails) in [
            ("HTTP_PROXY", "http://", [true, false]),
            ("HTTPS_PROXY", "name:word@:3128:x", [false, true]),
            ("https_proxy", "socks5h://name:word@h", [false, true]),
            ("ALL_PROXY", "socks5://name:word@h", [true, true]),
            ("ALL_PROXY", "ftp://name:word@h", [true, true]),
            ("ALL_PROXY", "http://name:word@h:1", [false, false]),
        ] {
            let proxies = proxies(&[(variable, value), ("NO_PROXY", "direct,10.0.0.0/8")]);
            assert!(!format!("{proxies:?}").contains("word"));
            for url in ["http://direct/", "https://10.0.0.1/", "https://localhost/"] {
                assert_rows!(matches!(chosen(&proxies, url), Ok(None)) => true, "{variable} {url}");
            }
            for (url, fails) in ["http://h/", "https://h/"].into_iter().zip(fails) {
                let outcome = chosen(&proxies, url);
                assert_eq!(outcome.is_err(), fails, "{variable} {url}");
                let Err(error) = outcome else { continue };
                let text = error.to_string();
                assert_rows!(text.contains(&variable.to_ascii_uppercase()) && !text.contains("word") => true, "{text}");
                assert!(error.is_terminal());
            }
        }
    }
}
