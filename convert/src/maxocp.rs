//! `maxOpenShiftVersion`: the newest OpenShift release that a bundle claims to run on, in every spelling.
//!
//! | source | shape |
//! | --- | --- |
//! | `metadata/properties.yaml` | a property `olm.maxOpenShiftVersion` |
//! | CSV annotation `olm.properties` | a JSON list of properties |
//! | CSV annotation `operatorframework.io/properties` | `{"properties": [...]}`, what OLM writes on installing |
//! | CSV annotation `operators.coreos.com/maxOpenShiftVersion` | the text itself |
//!
//! The texts of errors are OLM v0's, which admins know from the ClusterOperator.

pub use manifests::openshift::Release;
use manifests::{openshift, path::Path, version};
use serde::{Deserialize, Serialize};

use crate::{code::Code, csv::Csv, property::Property, report::Findings};

/// The property's type.
pub const PROPERTY: &str = openshift::MAX_PROPERTY;
/// The annotation of the first proposal.
pub const ANNOTATION: &str = "operators.coreos.com/maxOpenShiftVersion";

/// What a bundle says about the newest OpenShift it runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxOpenShiftVersion {
    /// The value as it was written, quotes removed.
    pub raw: String,
    /// Where it was written.
    pub source: String,
    /// Major and minor release; `None` when the text is not one, see `problem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Release>,
    /// Why the text is no release: the claim exists and cannot be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Reads the JSON text of a value: a string or a number, tolerantly, but no patch release (OLM v0 parity).
///
/// # Errors
/// In OLM v0's words.
pub fn parse(json: &str) -> Result<Release, String> {
    let text = json.trim_matches('"');
    if text.is_empty() {
        return Err("value cannot be \"\" (an empty string)".into());
    }
    let version = version::tolerant(text).map_err(|error| {
        let problem = match &error {
            version::Error::Version { problem, .. } => problem.clone(),
            version::Error::Kube { .. } => error.to_string(),
        };
        format!("failed to parse {text:?} as semver: {problem}")
    })?;
    if version.patch != 0 || !version.pre.is_empty() {
        return Err(format!(
            "property {PROPERTY} must specify only <major>.<minor> version, got invalid value {version}"
        ));
    }
    Ok(Release {
        major: version.major,
        minor: version.minor,
    })
}

#[derive(Deserialize)]
struct Projected {
    #[serde(default)]
    properties: Vec<Property>,
}

/// One place that names a version.
struct Claim {
    json: String,
    source: String,
}

/// Decides what the bundle claims. Properties win over the annotation of the first proposal; when they differ, the
/// lower release counts, for it is the one that protects the cluster.
pub(crate) fn of(
    properties: &[Property],
    csv: Option<Csv<'_>>,
    findings: &mut Findings,
) -> Option<MaxOpenShiftVersion> {
    let mut claims: Vec<Claim> = properties
        .iter()
        .filter_map(|p| claim(p, "bundle properties"))
        .collect();
    let projected =
        csv.and_then(|csv| Some((csv, csv.annotation("operatorframework.io/properties")?)));
    if let Some((csv, text)) = projected {
        let source = "annotation operatorframework.io/properties";
        match serde_json::from_str::<Projected>(text) {
            Ok(list) => claims.extend(list.properties.iter().filter_map(|p| claim(p, source))),
            Err(error) => findings.warn(
                Code::Property,
                csv.at(&Path::from([
                    "metadata",
                    "annotations",
                    "operatorframework.io/properties",
                ])),
                format!("failed to unmarshal properties annotation: {error}"),
                "remove the annotation; OLM writes it when it installs",
            ),
        }
    }
    claims.dedup_by(|a, b| a.json == b.json);
    let proposal = csv
        .and_then(|csv| csv.annotation(ANNOTATION))
        .map(|text| Claim {
            json: text.to_owned(),
            source: format!("annotation {ANNOTATION}"),
        });
    let decided = match (claims.as_slice(), proposal) {
        ([], None) => return None,
        ([], Some(claim)) => decide(&claim),
        ([claim], None) => decide(claim),
        ([claim], Some(other)) => lower(decide(claim), decide(&other), findings),
        (several, _) => MaxOpenShiftVersion {
            raw: several
                .iter()
                .map(|c| c.json.trim_matches('"'))
                .collect::<Vec<_>>()
                .join(", "),
            source: several
                .iter()
                .map(|c| c.source.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            version: None,
            problem: Some(format!(
                "defining more than one {PROPERTY:?} property is not allowed"
            )),
        },
    };
    if let Some(problem) = &decided.problem {
        findings.warn(
            Code::Property,
            None,
            format!("maxOpenShiftVersion ({}): {problem}", decided.source),
            "write one property olm.maxOpenShiftVersion with a text such as \"4.16\"; \
             until then the cluster cannot tell whether it may be upgraded",
        );
    }
    Some(decided)
}

fn claim(property: &Property, source: &str) -> Option<Claim> {
    (property.type_ == PROPERTY).then(|| Claim {
        json: property.value.get().to_owned(),
        source: source.to_owned(),
    })
}

fn decide(claim: &Claim) -> MaxOpenShiftVersion {
    let parsed = parse(&claim.json);
    MaxOpenShiftVersion {
        raw: claim.json.trim_matches('"').to_owned(),
        source: claim.source.clone(),
        version: parsed.as_ref().ok().copied(),
        problem: parsed.err(),
    }
}

fn lower(
    property: MaxOpenShiftVersion,
    annotation: MaxOpenShiftVersion,
    findings: &mut Findings,
) -> MaxOpenShiftVersion {
    match (property.version, annotation.version) {
        (Some(a), Some(b)) if a != b => {
            findings.warn(
                Code::Property,
                None,
                format!("the bundle names two newest OpenShift versions: {a} ({}) and {b} ({}); the lower one counts",
                    property.source, annotation.source),
                "keep the property and remove the annotation",
            );
            if b < a { annotation } else { property }
        }
        _ => property,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_olm_v0_reads_them() {
        for (json, result) in [
            (r#""4.8""#, Ok((4, 8))),
            ("4.8", Ok((4, 8))),
            ("4.10", Ok((4, 10))),
            (r#"" 4.8 ""#, Ok((4, 8))),
            (r#""4.8.0""#, Ok((4, 8))),
            (r#""v4.8""#, Ok((4, 8))),
            (r#""4""#, Ok((4, 0))),
            ("5.0", Ok((5, 0))),
            (r#""4.08""#, Ok((4, 8))),
            (r#""4.8.0+b""#, Ok((4, 8))),
            (r#""""#, Err("value cannot be \"\" (an empty string)")),
            (
                r#""4.8.1""#,
                Err("must specify only <major>.<minor> version, got invalid value 4.8.1"),
            ),
            (r#""4.8.0-rc.1""#, Err("must specify only")),
            (r#""4.8-rc""#, Err("failed to parse")),
            (r#""4.8+b""#, Err("failed to parse")),
            (r#""V4.8""#, Err("failed to parse")),
            (r#""4.x""#, Err("failed to parse")),
            ("null", Err("failed to parse \"null\" as semver")),
            ("true", Err("failed to parse")),
            ("[]", Err("failed to parse")),
            ("4.8e0", Err("failed to parse")),
            ("-4.8", Err("failed to parse")),
        ] {
            match (parse(json), result) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!((found.major, found.minor), expected, "{json}");
                }
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{json}: {found}"),
                (found, _) => panic!("{json}: {found:?}"),
            }
        }
    }
}
