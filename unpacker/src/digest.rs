//! SHA-256 digests, which identify content and sources.

use std::{
    fmt,
    io::{self, Write},
    str::FromStr,
};

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest in the form `sha256:<64 hexadecimal digits>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The error for a text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a digest; use sha256: and 64 lower-case hexadecimal digits")]
pub struct ParseDigestError {
    text: String,
}

impl Digest {
    /// Computes the digest of bytes.
    pub fn sha256(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the hexadecimal digits without the algorithm, for use in file names.
    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |hex, byte| {
            hex + &format!("{byte:02x}")
        })
    }

    /// Returns the 32 bytes of the digest, for use in header fields.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<Sha256> for Digest {
    fn from(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let fail = || ParseDigestError {
            text: text.chars().take(100).collect(),
        };
        let hex = text.strip_prefix("sha256:").ok_or_else(fail)?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if hex.len() != 64 {
            return Err(fail());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else {
                return Err(fail());
            };
            *byte = digit(*high).ok_or_else(fail)? << 4 | digit(*low).ok_or_else(fail)?;
        }
        Ok(Self(bytes))
    }
}

/// A writer that hashes the bytes that pass through it.
pub(crate) struct HashingWriter<W> {
    writer: W,
    hash: Sha256,
    count: u64,
}

impl<W: Write> HashingWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self {
            writer,
            hash: Sha256::new(),
            count: 0,
        }
    }

    /// Returns the digest and the size of the tar archive if it ended here.
    pub(crate) fn as_ended_tar(&self) -> (Digest, u64) {
        const END: [u8; 1024] = [0; 1024];
        let mut hash = self.hash.clone();
        hash.update(END);
        (hash.into(), self.count + END.len() as u64)
    }

    /// Returns the underlying writer, and the digest of all written bytes.
    pub(crate) fn finish(self) -> (W, Digest) {
        (self.writer, self.hash.into())
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.writer.write(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or(buffer));
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_parse_only_their_own_format() {
        let digest = Digest::sha256(b"");
        let (text, hex) = (digest.to_string(), digest.hex());
        assert_eq!(text.parse(), Ok(digest));
        assert_rows!(hex => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let long = ["G", "éé"].map(|digit| format!("sha256:{}", digit.repeat(64 / digit.len())));
        let bad = ["", "sha256:", &hex, "sha512:00", &text.to_uppercase()];
        let mut bad = bad.into_iter().chain(long.iter().map(String::as_str));
        assert_eq!(bad.find(|text| text.parse::<Digest>().is_ok()), None);
    }
}
