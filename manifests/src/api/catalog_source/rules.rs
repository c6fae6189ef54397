//! What the apiserver asks of a CatalogSource that is written anew: that nothing in it is ignored.
//!
//! What was stored before stays usable. A rule that was broken may stay so, as long as what breaks it is left as it is, or
//! goes: status, finalizers and everything else can be written, and every version of Kubernetes that has rules with an optional
//! old value sees it alike.

use serde_json::{Map, Value};

/// The members that name a source by themselves.
pub(super) const MEMBERS: [&str; 3] = [
    "catalogImageSource",
    "catalogServiceSource",
    "configMapSource",
];
/// OLM's fields, which these replace.
pub(in crate::api) const DEPRECATED: [&str; 5] = [
    "sourceType",
    "image",
    "address",
    "configMap",
    "grpcPodConfig",
];
/// The deprecated ones that name a source, beside `sourceType`.
const FIELDS: [&str; 3] = ["image", "address", "configMap"];

/// Something that has to hold.
struct Rule {
    /// In CEL, of the object `S`.
    holds: String,
    /// What is offensive: it may go, but not come, nor become another offence. Of a member that is one too many it makes no
    /// difference what it says.
    offence: &'static [&'static str],
    /// Where to show the message.
    at: Option<&'static str>,
    reason: &'static str,
    message: &'static str,
    /// In CEL, of `self`: the message with the names of what is there.
    told: Option<String>,
}

const FORBIDDEN: &str = "FieldValueForbidden";
const REQUIRED: &str = "FieldValueRequired";
const INVALID: &str = "FieldValueInvalid";

/// The rules of the spec.
pub(super) fn spec() -> Vec<Value> {
    rules().iter().map(Rule::written).collect()
}

/// The rules of a spec that has the new form alone, and of its members exactly one.
pub(super) fn spec_of_v1() -> Vec<Value> {
    new_form().iter().map(Rule::written).collect()
}

fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = either_form().into();
    rules.extend(new_form());
    rules.extend(old_form());
    rules.extend(of_its_type());
    rules.extend(of_each_field());
    rules
}

/// Of the new form, and of both at once.
fn either_form() -> [Rule; 2] {
    let has_member = any(&MEMBERS);
    [
        Rule {
            holds: format!("[{}].filter(it, it).size() <= 1", all(&MEMBERS).join(", ")),
            offence: &MEMBERS,
            at: None,
            reason: FORBIDDEN,
            message: "more than one source: keep one of catalogImageSource, catalogServiceSource and configMapSource, and remove the others",
            told: Some(format!(
                "'more than one source: keep one of ' + {} + ', and remove the others'",
                names("self", &MEMBERS)
            )),
        },
        Rule {
            holds: format!("!({has_member}) || !({})", any(&DEPRECATED)),
            offence: &DEPRECATED,
            at: None,
            reason: FORBIDDEN,
            message: "remove sourceType, image, address, configMap and grpcPodConfig: the other member says where the catalog is",
            told: Some(format!(
                "'remove ' + {} + ': ' + {} + ' says by itself where the catalog is' + (has(self.grpcPodConfig) ? '; the \
                 options of a pod are catalogImageSource.podSpecOverrides' : '')",
                names("self", &DEPRECATED),
                names("self", &MEMBERS)
            )),
        },
    ]
}

/// What the new form takes for images alone.
fn new_form() -> [Rule; 2] {
    let is_image = "!(has(S.catalogServiceSource) || has(S.configMapSource))";
    [
        Rule {
            holds: format!("!has(S.updateStrategy) || {is_image}"),
            offence: &["updateStrategy"],
            at: Some(".updateStrategy"),
            reason: FORBIDDEN,
            message: "only for catalogImageSource, for which a registry is asked again and again: remove updateStrategy",
            told: None,
        },
        Rule {
            holds: format!("!has(S.secrets) || S.secrets.size() == 0 || {is_image}"),
            offence: &["secrets"],
            at: Some(".secrets"),
            reason: FORBIDDEN,
            message: "only for catalogImageSource, whose image is pulled with them: remove secrets",
            told: None,
        },
    ]
}

/// That there is a source at all, and its type.
fn old_form() -> [Rule; 3] {
    let (has_member, has_field) = (any(&MEMBERS), any(&FIELDS));
    [
        Rule {
            holds: format!("{has_member} || has(S.sourceType) || {has_field}"),
            offence: &[],
            at: None,
            reason: REQUIRED,
            message: "no source: set catalogImageSource, catalogServiceSource or configMapSource",
            told: None,
        },
        Rule {
            holds: format!("{has_member} || has(S.sourceType) || !({has_field})"),
            offence: &[],
            at: Some(".sourceType"),
            reason: REQUIRED,
            message: "image and address count with sourceType grpc, configMap with configmap; or write catalogImageSource, catalogServiceSource or configMapSource instead of any of these",
            told: None,
        },
        Rule {
            holds: format!(
                "{has_member} || !has(S.sourceType) || S.sourceType in ['grpc', 'configmap', 'internal']"
            ),
            offence: &["sourceType"],
            at: Some(".sourceType"),
            reason: INVALID,
            message: "unknown sourcetype: must be grpc or configmap",
            told: Some(
                "'unknown sourcetype: ' + self.sourceType + ': must be grpc or configmap'".into(),
            ),
        },
    ]
}

/// Of OLM's own form, that the type is one of these. It may not be there.
fn is(types: &str) -> String {
    format!(
        "!({}) && has(S.sourceType) && S.sourceType in [{types}]",
        any(&MEMBERS)
    )
}

const GRPC: &str = "'grpc'";
const MAP: &str = "'configmap', 'internal'";

/// What the type wants, and what it does not read.
fn of_its_type() -> [Rule; 5] {
    let (grpc, map) = (is(GRPC), is(MAP));
    [
        Rule {
            holds: format!("!({grpc}) || has(S.image) || has(S.address)"),
            offence: &[],
            at: Some(".image"),
            reason: REQUIRED,
            message: "image and address unset: at least one must be set for sourcetype: grpc",
            told: None,
        },
        Rule {
            holds: format!(
                "!({grpc}) || !has(S.image) || S.image == '' || !has(S.address) || S.address == ''"
            ),
            offence: &["address"],
            at: Some(".address"),
            reason: FORBIDDEN,
            message: "not read beside image: remove it, or remove image to take the catalog from the server at that address",
            told: None,
        },
        Rule {
            holds: format!("!({grpc}) || !has(S.configMap)"),
            offence: &["configMap"],
            at: Some(".configMap"),
            reason: FORBIDDEN,
            message: "not read with sourceType grpc: remove it, or write sourceType configmap and no image or address",
            told: None,
        },
        Rule {
            holds: format!("!({map}) || has(S.configMap)"),
            offence: &[],
            at: Some(".configMap"),
            reason: REQUIRED,
            message: "configmap name unset: must be set for sourcetype: configmap",
            told: Some(
                "'configmap name unset: must be set for sourcetype: ' + self.sourceType".into(),
            ),
        },
        Rule {
            holds: format!(
                "!({grpc} || {map}) || !has(S.grpcPodConfig) || has(S.image) && S.sourceType == 'grpc'"
            ),
            offence: &["grpcPodConfig"],
            at: Some(".grpcPodConfig"),
            reason: FORBIDDEN,
            message: "only an image is served by a pod of its own: remove grpcPodConfig",
            told: None,
        },
    ]
}

/// That nothing is empty, and that a ConfigMap is alone.
fn of_each_field() -> Vec<Rule> {
    let (has_member, map) = (any(&MEMBERS), is(MAP));
    let mut rules = Vec::new();
    for (field, offence, at, with_map) in [
        ("image", &["image"], ".image", true),
        ("address", &["address"], ".address", true),
        ("configMap", &["configMap"], ".configMap", false),
    ] {
        rules.push(Rule {
            holds: format!("{has_member} || !has(S.{field}) || S.{field} != ''"),
            offence,
            at: Some(at),
            reason: INVALID,
            message: "empty: leave the field out",
            told: None,
        });
        if with_map {
            rules.push(Rule {
                holds: format!("!({map}) || !has(S.{field})"),
                offence,
                at: Some(at),
                reason: FORBIDDEN,
                message: "not read with a ConfigMap: remove it, or write sourceType grpc and no configMap",
                told: None,
            });
        }
    }
    rules
}

impl Rule {
    fn written(&self) -> Value {
        let holds = |of: &str| self.holds.replace("S.", &format!("{of}."));
        let mut stands = vec![
            "oldSelf.hasValue()".to_owned(),
            format!("!({})", holds("oldSelf.value()")),
        ];
        for field in self.offence {
            // Optional values could be compared at once, but the apiserver takes them for endless.
            let old = format!("oldSelf.value().{field}");
            let mut was = format!("has({old})");
            if !MEMBERS.contains(field) {
                was = format!("{was} && self.{field} == {old}");
            }
            stands.push(format!("(!has(self.{field}) || {was})"));
        }
        let mut rule = Map::new();
        let text = format!("({}) || {}", holds("self"), stands.join(" && "));
        rule.insert("rule".into(), text.into());
        rule.insert("optionalOldSelf".into(), true.into());
        rule.insert("message".into(), self.message.into());
        rule.insert("reason".into(), self.reason.into());
        if let Some(at) = self.at {
            rule.insert("fieldPath".into(), at.into());
        }
        if let Some(told) = &self.told {
            rule.insert("messageExpression".into(), told.as_str().into());
        }
        rule.into()
    }
}

fn all(fields: &[&str]) -> Vec<String> {
    fields
        .iter()
        .map(|field| format!("has(S.{field})"))
        .collect()
}

fn any(fields: &[&str]) -> String {
    all(fields).join(" || ")
}

/// In CEL, the names of those that are there, put together without a list: the apiserver takes what is joined for endless.
pub(in crate::api) fn names(of: &str, fields: &[&str]) -> String {
    let mut before: Vec<String> = Vec::new();
    let mut each = Vec::new();
    for field in fields {
        let is_there = format!("has({of}.{field})");
        let name = match before.join(" || ") {
            none if none.is_empty() => format!("'{field}'"),
            some => format!("({some} ? ', {field}' : '{field}')"),
        };
        each.push(format!("({is_there} ? {name} : '')"));
        before.push(is_there);
    }
    each.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::catalog_source::Invalid;

    // parity: serve-11
    #[test]
    fn what_olm_has_words_for_is_told_in_these_here_too() {
        let said: Vec<String> = rules().iter().map(|rule| rule.message.to_owned()).collect();
        let begins = |with: &str| said.iter().any(|message| message.starts_with(with));
        assert!(begins(&Invalid::NoPlace.to_string()));
        assert_rows!(begins(&Invalid::NoConfigMap("configmap".into()).to_string()) => true);
        assert_rows!(begins(&Invalid::Type(String::new()).to_string().replace(": :", ":")) => true);
    }

    /// A rule is of the old object, too, and never of half an object.
    #[test]
    fn every_rule_lets_stand_what_was_stored() {
        for rule in spec() {
            let text = rule["rule"].as_str().unwrap();
            assert!(!text.contains("S."), "{text}");
            assert!(text.contains("oldSelf.hasValue() && !("), "{text}");
            assert_eq!(rule["optionalOldSelf"], true);
        }
    }
}
