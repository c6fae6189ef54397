//! Lookup of host keys in the `known_hosts` lines of one host.
//!
//! The lines are parsed by `ssh-key`. The lookup of `russh::keys::known_hosts` does not behave like OpenSSH: it reads only
//! files, ignores `@revoked`, wildcards and negations, and fails if the key of a matching line is malformed.

use ring::hmac;
use russh::keys::{
    Algorithm, PublicKey,
    ssh_key::known_hosts::{Entry, HostPatterns, Marker},
};
use wildmatch::WildMatch;

/// The known keys of one host.
#[derive(Debug)]
pub(super) struct KnownHosts {
    name: String,
    /// Keys of the host at this port.
    keys: Vec<Entry>,
    /// Keys of the host without a port. As in OpenSSH, they are used only if the host has no valid keys at this port.
    /// They can confirm or revoke a key. A different key is not a changed key, because a server on another port may be
    /// a different one.
    host_only: Vec<Entry>,
}

/// The result of the lookup of a host key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyCheck {
    KnownKey,
    /// The host has no valid known keys at this port.
    Unknown,
    /// The host has other valid known keys at this port.
    Changed,
    Revoked,
}

impl KnownHosts {
    /// Parses the lines that match the host. Malformed lines are ignored, as in OpenSSH.
    pub(super) fn new(lines: &str, host: &str, port: u16) -> Self {
        let name = match port {
            22 => host.to_owned(),
            port => format!("[{host}]:{port}"),
        };
        let entries_of = |name: &str| {
            let entries = lines.lines().filter_map(parse_line);
            entries
                .filter(|entry| matches(entry.host_patterns(), name))
                .collect()
        };
        Self {
            keys: entries_of(&name),
            host_only: if name == host {
                Vec::new()
            } else {
                entries_of(host)
            },
            name,
        }
    }

    /// Reports whether the host has a known key of the type that this algorithm uses.
    pub(super) fn has_kind(&self, algorithm: &Algorithm) -> bool {
        let keys = if self.keys.iter().all(is_revoked) {
            &self.host_only
        } else {
            &self.keys
        };
        let mut valid = keys.iter().filter(|entry| !is_revoked(entry));
        valid.any(|entry| match entry.public_key().algorithm() {
            Algorithm::Rsa { .. } => matches!(algorithm, Algorithm::Rsa { .. }),
            other => other == *algorithm,
        })
    }

    /// Looks up the key of the host.
    pub(super) fn check(&self, key: &PublicKey) -> KeyCheck {
        match check_key(&self.keys, key) {
            KeyCheck::Unknown => match check_key(&self.host_only, key) {
                KeyCheck::Changed => KeyCheck::Unknown,
                other => other,
            },
            result => result,
        }
    }

    /// Returns the `known_hosts` line for a key.
    pub(super) fn line(&self, key: &PublicKey) -> String {
        let key = key.to_openssh().unwrap_or_default();
        format!("{} {}", self.name, key.trim_end())
    }
}

/// Looks up a key in one list of keys.
fn check_key(keys: &[Entry], key: &PublicKey) -> KeyCheck {
    let is_same = |entry: &&Entry| entry.public_key().key_data() == key.key_data();
    let mut matching = keys.iter().filter(is_same).peekable();
    if matching.peek().is_some() {
        return if matching.any(is_revoked) {
            KeyCheck::Revoked
        } else {
            KeyCheck::KnownKey
        };
    }
    if keys.iter().all(is_revoked) {
        KeyCheck::Unknown
    } else {
        KeyCheck::Changed
    }
}

fn is_revoked(entry: &Entry) -> bool {
    entry.marker() == Some(&Marker::Revoked)
}

fn parse_line(line: &str) -> Option<Entry> {
    // OpenSSH separates fields by spaces or tabs, the parser by one space.
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let entry: Entry = line.parse().ok()?;
    // CA lines are for certificates, which are not requested.
    let is_key = !line.starts_with('#') && entry.marker() != Some(&Marker::CertAuthority);
    is_key.then_some(entry)
}

/// Reports whether a list of patterns, or a hashed name, matches a host. A matching negated pattern overrides all
/// others.
fn matches(patterns: &HostPatterns, name: &str) -> bool {
    match patterns {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, name.as_bytes(), hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let is_match = |pattern: &str| WildMatch::new_case_insensitive(pattern).matches(name);
            let mut negated = patterns.iter().filter_map(|host| host.strip_prefix('!'));
            !negated.any(is_match) && patterns.iter().any(|host| is_match(host))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G2sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";

    #[test]
    fn lines_of_a_host_are_found_in_every_format() {
        let key = PublicKey::from_openssh(KEY).unwrap();
        // The name is "git.example.com", and the salt "01234567890123456789".
        let hashed = "|1|MDEyMzQ1Njc4OTAxMjM0NTY3ODk=|0ZRtCzM3I2S07EZ7agkDbp9iGpE=";
        assert_each!(|lines, port, verdict| KnownHosts::new(&lines, "git.example.com", port).check(&key) => verdict;
            format!("git.example.com {KEY}"), 22 => KeyCheck::KnownKey;
            format!("GIT.example.com {KEY} me@home"), 22 => KeyCheck::KnownKey;
            format!(" git.example.com\t {} # the key", KEY.replace(' ', "  ")), 22 => KeyCheck::KnownKey;
            format!("other,git.example.com,10.0.0.1 {KEY}"), 22 => KeyCheck::KnownKey;
            format!("*.example.com {KEY}"), 22 => KeyCheck::KnownKey;
            format!("git?example.c* {KEY}"), 22 => KeyCheck::KnownKey;
            format!("*.example.com,!git.* {KEY}"), 22 => KeyCheck::Unknown;
            format!("{hashed} {KEY}"), 22 => KeyCheck::KnownKey;
            format!("[git.example.com]:2222 {KEY}"), 2222 => KeyCheck::KnownKey;
            format!("[git.example.com]:2222 {KEY}"), 22 => KeyCheck::Unknown;
            format!("git.example.com {KEY}"), 2222 => KeyCheck::KnownKey;
            format!("git.example.com {OTHER}"), 22 => KeyCheck::Changed;
            // A key of port 22 does not make another key of port 2222 a changed one.
            format!("git.example.com {OTHER}"), 2222 => KeyCheck::Unknown;
            format!("[git.example.com]:2222 {OTHER}\ngit.example.com {KEY}"), 2222 => KeyCheck::Changed;
            format!("git.example.com {OTHER}\n[git.example.com]:2222 {KEY}"), 2222 => KeyCheck::KnownKey;
            format!("[git.example.com]:2222 {KEY}\n!git.example.com,* {OTHER}"), 2222 => KeyCheck::KnownKey;
            format!("git.example.com {KEY}\n@revoked git.example.com {KEY}"), 2222 => KeyCheck::Revoked;
            format!("@revoked [git.example.com]:2222 {OTHER}\ngit.example.com {KEY}"), 2222 => KeyCheck::KnownKey;
            format!("git.example.com {OTHER}\ngit.example.com {KEY}"), 22 => KeyCheck::KnownKey;
            format!("@revoked * {KEY}\ngit.example.com {KEY}"), 22 => KeyCheck::Revoked;
            format!("@revoked * {OTHER}"), 22 => KeyCheck::Unknown;
            format!("@cert-authority * {KEY}"), 22 => KeyCheck::Unknown;
            format!("# git.example.com {KEY}"), 22 => KeyCheck::Unknown;
            format!("#,git.example.com {KEY}"), 22 => KeyCheck::Unknown;
            "git.example.com ssh-ed25519 !!".to_owned(), 22 => KeyCheck::Unknown;
            "git.example.com".to_owned(), 22 => KeyCheck::Unknown;
            "|1|x git.example.com x".to_owned(), 22 => KeyCheck::Unknown;
            format!("git.example.com ssh-ed25519 !!\ngit.example.com\n|1|x git.example.com x\ngit.example.com {KEY}"), 22 => KeyCheck::KnownKey;
            String::new(), 22 => KeyCheck::Unknown;
        );
    }

    #[test]
    fn key_types_of_the_port_precede_those_of_the_host() {
        let ecdsa = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHVqgX6XJzCXdIBlyRDTnRVuSiGOq1bD6SJa3gvGMtDgQTHuOwhJYJicgtzFwEOMmDk2U0oKPECGd3QsAH2rY5Y=";
        assert_each!(|lines, port, ed25519| KnownHosts::new(&lines, "h", port).has_kind(&Algorithm::Ed25519) => ed25519;
            format!("h {KEY}"), 22 => true;
            format!("h {KEY}"), 2222 => true;
            format!("h {KEY}\n[h]:2222 {ecdsa}"), 2222 => false;
            format!("h {ecdsa}\n[h]:2222 {KEY}"), 2222 => true;
            format!("h {KEY}\n@revoked [h]:2222 {ecdsa}"), 2222 => true;
            format!("@revoked h {KEY}"), 22 => false;
        );
    }
}
