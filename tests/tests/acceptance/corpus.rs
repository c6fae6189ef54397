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
    let has = |code| {
        conversion
            .report
            .refusals()
            .any(|finding| finding.code == code)
    };
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
fn every_corpus_bundle_has_its_expected_outcome() {
    let Some(corpus) = corpus() else { return };
    let mut wrong = Vec::new();
    for case in corpus.cases() {
        let conversion = convert(&corpus, case);
        if (outcome(&conversion), conversion.report.facts.name.as_str()) != (case.outcome, case.csv)
        {
            let reasons: Vec<_> = conversion
                .report
                .refusals()
                .map(ToString::to_string)
                .collect();
            wrong.push(format!(
                "{}: {} instead of {}: {reasons:?}",
                case.bundle,
                outcome(&conversion),
                case.outcome
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(corpus.cases().count() > 0, "outcomes.tsv lists no bundle");
}

// parity: convert-22
#[test]
fn converted_objects_match_the_reference_renderer() {
    let Some(corpus) = corpus() else { return };
    let mut wrong = Vec::new();
    for case in corpus.cases().filter(|case| case.outcome == "converted") {
        let Some(objects) = convert(&corpus, case).objects else {
            wrong.push(format!("{}: refused", case.bundle));
            continue;
        };
        let found: Vec<Value> = objects
            .into_iter()
            .map(manifests::object::Object::into_value)
            .collect();
        let expected: Vec<Value> =
            serde_json::from_slice(&fs::read(corpus.expected(case)).unwrap()).unwrap();
        wrong.extend(
            differences(&expected, &found)
                .iter()
                .take(10)
                .map(|line| format!("{}: {line}", case.bundle)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
