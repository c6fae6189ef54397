use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::bundle::{Place, Run, binary};

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let place = Place::new();
    place.good("tide");
    for output in ["out", "out.tgz", "deep/er/new"] {
        let mut child = place
            .command(&binary())
            .args(["unpack", "-", "-o", output])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun when the hidden name is there, and waits for the rest of the archive.
        let mut input = child.stdin.take().unwrap();
        input.write_all(&[0; 100]).unwrap();
        let since = Instant::now();
        let is_output = |name: &String| name == "out" || name == "deep" || name.starts_with(".out");
        while !place.list(".").iter().any(is_output) {
            assert!(since.elapsed() < Duration::from_secs(20), "it never begins");
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status();
        assert!(killed.unwrap().success());
        let run: Run = child.wait_with_output().unwrap().into();
        assert_eq!(place.list("."), ["tide"], "{run:?}");
        assert_eq!(run.code, Some(130), "{run:?}");
        drop(input);
    }
}
