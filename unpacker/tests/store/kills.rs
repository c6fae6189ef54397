//! SIGKILL during writes to the store.

use crate::*;

const NAME: &str = "kills::two_hundred_kills_leave_whole_content_or_none";
const KILLS: u64 = 200;
const DISK: u64 = 16 << 20;

/// Writes, records, reads and evicts until the process is killed.
fn write_until_killed(store: &Store, seed: u64) {
    let mut random = Random::new(seed);
    println!("ready");
    for round in 0.. {
        let size = 1000 << random.below(12); // up to 2 MB
        let stored = put(store, random.below(50) as u64, size);
        let key = key(store, format!("{}/{}", random.below(100), stored.digest));
        let skipped = skipped(round % 2);
        store.remember(&key, &stored.digest, &skipped).unwrap();
        if round % 3 == 0 {
            store.get(&stored.digest, &Limits::default()).unwrap();
        }
        drop(stored.hold);
        if round % 7 == 0 {
            store.remove(&stored.digest).unwrap();
        }
    }
}

// parity: rukpak-22, rukpak-39
#[test]
fn two_hundred_kills_leave_whole_content_or_none() {
    if let Some((seed, directory)) = role() {
        return write_until_killed(&open(&directory, DISK, 1 << 20), seed.parse().unwrap());
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let survivor = open(directory, DISK, 0);
    let mut random = Random::new(4);
    let (mut interrupted, mut completed) = (0, 0);
    let mut kills = 0;
    // On a busy machine a process may be killed before its first write; more kills compensate for that.
    while kills < KILLS || interrupted < KILLS / 4 || completed < KILLS / 8 {
        kills += 1;
        assert!(kills < 10 * KILLS, "{interrupted} {completed}");
        let before = listed(directory, "content");
        let mut command = alone(NAME, &kills.to_string(), directory);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        // Some are killed while they start, the others while they work.
        if kills % 8 != 0 {
            let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
            let mut lines = lines.map_while(Result::ok);
            assert!(lines.any(|line| line.ends_with("ready")));
        }
        let longest = 1 << (8 + random.below(11)); // 256 µs to 262 ms
        thread::sleep(Duration::from_micros(random.below(longest) as u64));
        child.kill().unwrap();
        child.wait().unwrap();

        interrupted += u64::from(!listed(directory, "tmp").is_empty());
        completed += u64::from(listed(directory, "content") != before);
        let store = open(directory, DISK, 0);
        assert_whole(&store, directory);
        assert!(store.stats().disk <= DISK);
        // A killed process does not block others.
        let stored = put(&survivor, 1000 + kills, 5000);
        survivor.get(&stored.digest, &Limits::default()).unwrap();
    }
    println!("of {kills} kills {interrupted} interrupted a write, and {completed} came after one");
    let stored = put(&open(directory, DISK, 0), 7, 100_000);
    assert_rows!(unpacker::Digest::sha256(&fs::read(Path::new(&crate::file(directory, &stored.digest))).unwrap()) => stored.digest);
}
