//! Selection of the proxy for a request.

use std::{fmt, net::IpAddr};

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
enum NoProxyEntry {
    All,
    /// A domain and its subdomains, optionally only one port.
    Domain(String, Option<u16>),
    /// Only the subdomains of a domain, optionally only one port.
    Subdomains(String, Option<u16>),
    /// A network with the length of its prefix in bits, optionally only one port.
    Network(IpAddr, u32, Option<u16>),
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` from the environment, in upper or lower case. A
    /// variable without an HTTP proxy fails the requests that would use it.
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
            no_proxy: entries.split([',', ' ']).filter_map(parse_entry).collect(),
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
        let strict = |text: &str| match parse_entry(text)? {
            NoProxyEntry::Domain(domain, port) if text.trim().starts_with(['.', '*']) => {
                Some(NoProxyEntry::Subdomains(domain, port))
            }
            other => Some(other),
        };
        let entries = no_proxy.split([',', ' ']).filter_map(strict);
        Self {
            http: proxy("httpProxy of the cluster's Proxy", http),
            https: proxy("httpsProxy of the cluster's Proxy", https),
            no_proxy: entries.collect(),
        }
    }

    /// Reports whether any proxy is configured.
    pub fn names_any(&self) -> bool {
        self.http.is_some() || self.https.is_some()
    }

    /// Returns the proxy for a URL, or `None` for a direct connection. Returns an error if the proxy is unusable.
    pub(super) fn for_url(&self, url: &Url) -> Result<Option<&Url>> {
        let proxy = match url.scheme() {
            "https" => self.https.as_ref(),
            _ => self.http.as_ref(),
        };
        let port = url.port_or_known_default();
        let is_direct = match url.host() {
            Some(Host::Domain(name)) => self.is_direct_name(name.trim_end_matches('.'), port),
            Some(Host::Ipv4(ip)) => self.is_direct_address(ip.into(), port),
            Some(Host::Ipv6(ip)) => self.is_direct_address(ip.into(), port),
            None => true,
        };
        match proxy.filter(|_| !is_direct) {
            Some(Ok(proxy)) => Ok(Some(proxy)),
            Some(Err(InvalidProxy { variable, problem })) => {
                Err(Error::Proxy { variable, problem })
            }
            None => Ok(None),
        }
    }

    fn is_direct_name(&self, name: &str, port: Option<u16>) -> bool {
        let matches = |domain: &str| {
            name.strip_suffix(domain)
                .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        };
        matches("localhost")
            || self.no_proxy.iter().any(|entry| match entry {
                NoProxyEntry::All => true,
                NoProxyEntry::Domain(domain, allowed_port) => {
                    matches(domain) && (allowed_port.is_none() || *allowed_port == port)
                }
                NoProxyEntry::Subdomains(domain, allowed_port) => {
                    name != domain
                        && matches(domain)
                        && (allowed_port.is_none() || *allowed_port == port)
                }
                NoProxyEntry::Network(..) => false,
            })
    }

    fn is_direct_address(&self, ip: IpAddr, port: Option<u16>) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback()
            || self.no_proxy.iter().any(|entry| match entry {
                NoProxyEntry::All => true,
                NoProxyEntry::Network(network, bits, allowed_port) => {
                    contains(ip, *network, *bits)
                        && (allowed_port.is_none() || *allowed_port == port)
                }
                NoProxyEntry::Domain(..) | NoProxyEntry::Subdomains(..) => false,
            })
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redacted = |proxy: &Option<Result<Url, InvalidProxy>>| {
            let proxy = proxy
                .as_ref()
                .map(|proxy| proxy.as_ref().map_err(|bad| *bad));
            proxy.map(|proxy| proxy.map(|url| super::RedactedUrl::from(url).to_string()))
        };
        f.debug_struct("Proxies")
            .field("http", &redacted(&self.http))
            .field("https", &redacted(&self.https))
            .field("direct", &self.no_proxy)
            .finish()
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

fn parse_entry(entry: &str) -> Option<NoProxyEntry> {
    let entry = entry.trim();
    match entry {
        "" => return None,
        "*" => return Some(NoProxyEntry::All),
        _ => {}
    }
    if let Some(network) = network(entry, None) {
        return Some(network);
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        None => (entry, None),
    };
    if let Some(network) = network(host.trim_matches(['[', ']']), port) {
        return Some(network);
    }
    let domain = host.strip_prefix('*').unwrap_or(host);
    let domain = domain.trim_matches('.').to_ascii_lowercase();
    (!domain.is_empty()).then_some(NoProxyEntry::Domain(domain, port))
}

/// Parses an IP address, optionally with a prefix length.
fn network(text: &str, port: Option<u16>) -> Option<NoProxyEntry> {
    let (ip, bits) = match text.split_once('/') {
        Some((ip, bits)) => (ip.parse::<IpAddr>().ok()?, Some(bits.parse().ok()?)),
        None => (text.parse::<IpAddr>().ok()?, None),
    };
    let all = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some(NoProxyEntry::Network(ip, bits, port))
}

fn contains(ip: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (ip, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= bits,
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= bits,
        _ => false,
    }
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

    fn chosen(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let proxies = proxies(variables);
        let proxy = proxies.for_url(&url.parse().unwrap()).unwrap();
        proxy.map(|proxy| proxy.host_str().unwrap().to_owned())
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
                assert_eq!(chosen(variables, url).as_deref(), host, "{variables:?}");
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
            let is_direct = |host: &str| chosen(&variables, &format!("http://{host}/")).is_none();
            assert!(direct.split_whitespace().all(is_direct), "{no_proxy:?}");
            assert!(!through.split_whitespace().any(is_direct), "{no_proxy:?}");
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
            let of = |host: &str| {
                proxies
                    .for_url(&format!("http://{host}/").parse().unwrap())
                    .unwrap()
            };
            let is_direct = |host: &str| of(host).is_none();
            assert!(direct.split_whitespace().all(is_direct), "{no_proxy:?}");
            assert!(!through.split_whitespace().any(is_direct), "{no_proxy:?}");
        }
        let proxies = Proxies::of_cluster("", "socks5://name:word@h", "");
        assert!(proxies.names_any() && !Proxies::of_cluster("", " ", "x").names_any());
        assert!(
            proxies
                .for_url(&"http://h/".parse().unwrap())
                .unwrap()
                .is_none()
        );
        let error = proxies.for_url(&"https://h/".parse().unwrap()).unwrap_err();
        let text = error.to_string();
        ::tests::assert_has(&text, "httpsProxy");
        assert!(!text.contains("word"), "{text}");
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
                let url = url.parse().unwrap();
                assert!(
                    matches!(proxies.for_url(&url), Ok(None)),
                    "{variable} {url}"
                );
            }
            for (url, fails) in ["http://h/", "https://h/"].into_iter().zip(fails) {
                let url = url.parse().unwrap();
                let outcome = proxies.for_url(&url);
                assert_eq!(outcome.is_err(), fails, "{variable} {url}");
                let Err(error) = outcome else { continue };
                let text = error.to_string();
                assert_rows!(text.contains(&variable.to_ascii_uppercase()) && !text.contains("word") => true, "{text}");
                assert!(error.is_terminal());
            }
        }
    }
}
