//! Validation of content: converts it once, and extracts its bundle info.

use convert::{Conversion, Level, Options, Report, bundle_info};
use manifests::{
    api::{
        Class,
        bundle::{BundleInfo, ConversionSummary},
    },
    content::Content,
    version::KubeVersion,
    yaml,
};

/// Maximum length of the findings in a condition, in bytes. Its message may have 32 KiB, and the condition of an instance
/// quotes it.
const MAX_MESSAGE_LEN: usize = 30 << 10;
/// Maximum number of objects of a bundle: each of them is watched, and recorded in an inventory.
const MAX_OBJECTS: usize = 10_000;
/// Limits of the bundle info in a status.
const MAX_LINES: usize = 512;
const MAX_LINE_LEN: usize = 1024;
const MAX_WORD_LEN: usize = 512;
const MAX_FINDINGS: usize = 10;

/// Converts content to validate it. Blocks, and may take a while.
pub(super) fn validate_content(
    class: Class,
    content: &Content,
    kube_version: KubeVersion,
    limits: yaml::Limits,
) -> Result<BundleInfo, String> {
    let options = Options {
        class: Some(match class {
            Class::Plain => convert::Class::Plain,
            Class::Registry => convert::Class::Registry,
        }),
        kube_version,
        limits,
        ..Options::default()
    };
    let Conversion {
        objects,
        mut report,
    } = convert::plain(content, &options);
    let Some(objects) = objects else {
        report.locate(content);
        return Err(rejection(class, &report));
    };
    if objects.len() > MAX_OBJECTS {
        return Err(format!(
            "the bundle has {} objects, but a BundleInstance can have at most {MAX_OBJECTS}; split it into several \
             bundles",
            objects.len()
        ));
    }
    Ok(BundleInfo {
        conversion: Some(summary(objects.len(), &report)),
        ..bundle_info(&report.facts)
    })
}

/// Returns all reasons of a rejection up to the maximum length, and the number of the omitted ones.
pub fn rejection(class: Class, report: &Report) -> String {
    let reasons: Vec<String> = report.refusals().map(ToString::to_string).collect();
    let prefix = match (class, reasons.first()) {
        // rukpak parity: this one has no prefix.
        (Class::Plain, Some(first)) if first.contains("found zero objects") => "",
        (Class::Plain, _) => "get objects from bundle manifests: ",
        (Class::Registry, _) => "convert registry+v1 bundle to plain+v0 bundle: ",
    };
    if let [only] = reasons.as_slice() {
        return format!("{prefix}{}", truncate(only, MAX_MESSAGE_LEN));
    }
    let mut text = format!("{prefix}{} problems:", reasons.len());
    for (index, reason) in reasons.iter().enumerate() {
        let line = format!("\n- {}", truncate(reason, MAX_MESSAGE_LEN / 4));
        if text.len() + line.len() > MAX_MESSAGE_LEN {
            let omitted = reasons.len() - index;
            return format!("{text}\n- and {omitted} more");
        }
        text.push_str(&line);
    }
    text
}

/// Returns a summary of the conversion. Warnings precede changes.
fn summary(objects: usize, report: &Report) -> ConversionSummary {
    let (warnings, changes) = (
        report.with_level(Level::Warning),
        report.with_level(Level::Change),
    );
    let findings = report
        .with_level(Level::Warning)
        .chain(report.with_level(Level::Change));
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    ConversionSummary {
        objects: count(objects),
        changes: count(changes.count()),
        warnings: count(warnings.count()),
        findings: findings
            .take(MAX_FINDINGS)
            .map(|finding| truncate(&finding.to_string(), MAX_LINE_LEN / 2))
            .collect(),
    }
}

fn bundle_info(facts: &bundle_info::BundleInfo) -> BundleInfo {
    let word = |text: &str| (!text.is_empty()).then(|| truncate(text, MAX_WORD_LEN));
    let api = |api: &bundle_info::Api| {
        let group = match api.group.as_str() {
            "" => String::new(),
            group => format!("{group}/"),
        };
        format!("{} {group}{}", api.kind, api.version)
    };
    let packages = facts.required_packages.iter();
    let packages = packages.map(|(name, range)| format!("{name} {range}").trim_end().to_owned());
    let max = facts.max_open_shift_version.as_ref();
    BundleInfo {
        package: word(&facts.package),
        version: word(&facts.version),
        cluster_service_version: word(&facts.name),
        max_open_shift_version: max.and_then(|max| word(&max.text())),
        min_kube_version: facts.min_kube_version.as_deref().and_then(word),
        requires: bounded(packages.chain(facts.required_apis.iter().map(api))),
        provided_apis: bounded(facts.provided_apis.iter().map(api)),
        conversion: None,
    }
}

/// Returns the lines that fit into a status. The last line has the number of the omitted ones.
fn bounded(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| truncate(&line, MAX_LINE_LEN)).collect();
    if lines.len() > MAX_LINES {
        let more = lines.len() - (MAX_LINES - 1);
        lines.truncate(MAX_LINES - 1);
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Returns at most `bytes` bytes of a text, with an ellipsis if it was truncated.
pub(crate) fn truncate(text: &str, bytes: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let available = bytes.saturating_sub(ELLIPSIS.len());
    let at = (0..=available).rev().find(|at| text.is_char_boundary(*at));
    let truncated = text.get(..at.unwrap_or_default()).unwrap_or_default();
    format!("{truncated}{ELLIPSIS}")
}

#[cfg(test)]
mod tests {
    use ::tests::assert_has;

    use super::*;
    use crate::fixtures::content;

    fn outcome(class: Class, files: &[(&str, &str)]) -> Result<BundleInfo, String> {
        let limits = yaml::Limits::default();
        validate_content(class, &content(files), KubeVersion::default(), limits)
    }

    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

    // parity: b7, rukpak-10
    #[test]
    fn plain_content_is_rejected_with_the_errors_of_rukpak() {
        for (files, expected) in ::tests::rows![
            &[("README.md", "")][..] => "get objects from bundle manifests: readdir manifests: file does not exist";
            &[("manifests/a.yaml", "")][..] => "found zero objects: plain+v0 bundles are required to contain at least one object";
            &[("manifests/a.yaml", MAP), ("manifests/emptydir/b.yaml", "")][..]
                => "get objects from bundle manifests: manifests/emptydir: subdirectories are not allowed within the \"manifests\" \
                    directory of the bundle image filesystem: found \"manifests/emptydir\"";
            &[("manifests/a.yaml", "just text")][..] => "the document is a string, not an object";
        ] {
            assert_has(outcome(Class::Plain, files).unwrap_err(), expected);
        }
        let error = outcome(Class::Registry, &[("manifests/a.yaml", MAP)]).unwrap_err();
        assert_rows!(error.starts_with("convert registry+v1 bundle to plain+v0 bundle: ") => true, "{error}");
    }

    #[test]
    fn long_error_lists_are_truncated_and_counted() {
        let paths: Vec<String> = (0..2000).map(|n| format!("manifests/{n}.yaml")).collect();
        let files: Vec<_> = paths.iter().map(|path| (&**path, "no object")).collect();
        let error = outcome(Class::Plain, &files).unwrap_err();
        assert!(error.len() <= 32 << 10, "{}", error.len());
        let (first, last) = (error.lines().next().unwrap(), error.lines().last().unwrap());
        assert_rows!(first.ends_with("2000 problems:") => true, "{first}");
        assert_rows!(last.starts_with("- and ") && last.ends_with(" more") => true, "{last}");
        assert_rows!(last => format!("- and {} more", 2002 - error.lines().count()));
    }

    #[test]
    fn plain_content_counts_its_objects() {
        let one = |n| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a{n}}}}}");
        let many: Vec<String> = (0..=MAX_OBJECTS).map(one).collect();
        let files = [("manifests/a.yaml", &*many.join("\n---\n"))];
        let error = outcome(Class::Plain, &files).unwrap_err();
        for part in ["10001 objects", "at most 10000", "split it"] {
            assert_has(&error, part);
        }
        let facts = outcome(Class::Plain, &[("manifests/a.yaml", MAP)]).unwrap();
        assert_eq!(facts.conversion.unwrap().objects, 1);
        assert_eq!(facts.package, None);
    }

    #[test]
    fn messages_are_truncated_between_characters() {
        assert_each!(|text, bytes, expected| truncate(text, bytes) => expected;
            "abc", 3 => "abc";
            "abcd", 3 => "…";
            "äöü", 5 => "ä…";
            "äöü", 6 => "äöü";
            "ab", 1 => "…";
        );
        let lines = bounded((0..MAX_LINES + 5).map(|n| n.to_string()));
        assert_rows!((lines.len(), lines.last().unwrap().as_str()) => (MAX_LINES, "and 6 more"));
    }
}
