//! The keys under which credentials are kept: `host`, `host:port`, `host/path`, `https://host/v1/`, `*.host`.

/// A registry, or the beginning of repositories in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    host: String,
    path: String,
}

impl Key {
    /// `None` if this names no registry.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bare = ["https://", "http://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .unwrap_or(text);
        let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
        let path = path.trim_end_matches('/');
        // Docker's own way to name a registry's interface; no repository starts so.
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

    /// How well this key fits a repository: the more of the path the better, then the more of the host.
    pub(super) fn matches(&self, registry: &str, repository: &str) -> Option<(usize, usize)> {
        let rest = repository.strip_prefix(self.path.as_str())?;
        let path_fits = self.path.is_empty() || rest.is_empty() || rest.starts_with('/');
        let stars = stars(&self.host, &registry.to_ascii_lowercase())?;
        path_fits.then_some((self.path.len(), usize::MAX - stars))
    }
}

/// How many parts of the host had to be filled in for a `*`, as kubelet allows: one part each, the port as written.
fn stars(pattern: &str, host: &str) -> Option<usize> {
    let mut patterns = pattern.split('.');
    let mut parts = host.split('.');
    let mut stars = 0;
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return Some(stars),
            (Some("*"), Some(_)) => stars += 1,
            (Some(pattern), Some(part)) if pattern == part => {}
            _ => return None,
        }
    }
}
