//! The private keys that we prove ourselves with.

use std::sync::Arc;

use russh::keys::{self, Algorithm, HashAlg};

use crate::{
    access::{Secret, Ssh},
    git::error::{Problem, Result},
};

/// The keys to show to the server, one after the other.
pub(super) struct Keys {
    pub(super) usable: Vec<Arc<keys::PrivateKey>>,
    /// What is wrong with the first of those that cannot be used.
    pub(super) unread: Option<&'static str>,
}

impl Keys {
    /// Fails only if none can be read: of a user's keys one may be encrypted, or of a kind that is not known here.
    pub(super) fn read(ssh: &Ssh) -> Result<Self> {
        let text = ssh.key.reveal();
        if text.trim().is_empty() {
            return Err(Problem::KeyNeeded);
        }
        let passphrase = ssh.passphrase.as_ref().map(Secret::reveal);
        let mut found = Self {
            usable: Vec::new(),
            unread: None,
        };
        for text in apart(text) {
            match keys::decode_secret_key(text, passphrase) {
                Ok(key) => found.usable.push(Arc::new(key)),
                Err(error) => {
                    found.unread.get_or_insert(match (error, passphrase) {
                        (keys::Error::KeyIsEncrypted, None) => {
                            "it is encrypted; pass its passphrase too, by --ssh-passphrase-file"
                        }
                        (_, Some(_)) => {
                            "check that it is complete, as OpenSSH, PKCS#8 or PEM, and that the passphrase is right"
                        }
                        (_, None) => "check that it is complete, as OpenSSH, PKCS#8 or PEM",
                    });
                }
            }
        }
        match found.unread {
            Some(problem) if found.usable.is_empty() => Err(Problem::Key { problem }),
            _ => Ok(found),
        }
    }

    /// All that can be tried. What a server says of the algorithms that it takes is not always what it takes; SHA-1 is
    /// not offered.
    pub(super) fn ways(&self) -> impl Iterator<Item = (Arc<keys::PrivateKey>, Option<HashAlg>)> {
        self.usable.iter().flat_map(|key| {
            let hashes = match key.algorithm() {
                Algorithm::Rsa { .. } => vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)],
                _ => vec![None],
            };
            hashes.into_iter().map(|hash| (Arc::clone(key), hash))
        })
    }
}

/// Private keys that stand one behind the other; what stands between them goes with the one behind it.
fn apart(text: &str) -> Vec<&str> {
    const END: &str = " PRIVATE KEY-----";
    let mut keys = Vec::new();
    let mut from = 0;
    for (at, line) in text.match_indices("-----END ") {
        let Some(rest) = text.get(at + line.len() - 1..) else {
            break;
        };
        let end = rest.find('\n').unwrap_or(rest.len());
        if rest
            .get(..end)
            .is_some_and(|line| line.trim_end().ends_with(END))
        {
            let to = at + line.len() - 1 + end;
            keys.extend(text.get(from..to));
            from = to;
        }
    }
    match text.get(from..) {
        Some(rest) if !rest.trim().is_empty() => keys.push(rest),
        _ => {}
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_keys_are_told_apart() {
        let key = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----");
        let (one, two) = (key("OPENSSH PRIVATE KEY"), key("PRIVATE KEY"));
        let curve = format!("{}\n{}", key("EC PARAMETERS"), key("EC PRIVATE KEY"));
        assert_each!(|text, expected| apart(&text).into_iter().map(str::trim).collect::<Vec<&str>>() => expected;
            one.clone() => vec![&one];
            format!("{one}\n{two}") => vec![&one, &two];
            format!("\n{one}\r\n\n{curve}\n") => vec![&one, &curve];
            "no key".to_owned() => vec![&"no key".to_owned()];
        );
    }
}
