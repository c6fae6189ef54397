//! Several processes on one directory.

use crate::*;

const NAME: &str = "processes::processes_share_a_directory_without_damage";
const DISK: u64 = 3 << 20;

/// Writes, reads, holds and removes the same content as the other processes.
fn share(directory: &Path, seed: u64) {
    let store = open(directory, DISK, 100_000);
    let mut random = Random::new(seed);
    let mut contents = Vec::new();
    let mut held = Vec::new();
    let (mut read, mut missing, mut refused) = (0, 0, 0);
    for _ in 0..300 {
        let number = random.below(40);
        let size = 10_000 + number * 10_000;
        let number = number as u64;
        match store.put(&tree(number, size)) {
            Ok(stored) => {
                contents.push((stored.digest, number, size));
                if random.below(4) == 0 {
                    held.push((stored.hold, number, size));
                }
            }
            Err(Error::BudgetExceeded { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if held.len() > 2 {
            // Held content is never evicted.
            let (hold, number, size) = held.remove(0);
            assert_rows!(*store.get(&hold.digest(), &Limits::default()).unwrap() => content(number, size));
        }
        let Some((digest, number, size)) = contents.get(random.below(40)) else {
            continue;
        };
        match store.get(digest, &Limits::default()) {
            Ok(found) => {
                read += 1;
                assert_eq!(*found, content(*number, *size));
            }
            Err(Error::Missing { .. }) => missing += 1,
            Err(error) => panic!("{error}"),
        }
        if random.below(10) == 0 {
            assert_rows!(matches!(store.remove(digest), Ok(()) | Err(Error::InUse { .. })) => true);
        }
        if random.below(20) == 0 {
            open(directory, DISK, 0); // opening removes temporary files
        }
    }
    let stats = store.stats();
    let counts = [stats.written, stats.duplicates, stats.evicted].map(|count| count.to_string());
    println!("\ncounts {} {read} {missing} {refused}", counts.join(" "));
}

#[test]
fn processes_share_a_directory_without_damage() {
    if let Some((seed, directory)) = role() {
        return share(&directory, seed.parse().unwrap());
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let children = ["1", "2", "3"].map(|seed| {
        let mut command = alone(NAME, seed, directory);
        command.stdout(Stdio::piped()).spawn().unwrap()
    });
    let mut sums = [0; 6];
    for child in children {
        let Output { status, stdout, .. } = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(stdout).unwrap();
        assert!(status.success(), "{stdout}");
        let counts = stdout.lines().find_map(|line| line.strip_prefix("counts "));
        for (sum, count) in sums.iter_mut().zip(counts.unwrap().split(' ')) {
            *sum += count.parse::<u64>().unwrap();
        }
    }
    println!("written, duplicates, evicted, read, missing, refused: {sums:?}");
    assert!(sums[..5].iter().all(|sum| *sum > 20), "{sums:?}");
    assert!(listed(directory, "content").values().sum::<u64>() <= DISK);
    assert_whole(&open(directory, DISK, 0), directory);
}
