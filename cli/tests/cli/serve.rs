//! `rukpak catalog serve`: its flags, its ends, and what it leaves behind.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
    process::{Child, ChildStderr, Stdio},
};

use catalog::{
    generate::Shape,
    registry::{Bounds, Client},
};
use futures::TryStreamExt as _;
use serde_json::{Value, json};

use crate::bundle::{Place, binary};

fn write_catalog(place: &Place, folder: &str, package: &str) {
    let metas = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": format!("{package}.v1.0.0")}]}),
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v1.0.0"), "image": "example.com/bundle:v1", "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
        ]}),
    ];
    let texts = metas.iter().map(Value::to_string);
    let text = texts.collect::<Vec<_>>().join("\n");
    place.write(&format!("{folder}/{package}.json"), text);
}

/// A server that is killed with the test.
struct Serving {
    child: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Serving {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut child = place
            .command(&binary())
            .args(["catalog", "serve", "--port", "0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "{seen}");
            if line.contains("serving registry") {
                break address(&line);
            }
            seen.push_str(&line);
        };
        Self {
            child,
            log,
            address,
        }
    }

    fn with_client<T>(&self, action: impl AsyncFnOnce(Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let client = Client::connect(&self.address, Bounds::default()).await;
            action(client.unwrap()).await
        })
    }

    fn packages(&self) -> Vec<String> {
        self.with_client(async |client| client.list_packages().await.unwrap())
    }

    /// Entries of ListBundles.
    fn bundles(&self) -> usize {
        self.with_client(async |client| {
            let count = async |count, _| Ok(count + 1);
            client.list_bundles().try_fold(0, count).await.unwrap()
        })
    }

    /// The most memory it ever had, in bytes.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|it| it.starts_with("VmHWM:")).unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes << 10
    }

    /// The exit code, and the rest of the log.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        let killed = std::process::Command::new("kill")
            .args(["-s", signal, &id])
            .status();
        assert!(killed.unwrap().success());
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// The address on this machine with the port of a line of the log.
fn address(line: &str) -> String {
    let (_, address) = line.split_once("address=").unwrap();
    let port = address.split(' ').next().unwrap().rsplit(':').next();
    format!("127.0.0.1:{}", port.unwrap())
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_catalog_is_served_over_http_as_well() {
    let place = Place::new();
    write_catalog(&place, "catalog", "tide");
    let args = ["catalog", "--http-port", "0", "--http-name", "mine"];
    let mut serving = Serving::start(&place, &args);
    assert_eq!(serving.packages(), ["tide"]);
    // What was asked before may be told before.
    let mut lines = (&mut serving.log).lines().map(Result::unwrap);
    let line = lines.find(|it| it.contains("serving HTTP")).unwrap();
    let mut stream = TcpStream::connect(address(&line)).unwrap();
    let request = "GET /catalogs/mine/api/v1/metas?schema=olm.package HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let line = "{\"defaultChannel\":\"stable\",\"name\":\"tide\",\"schema\":\"olm.package\"}\n";
    assert!(answer.ends_with(line), "{answer}");
    let (code, log) = serving.end("TERM");
    assert_eq!(code, Some(0), "{log}");

    let run = place.run("catalog serve catalog --http-name mine");
    assert!(run.exits(2).err.contains("--http-port"));
    let args = "catalog serve catalog --http-port 0 --http-name a/b";
    place.run(&args).exits(2);
}

// parity: grpc-9
#[test]
fn a_folder_is_served_until_a_signal_comes() {
    let place = Place::new();
    write_catalog(&place, "catalog", "tide");
    for signal in ["TERM", "INT"] {
        let serving = Serving::start(&place, &["catalog"]);
        assert_eq!(serving.packages(), ["tide"]);
        let (code, log) = serving.end(signal);
        assert_eq!(code, Some(0), "{log}");
        assert!(
            log.contains("finished call") && log.contains("shutting down server"),
            "{log}"
        );
    }
}

/// What serves catalogs in a pod asks for 50 MiB, and is killed when it takes much more.
// parity: grpc-8, complaint-4
#[test]
fn a_catalog_larger_than_its_memory_is_served() {
    let place = Place::new();
    let shape = Shape {
        packages: 80,
        bundles: 90,
        ..Shape::default()
    };
    shape.write(&place.path("catalog")).unwrap();
    let size: u64 = fs::read_dir(place.path("catalog"))
        .unwrap()
        .map(|it| fs::metadata(it.unwrap().path().join("catalog.json")).unwrap())
        .map(|it| it.len())
        .sum();
    assert!(size > 100 << 20, "{size}");
    let serving = Serving::start(&place, &["catalog"]);
    assert_eq!(serving.packages().len(), 80);
    assert!(serving.bundles() >= 80 * 90);
    let peak = serving.peak();
    eprintln!("{size} bytes of catalog, at most {peak} in memory");
    // Of this half is the program itself, which is not optimized here.
    assert!(peak < size, "{peak}");
}

// parity: grpc-7, grpc-10, complaint-4
#[test]
fn the_cache_is_built_then_enforced() {
    let place = Place::new();
    write_catalog(&place, "catalog", "tide");
    let serve = |args: &str| place.run(&format!("catalog serve catalog --port 0 {args}"));
    let enforced = serve("--cache-dir cache").exits(1);
    enforced.err_has("integrity check failed: there is no cache in cache");
    serve("--cache-dir cache --cache-only").exits(0);
    let serving = Serving::start(&place, &["catalog", "--cache-dir", "cache"]);
    assert_eq!(serving.packages(), ["tide"]);
    drop(serving);

    write_catalog(&place, "catalog", "wave");
    let stale = serve("--cache-dir cache --termination-log last-words").exits(1);
    let expected = "integrity check failed: cache requires rebuild: cache reports digest as \"";
    stale.err_has(expected);
    let words = place.read("last-words");
    assert!(words.starts_with(expected), "{words}");
    let flag = "--cache-enforce-integrity=false";
    let serving = Serving::start(&place, &["catalog", "--cache-dir", "cache", flag]);
    assert_eq!(serving.packages(), ["tide", "wave"]);
}

#[test]
fn what_makes_no_sense_is_said() {
    let place = Place::new();
    write_catalog(&place, "catalog", "tide");
    place.write("used/precious.txt", "");
    // A port that is taken.
    let listener = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for (args, code, problem) in tests::rows![
        "catalog --cache-enforce-integrity", 2 => "--cache-dir must be specified with --cache-enforce-integrity";
        "catalog --port 70000", 2 => "";
        "absent -t last-words", 1 => "failed to load or rebuild cache";
        "catalog --cache-dir used", 1 => "cache directory has unexpected contents: precious.txt";
        &format!("catalog --port {port}"), 1 => "failed to listen: ";
    ] {
        let run = place.run(&format!("catalog serve {args}"));
        run.exits(code).err_has(problem);
    }
    assert!(place.read("last-words").contains("absent"));
}

// parity: validate-11
#[test]
fn a_faulty_package_is_left_out_unless_strict() {
    let place = Place::new();
    write_catalog(&place, "catalog", "tide");
    place.write(
        "catalog/bad.json",
        json!({"schema": "olm.package", "name": "bad"}).to_string(),
    );
    let serving = Serving::start(&place, &["catalog"]);
    assert_eq!(serving.packages(), ["tide"]);
    drop(serving);
    let strict = place.fail("catalog serve catalog --strict --port 0");
    strict.err_has("package \"bad\"");
}
