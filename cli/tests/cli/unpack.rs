use std::{
    io::Write as _,
    process::Stdio,
    time::{Duration, Instant},
};

use crate::{
    bundle::{Run, Workspace},
    serve::kill,
};

#[test]
fn interrupt_leaves_no_files() {
    let workspace = Workspace::with_tide();
    for output in ["out", "out.tgz", "deep/er/new"] {
        let mut command = workspace.command();
        let command = command.args(["unpack", "-", "-o", output]);
        let command = command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command has started when the hidden name exists, and waits for the rest of the archive.
        let mut input = child.stdin.take().unwrap();
        input.write_all(&[0; 100]).unwrap();
        let since = Instant::now();
        let is_output = |name: &String| name == "out" || name == "deep" || name.starts_with(".out");
        while !workspace.list(".").iter().any(is_output) {
            assert!(since.elapsed() < Duration::from_secs(20), "it never begins");
            std::thread::yield_now();
        }
        kill(&child, "INT");
        let run: Run = child.wait_with_output().unwrap().into();
        assert_eq!(workspace.list("."), ["tide"], "{run:?}");
        assert_eq!(run.code, Some(130), "{run:?}");
        drop(input);
    }
}
