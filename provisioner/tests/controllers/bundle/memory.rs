//! Memory use for small archives that expand: no archive takes more than 256 MB.

use std::fs;

use cluster::Lease;
use manifests::api::bundle_instance::BundleInstance;

use super::download::Reader;
use super::*;
use crate::support::{Options, Provisioner, prepare, without_controllers};

/// Limit of the resident memory for one archive, in KiB above the idle process.
const MAX_TAKEN: u64 = 256_000;

/// Limit for all archives at once, in KiB: the pod's limit of 512 MiB minus 64 MiB for the program.
const MAX_TOGETHER: u64 = (512 - 64) << 10;

const MIB: usize = 1 << 20;

/// A new provisioner, its resident memory when idle, and a server for archives, in a control plane without other
/// Bundles.
struct Setup {
    world: World,
    server: FileServer,
    idle: u64,
    /// Dropped last.
    lease: Lease,
}

impl Setup {
    async fn new() -> Self {
        let lease = without_controllers().await;
        prepare(&lease).await;
        Self::start(lease, FileServer::start(None, None)).await
    }

    /// Replaces the provisioner: the kernel reports the highest value since the start of a process.
    async fn restart(self) -> Self {
        drop(self.world);
        Self::start(self.lease, self.server).await
    }

    async fn start(lease: Lease, server: FileServer) -> Self {
        let provisioner = Provisioner::start(&lease, Options::default()).await;
        let mut setup = Self {
            world: World::with_provisioner(lease.cluster(), provisioner),
            server,
            idle: 0,
            lease,
        };
        // The resident memory of the program includes every code page that has run.
        for is_good in [true, false] {
            let mut map = config_map("default", "small", "small");
            if !is_good {
                map["metadata"] = json!(null);
            }
            let name = setup.fetch(archive(&plain(&[map]))).await;
            assert_eq!(setup.is_unpacked(&name).await, is_good);
            setup.delete(&name).await;
        }
        setup.idle = setup.resident("VmRSS").await;
        setup
    }

    /// Returns a value that the kernel reports of the provisioner in KiB: `VmRSS`, or its peak `VmHWM`.
    async fn resident(&self, field: &str) -> u64 {
        let pid = self.world.provisioner().await.pid().await;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let size = line.unwrap().trim_start_matches(':').trim();
        size.strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// Creates a Bundle of an archive behind a URL, and returns its name.
    async fn fetch(&self, archive: Vec<u8>) -> String {
        let name = unique("memory");
        let url = self.server.add(&format!("{name}.tgz"), archive);
        self.world.bundle(&name, "plain", http(&url)).await;
        name
    }

    /// Waits until a Bundle has an outcome, and reports whether it is unpacked.
    async fn is_unpacked(&self, name: &str) -> bool {
        let phase = |bundle: &Bundle| bundle.status.as_ref()?.phase;
        let bundle = wait_for(self.world.api(), name, "unpacked or failing", |bundle| {
            matches!(phase(bundle)?, Phase::Unpacked | Phase::Failing).then_some(())
        })
        .await;
        phase(&bundle) == Some(Phase::Unpacked)
    }

    async fn delete(&self, name: &str) {
        let bundles = self.world.api::<Bundle>();
        delete(&bundles, name).await;
        wait_deleted(bundles, name).await;
    }

    /// Makes sure that the provisioner's peak resident memory exceeds that of the idle process by at most `allowed`.
    async fn assert_taken(&self, about: &str, allowed: u64) {
        let peak = self.resident("VmHWM").await;
        let (idle, taken) = (self.idle, peak.saturating_sub(self.idle));
        eprintln!("{about}: {taken} KiB beside {idle} KiB");
        assert!(taken <= allowed, "{about}: {taken} KiB beside {idle} KiB");
    }
}

fn repeated(text: &str, length: usize) -> String {
    text.repeat(length / text.len())
}

/// Returns manifest files of plain bundles that no conversion accepts, each less than a MiB as an archive.
fn hostile() -> [(&'static str, [String; 2]); 6] {
    let lists = format!("[{}]\n", repeated("[1],", 15 * MIB));
    let fitting = "{a: 1},".repeat(90_000);
    let deep = format!("{}a\n", "- ".repeat(400));
    let nested = format!("{}1{},\n", "{a: ".repeat(100), "}".repeat(100));
    let long = |text: &str| repeated(text, 15 * MIB);
    let hashes = long("#");
    let lines = format!("kind: A\na: |\n{}", long("  x\r\n"));
    tests::rows![
        "lists in a list" => [lists.clone(), lists];
        // Values within the limits, followed by an anchor, which only the complete parser reports.
        "mappings before an anchor"
            => [format!("kind: A\na: [{fitting}&a 1]\n#{hashes}\n"), format!("kind: A\n#{hashes}\n")];
        "nested sequences" => [long(&deep), long(&deep)];
        "mappings with one entry" => [format!("a: [{}]\n", long(&nested)), String::new()];
        "comments" => [format!("{}kind: A\n", long("#\n")), format!("kind: A\n{}", long("#\n"))];
        "text" => [lines.clone(), lines];
    ]
}

fn packed([first, second]: &[String; 2]) -> Content {
    let [first, second] = [first.as_str().into(), second.as_str().into()];
    content(&[("manifests/0.yaml", first), ("manifests/1.yaml", second)])
}

#[tokio::test]
async fn archives_take_at_most_256_mb_and_fit_in_the_pod_together() {
    let mut setup = Setup::new().await;

    // Installs 30 ConfigMaps of 900 kB, and removes them.
    let text = repeated("a line of text\n", 900_000);
    let maps = (0..30).map(|at| config_map("default", &format!("large{at}"), &text));
    let content = plain(&maps.collect::<Vec<_>>());
    let name = unique("large");
    let url = setup.server.add("large.tgz", archive(&content));
    setup.world.instance(&name, "plain", http(&url)).await;
    setup.world.wait_instance(&name, "Installed", "True").await;
    let instances = setup.world.api::<BundleInstance>();
    delete(&instances, &name).await;
    wait_deleted(instances, &name).await;

    setup.assert_taken("30 objects of 900 kB", MAX_TAKEN).await;

    for (number, (about, files)) in hostile().into_iter().enumerate() {
        let archive = archive(&packed(&files));
        assert!(archive.len() < MIB, "{about}: {}", archive.len());
        setup = setup.restart().await;
        let name = if number % 2 == 0 {
            setup.fetch(archive).await
        } else {
            let uploader = Reader::with_roles(&setup.world, &["bundle-uploader"]).await;
            let (name, status, _) = uploader.put(archive).await;
            assert_eq!(status, StatusCode::CREATED, "{about}");
            name
        };
        assert!(!setup.is_unpacked(&name).await, "{about}");
        setup.assert_taken(about, MAX_TAKEN).await;
        setup.delete(&name).await;
    }

    // All archives share one budget.
    let setup = setup.restart().await;
    let mut names = Vec::new();
    for (_, files) in hostile() {
        names.push(setup.fetch(archive(&packed(&files))).await);
    }
    for name in &names {
        assert!(!setup.is_unpacked(name).await);
    }
    setup.assert_taken("all at once", MAX_TOGETHER).await;
}
