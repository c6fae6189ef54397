//! Tars written byte by byte, because writers refuse what readers must withstand.

use tar::Header;
pub(crate) use tests::gzip;

/// A tar that grows entry by entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    /// A header with any name, kind and size, and a body of any other size.
    pub(crate) fn entry(mut self, kind: u8, name: &[u8], size: u64, body: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.as_mut_bytes()[156] = kind;
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(body);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// A header and the body that it announces.
    pub(crate) fn with(self, kind: u8, name: &str, body: &[u8]) -> Self {
        self.entry(kind, name.as_bytes(), body.len() as u64, body)
    }

    /// A regular file.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        self.with(b'0', name, text.as_bytes())
    }

    /// An extended header with these records.
    pub(crate) fn pax(self, kind: u8, records: &[(&str, &str)]) -> Self {
        let record = |(key, value): &(&str, &str)| {
            let bare = key.len() + value.len() + 3;
            let length = (bare..bare + 9)
                .find(|length| length.to_string().len() + bare == *length)
                .unwrap();
            format!("{length} {key}={value}\n")
        };
        let body: String = records.iter().map(record).collect();
        self.with(kind, "pax", body.as_bytes())
    }

    /// The bytes, without an end marker.
    pub(crate) fn open(self) -> Vec<u8> {
        self.0
    }

    /// The bytes, with an end marker.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}
