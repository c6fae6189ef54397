//! Runs commands, among them those of the documentation word for word.

use std::{fs, process::Command};

use cluster::Cluster;
use tests::{Run, root};

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn output(command: &mut Command) -> String {
    let result = command.output().map(Run::from);
    let run = result.unwrap_or_else(|error| panic!("{command:?}: {error}; tests/e2e.sh sets PATH"));
    assert_eq!(run.code, Some(0), "{command:?}: {run:#?}");
    run.out
}

/// The block of commands with this number, from 0, under a heading of a page.
pub(crate) fn commands(page: &str, heading: &str, number: usize) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let (_, section) = text.split_once(&format!("{heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let block = section.split("```sh\n").nth(number + 1).unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// Runs commands in the project's directory as the cluster admin.
pub(crate) fn run(cluster: &Cluster, commands: &str) {
    let mut shell = Command::new("timeout");
    shell
        .args(["600", "bash", "-euc", commands])
        .current_dir(root());
    output(shell.env("KUBECONFIG", cluster.kubeconfig_path()));
}
