//! Process memory: no small archive with expensive contents takes more than 256 MB, and the memory for large images and catalogs
//! is bounded.

use std::{
    fs,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tests::{Buildah, Registry, noise};

use crate::bundle::{Args as _, Workspace, csv};

/// Maximum resident memory of a command for one archive, in KiB, including the binary, which is not optimized here.
const MAX_RESIDENT: u64 = 256_000;

/// Image size, many times the allowed memory.
const SIZE: usize = 200 << 20;
/// Maximum anonymous memory in KiB. The mapped binary does not count because it is large when it is not optimized.
const ALLOWED: u64 = 32 << 10;
const PACKAGES: usize = 200;
/// Bundles per package. A million bundles are also within the limit, but take five times the time and memory.
const BUNDLES: usize = 1000;
/// Maximum memory per bundle in bytes, including all related data. Its document has 150 bytes.
const MAX_BYTES_PER_BUNDLE: usize = 1300;

const MIB: usize = 1 << 20;
const CSV: &str = "manifests/csv.yaml";
const CRD: &str = "manifests/crd.yaml";

fn repeated(text: &str, length: usize) -> String {
    text.repeat(length / text.len())
}

fn numbered(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect()
}

fn nested(depth: usize, inner: &str) -> String {
    "{a: ".repeat(depth) + inner + &"}".repeat(depth)
}

/// Returns files of plain bundles with various shapes of values, all of which are rejected.
fn plain() -> Vec<(&'static str, Vec<String>)> {
    let sequences = repeated(&format!("{}a\n", "- ".repeat(400)), 15 * MIB);
    let lists = format!("[{}]\n", repeated("[1],", 15 * MIB));
    Vec::from(tests::rows![
        "nested sequences" => vec![sequences.clone(), sequences];
        "mappings with one entry" => vec![format!("a: [{}]\n", repeated(&(nested(100, "1") + ",\n"), 15 * MIB))];
        "mappings in blocks" => vec![format!("b:\n{}", repeated("- a:\n   b:\n    c: 1\n", 15 * MIB))];
        "empty mappings" => vec![format!("kind: A\na: [{}]\n", "{},".repeat(990_000))];
        "JSON" => vec![format!("{{\"b\": [{}0]}}", "{\"a\":{\"a\":1}},".repeat(1_000_000))];
        "aliases" => vec![format!("kind: A\nb: &b [{}]\nc: [{}]\n", "{a: 1},".repeat(50_000), "*b,".repeat(15))];
        "tags" => vec![format!("kind: A\nb: [{}]\n", repeated("!!str a,", 15 * MIB))];
        "commas behind tags" => vec![format!("x: [1]\nb: |\n  {}\n", repeated("!x,", 15 * MIB))];
        "anchors" => vec![format!("kind: A\na: [{}]\n", numbered(900_000, |at| format!("&a{at} 1,")))];
        "documents" => vec![repeated("{kind: A, metadata: {name: a}}\n---\n", 15 * MIB)];
        "a list of objects" => vec![format!("apiVersion: v1\nkind: List\nitems: [{}]\n", "{kind: A},".repeat(400_000))];
        "a list of nothing" => vec![format!("apiVersion: v1\nkind: ConfigMapList\nitems: [{}]\n", "{},".repeat(990_000))];
        // These are read twice, to locate findings or because the fast reader gives up.
        "comments"
            => vec![format!("{}kind: A\n", repeated("#\n", 15 * MIB)), format!("kind: A\n{}", repeated("# é\n", 15 * MIB))];
        "control characters" => vec![format!("kind: A\na: {}\x01\n", repeated("x", 15 * MIB)), repeated("\x01\n", 15 * MIB)];
        "lists in a list" => vec![lists.clone(), lists.clone()];
        "lists in a list of an object" => vec![format!("kind: A\na: {lists}"), format!("kind: A\na: {lists}")];
        // The fast reader gives up at the anchor, which follows as many values as the limits allow.
        "lists before an anchor" => vec![format!("kind: A\na: [{}&a 1]\n", "[1],".repeat(490_000))];
    ])
}

/// Returns files of plain bundles for all commands: accepted bundles, which have output, and the rejected bundle with the highest
/// peak.
fn plain_for_all_commands() -> Vec<(&'static str, Vec<String>)> {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n";
    let lines = format!("{object}  a: |\n{}", repeated("    x\r\n", 15 * MIB));
    let deep = nested(500, &format!("[{}]", "1,".repeat(400_000)));
    let role = |at| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: a{at}}}\n\
             rules: [{{verbs: [get], resources: [a{at}], apiGroups: [\"\"]}}]\n---\n"
        )
    };
    let comment = "#".repeat(15 * MIB);
    Vec::from(tests::rows![
        // All objects are in memory while the warning about the second one gets its line.
        "text" => vec![lines.clone(), lines];
        "indentation" => vec![format!("apiVersion: v1\nkind: A\nmetadata: {{name: a}}\nb: {deep}\n")];
        "roles" => vec![numbered(15_000, role)];
        // The fast reader gives up at the anchor, which follows as many values as the limits allow.
        "mappings before an anchor"
            => vec![format!("kind: A\na: [{}&a 1]\n{comment}\n", "{a: 1},".repeat(136_000)), format!("kind: A\n{comment}\n")];
    ])
}

fn crd(versions: usize, properties: &str) -> String {
    let version = |at| format!("{{name: v{at}, served: true, storage: {}}},", at == 0);
    let versions = numbered(versions, version);
    format!(
        "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {{name: as.b.c}}\n\
         spec:\n  group: b.c\n  names: {{kind: A, plural: as}}\n  versions: [{versions}]\n  validation:\n    \
         openAPIV3Schema:\n      properties:\n{properties}"
    )
}

/// Returns the ClusterServiceVersion with a list at this path of its spec.
fn listed(path: &str, items: &str) -> String {
    let mut csv = csv("tide");
    let mut at = &mut csv["spec"];
    for key in path.split('.') {
        at = match key.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[key],
        };
    }
    *at = json!(["@"]);
    let items = items.trim_end_matches(',');
    csv.to_string().replace("\"@\"", items)
}

fn annotated(key: &str, text: &str) -> String {
    let mut csv = csv("tide");
    csv["metadata"]["annotations"] = json!({key: text});
    csv.to_string()
}

/// Returns files that replace or extend those of a valid registry bundle, which is then rejected.
fn registry() -> Vec<(&'static str, &'static str, String)> {
    // Each number has a long path.
    let numbers = format!("{{\"{}\":[{}1]}}", "k".repeat(200_000), "1,".repeat(25_000));
    let empty = "{},".repeat(900_000);
    let named = |at| format!("{{\"name\":\"a{at}\",\"spec\":{{}}}},");
    let named = numbered(130_000, named);
    let accounts = |at| format!("{{\"serviceAccountName\":\"a{at}\"}},");
    let accounts = numbered(130_000, accounts);
    let json = format!("[{}0]", "{\"a\":{}},".repeat(900_000));
    let containers = "install.spec.deployments.0.spec.template.spec.containers";
    let mut wide = csv("tide");
    let annotations = (0..8000).map(|at| (format!("a{at}"), json!("text")));
    wide["metadata"]["annotations"] = annotations.collect();
    let deployments = (0..2000).map(|at| json!({"name": format!("d{at}")}));
    wide["spec"]["install"]["spec"]["deployments"] = deployments.collect();
    Vec::from(tests::rows![
        "numbers below a long key", "metadata/properties.yaml"
            => format!("{{\"properties\":[{{\"type\":\"a\",\"value\":{numbers}}}]}}");
        "empty Deployments", CSV => listed("install.spec.deployments", &empty);
        "Deployments", CSV => listed("install.spec.deployments", &named);
        "accounts", CSV => listed("install.spec.permissions", &accounts);
        "empty rules", CSV => listed("install.spec.clusterPermissions.0.rules", &empty);
        "containers", CSV => listed(containers, &empty);
        "owned CRDs", CSV => listed("customresourcedefinitions.owned", &empty);
        "annotations of many Deployments", CSV => wide.to_string();
        "examples", CSV => annotated("alm-examples", &json);
        "properties", CSV => annotated("olm.properties", &format!("[{{\"type\":\"a\",\"value\":{json}}}]"));
        "many properties", "metadata/properties.yaml" => format!("properties:\n{}", "- {type: a, value: 1.0}\n".repeat(300_000));
        "empty schemas", CRD => crd(1, &numbered(600_000, |at| format!("        a{at}: {{}}\n")));
        "copied schemas", CRD => crd(6, &numbered(30_000, |at| format!("        a{at}: {{items: {{}}}}\n")));
    ])
}

/// Returns a field of `/proc/<pid>/status` in KiB, or `None` after the process has ended. A process that does not have the name of
/// the command yet still has the memory of the test process.
pub(crate) fn memory_of(child: &Child, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let text = text.strip_prefix("Name:\trukpak\n")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Runs a command and returns the peak of this field in KiB, and the exit status. A command that ends before the first
/// measurement runs again.
pub(crate) fn peak(command: &mut Command, field: &str) -> (u64, ExitStatus) {
    let mut run = || {
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut peak = None;
        loop {
            peak = peak.max(memory_of(&child, field));
            if let Some(ended) = child.try_wait().unwrap() {
                return Some((peak?, ended));
            }
            thread::sleep(Duration::from_millis(2));
        }
    };
    (0..10).find_map(|_| run()).unwrap()
}

/// Returns the peak resident memory and the exit code of a command that rejects or converts bundles.
fn resident(workspace: &Workspace, args: &str) -> (u64, i32) {
    let mut command = workspace.command();
    let (peak, ended) = peak(command.args(args.words()).stderr(Stdio::null()), "VmHWM:");
    // A signal or an internal error is a failure.
    assert!(ended.code().is_some_and(|code| code < 2), "{args}: {ended}");
    (peak, ended.code().unwrap())
}

/// Commands that convert bundles, with the same code to unpack and convert. Only `validate` also locates the findings of every
/// bundle and gives advice. Most rejected archives are therefore tested with `validate` alone: `convert` has no output for them,
/// and the archive with the highest peak covers the output of `inspect`.
const COMMANDS: [&str; 4] = [VALIDATE, "convert", "convert -o json", "inspect -o json"];
const VALIDATE: &str = "validate";

fn assert_bounded(workspace: &Workspace, commands: &[&str], about: &str, bundle: &str) {
    let archive = format!("{bundle}.tgz");
    workspace.tar(&archive, "-czf", bundle, ".");
    for command in commands {
        let (peak, code) = resident(workspace, &format!("{command} {archive}"));
        eprintln!("{about}: {command} took {peak} KiB");
        assert!(peak < MAX_RESIDENT, "{about}: {command} took {peak} KiB");
        // All commands must run for an accepted archive.
        assert!(commands.len() > 1 || code == 1, "{about}: accepted");
    }
}

fn assert_all_bounded(commands: &[&str], bundles: Vec<(&str, Vec<String>)>) {
    let workspace = Workspace::new();
    for (at, (about, files)) in bundles.into_iter().enumerate() {
        let bundle = format!("plain{at}");
        for (number, text) in files.into_iter().enumerate() {
            workspace.write(&format!("{bundle}/manifests/{number}.yaml"), text);
        }
        assert_bounded(&workspace, commands, about, &bundle);
    }
}

// parity: convert-8
#[test]
fn plain_archives_take_at_most_256_mb() {
    assert_all_bounded(&[VALIDATE], plain());
    assert_all_bounded(&COMMANDS, plain_for_all_commands());
}

// parity: convert-8
#[test]
fn registry_archives_take_at_most_256_mb() {
    let workspace = Workspace::new();
    for (at, (about, file, text)) in registry().into_iter().enumerate() {
        let bundle = format!("registry{at}");
        workspace.good(&bundle);
        workspace.write(&format!("{bundle}/{file}"), text);
        // `inspect` describes rejected bundles as well; this one takes the most memory.
        let is_largest = about == "annotations of many Deployments";
        let count = if is_largest { COMMANDS.len() } else { 1 };
        assert_bounded(&workspace, &COMMANDS[..count], about, &bundle);
    }
    // An accepted bundle with many findings, each with a long path.
    let findings = numbered(20_000, |at| format!("a{at}: {{type: 5}},"));
    let deep = format!("        a: {}\n", nested(200, &format!("{{{findings}}}")));
    workspace.good("accepted");
    let crd = crd(1, &deep).replace("/v1beta1", "/v1");
    workspace.write(&format!("accepted/{CRD}"), crd);
    assert_bounded(&workspace, &COMMANDS, "deep findings", "accepted");
}

// parity: check-3
#[test]
fn reports_of_many_bundles_are_streamed() {
    let workspace = Workspace::new();
    let unknown = (0..900).map(|at| (format!("unknown{at}"), json!(1)));
    let mut csv = csv("tide");
    csv["spec"]["install"]["spec"]["deployments"][0]["spec"] = unknown.collect();
    let bundles: Vec<String> = (0..300).map(|at| format!("tide{at}")).collect();
    for bundle in &bundles {
        workspace.bundle(bundle, &csv);
    }
    for format in ["sarif", "json"] {
        let [one, all] = [&bundles[..1], &bundles].map(|bundles| {
            let args = format!("validate -o {format} {}", bundles.join(" "));
            resident(&workspace, &args).0
        });
        assert!(all < one + 32_000, "{format}: {all} and {one} KiB");
    }
}

/// Returns the peak anonymous memory of a command that must succeed.
fn anonymous_peak(workspace: &Workspace, args: &str) -> u64 {
    let mut command = workspace.command();
    command.args(args.words()).arg("--tls-verify=false");
    let (peak, ended) = peak(&mut command, "RssAnon:");
    assert!(ended.success(), "{args:?}");
    peak
}

#[test]
fn memory_does_not_grow_with_the_image() {
    let workspace = Workspace::with_tide();
    let registry = Registry::plain();
    for file in ["system/usr/large", "catalog/configs/large"] {
        workspace.write(file, noise(1, SIZE));
    }
    // Several layers, so that some are fetched ahead.
    let layered = "FROM scratch\nCOPY catalog /\nCOPY system /\nCOPY tide /\n";
    let image = registry.image("large:v1");
    Buildah::new().publish(layered, &workspace.path(""), &image, &["--layers"]);
    for args in [
        format!("unpack {image}"),
        format!("convert {image}"),
        format!("unpack {image} --only configs --max-size=300Mi --max-file-size=300Mi -o out.tar"),
    ] {
        let peak = anonymous_peak(&workspace, &args);
        assert!(peak < ALLOWED, "{args} took {peak} KiB");
    }
    let size = fs::metadata(workspace.path("out.tar")).unwrap().len();
    assert!(size > SIZE as u64, "{size}");
}

/// Returns a package of minimal bundles in one channel that is longer than any real one.
fn package(name: &str) -> String {
    let mut entries = vec![json!({"name": format!("{name}.0")})];
    entries.extend((1..BUNDLES).map(
        |at| json!({"name": format!("{name}.{at}"), "replaces": format!("{name}.{}", at - 1)}),
    ));
    let bundle = |at| {
        json!({
            "schema": "olm.bundle", "package": name, "name": format!("{name}.{at}"), "image": "a/b:c",
            "properties": [{"type": "olm.package", "value": {"packageName": name, "version": format!("0.{at}.0")}}],
        })
    };
    let head = [
        json!({"schema": "olm.package", "name": name, "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": name, "name": "a", "entries": entries}),
    ];
    let blobs = head.into_iter().chain((0..BUNDLES).map(bundle));
    let blobs: Vec<String> = blobs.map(|blob: Value| blob.to_string()).collect();
    blobs.join("\n")
}

// parity: load-10
#[test]
fn memory_per_bundle_is_bounded() {
    let workspace = Workspace::new();
    for name in (0..PACKAGES).map(|at| format!("p{at}")) {
        workspace.write(&format!("catalog/{name}"), package(&name));
    }
    let peak = anonymous_peak(&workspace, "catalog validate catalog");
    let allowed = (PACKAGES * BUNDLES * MAX_BYTES_PER_BUNDLE) as u64 >> 10;
    eprintln!("{} bundles, at most {peak} KiB", PACKAGES * BUNDLES);
    assert!(peak < allowed, "{peak} KiB, and {allowed} are allowed");
}
