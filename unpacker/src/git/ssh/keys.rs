//! The private keys for the login at an ssh server.

use std::sync::Arc;

use russh::keys::{self, Algorithm, HashAlg};

use crate::{
    git::error::{Problem, Result},
    trust::{Secret, Ssh},
};

/// The keys to offer to the server, in this order.
pub(super) struct Keys {
    pub(super) loaded: Vec<Arc<keys::PrivateKey>>,
    /// Problem of the first key that cannot be used; `None` if all keys are loaded.
    pub(super) load_error: Option<&'static str>,
}

impl Keys {
    /// Loads the keys. Fails only if none can be loaded, because one of several keys of a user may be encrypted or of
    /// an unsupported kind.
    pub(super) fn read(ssh: &Ssh) -> Result<Self> {
        let text = ssh.key.reveal();
        if text.trim().is_empty() {
            return Err(Problem::KeyNeeded);
        }
        let passphrase = ssh.passphrase.as_ref().map(Secret::reveal);
        let mut keys = Self {
            loaded: Vec::new(),
            load_error: None,
        };
        for text in split_keys(text) {
            match keys::decode_secret_key(text, passphrase) {
                Ok(key) => keys.loaded.push(Arc::new(key)),
                Err(error) => {
                    keys.load_error.get_or_insert(match (error, passphrase) {
                        (keys::Error::KeyIsEncrypted, None) => {
                            "it is encrypted; pass its passphrase with --ssh-passphrase-file"
                        }
                        (_, Some(_)) => {
                            "check that it is complete, in OpenSSH, PKCS#8 or PEM format, and that the passphrase is \
                             correct"
                        }
                        (_, None) => "check that it is complete, in OpenSSH, PKCS#8 or PEM format",
                    });
                }
            }
        }
        match keys.load_error {
            Some(problem) if keys.loaded.is_empty() => Err(Problem::Key { problem }),
            _ => Ok(keys),
        }
    }

    /// Returns all combinations of key and hash to try. The algorithms that a server announces are not always those
    /// that it accepts. SHA-1 is not offered.
    pub(super) fn auth_methods(
        &self,
    ) -> impl Iterator<Item = (Arc<keys::PrivateKey>, Option<HashAlg>)> {
        self.loaded.iter().flat_map(|key| {
            let hashes = match key.algorithm() {
                Algorithm::Rsa { .. } => vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)],
                _ => vec![None],
            };
            hashes.into_iter().map(|hash| (Arc::clone(key), hash))
        })
    }
}

/// Splits a text into private keys. Text between two keys belongs to the second one.
fn split_keys(text: &str) -> Vec<&str> {
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
    fn keys_of_one_file_are_split() {
        let key = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----");
        let (one, two) = (key("OPENSSH PRIVATE KEY"), key("PRIVATE KEY"));
        let curve = format!("{}\n{}", key("EC PARAMETERS"), key("EC PRIVATE KEY"));
        assert_each!(|text, expected| split_keys(&text).into_iter().map(str::trim).collect::<Vec<&str>>() => expected;
            one.clone() => vec![&one];
            format!("{one}\n{two}") => vec![&one, &two];
            format!("\n{one}\r\n\n{curve}\n") => vec![&one, &curve];
            "no key".to_owned() => vec![&"no key".to_owned()];
        );
    }
}
