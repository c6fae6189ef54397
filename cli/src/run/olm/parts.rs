//! A catalog in ConfigMaps: cut between documents, compressed, each part within what an object may hold.
//!
//! Documents are compressed in groups, each a gzip member of its own, for members one after the other are gzip again. So a
//! part can be filled up to the bound without compressing anything twice, and is a YAML stream by itself.

use std::io::{self, Write as _};

use flate2::{Compression, write::GzEncoder};
use manifests::names;
use unpacker::Digest;

/// What the API server takes as the data of a ConfigMap, less what is between the parts.
const MOST: usize = (1 << 20) - (1 << 10);
/// A group of documents is closed when it has so much.
const GROUP: usize = 256 << 10;
/// How many ConfigMaps a catalog may have.
const MOST_PARTS: usize = 500;

/// Why a catalog does not fit.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "a document of the catalog has {0} bytes when it is compressed, and a ConfigMap holds {MOST}: name an index without it"
    )]
    Document(usize),
    #[error("the catalog takes more than {MOST_PARTS} ConfigMaps: name a smaller index")]
    Catalog,
    #[error("failed to compress the catalog: {0}")]
    Io(#[from] io::Error),
}

/// The parts of a catalog, each gzip of YAML documents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) data: Vec<Vec<u8>>,
    /// Distinguishes catalogs.
    pub(super) hash: String,
}

impl Parts {
    /// Cuts a catalog.
    ///
    /// # Errors
    /// When a document does not fit, or there are too many.
    pub(super) fn of(documents: impl Iterator<Item = io::Result<String>>) -> Result<Self, Error> {
        let mut cutting = Cutting::default();
        for document in documents {
            let document = document?;
            if cutting.group.len() + document.len() > GROUP {
                cutting.close()?;
            }
            cutting.group.push_str("---\n");
            cutting.group.push_str(document.trim());
            cutting.group.push('\n');
        }
        cutting.close()?;
        let data = cutting.parts;
        let digests: Vec<String> = data.iter().map(|part| Digest::of(part).hex()).collect();
        let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
        let hash = names::hash(&digests);
        Ok(Self { data, hash })
    }

    /// What the ConfigMaps of a CatalogSource are called. Another catalog has others, so that a pod never sees what is not
    /// its own, whenever it starts.
    pub(super) fn names(&self, source: &str) -> Vec<String> {
        let name = |number| format!("{source}-configmap-partition-{}-{number}", self.hash);
        (1..=self.data.len()).map(name).collect()
    }
}

#[derive(Debug, Default)]
struct Cutting {
    parts: Vec<Vec<u8>>,
    /// Documents that are not compressed yet.
    group: String,
}

impl Cutting {
    fn close(&mut self) -> Result<(), Error> {
        if self.group.is_empty() {
            return Ok(());
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(self.group.as_bytes())?;
        let member = encoder.finish()?;
        self.group.clear();
        if member.len() > MOST {
            return Err(Error::Document(member.len()));
        }
        if let Some(last) = self.parts.last_mut()
            && last.len() + member.len() <= MOST
        {
            last.extend(member);
        } else if self.parts.len() == MOST_PARTS {
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

    /// What hardly compresses, and is always the same.
    fn noise(length: usize, seed: u64) -> String {
        let letter = |byte: u8| char::from(b' ' + byte % 94);
        let text: String = ::tests::noise(seed, length)
            .into_iter()
            .map(letter)
            .collect();
        format!("a: {}", text.replace(['\'', '"', ' '], "x"))
    }

    fn of(documents: &[String]) -> Result<Parts, Error> {
        Parts::of(documents.iter().cloned().map(Ok))
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
            let parts = of(&documents).unwrap();
            assert_eq!(parts.data.len(), expected);
            assert!(parts.data.iter().all(|part| part.len() <= MOST));
            let expected = documents.iter();
            let expected = expected.map(|it| format!("---\n{}\n", it.trim()));
            assert_eq!(text(&parts).concat(), expected.collect::<String>());
        }
    }

    // parity: sdk-18
    #[test]
    fn what_does_not_fit_is_told() {
        let large = [Ok(noise(2_000_000, 1))];
        let broken = [Err(io::Error::other("no"))];
        for (documents, expected) in ::tests::rows![
            large => "a document of the catalog has 1*";
            broken => "failed to compress the catalog: no";
        ] {
            let parts = Parts::of(documents.into_iter());
            ::tests::table::assert_outcome(parts, Err(expected), ());
        }
    }

    #[test]
    fn names_tell_catalogs_apart() {
        let first = of(&["a: 1".to_owned()]).unwrap();
        let second = of(&["a: 2".to_owned()]).unwrap();
        assert_eq!(first, of(&["a: 1\n".to_owned()]).unwrap());
        assert_ne!(first.hash, second.hash);
        let hash = &first.hash;
        let names = first.names("tide-catalog");
        let expected = [format!("tide-catalog-configmap-partition-{hash}-1")];
        assert_eq!(names, expected);
    }
}
