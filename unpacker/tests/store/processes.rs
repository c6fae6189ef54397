//! Several processes on one folder.

use crate::*;

const NAME: &str = "processes::processes_share_a_folder_and_never_see_anything_damaged";
const DISK: u64 = 3 << 20;
const ROUNDS: u64 = 300;

/// Writes, reads, holds and removes what the others do too.
fn share(folder: &Path, seed: u64) {
    let store = open(folder, DISK, 100_000);
    let mut random = Random::new(seed);
    let mut known = Vec::new();
    let mut held = Vec::new();
    let (mut read, mut missing, mut refused) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let what = random.below(40);
        let size = 10_000 + what * 10_000;
        let what = what as u64;
        match store.put(&tree(what, size)) {
            Ok(stored) => {
                known.push((stored.digest, what, size));
                if random.below(4) == 0 {
                    held.push((stored.hold, what, size));
                }
            }
            Err(Error::OverBudget { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if held.len() > 2 {
            // What was held all the time is still there.
            let (hold, what, size) = held.remove(0);
            assert_rows!(*store.get(&hold.digest(), &Limits::default()).unwrap() => content(what, size));
        }
        let Some((digest, what, size)) = known.get(random.below(40)) else {
            continue;
        };
        match store.get(digest, &Limits::default()) {
            Ok(found) => {
                read += 1;
                assert_eq!(*found, content(*what, *size));
            }
            Err(Error::Missing { .. }) => missing += 1,
            Err(error) => panic!("{error}"),
        }
        if random.below(10) == 0 {
            assert_rows!(matches!(store.remove(digest), Ok(()) | Err(Error::Held { .. })) => true);
        }
        if random.below(20) == 0 {
            open(folder, DISK, 0); // which sweeps
        }
    }
    let stats = store.stats();
    let counts = [stats.written, stats.duplicates, stats.evicted].map(|count| count.to_string());
    println!("\ncounts {} {read} {missing} {refused}", counts.join(" "));
}

#[test]
fn processes_share_a_folder_and_never_see_anything_damaged() {
    if let Some((seed, folder)) = role() {
        return share(&folder, seed.parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let children = ["1", "2", "3"].map(|seed| {
        let mut command = alone(NAME, seed, folder);
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
    assert!(listed(folder, "content").values().sum::<u64>() <= DISK);
    assert_whole(&open(folder, DISK, 0), folder);
}
