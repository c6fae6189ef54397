//! Content digests of registries: SHA-256, and SHA-512 where a reference uses it.

use std::fmt;

use sha2::{Digest as _, Sha256, Sha512};

use super::{Error, Result};

/// A digest and its algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksum {
    algorithm: Algorithm,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Checksum {
    /// Parses `sha256:…` or `sha512:…`. `subject` names the document that contains it, for error messages.
    pub(crate) fn parse(text: &str, subject: &str) -> Result<Self> {
        let invalid = || Error::Invalid {
            what: subject.to_owned(),
            problem: format!(
                "has the digest {:?}, which is neither a SHA-256 nor a SHA-512",
                text.chars().take(150).collect::<String>()
            ),
        };
        let (algorithm, digits, length) = match text.split_once(':') {
            Some(("sha256", digits)) => (Algorithm::Sha256, digits, 64),
            Some(("sha512", digits)) => (Algorithm::Sha512, digits, 128),
            _ => return Err(invalid()),
        };
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != length || !digits.bytes().all(is_digit) {
            return Err(invalid());
        }
        Ok(Self {
            algorithm,
            text: text.to_owned(),
        })
    }

    /// Starts a hash with the algorithm of this digest.
    pub(crate) fn hasher(&self) -> Hasher {
        match self.algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
        }
    }

    /// Verifies that these bytes have this digest.
    pub(crate) fn check(&self, bytes: &[u8], subject: &str) -> Result<()> {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        self.verify(hasher, subject)
    }

    /// Verifies that the bytes hashed so far have this digest.
    pub(crate) fn verify(&self, hasher: Hasher, subject: &str) -> Result<()> {
        let actual = hasher.finish();
        if actual == self.text {
            return Ok(());
        }
        Err(Error::Digest {
            what: subject.to_owned(),
            expected: Some(self.text.clone()),
            found: Some(actual),
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The state of a hash.
#[derive(Debug, Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => format!("sha256:{}", hex(&hash.finalize())),
            Self::Sha512(hash) => format!("sha512:{}", hex(&hash.finalize())),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_and_sha512_are_verified_and_others_rejected() {
        let sha512 = "sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
                      47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";
        let sha256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for text in [sha256, sha512] {
            let checksum = Checksum::parse(text, "x").unwrap();
            assert_eq!(checksum.to_string(), text);
            checksum.check(b"", "x").unwrap();
            let error = checksum.check(b"y", "the file").unwrap_err().to_string();
            assert!(error.starts_with("digest mismatch for the file"), "{error}");
        }
        let others = ::tests::pairs("sha256 sha384, sha256 sha512, sha256: md5:, e é");
        let others: Vec<_> = others.map(|(from, to)| sha256.replace(from, to)).collect();
        let bad = ["", "sha256:", "sha256:abc", &sha256.to_uppercase()];
        let mut bad = bad.into_iter().chain(others.iter().map(String::as_str));
        assert_eq!(bad.find(|text| Checksum::parse(text, "x").is_ok()), None);
    }
}
