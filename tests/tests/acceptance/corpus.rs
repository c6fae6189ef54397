//! Real bundles: each has its recorded outcome, and the objects of the reference renderer.

use std::fs;

use convert::{Code, Options};
use serde_json::Value;
use tests::{Case, Corpus, corpus};

use super::semantic_diff::differences;

fn convert(corpus: &Corpus, case: Case<'_>) -> convert::Conversion {
    let unpacked = unpacker::open(&corpus.bundle(case), &unpacker::Options::default()).unwrap();
    convert::plain(&unpacked.content, &Options::default())
}

fn outcome(conversion: &convert::Conversion) -> &'static str {
    let report = &conversion.report;
    let has = |code| report.refusals().any(|finding| finding.code == code);
    match &conversion.objects {
        Some(_) => "converted",
        None if has(Code::InstallMode) => "rejected: install mode",
        None if has(Code::APIServices) => "rejected: API services",
        None if has(Code::Webhooks) => "rejected: webhooks",
        None => "rejected: other",
    }
}

// parity: convert-22
#[test]
fn corpus_bundles_convert_like_the_reference_renderer() {
    let Some(corpus) = corpus() else { return };
    let mut wrong = Vec::new();
    for case in corpus.cases() {
        let conversion = convert(&corpus, case);
        let found = (outcome(&conversion), &*conversion.report.facts.name);
        if found != (case.outcome, case.csv) {
            let refusals = conversion.report.refusals();
            let reasons: Vec<_> = refusals.map(ToString::to_string).collect();
            wrong.push(format!("{case:?}: {found:?}: {reasons:?}"));
        }
        let objects = conversion.objects.filter(|_| case.outcome == "converted");
        let Some(objects) = objects else { continue };
        let found = objects.iter().map(|object| object.value().clone());
        let found: Vec<Value> = found.collect();
        let expected = fs::read(corpus.expected(case)).unwrap();
        let expected: Vec<Value> = serde_json::from_slice(&expected).unwrap();
        let mut problems = differences(&expected, &found);
        // Clusters serve no beta version of a built-in API.
        let objects = found.iter();
        let apis = objects.filter_map(|object| object["apiVersion"].as_str());
        let is_removed = |api: &&str| !api.contains('.') && api.contains("beta");
        problems.extend(apis.filter(is_removed).map(str::to_owned));
        let problems = problems.iter().take(10);
        wrong.extend(problems.map(|line| format!("{}: {line}", case.bundle)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(corpus.cases().count() > 0, "outcomes.tsv lists no bundle");
}
