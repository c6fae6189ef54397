//! Tests with random inputs: the same inputs on every machine, or new ones for a given time.
//!
//! A short run has a fixed number of rounds. `RUKPAK_FUZZ_SECONDS` sets the duration of a run with a new seed, and
//! `RUKPAK_FUZZ_SEED` repeats one round: a failed round prints its seed.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant, UNIX_EPOCH},
};

use serde_json::Value;

/// A generator of pseudorandom numbers, deterministic for a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Returns a generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end.max(1) as u64).unwrap()
    }

    /// Returns an item of a list.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    /// Returns bytes that do not compress.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.number().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// Cuts bytes short, inserts one of `odd` or replaces one, at a random place.
    pub fn change(&mut self, bytes: &mut Vec<u8>, odd: &[u8]) {
        let at = self.below(bytes.len());
        match self.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, *self.pick(odd)),
            _ if bytes.is_empty() => {}
            2 => bytes[at] = *self.pick(odd),
            _ => bytes[at] = self.byte(),
        }
    }

    /// Replaces a value by one of `odd`, or removes, copies or renames a field or item, at a random place.
    pub fn mutate(&mut self, value: &mut Value, odd: &mut impl FnMut(&mut Self) -> Value) {
        let size = match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        if size == 0 || self.below(6) == 0 {
            *value = odd(self);
            return;
        }
        let (at, kind) = (self.below(size), self.below(8));
        match value {
            Value::Object(map) => {
                let key = map.keys().nth(at).unwrap().clone();
                match kind {
                    0 => drop(map.remove(&key)),
                    1 | 2 => {
                        let copy = map[&key].clone();
                        map.insert(key.to_uppercase(), copy);
                        if kind == 1 {
                            map.remove(&key);
                        }
                    }
                    _ => self.mutate(&mut map[&key], odd),
                }
            }
            Value::Array(list) => match kind {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => self.mutate(&mut list[at], odd),
            },
            _ => {}
        }
    }
}

/// Runs a test with random inputs. The test returns the number of its valid inputs. A hundred rounds need at least `valid`
/// valid inputs, because a test of invalid inputs alone proves nothing.
pub fn fuzz(rounds: u64, valid: u64, mut test: impl FnMut(&mut Random) -> usize) {
    let setting = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = setting("RUKPAK_FUZZ_SEED") {
        test(&mut Random::new(seed));
        return;
    }
    let time = setting("RUKPAK_FUZZ_SECONDS").map(Duration::from_secs);
    let start = Instant::now();
    // Multiplied seeds, so that one round does not repeat the numbers of another.
    let first = time.map_or(0, |_| UNIX_EPOCH.elapsed().unwrap().as_secs() << 20);
    let (mut done, mut found) = (0, 0);
    while time.map_or(done < rounds, |time| start.elapsed() < time) {
        let seed = (first + done).wrapping_mul(0xd134_2543_de82_ef95);
        let round = catch_unwind(AssertUnwindSafe(|| test(&mut Random::new(seed))));
        found += round.unwrap_or_else(|panic| {
            eprintln!("RUKPAK_FUZZ_SEED={seed} repeats this round");
            resume_unwind(panic)
        });
        done += 1;
    }
    println!("{done} rounds, {found} valid inputs");
    let expected = done * valid / 100;
    let problem = format!("{found} of {done} inputs were valid: fewer than {expected}");
    assert!(found as u64 >= expected, "{problem}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_differ_and_runs_repeat() {
        let run = || {
            let mut numbers = Vec::new();
            fuzz(100, 0, |random| {
                numbers.push((random.number(), random.below(10), random.bytes(9)));
                1
            });
            numbers
        };
        let numbers = run();
        assert_eq!(numbers, run());
        let mut different = numbers.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 100);
        assert!(numbers.iter().any(|(_, below, _)| *below == 9));
    }

    #[test]
    #[should_panic(expected = "1 of 100 inputs were valid: fewer than 2")]
    fn wild_changes_are_reported() {
        let mut first = 1;
        fuzz(100, 2, |_| std::mem::take(&mut first));
    }
}
