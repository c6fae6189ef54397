//! A catalog in ConfigMaps: split between documents, and compressed so that each part fits into one object.
//!
//! Documents are compressed in groups, each as one gzip member, because concatenated gzip members are valid gzip. Thus a
//! part can be filled up to the limit without compressing data twice, and is a YAML stream by itself.

use std::io::{self, Write as _};

use flate2::{Compression, write::GzEncoder};
use manifests::names;
use unpacker::Digest;

/// Maximum size of a part: the API server's limit for the data of a ConfigMap, less a reserve for the rest of the object.
const MAX_PART_SIZE: usize = (1 << 20) - (1 << 10);
/// Size at which a group of documents is compressed.
const GROUP_SIZE: usize = 256 << 10;
/// Maximum number of ConfigMaps of a catalog.
const MAX_PARTS: usize = 500;

/// Reason why a catalog does not fit into ConfigMaps.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "a document of the catalog has {0} bytes compressed, but a ConfigMap can hold {MAX_PART_SIZE}; use an index without \
         it"
    )]
    Document(usize),
    #[error("the catalog requires more than {MAX_PARTS} ConfigMaps; use a smaller index")]
    Catalog,
    #[error("failed to compress the catalog: {0}")]
    Io(#[from] io::Error),
}

/// Parts of a catalog, each a gzip file of YAML documents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) data: Vec<Vec<u8>>,
    /// Hash of the parts, which distinguishes catalogs.
    pub(super) hash: String,
}

impl Parts {
    /// Splits the documents of a catalog into parts.
    ///
    /// # Errors
    /// Returns an error if a document does not fit, or if the catalog has too many parts.
    pub(super) fn split(
        documents: impl Iterator<Item = io::Result<String>>,
    ) -> Result<Self, Error> {
        let mut builder = PartBuilder::default();
        for document in documents {
            let document = document?;
            if builder.group.len() + document.len() > GROUP_SIZE {
                builder.close()?;
            }
            builder.group.push_str("---\n");
            builder.group.push_str(document.trim());
            builder.group.push('\n');
        }
        builder.close()?;
        let data = builder.parts;
        let digests: Vec<String> = data.iter().map(|part| Digest::sha256(part).hex()).collect();
        let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
        let hash = names::hash(&digests);
        Ok(Self { data, hash })
    }

    /// Returns the names of a CatalogSource's ConfigMaps. The names are unique for each catalog, so that a pod never
    /// reads parts of another one, regardless of when it starts.
    pub(super) fn names(&self, source: &str) -> Vec<String> {
        let name = |number| format!("{source}-configmap-partition-{}-{number}", self.hash);
        (1..=self.data.len()).map(name).collect()
    }
}

#[derive(Debug, Default)]
struct PartBuilder {
    parts: Vec<Vec<u8>>,
    /// Documents that are not compressed yet.
    group: String,
}

impl PartBuilder {
    fn close(&mut self) -> Result<(), Error> {
        if self.group.is_empty() {
            return Ok(());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(self.group.as_bytes())?;
        let member = encoder.finish()?;
        self.group.clear();
        if member.len() > MAX_PART_SIZE {
            return Err(Error::Document(member.len()));
        }
        if let Some(last) = self.parts.last_mut()
            && last.len() + member.len() <= MAX_PART_SIZE
        {
            last.extend(member);
        } else if self.parts.len() == MAX_PARTS {
            return Err(Error::Catalog);
        } else {
            self.parts.push(member);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::read::MultiGzDecoder;

    use super::*;

    /// Deterministic text that hardly compresses.
    fn noise(length: usize, seed: u64) -> String {
        let letter = |byte: u8| char::from(b' ' + byte % 94);
        let text: String = ::tests::noise(seed, length)
            .into_iter()
            .map(letter)
            .collect();
        format!("a: {}", text.replace(['\'', '"', ' '], "x"))
    }

    fn split(documents: &[String]) -> Result<Parts, Error> {
        Parts::split(documents.iter().cloned().map(Ok))
    }

    fn text(parts: &Parts) -> Vec<String> {
        let unzip = |part: &Vec<u8>| io::read_to_string(MultiGzDecoder::new(part.as_slice()));
        parts.data.iter().map(|part| unzip(part).unwrap()).collect()
    }

    // parity: run-15
    #[test]
    fn small_catalogs_are_one_part_and_large_ones_several() {
        for (documents, expected) in ::tests::rows![
            vec![] => 0;
            vec!["a: 1\n".to_owned(), "b: 2".to_owned()] => 1;
            (0..30).map(|seed| noise(100_000, seed)).collect() => 3;
            vec![noise(900_000, 1), "b: 2".to_owned(), noise(900_000, 2)] => 2;
        ] {
            let parts = split(&documents).unwrap();
            assert_eq!(parts.data.len(), expected);
            assert!(parts.data.iter().all(|part| part.len() <= MAX_PART_SIZE));
            let expected = documents.iter();
            let expected = expected.map(|document| format!("---\n{}\n", document.trim()));
            assert_eq!(text(&parts).concat(), expected.collect::<String>());
        }
    }

    // parity: sdk-18
    #[test]
    fn oversized_and_unreadable_documents_are_rejected() {
        for (documents, expected) in ::tests::rows![
            [Ok(noise(2_000_000, 1))] => "a document of the catalog has 1*";
            [Err(io::Error::other("no"))] => "failed to compress the catalog: no";
        ] {
            ::tests::table::assert_outcome(Parts::split(documents.into_iter()), Err(expected), ());
        }
    }

    #[test]
    fn part_names_differ_between_catalogs() {
        let first = split(&["a: 1".to_owned()]).unwrap();
        let second = split(&["a: 2".to_owned()]).unwrap();
        assert_eq!(first, split(&["a: 1\n".to_owned()]).unwrap());
        assert_ne!(first.hash, second.hash);
        let hash = &first.hash;
        ::tests::assert_rows!(first.names("tide-catalog") => [format!("tide-catalog-configmap-partition-{hash}-1")]);
    }
}
