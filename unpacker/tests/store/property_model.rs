//! Random operations on a store, compared with a list as a model.

use crate::*;

const DISK: u64 = 300_000;

/// Expected content with size and number of holds, least recently used first.
#[derive(Default)]
struct Model(Vec<(Digest, u64, usize)>);

impl Model {
    fn used(&self) -> u64 {
        self.0.iter().map(|(_, size, _)| size).sum()
    }

    fn entry(&mut self, digest: &Digest) -> Option<&mut (Digest, u64, usize)> {
        self.0.iter_mut().find(|(found, ..)| found == digest)
    }

    fn touch(&mut self, digest: &Digest) {
        let at = self.0.iter().position(|(found, ..)| found == digest);
        let entry = self.0.remove(at.unwrap());
        self.0.push(entry);
    }

    /// Evicts content, and reports whether the size fits now.
    fn make_room(&mut self, size: u64) -> bool {
        let held = self.0.iter().filter(|entry| entry.2 > 0);
        if held.map(|entry| entry.1).sum::<u64>() + size > DISK {
            return false;
        }
        let enough = (self.used() + size).saturating_sub(DISK);
        let mut freed = 0;
        while enough > 0
            && let Some(at) = self.0.iter().position(|entry| entry.2 == 0)
            && (freed < enough || freed + self.0[at].1 <= enough + DISK / 20)
        {
            freed += self.0.remove(at).1;
        }
        true
    }
}

#[test]
fn random_operations_match_a_list_model() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut store = open(directory, DISK, 0);
    let mut random = Random::new(11);
    let mut model = Model::default();
    let mut holds: Vec<Hold> = Vec::new();
    let mut candidates: Vec<Digest> = vec![Digest::sha256(b"unknown")];
    let mut counts = [0; 4];
    for _ in 0..1500 {
        let kind = random.below(20);
        let picked = *random.pick(&candidates[candidates.len().saturating_sub(8)..]);
        match kind {
            0..8 => {
                let number = random.below(30);
                let tree = tree(number as u64, number * 4000);
                let mut tar = Vec::new();
                let digest = tree.write_tar(&mut tar).unwrap();
                candidates.push(digest);
                let has_room = model.make_room(tar.len() as u64);
                match store.put(&tree) {
                    Ok(stored) => {
                        assert!(has_room && stored.digest == digest);
                        if model.entry(&digest).is_none() {
                            model.0.push((digest, tar.len() as u64, 0));
                        }
                        model.touch(&digest);
                    }
                    Err(error) => {
                        assert_rows!(!has_room && matches!(error, Error::BudgetExceeded { .. }) => true, "{error}");
                        counts[0] += 1;
                    }
                }
            }
            8..11 => {
                let found = store.get(&picked, &Limits::default());
                assert_eq!(found.is_ok(), model.entry(&picked).is_some());
                if found.is_ok() {
                    model.touch(&picked);
                    counts[1] += 1;
                }
            }
            11..15 => {
                let hold = store.hold(&picked);
                assert_eq!(hold.is_ok(), model.entry(&picked).is_some());
                if let Ok(hold) = hold {
                    model.touch(&picked);
                    model.entry(&picked).unwrap().2 += 1;
                    holds.push(hold);
                }
            }
            15 | 16 if !holds.is_empty() => {
                let at = random.below(holds.len());
                let hold = holds.swap_remove(at);
                model.entry(&hold.digest()).unwrap().2 -= 1;
            }
            17 | 18 => {
                let held = model.entry(&picked).is_some_and(|entry| entry.2 > 0);
                assert_eq!(store.remove(&picked).is_err(), held);
                model.0.retain(|entry| held || entry.0 != picked);
                counts[2] += usize::from(held);
            }
            _ if holds.len() > 9 => {
                holds.clear();
                model.0.iter_mut().for_each(|entry| entry.2 = 0);
            }
            _ => {
                store = open(directory, DISK, 0); // holds of the earlier store remain
                counts[3] += 1;
            }
        }
        assert_rows!(digests(directory).into_iter().eq(model.0.iter().map(|entry| entry.0).collect::<BTreeSet<_>>()) => true);
        assert_eq!(store.stats().disk, model.used());
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    drop(holds);
    assert_whole(&store, directory);
}
