//! Keys of credential entries: `host`, `host:port`, `host/path`, `https://host/v1/`, `*.host`, `*-part.host`.

use wildmatch::WildMatch;

/// A registry, or a prefix of the repositories in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    host: String,
    path: String,
}

impl Key {
    /// Parses a key. Returns `None` if it names no registry.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bare = ["https://", "http://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .unwrap_or(text);
        let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
        let path = path.trim_end_matches('/');
        // Docker appends the API version to the registry. No repository path consists of it alone.
        let path = match path {
            "v1" | "v2" => "",
            path => path,
        };
        let host = host.to_ascii_lowercase();
        if host.is_empty() || host.contains(['@', '\\']) || host.chars().any(char::is_whitespace) {
            return None;
        }
        let host = match host.as_str() {
            "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
            _ => host,
        };
        Some(Self {
            host,
            path: path.to_owned(),
        })
    }

    /// Returns how specifically this key matches a repository, or `None`. A longer path is more specific; with equal
    /// paths, a host with fewer wildcards.
    pub(super) fn matches(&self, registry: &str, repository: &str) -> Option<(usize, usize)> {
        let rest = repository.strip_prefix(self.path.as_str())?;
        let path_fits = self.path.is_empty() || rest.is_empty() || rest.starts_with('/');
        let wildcards = wildcard_matches(&self.host, &registry.to_ascii_lowercase())?;
        path_fits.then_some((self.path.len(), usize::MAX - wildcards))
    }
}

/// Counts the labels of a host that are matched by a wildcard. The rules are those of the kubelet: a `*` matches a label
/// or a part of it, and the port must be equal.
fn wildcard_matches(pattern: &str, host: &str) -> Option<usize> {
    let ((pattern, pattern_port), (host, port)) = (split_port(pattern), split_port(host));
    if pattern_port != port {
        return None;
    }
    let mut patterns = pattern.split('.');
    let mut parts = host.split('.');
    let mut wildcards = 0;
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return Some(wildcards),
            (Some(pattern), Some(part)) if pattern == part => {}
            (Some(pattern), Some(part))
                if pattern.contains('*') && WildMatch::new(pattern).matches(part) =>
            {
                wildcards += 1;
            }
            _ => return None,
        }
    }
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    }
}
