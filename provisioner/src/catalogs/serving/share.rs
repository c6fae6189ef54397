//! How much of the server the catalogs of one namespace may take: ports and space are there for all namespaces. No I/O.
//!
//! Who is served stays served; who comes when nothing is left is told so, and tries again.

use std::collections::BTreeMap;

use unpacker::Digest;

use super::Error;
use crate::{catalogs::Key, settings::Share};

/// What is served, by namespace.
#[derive(Debug, Default)]
pub(super) struct Shares {
    namespaces: BTreeMap<String, BTreeMap<String, Part>>,
}

/// What a catalog takes.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    served: Option<Sized>,
    /// What there was no room for, so that it is not made again and again to see that.
    refused: Option<Sized>,
}

/// A content, and the bytes of its file.
#[derive(Debug, Clone, Copy)]
struct Sized {
    digest: Digest,
    size: u64,
}

// === impl Shares ===

impl Shares {
    /// Reports whether there is room for one more catalog, whatever it has.
    pub(super) fn has_room(&self, key: &Key, share: &Share) -> Result<(), Error> {
        self.judge(key, None, share)
    }

    /// Whether a content may have a place, as far as that can be said before it is made; and how many bytes it may take.
    pub(super) fn begin(&self, key: &Key, digest: Digest, share: &Share) -> Result<u64, Error> {
        let refused = self.part(key).and_then(|it| it.refused);
        let known = refused.filter(|it| it.digest == digest);
        self.judge(key, known, share)?;
        let none = Sized { digest, size: 0 };
        Ok(share.bytes.saturating_sub(self.would(key, Some(none))))
    }

    /// A content was not made, for it would have had this size at least.
    pub(super) fn is_too_large(
        &mut self,
        key: &Key,
        digest: Digest,
        size: u64,
        share: &Share,
    ) -> Result<(), Error> {
        let content = Some(Sized { digest, size });
        let parts = self.namespaces.entry(key.namespace.clone()).or_default();
        parts.entry(key.name.clone()).or_default().refused = content;
        self.judge(key, content, share)
    }

    /// A catalog is about to be served with this content, in place of the one before. Where it does not fit, that stays.
    pub(super) fn take(
        &mut self,
        key: &Key,
        digest: Digest,
        size: u64,
        share: &Share,
    ) -> Result<(), Error> {
        let content = Some(Sized { digest, size });
        let judged = self.judge(key, content, share);
        let parts = self.namespaces.entry(key.namespace.clone()).or_default();
        let part = parts.entry(key.name.clone()).or_default();
        if judged.is_err() {
            part.refused = content;
        } else {
            *part = Part {
                served: content,
                refused: None,
            };
        }
        judged
    }

    /// What was taken for a catalog is not served after all. What there was no room for is still known.
    pub(super) fn is_not_served(&mut self, key: &Key) {
        let parts = self.namespaces.get_mut(&key.namespace);
        if let Some(part) = parts.and_then(|it| it.get_mut(&key.name)) {
            part.served = None;
        }
    }

    /// A catalog is not served any more.
    pub(super) fn give_up(&mut self, key: &Key) {
        if let Some(parts) = self.namespaces.get_mut(&key.namespace) {
            parts.remove(&key.name);
            if parts.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
    }

    /// Reports whether there is room for this catalog, with this content if it is known.
    fn judge(&self, key: &Key, content: Option<Sized>, share: &Share) -> Result<(), Error> {
        let is_served = self.part(key).is_some_and(|it| it.served.is_some());
        if !is_served && self.others(key).count() >= share.catalogs {
            return Err(Error::TooMany {
                namespace: key.namespace.clone(),
                most: share.catalogs,
            });
        }
        let would = self.would(key, content);
        if content.is_some() && would > share.bytes {
            return Err(Error::TooLarge {
                namespace: key.namespace.clone(),
                would,
                most: share.bytes,
            });
        }
        Ok(())
    }

    /// The bytes of all catalogs of the namespace, with this content. What several have is there once.
    fn would(&self, key: &Key, content: Option<Sized>) -> u64 {
        let sizes = self.others(key).chain(content);
        let sizes: BTreeMap<Digest, u64> = sizes.map(|it| (it.digest, it.size)).collect();
        sizes.values().copied().fold(0, u64::saturating_add)
    }

    /// What other catalogs of the namespace have.
    fn others<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Sized> + 'a {
        let all = self.namespaces.get(&key.namespace).into_iter().flatten();
        let others = all.filter(|(name, _)| **name != key.name);
        others.filter_map(|(_, it)| it.served)
    }

    fn part(&self, key: &Key) -> Option<&Part> {
        self.namespaces.get(&key.namespace)?.get(&key.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps, each on a line: `begin` (with the room that there is), `take` or `large` with `namespace/name content size`,
    /// or `gone`; and how that ends.
    const TABLE: &str = "
begin a/1 x 100 | well
take  a/1 x 60 | well
begin a/2 y 40 | well
begin a/2 x 100 | well
take  a/2 y 50 | TooLarge
begin a/2 y    | TooLarge
begin a/2 z    | well
take  a/2 z 40 | well
# What others have is there once.
take  a/3 x 60 | well
begin a/4 x    | TooMany
take  a/4 x 60 | TooMany
# Another namespace has a share of its own.
take  b/1 y 100 | well
take  b/2 w 1  | TooLarge
# Who is served may become something else, and keeps what it has where that is too large.
begin a/2 y    | well
take  a/2 y 41 | TooLarge
begin a/4 x    | TooMany
take  a/2 y 30 | well
# And there is room when somebody goes.
gone  a/1      | well
begin a/4 v    | well
take  a/4 v 11 | TooLarge
take  a/4 v 10 | well
# Before anything is known of its content.
room  a/5      | TooMany
room  a/2      | well
gone  a/3      | well
room  a/5      | well
# What there is no port for takes no room, and what is too large is not made again.
take  a/3 x 60 | well
none  a/3      | well
room  a/5      | well
take  a/5 u 99 | TooLarge
none  a/5      | well
begin a/5 u    | TooLarge
gone  a/5      | well
gone  a/3      | well
gone  a/2      | well
gone  a/4      | well
gone  a/4      | well
";

    // parity: serve-25
    #[test]
    fn each_namespace_has_its_share() {
        let (catalogs, bytes) = (3, 100);
        let share = Share { catalogs, bytes };
        let mut shares = Shares::default();
        for row in TABLE.lines().filter(|it| it.contains('|')) {
            let (step, expected) = row.split_once('|').unwrap();
            let words: Vec<&str> = step.split_whitespace().collect();
            let (namespace, name) = words[1].split_once('/').unwrap();
            let key = crate::fixtures::key(namespace, name);
            let digest = || Digest::of(words[2].as_bytes());
            let done = match words[0] {
                "room" => shares.has_room(&key, &share),
                "none" => {
                    shares.is_not_served(&key);
                    Ok(())
                }
                "begin" => shares.begin(&key, digest(), &share).map(|room| {
                    let told = words.get(3);
                    assert_rows!(told.is_none_or(|one| *one == room.to_string()) => true, "{row}: {room}");
                }),
                "large" => shares.is_too_large(&key, digest(), words[3].parse().unwrap(), &share),
                "take" => shares.take(&key, digest(), words[3].parse().unwrap(), &share),
                _ => {
                    shares.give_up(&key);
                    Ok(())
                }
            };
            assert_rows! {
                match &done { Ok(()) => "well", Err(Error::TooMany { .. }) => "TooMany", Err(_) => "TooLarge" }
                    => expected.trim(), "{row}";
            }
            if let Err(error) = done {
                let told = error.to_string();
                assert!(told.contains(&format!("namespace {namespace}")), "{told}");
                assert!(told.contains("-per-namespace"), "{told}");
            }
        }
        assert_eq!(shares.namespaces.len(), 1, "what is gone is forgotten");
    }
}
