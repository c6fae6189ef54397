//! Extended headers of tar entries.

use tar::Header;

use crate::{Error, Result};

/// The fields of an extended header that affect content. Times, owners and attributes are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PaxHeader {
    /// Path that replaces the path of the header.
    pub(crate) path: Option<Vec<u8>>,
    /// Link target that replaces the one of the header.
    pub(crate) link: Option<Vec<u8>>,
    /// Size that replaces the size of the header.
    pub(crate) size: Option<u64>,
    /// Whether the body is a sparse file without its holes, or the map of one.
    pub(crate) sparse: bool,
}

/// Parses the records `<length> <key>=<value>\n`. The last record for a key applies, and an empty value removes the
/// key. Returns `None` if the records are malformed.
pub(crate) fn parse(mut body: &[u8]) -> Option<PaxHeader> {
    let mut extended = PaxHeader::default();
    while !body.is_empty() {
        let digits = body.iter().take(20).position(|byte| *byte == b' ')?;
        let length = number(body.get(..digits)?)?;
        let (record, rest) = body.split_at_checked(usize::try_from(length).ok()?)?;
        body = rest;
        let record = record.get(digits + 1..)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|byte| *byte == b'=')?;
        let (key, value) = (record.get(..equals)?, record.get(equals + 1..)?);
        match key {
            b"path" => extended.path = (!value.is_empty()).then(|| value.to_vec()),
            b"linkpath" => extended.link = (!value.is_empty()).then(|| value.to_vec()),
            b"size" => {
                extended.size = if value.is_empty() {
                    None
                } else {
                    Some(number(value)?)
                }
            }
            // Keys of GNU tar, star and the tar of Solaris. Readers that do not know them read the file without its
            // holes.
            b"SCHILY.realsize" | b"SUN.holesdata" => extended.sparse = true,
            b"SCHILY.filetype" => extended.sparse |= value == b"sparse",
            key if key.starts_with(b"GNU.sparse.") => extended.sparse = true,
            _ => {}
        }
    }
    Some(extended)
}

/// Parses decimal digits. Unlike `str::parse`, rejects a sign.
fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal { text.parse().ok() } else { None }
}

/// The extended headers before an entry.
#[derive(Debug, Default)]
pub(crate) struct PendingHeaders {
    /// Path of more than 100 bytes, in the header of GNU tar.
    pub(crate) long_name: Option<Vec<u8>>,
    /// Link target of more than 100 bytes, in the header of GNU tar.
    pub(crate) long_link: Option<Vec<u8>>,
    /// Extended header of POSIX.
    pub(crate) extended: Option<PaxHeader>,
}

impl PendingHeaders {
    /// Reports whether an entry must follow.
    pub(crate) fn is_pending(&self) -> bool {
        self.long_name.is_some() || self.long_link.is_some() || self.extended.is_some()
    }

    /// Returns the path of the entry. Readers prefer different headers, so two paths must be equal.
    pub(crate) fn path(&self, header: &Header) -> Result<Vec<u8>> {
        let extended = self
            .extended
            .as_ref()
            .and_then(|extended| extended.path.as_ref());
        let long = single(self.long_name.as_ref(), extended)?;
        Ok(long.unwrap_or_else(|| header.path_bytes().into_owned()))
    }

    /// Returns the target of a link.
    pub(crate) fn link(&self, header: &Header) -> Result<Vec<u8>> {
        let extended = self
            .extended
            .as_ref()
            .and_then(|extended| extended.link.as_ref());
        let long = single(self.long_link.as_ref(), extended)?;
        let short = || header.link_name_bytes().unwrap_or_default().into_owned();
        Ok(long.unwrap_or_else(short))
    }
}

fn single(long: Option<&Vec<u8>>, extended: Option<&Vec<u8>>) -> Result<Option<Vec<u8>>> {
    match (long, extended) {
        (Some(long), Some(extended)) if long != extended => Err(Error::Refused {
            path: to_utf8(extended),
            kind: "named differently by two extended headers",
            remedy: "pack the bundle again with one tar program",
        }),
        (long, extended) => Ok(long.or(extended).cloned()),
    }
}

/// Converts a name to text for messages, truncated to a readable length.
pub(crate) fn to_utf8(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_by_their_lengths_or_rejected() {
        let record = |path: Option<&str>, size, sparse| with!(PaxHeader, path: path.map(Into::into), size, sparse);
        let nothing = record(None, None, false);
        let path = |path| record(Some(path), None, false);
        let sparse = record(None, None, true);
        for (body, extended) in ::tests::rows![
            &b""[..] => &nothing;
            b"10 path=a\n" => &path("a");
            b"12 path=a\nb\n" => &path("a\nb");
            b"12 path=a=b\n" => &path("a=b");
            b"10 path=a\n10 path=b\n" => &path("b");
            b"10 path=a\n8 path=\n" => &nothing;
            b"30 mtime=1350244992.023960108\n" => &nothing;
            b"10 size=7\n" => &record(None, Some(7), false);
            b"22 GNU.sparse.major=1\n" => &sparse;
            b"21 SCHILY.realsize=9\n" => &sparse;
            b"26 SCHILY.filetype=sparse\n" => &sparse;
            b"27 SCHILY.filetype=regular\n" => &nothing;
            b"21 SUN.holesdata= 0 \n" => &sparse;
        ] {
            assert_rows!(parse(body).as_ref() => Some(extended), "{}", body.escape_ascii());
        }
        let odd = "11 path=a,8 path=a,10path=a,+10 path=a,0 path=a,99999999999999999999 path=a,11 size=-7";
        let is_read = |body: &&str| parse(format!("{body}\n").as_bytes()).is_some();
        assert_eq!(odd.split(',').find(is_read), None);
    }
}
