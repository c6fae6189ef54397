//! `rukpak catalog serve`: flags, signals, cache and memory.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
};

use catalog::{
    generate::CatalogShape,
    registry::{Client, ClientLimits},
};
use futures::TryStreamExt as _;
use serde_json::json;

use crate::{
    bundle::{Args as _, Workspace},
    memory::memory_of,
};

fn write_catalog(workspace: &Workspace, package: &str) {
    let value = json!({"packageName": package, "version": "1.0.0"});
    let properties = json!([{"type": "olm.package", "value": value}]);
    let metas = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": package}]}),
        json!({"schema": "olm.bundle", "package": package, "name": package, "image": "a.io/b:v1", "properties": properties}),
    ];
    let text = metas.map(|meta| meta.to_string()).concat();
    workspace.write(&format!("catalog/{package}.json"), text);
}

struct Serving {
    child: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Serving {
    fn start(workspace: &Workspace, flags: &str) -> Self {
        let args = format!("catalog serve catalog --port 0 {flags}");
        let mut command = workspace.command();
        let command = command.args(args.words());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut skipped = String::new();
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "{skipped}");
            if line.contains("serving registry") {
                break address(&line);
            }
            skipped.push_str(&line);
        };
        Self {
            child,
            log,
            address,
        }
    }

    fn with_client<T>(&self, action: impl AsyncFnOnce(Client) -> T) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let client = Client::connect(&self.address, ClientLimits::default()).await;
            action(client.unwrap()).await
        })
    }

    fn packages(&self) -> Vec<String> {
        self.with_client(async |client| client.list_packages().await.unwrap())
    }

    /// Returns the number of entries of ListBundles.
    fn bundles(&self) -> usize {
        self.with_client(async |client| {
            let count = async |count, _| Ok(count + 1);
            client.list_bundles().try_fold(0, count).await.unwrap()
        })
    }

    /// Stops the server with a signal and returns its exit code and the rest of the log.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        kill(&self.child, signal);
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

pub(crate) fn kill(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let mut kill = Command::new("kill");
    assert!(kill.args(["-s", signal, &id]).status().unwrap().success());
}

/// Returns the local address with the port of a log line.
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

// parity: grpc-9
#[test]
fn catalog_is_served_over_grpc_and_http_until_a_signal() {
    let workspace = Workspace::new();
    write_catalog(&workspace, "tide");
    for signal in ["TERM", "INT"] {
        let mut serving = Serving::start(&workspace, "--http-port 0 --http-name mine");
        let mut lines = (&mut serving.log).lines().map(Result::unwrap);
        let line = lines.find(|line| line.contains("serving HTTP")).unwrap();
        assert_eq!(serving.packages(), ["tide"]);
        let mut stream = TcpStream::connect(address(&line)).unwrap();
        let request = "GET /catalogs/mine/api/v1/metas?schema=olm.package HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let line = "{\"defaultChannel\":\"stable\",\"name\":\"tide\",\"schema\":\"olm.package\"}\n";
        assert!(answer.ends_with(line), "{answer}");
        let (code, log) = serving.end(signal);
        assert_eq!(code, Some(0), "{log}");
        for part in ["finished call", "shutting down server"] {
            tests::assert_has(&log, part);
        }
    }
}

/// A registry pod requests 50 MiB and is killed if it uses much more.
// parity: grpc-8, complaint-4
#[test]
fn a_catalog_larger_than_its_memory_is_served() {
    let workspace = Workspace::new();
    let shape = tests::with!(CatalogShape, packages: 80, bundles: 90);
    shape.write(&workspace.path("catalog")).unwrap();
    let files = fs::read_dir(workspace.path("catalog")).unwrap();
    let files = files.map(|entry| fs::metadata(entry.unwrap().path().join("catalog.json")));
    let size: u64 = files.map(|metadata| metadata.unwrap().len()).sum();
    assert!(size > 100 << 20, "{size}");
    let serving = Serving::start(&workspace, "");
    assert_eq!(serving.packages().len(), 80);
    assert!(serving.bundles() >= 80 * 90);
    // Peak resident memory in bytes.
    let peak = memory_of(&serving.child, "VmHWM:").unwrap() << 10;
    eprintln!("{size} bytes of catalog, at most {peak} in memory");
    // Half of this is the binary, which is not optimized here.
    assert!(peak < size, "{peak}");
}

// parity: grpc-7, grpc-10, complaint-4
#[test]
fn the_cache_is_built_then_enforced() {
    let workspace = Workspace::new();
    write_catalog(&workspace, "tide");
    let expected = "integrity check failed: cache requires rebuild: cache reports digest as \"";
    tests::assert_runs! { workspace;
        "catalog serve catalog --port 0 --cache-dir cache" => 1, _, "integrity check failed: no cache in cache";
        "catalog serve catalog --port 0 --cache-dir cache --cache-only" => 0, _;
    }
    let flags = "--cache-dir cache";
    assert_eq!(Serving::start(&workspace, flags).packages(), ["tide"]);
    write_catalog(&workspace, "wave");
    tests::assert_runs! { workspace;
        "catalog serve catalog --port 0 --cache-dir cache --termination-log last-words" => 1, _, "{expected}";
    }
    let message = workspace.read("last-words");
    assert!(message.starts_with(expected), "{message}");
    let flags = "--cache-dir cache --cache-enforce-integrity=false";
    tests::assert_rows!(Serving::start(&workspace, flags).packages() => ["tide", "wave"]);
}

#[test]
fn invalid_flags_and_paths_are_reported() {
    let workspace = Workspace::new();
    write_catalog(&workspace, "tide");
    workspace.write("used/precious.txt", "");
    // The port is in use.
    let listener = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    tests::assert_runs! { workspace;
        "catalog serve catalog --cache-enforce-integrity" => 2, _, "--cache-dir must be specified with --cache-enforce-integrity";
        "catalog serve catalog --http-name mine" => 2, _, "--http-port";
        "catalog serve catalog --http-port 0 --http-name a/b" => 2, _;
        "catalog serve catalog --port 70000" => 2, _;
        "catalog serve absent -t last-words" => 1, _, "failed to load or rebuild cache";
        "catalog serve catalog --cache-dir used" => 1, _, "cache directory has unexpected contents: precious.txt";
        "catalog serve catalog --port {port}" => 1, _, "failed to listen: ";
    }
    assert!(workspace.read("last-words").contains("absent"));
}

// parity: validate-11
#[test]
fn faulty_package_is_skipped_unless_strict() {
    let workspace = Workspace::new();
    write_catalog(&workspace, "tide");
    let bad = r#"{"schema": "olm.package", "name": "bad"}"#;
    workspace.write("catalog/bad.json", bad);
    assert_eq!(Serving::start(&workspace, "").packages(), ["tide"]);
    tests::assert_runs! { workspace; "catalog serve catalog --strict --port 0" => 1, _, "package \"bad\""; }
}
