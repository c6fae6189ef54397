//! Compares `rukpak catalog` with the real opm, as processes, on one catalog of 10,000 bundles: validation, rendering, serving
//! without and with a cache, and listing. Prints the table of docs/performance.md.
//!
//! `cargo bench -p cli --bench opm`

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::{
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use catalog::{
    generate::CatalogShape,
    registry::{Client, ClientLimits},
};
use futures::TryStreamExt;
use tokio::runtime::Runtime;

const OPM: &str = "opm";
/// Runs per program; the median is printed.
const RUNS: usize = 5;
/// Interval between two reads of the memory of a process. The memory grows for much longer than this.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Limit for the first answer of a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

fn main() {
    let place = tempfile::tempdir().unwrap();
    let catalog = place.path().join("catalog");
    CatalogShape::default().write(&catalog).unwrap();
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

/// Time until the end or the first answer of a run, and its peak memory.
#[derive(Clone, Copy)]
struct Measurement {
    time: Duration,
    /// Peak resident memory in KiB.
    memory: u32,
}

struct Running(Child);

impl Bench<'_> {
    fn both(&self, label: &str, args: &[&str]) {
        let [opm, rukpak] = in_turns(|program| self.run_to_end(program, args, Stdio::null()));
        row(label, opm, rukpak);
    }

    /// Renders into a new file, which is deleted before the next run starts.
    fn to_file(&self, label: &str, format: &str) {
        let path = self.place.join("rendered");
        let args = ["render", "catalog", "-o", format];
        let [opm, rukpak] = in_turns(|program| {
            let file = File::create(&path).unwrap();
            let measurement = self.run_to_end(program, &args, file.into());
            fs::remove_file(&path).unwrap();
            measurement
        });
        row(label, opm, rukpak);
    }

    fn cold(&self) {
        let [opm, rukpak] = in_turns(|program| {
            let cache = cache(program);
            drop(fs::remove_dir_all(self.place.join(&cache)));
            self.run_to_end(program, &serve(&cache, &["--cache-only"]), Stdio::null())
        });
        row("serve, nothing there before", opm, rukpak);
    }

    /// Serves from the existing cache with enforced integrity, until the list of packages is answered.
    fn warm(&self) {
        let mut lists = [Vec::new(), Vec::new()];
        let [opm, rukpak] = in_turns(|program| {
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
            let [opm, rukpak] = &mut lists;
            let lists = if program == OPM { opm } else { rukpak };
            lists.push(Measurement { time: list, memory });
            Measurement { time, memory }
        });
        row("serve again, until it answers", opm, rukpak);
        let [opm, rukpak] = lists.map(middle);
        row("ListBundles, 15,000 entries", opm, rukpak);
    }

    fn first_answer(&self, address: &str, since: Instant) -> Client {
        loop {
            let answered = self.runtime.block_on(async {
                let client = Client::connect(address, ClientLimits::default())
                    .await
                    .ok()?;
                client.list_packages().await.ok().map(|_| client)
            });
            if let Some(client) = answered {
                return client;
            }
            assert!(
                since.elapsed() < ANSWER_TIMEOUT,
                "no server answers at {address}"
            );
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn list(&self, client: &Client) -> Duration {
        let since = Instant::now();
        let count = client
            .list_bundles()
            .try_fold(0, |count, _| async move { Ok(count + 1) });
        // Half of the bundles are in two channels, which results in 15,000 entries.
        assert_eq!(self.runtime.block_on(count).unwrap(), 15_000);
        since.elapsed()
    }

    fn run_to_end(&self, program: &str, args: &[&str], out: Stdio) -> Measurement {
        let since = Instant::now();
        let mut running = self.start(program, args, out);
        let mut memory = 0;
        loop {
            memory = running.memory().unwrap_or_default().max(memory);
            if let Some(status) = running.0.try_wait().unwrap() {
                assert!(status.success(), "{program} {args:?} failed");
                let time = since.elapsed();
                return Measurement { time, memory };
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn start(&self, program: &str, args: &[&str], out: Stdio) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rukpak"));
        command.arg("catalog").current_dir(self.place);
        if program == OPM {
            command = tests::opm_command(self.place);
        }
        command.args(args).stdout(out).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }
}

impl Running {
    /// Returns the peak resident memory in KiB, or `None` after the process has ended.
    fn memory(&self) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))?;
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
    let args = ["serve", "catalog", "--termination-log", "log"];
    [&args[..], &["--cache-dir", cache], more].concat()
}

fn cache(program: &str) -> String {
    format!("cache-{program}")
}

fn in_turns(mut run: impl FnMut(&str) -> Measurement) -> [Measurement; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (times, program) in all.iter_mut().zip([OPM, "rukpak"]) {
            times.push(run(program));
        }
    }
    all.map(middle)
}

/// Returns the median of the times and the maximum of the memory.
fn middle(mut runs: Vec<Measurement>) -> Measurement {
    runs.sort_by_key(|run| run.time);
    Measurement {
        time: runs.get(RUNS / 2).unwrap().time,
        memory: runs.iter().map(|run| run.memory).max().unwrap(),
    }
}

fn row(label: &str, opm: Measurement, rukpak: Measurement) {
    let cell = |measured: Measurement| {
        let milliseconds = measured.time.as_secs_f64() * 1000.0;
        format!("{milliseconds:.0} ms, {} MB", measured.memory / 1000)
    };
    let times = opm.time.as_secs_f64() / rukpak.time.as_secs_f64();
    let memory = f64::from(opm.memory) / f64::from(rukpak.memory);
    println!(
        "| {label} | {} | {} | {times:.1}, memory {memory:.1} |",
        cell(opm),
        cell(rukpak)
    );
}
