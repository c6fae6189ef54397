//! SIGKILL at any moment.

use crate::*;

const NAME: &str = "kills::two_hundred_kills_leave_whole_content_or_none";
const KILLS: u64 = 200;
const DISK: u64 = 16 << 20;

/// Writes, notes, reads and evicts until it is killed.
fn write_for_ever(store: &Store, seed: u64) {
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
    if let Some((seed, folder)) = role() {
        return write_for_ever(&open(&folder, DISK, 1 << 20), seed.parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let survivor = open(folder, DISK, 0);
    let mut random = Random::new(4);
    let (mut interrupted, mut kept) = (0, 0);
    let mut kills = 0;
    // On a busy machine a process may be killed before it comes to anything; then there are more kills.
    while kills < KILLS || interrupted < KILLS / 4 || kept < KILLS / 8 {
        kills += 1;
        assert!(kills < 10 * KILLS, "{interrupted} {kept}");
        let before = listed(folder, "content");
        let mut command = alone(NAME, &kills.to_string(), folder);
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

        interrupted += u64::from(!listed(folder, "tmp").is_empty());
        kept += u64::from(listed(folder, "content") != before);
        let store = open(folder, DISK, 0);
        assert_whole(&store, folder);
        assert!(store.stats().disk <= DISK);
        // Nor does it stand in the way of others.
        let stored = put(&survivor, 1000 + kills, 5000);
        survivor.get(&stored.digest, &Limits::default()).unwrap();
    }
    println!("of {kills} kills {interrupted} interrupted a write, and {kept} came after one");
    let stored = put(&open(folder, DISK, 0), 7, 100_000);
    assert_rows!(unpacker::Digest::of(&fs::read(Path::new(&crate::file(folder, &stored.digest))).unwrap()) => stored.digest);
}
