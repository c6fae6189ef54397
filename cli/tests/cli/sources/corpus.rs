//! Real bundles as images.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tests::{Registry, corpus};

use super::{Desk, PLAIN};

/// What each bundle becomes, in order: the line about it, and its manifests if it has any.
fn convert(desk: &Desk, bundles: &[String]) -> Vec<(String, Option<Vec<u8>>)> {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let bundles_of = bundles.join(" ");
    let run = desk.run(&format!(
        "convert --quiet {PLAIN} --output-dir {folder} {bundles_of}"
    ));
    let outcome = |line: &str| {
        let (name, rest) = line.split_once('\t').unwrap();
        let manifests = fs::read(out.path().join(format!("{name}.yaml"))).ok();
        (rest.to_owned(), manifests)
    };
    let outcomes: Vec<_> = run.out.lines().map(outcome).collect();
    assert_eq!(outcomes.len(), bundles.len(), "{run:#?}");
    outcomes
}

fn assert_same(desk: &Desk, folders: &[PathBuf], images: &[String]) {
    let folders = folders.iter().map(|folder| folder.display().to_string());
    let folders: Vec<String> = folders.collect();
    let expected = convert(desk, &folders);
    let converted = expected.iter().filter(|(_, manifests)| manifests.is_some());
    assert!(converted.count() > 0, "no bundle was converted");
    let found = convert(desk, images);
    for ((folder, expected), found) in folders.iter().zip(expected).zip(found) {
        assert_eq!(found.0, expected.0, "{folder}");
        assert!(found.1 == expected.1, "{folder} has other manifests");
    }
}

fn folders() -> Option<Vec<PathBuf>> {
    let corpus = corpus()?;
    let folders: Vec<_> = corpus.cases().map(|case| corpus.bundle(case)).collect();
    assert!(!folders.is_empty(), "the corpus is empty");
    Some(folders)
}

#[test]
fn every_bundle_of_the_corpus_is_the_same_when_it_was_pushed() {
    let Some(folders) = folders() else { return };
    let desk = Desk::new();
    let registry = Registry::plain();
    let next = AtomicUsize::new(0);
    let push = |folder: &Path, name: &str| {
        let image = registry.image(name);
        let args = format!("push {} {image} -o json --quiet {PLAIN}", folder.display());
        let pushed = desk.ok(&args).json();
        pushed["digest"].as_str().unwrap().to_owned()
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(folder) = folders.get(at)
                {
                    let digest = push(folder, &format!("once/bundle-{at}:v1"));
                    assert_eq!(push(folder, &format!("again/bundle-{at}:v2")), digest);
                }
            });
        }
    });
    let images: Vec<_> = (0..folders.len())
        .map(|at| registry.image(&format!("once/bundle-{at}:v1")))
        .collect();
    assert_same(&desk, &folders, &images);
}
