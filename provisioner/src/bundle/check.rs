//! Whether content is what its class says, told by converting it once, and what it says of itself.

use convert::{Conversion, Level, Options, Report, facts};
use manifests::{
    api::{
        Class,
        bundle::{ConversionSummary, Facts},
    },
    content::Content,
    version::KubeVersion,
    yaml,
};

/// How many bytes of findings a condition shows. Its message may have 32 KiB, and is quoted in that of an instance.
const MESSAGE: usize = 30 << 10;
/// How many objects one bundle may bring: each of them is watched, and kept in an inventory.
const MOST_OBJECTS: usize = 10_000;
/// The bounds of what a status repeats from a bundle.
const LINES: usize = 512;
const LINE: usize = 1024;
const WORD: usize = 512;
const FINDINGS: usize = 10;

/// Converts content to see whether that works. Takes a while, and blocks.
pub(super) fn check(
    class: Class,
    content: &Content,
    kube_version: KubeVersion,
    limits: yaml::Limits,
) -> Result<Facts, String> {
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
        return Err(refusal(class, &report));
    };
    if objects.len() > MOST_OBJECTS {
        return Err(format!(
            "the bundle has {} objects, and one instance takes at most {MOST_OBJECTS}: split it into several bundles",
            objects.len()
        ));
    }
    Ok(Facts {
        conversion: Some(summary(objects.len(), &report)),
        ..facts_of(&report.facts)
    })
}

/// Every reason, as far as there is room, and how many there are besides.
pub fn refusal(class: Class, report: &Report) -> String {
    let reasons: Vec<String> = report.refusals().map(ToString::to_string).collect();
    let prefix = match (class, reasons.first()) {
        // rukpak parity: this one has no prefix.
        (Class::Plain, Some(first)) if first.contains("found zero objects") => "",
        (Class::Plain, _) => "get objects from bundle manifests: ",
        (Class::Registry, _) => "convert registry+v1 bundle to plain+v0 bundle: ",
    };
    if let [only] = reasons.as_slice() {
        return format!("{prefix}{}", cut(only, MESSAGE));
    }
    let mut text = format!("{prefix}{} problems:", reasons.len());
    for (at, reason) in reasons.iter().enumerate() {
        let line = format!("\n- {}", cut(reason, MESSAGE / 4));
        if text.len() + line.len() > MESSAGE {
            let left = reasons.len() - at;
            return format!("{text}\n- and {left} more");
        }
        text.push_str(&line);
    }
    text
}

/// The conversion in short. What is worth a warning comes before what was changed.
fn summary(objects: usize, report: &Report) -> ConversionSummary {
    let (warnings, changes) = (report.of(Level::Warning), report.of(Level::Change));
    let findings = report.of(Level::Warning).chain(report.of(Level::Change));
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    ConversionSummary {
        objects: count(objects),
        changes: count(changes.count()),
        warnings: count(warnings.count()),
        findings: findings
            .take(FINDINGS)
            .map(|finding| cut(&finding.to_string(), LINE / 2))
            .collect(),
    }
}

fn facts_of(facts: &facts::Facts) -> Facts {
    let word = |text: &str| (!text.is_empty()).then(|| cut(text, WORD));
    let api = |api: &facts::Api| {
        let group = match api.group.as_str() {
            "" => String::new(),
            group => format!("{group}/"),
        };
        format!("{} {group}{}", api.kind, api.version)
    };
    let packages = facts.required_packages.iter();
    let packages = packages.map(|(name, range)| format!("{name} {range}").trim_end().to_owned());
    let max = facts.max_open_shift_version.as_ref();
    Facts {
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

/// As many lines as a status may hold; the last one says how many there are besides.
fn bounded(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| cut(&line, LINE)).collect();
    if lines.len() > LINES {
        let more = lines.len() - (LINES - 1);
        lines.truncate(LINES - 1);
        lines.push(format!("and {more} more"));
    }
    lines
}

/// No more bytes than that, ending with a mark where something is missing.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let room = bytes.saturating_sub(MARK.len());
    let at = (0..=room).rev().find(|at| text.is_char_boundary(*at));
    let kept = text.get(..at.unwrap_or_default()).unwrap_or_default();
    format!("{kept}{MARK}")
}

#[cfg(test)]
mod tests {
    use ::tests::assert_has;

    use super::*;
    use crate::fixtures::content;

    fn outcome(class: Class, files: &[(&str, &str)]) -> Result<Facts, String> {
        let limits = yaml::Limits::default();
        check(class, &content(files), KubeVersion::default(), limits)
    }

    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

    // parity: b7, rukpak-10
    #[test]
    fn plain_content_is_refused_in_the_words_of_rukpak() {
        for (files, expected) in ::tests::rows![
            &[("README.md", "")][..] => "get objects from bundle manifests: readdir manifests: file does not exist";
            &[("manifests/a.yaml", "")][..] => "found zero objects: plain+v0 bundles are required to contain at least one object";
            &[("manifests/a.yaml", MAP), ("manifests/emptydir/b.yaml", "")][..]
                => "get objects from bundle manifests: manifests/emptydir: subdirectories are not allowed within the \"manifests\" \
                    directory of the bundle image filesystem: found \"manifests/emptydir\"";
            &[("manifests/a.yaml", "just text")][..] => "the document is a text, not an object";
        ] {
            assert_has(outcome(Class::Plain, files).unwrap_err(), expected);
        }
        let error = outcome(Class::Registry, &[("manifests/a.yaml", MAP)]).unwrap_err();
        assert_rows!(error.starts_with("convert registry+v1 bundle to plain+v0 bundle: ") => true, "{error}");
    }

    #[test]
    fn what_fits_is_told_and_the_rest_is_counted() {
        let paths = (0..2000).map(|n| format!("manifests/{n}.yaml"));
        let paths: Vec<String> = paths.collect();
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
        let many: Vec<String> = (0..=MOST_OBJECTS).map(one).collect();
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
    fn texts_are_cut_between_characters() {
        for (text, bytes, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "…"),
            ("äöü", 5, "ä…"),
            ("äöü", 6, "äöü"),
            ("ab", 1, "…"),
        ] {
            assert_eq!(cut(text, bytes), expected);
        }
        let lines = bounded((0..LINES + 5).map(|n| n.to_string()));
        assert_rows!((lines.len(), lines.last().unwrap().as_str()) => (LINES, "and 6 more"));
    }
}
