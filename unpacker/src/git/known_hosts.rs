//! Parser of the `known_hosts` lines of one host.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use russh::keys::{Algorithm, PublicKey};

/// The known keys of one host.
#[derive(Debug, Default)]
pub(super) struct KnownHosts {
    name: String,
    /// Keys of the host at this port.
    keys: Vec<KnownKey>,
    /// Keys of the host without a port. As in OpenSSH, they are used only if the host has no keys at this port. They
    /// can only confirm a key: a server on another port may be a different one.
    host_only: Vec<KnownKey>,
}

#[derive(Debug)]
struct KnownKey {
    kind: String,
    key: Vec<u8>,
    is_revoked: bool,
}

/// The result of the lookup of a host key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyCheck {
    KnownKey,
    /// The host has no known keys.
    Unknown,
    /// The host has other known keys.
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
        let lines_of = |name: &str| {
            lines
                .lines()
                .filter_map(|line| parse_line(line, name))
                .collect()
        };
        Self {
            keys: lines_of(&name),
            host_only: if name == host {
                Vec::new()
            } else {
                lines_of(host)
            },
            name,
        }
    }

    /// Reports whether the host has a known key of the type that this algorithm uses.
    pub(super) fn has_kind(&self, algorithm: &Algorithm) -> bool {
        let kind = match algorithm {
            Algorithm::Rsa { .. } => "ssh-rsa".to_owned(),
            other => other.to_string(),
        };
        let has_valid = |keys: &[KnownKey]| keys.iter().any(|key| !key.is_revoked);
        let keys = if has_valid(&self.keys) {
            &self.keys
        } else {
            &self.host_only
        };
        let mut valid = keys.iter().filter(|key| !key.is_revoked);
        valid.any(|key| key.kind == kind)
    }

    pub(super) fn check(&self, key: &PublicKey) -> KeyCheck {
        let Ok(bytes) = key.to_bytes() else {
            return KeyCheck::Unknown;
        };
        match check_key(&self.keys, &bytes) {
            KeyCheck::Unknown => match check_key(&self.host_only, &bytes) {
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
fn check_key(keys: &[KnownKey], key: &[u8]) -> KeyCheck {
    let mut same = keys.iter().filter(|entry| entry.key == key).peekable();
    if same.peek().is_some() {
        return if same.any(|entry| entry.is_revoked) {
            KeyCheck::Revoked
        } else {
            KeyCheck::KnownKey
        };
    }
    if keys.iter().any(|entry| !entry.is_revoked) {
        KeyCheck::Changed
    } else {
        KeyCheck::Unknown
    }
}

fn parse_line(line: &str, name: &str) -> Option<KnownKey> {
    let mut fields = line.split_whitespace().peekable();
    let is_revoked = match fields.peek() {
        Some(&"@revoked") => fields.next().is_some(),
        // CA lines are for certificates, which are not requested.
        Some(first) if first.starts_with(['@', '#']) => return None,
        _ => false,
    };
    let (hosts, kind, key) = (fields.next()?, fields.next()?, fields.next()?);
    let key = BASE64_STANDARD.decode(key).ok()?;
    matches(hosts, name).then(|| KnownKey {
        kind: kind.to_owned(),
        key,
        is_revoked,
    })
}

/// Reports whether a list of patterns, or a hashed name, matches a host. A matching negated pattern overrides all
/// others.
fn matches(hosts: &str, name: &str) -> bool {
    if let Some(hashed) = hosts.strip_prefix("|1|") {
        let parts = hashed.split_once('|').and_then(|(salt, hash)| {
            let salt = BASE64_STANDARD.decode(salt).ok()?;
            Some((salt, BASE64_STANDARD.decode(hash).ok()?))
        });
        return parts.is_some_and(|(salt, hash)| {
            hmac(&salt, name.as_bytes()).is_some_and(|mac| hash == mac)
        });
    }
    let matches_name = |pattern: &str| glob(pattern.as_bytes(), name.as_bytes());
    let negated = hosts.split(',').filter_map(|host| host.strip_prefix('!'));
    !negated.into_iter().any(&matches_name) && hosts.split(',').any(matches_name)
}

/// Matches a pattern with `*` and `?`, ignoring case.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Position of the last star, and the end of the text that it matches.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(p) if *p == b'?' || p.eq_ignore_ascii_case(byte) => {
                at += 1;
                from += 1;
            }
            _ => match &mut star {
                Some((star_at, matched_to)) => {
                    *matched_to += 1;
                    (at, from) = (*star_at + 1, *matched_to);
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// Computes HMAC-SHA1, which OpenSSH uses for hashed host names. Security does not depend on its strength.
fn hmac(key: &[u8], text: &[u8]) -> Option<[u8; 20]> {
    let padded = |with: u8| {
        let mut block = [with; 64];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    if key.len() > 64 {
        return None;
    }
    let sha1 = |a: &[u8], b: &[u8]| -> Option<[u8; 20]> {
        let mut hasher = sha1dc::Hasher::new();
        hasher.update(a);
        hasher.update(b);
        Some(hasher.finalize().ok()?.into())
    };
    sha1(&padded(0x5c), &sha1(&padded(0x36), text)?)
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
        // The hash of "git.example.com".
        let hashed = {
            let mac = hmac(b"01234567890123456789", b"git.example.com").unwrap();
            let salt = BASE64_STANDARD.encode("01234567890123456789");
            format!("|1|{salt}|{}", BASE64_STANDARD.encode(mac))
        };
        assert_each!(|lines, port, verdict| KnownHosts::new(&lines, "git.example.com", port).check(&key) => verdict;
            format!("git.example.com {KEY}"), 22 => KeyCheck::KnownKey;
            format!("GIT.example.com {KEY} me@home"), 22 => KeyCheck::KnownKey;
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
            "git.example.com ssh-ed25519 !!".to_owned(), 22 => KeyCheck::Unknown;
            "git.example.com".to_owned(), 22 => KeyCheck::Unknown;
            "|1|x git.example.com x".to_owned(), 22 => KeyCheck::Unknown;
            format!("git.example.com ssh-ed25519 !!\ngit.example.com\n|1|x git.example.com x\ngit.example.com {KEY}"), 22 => KeyCheck::KnownKey;
            String::new(), 22 => KeyCheck::Unknown;
        );
    }

    #[test]
    fn key_types_of_the_port_precede_those_of_the_host() {
        let ecdsa = "ecdsa-sha2-nistp256 AAAA";
        assert_each!(|lines, port, ed25519| KnownHosts::new(&lines, "h", port).has_kind(&Algorithm::Ed25519) => ed25519;
            format!("h {KEY}"), 22 => true;
            format!("h {KEY}"), 2222 => true;
            format!("h {KEY}\n[h]:2222 {ecdsa}"), 2222 => false;
            format!("h {ecdsa}\n[h]:2222 {KEY}"), 2222 => true;
            format!("h {KEY}\n@revoked [h]:2222 {ecdsa}"), 2222 => true;
            format!("@revoked h {KEY}"), 22 => false;
        );
    }

    #[test]
    fn hmac_matches_the_published_test_vector() {
        let mac = hmac(b"key", b"The quick brown fox jumps over the lazy dog").unwrap();
        assert_rows!(crate::git::object_id::ObjectId::from_bytes(&mac).unwrap().to_string() => "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9");
    }
}
