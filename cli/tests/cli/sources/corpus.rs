//! Bundles of the corpus as images.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tests::{Registry, corpus};

use crate::bundle::Workspace;

/// Converts bundles and returns, in order, the report line of each and its manifests if it was converted.
fn convert(workspace: &Workspace, bundles: &[String]) -> Vec<(String, Option<Vec<u8>>)> {
    let out = tempfile::tempdir().unwrap();
    let (directory, bundles_of) = (out.path().display(), bundles.join(" "));
    let run = workspace.run(&format!(
        "convert --quiet --tls-verify=false --output-dir {directory} {bundles_of}"
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

#[test]
fn pushed_corpus_bundles_convert_identically() {
    let Some(corpus) = corpus() else { return };
    let dirs = corpus
        .cases()
        .map(|case| corpus.bundle(case).display().to_string());
    let dirs: Vec<String> = dirs.collect();
    let (workspace, registry) = (Workspace::new(), Registry::plain());
    let image = |at: usize| registry.image(&format!("once/bundle-{at}:v1"));
    let push = |dir: &str, image: &str| {
        let args = format!("push {dir} {image} -o json --quiet --tls-verify=false");
        let pushed = workspace.ok(&args).json();
        pushed["digest"].as_str().unwrap().to_owned()
    };
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(dir) = dirs.get(at)
                {
                    let digest = push(dir, &image(at));
                    let again = registry.image(&format!("again/bundle-{at}:v2"));
                    assert_eq!(push(dir, &again), digest);
                }
            });
        }
    });
    let images: Vec<String> = (0..dirs.len()).map(image).collect();
    let expected = convert(&workspace, &dirs);
    let is_converted = expected.iter().any(|(_, manifests)| manifests.is_some());
    assert!(is_converted, "no bundle was converted");
    let found = convert(&workspace, &images);
    for ((dir, expected), found) in dirs.iter().zip(expected).zip(found) {
        assert_eq!(found.0, expected.0, "{dir}");
        assert!(found.1 == expected.1, "{dir} has other manifests");
    }
}
