//! `rukpak catalog` and the real opm in turns, as whole processes, over one catalog of 10,000 bundles: validated, rendered,
//! made ready, served again, and listed. Prints the table of docs/performance.md.
//!
//! `cargo bench -p cli --bench opm`

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::{
    fmt::Display,
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use catalog::{
    generate::Shape,
    registry::{Bounds, Client},
};
use futures::TryStreamExt;
use tokio::runtime::Runtime;

/// How often each is run; the middle one is told.
const RUNS: usize = 5;
/// Between two looks at a process: its memory grows for far longer than that.
const LOOK: Duration = Duration::from_millis(2);
/// A program that does not answer by then never will.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() {
    let place = tempfile::tempdir().unwrap();
    let catalog = place.path().join("catalog");
    Shape::default().write(&catalog).unwrap();
    let bench = Bench {
        place: place.path(),
        runtime: Runtime::new().unwrap(),
    };
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    println!("load average before: {}", load.trim());
    println!("| | opm | rukpak | times |\n| --- | ---: | ---: | ---: |");
    bench.both("validate", &["validate", "catalog"]);
    bench.both("render, JSON", &["render", "catalog", "-o", "json"]);
    bench.both("render, YAML", &["render", "catalog", "-o", "yaml"]);
    bench.to_file("render, JSON, into a file", "json");
    bench.to_file("render, YAML, into a file", "yaml");
    bench.cold();
    bench.warm();
}

struct Bench<'a> {
    place: &'a Path,
    runtime: Runtime,
}

/// What a run took: until its end, or its first answer.
#[derive(Clone, Copy)]
struct Took {
    time: Duration,
    /// The most of memory that it had, in kilobytes.
    memory: u32,
}

/// A program that is killed in the end.
struct Running(Child);

// === impl Bench ===

impl Bench<'_> {
    fn both(&self, what: &str, args: &[&str]) {
        let [theirs, ours] = in_turns(|program| self.to_its_end(program, args, Stdio::null()));
        row(what, theirs, ours);
    }

    /// Renders into a new file each time, which is deleted before the next run starts.
    fn to_file(&self, what: &str, format: &str) {
        let path = self.place.join("rendered");
        let args = ["render", "catalog", "-o", format];
        let [theirs, ours] = in_turns(|program| {
            let file = File::create(&path).unwrap();
            let took = self.to_its_end(program, &args, file.into());
            fs::remove_file(&path).unwrap();
            took
        });
        row(what, theirs, ours);
    }

    /// A cache is made where none was.
    fn cold(&self) {
        let [theirs, ours] = in_turns(|program| {
            let cache = cache(program);
            drop(fs::remove_dir_all(self.place.join(&cache)));
            self.to_its_end(program, &serve(&cache, &["--cache-only"]), Stdio::null())
        });
        row("serve, nothing there before", theirs, ours);
    }

    /// Served from the cache of before, whose integrity is enforced, until a list of packages is answered.
    fn warm(&self) {
        let mut lists = [Vec::new(), Vec::new()];
        let [theirs, ours] = in_turns(|program| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port().to_string();
            drop(free);
            let more = ["--port", &port, "--cache-enforce-integrity=true"];
            let since = Instant::now();
            let cache = cache(program);
            let running = self.start(program, &serve(&cache, &more), Stdio::null());
            let client = self.first_answer(&format!("127.0.0.1:{port}"), since);
            let time = since.elapsed();
            let list = self.list(&client);
            let memory = running.memory().unwrap();
            let at = usize::from(matches!(program, Program::Ours));
            lists.get_mut(at).unwrap().push(Took { time: list, memory });
            Took { time, memory }
        });
        row("serve again, until it answers", theirs, ours);
        let [theirs, ours] = lists.map(middle);
        row("ListBundles, 15,000 entries", theirs, ours);
    }

    fn first_answer(&self, address: &str, since: Instant) -> Client {
        loop {
            let answered = self.runtime.block_on(async {
                let client = Client::connect(address, Bounds::default()).await.ok()?;
                client.list_packages().await.ok().map(|_| client)
            });
            if let Some(client) = answered {
                return client;
            }
            assert!(since.elapsed() < PATIENCE, "nobody serves {address}");
            thread::sleep(LOOK);
        }
    }

    fn list(&self, client: &Client) -> Duration {
        let since = Instant::now();
        let count = client
            .list_bundles()
            .try_fold(0, |count, _| async move { Ok(count + 1) });
        // Half of the bundles are in two channels.
        assert_eq!(self.runtime.block_on(count).unwrap(), 15_000);
        since.elapsed()
    }

    fn to_its_end(&self, program: Program, args: &[&str], out: Stdio) -> Took {
        let since = Instant::now();
        let mut running = self.start(program, args, out);
        let mut memory = 0;
        loop {
            memory = running.memory().unwrap_or_default().max(memory);
            if let Some(status) = running.0.try_wait().unwrap() {
                assert!(status.success(), "{program} {args:?} failed");
                let time = since.elapsed();
                return Took { time, memory };
            }
            thread::sleep(LOOK);
        }
    }

    fn start(&self, program: Program, args: &[&str], out: Stdio) -> Running {
        let mut command = match program {
            Program::Opm => tests::opm_command(self.place),
            Program::Ours => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_rukpak"));
                command.arg("catalog").current_dir(self.place);
                command
            }
        };
        command.args(args).stdout(out).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }
}

#[derive(Clone, Copy)]
enum Program {
    Opm,
    Ours,
}

// === impl Program ===

impl Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Opm => "opm",
            Self::Ours => "rukpak",
        })
    }
}

// === impl Running ===

impl Running {
    /// The most it has had, in kilobytes; nothing of a process that has ended.
    fn memory(&self) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn serve<'a>(cache: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = [
        "serve",
        "catalog",
        "--cache-dir",
        cache,
        "--termination-log",
        "log",
    ];
    [&args, more].concat()
}

fn cache(program: Program) -> String {
    format!("cache-{program}")
}

fn in_turns(mut run: impl FnMut(Program) -> Took) -> [Took; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (times, program) in all.iter_mut().zip([Program::Opm, Program::Ours]) {
            times.push(run(program));
        }
    }
    all.map(middle)
}

/// The middle of the times, and the most of the memory.
fn middle(mut runs: Vec<Took>) -> Took {
    runs.sort_by_key(|it| it.time);
    Took {
        time: runs.get(RUNS / 2).unwrap().time,
        memory: runs.iter().map(|it| it.memory).max().unwrap(),
    }
}

fn row(what: &str, theirs: Took, ours: Took) {
    let cell = |it: Took| {
        let milliseconds = it.time.as_secs_f64() * 1000.0;
        format!("{milliseconds:.0} ms, {} MB", it.memory / 1000)
    };
    let times = theirs.time.as_secs_f64() / ours.time.as_secs_f64();
    let memory = f64::from(theirs.memory) / f64::from(ours.memory);
    println!(
        "| {what} | {} | {} | {times:.1}, memory {memory:.1} |",
        cell(theirs),
        cell(ours)
    );
}
