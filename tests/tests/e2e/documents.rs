//! What the documents tell users to do, word for word.

use std::{fs, path::Path, process::Command};

use cluster::Cluster;

/// The block of commands with this number under a heading of a page.
pub(crate) fn commands(page: &str, heading: &str, number: usize) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (_, section) = text.split_once(&format!("{heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let block = section.split("```sh\n").nth(number + 1).unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// What a page shows of commands and of what they print, under a heading.
pub(crate) fn shown(page: &str, heading: &str) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let found = text.split_once(&format!("\n{heading}\n"));
    let (_, section) = found.unwrap_or_else(|| panic!("{page} has no {heading:?}"));
    let section = section.split("\n#").next().unwrap();
    let block = section.split("```text\n").nth(1).unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// Runs commands in the project's folder, as the administrator.
pub(crate) fn run(cluster: &Cluster, commands: &str) -> String {
    let mut shell = Command::new("timeout");
    shell
        .args(["600", "bash", "-euc", commands])
        .current_dir(root())
        .env("KUBECONFIG", cluster.kubeconfig_path());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{commands}{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
