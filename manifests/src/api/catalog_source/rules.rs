//! Validation rules (CEL) for new CatalogSources: no field may be ignored.
//!
//! Stored objects remain usable. A violation may remain as long as its fields are unchanged or removed, so that status,
//! finalizers and all other fields can be written. All versions of Kubernetes with `optionalOldSelf` evaluate these rules
//! alike.

use serde_json::{Map, Value};

/// The members that name a source without a type.
pub(super) const MEMBERS: [&str; 3] = [
    "catalogImageSource",
    "catalogServiceSource",
    "configMapSource",
];
/// OLM's fields, which the members replace.
pub(in crate::api) const DEPRECATED: [&str; 5] = [
    "sourceType",
    "image",
    "address",
    "configMap",
    "grpcPodConfig",
];
/// The deprecated fields, besides `sourceType`, that name a source.
const FIELDS: [&str; 3] = ["image", "address", "configMap"];

/// A CEL validation rule.
struct ValidationRule {
    /// The condition in CEL, with `S` for the object.
    condition: String,
    /// Fields that violate the condition. An update may remove them, but not add them or change their value. For a
    /// superfluous member, a changed value is allowed.
    violation: &'static [&'static str],
    /// The field path of the message.
    at: Option<&'static str>,
    reason: &'static str,
    message: &'static str,
    /// The message in CEL with the names of the fields, evaluated for `self`.
    message_expression: Option<String>,
}

const FORBIDDEN: &str = "FieldValueForbidden";
const REQUIRED: &str = "FieldValueRequired";
const INVALID: &str = "FieldValueInvalid";

/// Returns the rules of the spec.
pub(super) fn spec() -> Vec<Value> {
    rules().iter().map(ValidationRule::to_json).collect()
}

/// Returns the rules of a v1 spec, which has exactly one member and none of OLM's fields.
pub(super) fn spec_of_v1() -> Vec<Value> {
    image_only_rules()
        .iter()
        .map(ValidationRule::to_json)
        .collect()
}

fn rules() -> Vec<ValidationRule> {
    let mut rules: Vec<ValidationRule> = common_rules().into();
    rules.extend(image_only_rules());
    rules.extend(legacy_rules());
    rules.extend(type_rules());
    rules.extend(field_rules());
    rules
}

/// Returns the rules for members, alone or combined with OLM's fields.
fn common_rules() -> [ValidationRule; 2] {
    let has_member = any(&MEMBERS);
    [
        ValidationRule {
            condition: format!("[{}].filter(it, it).size() <= 1", all(&MEMBERS).join(", ")),
            violation: &MEMBERS,
            at: None,
            reason: FORBIDDEN,
            message: "exactly one of catalogImageSource, catalogServiceSource and configMapSource must be set; remove the others",
            message_expression: Some(format!(
                "'exactly one of ' + {} + ' must be set; remove the others'",
                names("self", &MEMBERS)
            )),
        },
        ValidationRule {
            condition: format!("!({has_member}) || !({})", any(&DEPRECATED)),
            violation: &DEPRECATED,
            at: None,
            reason: FORBIDDEN,
            message: "remove sourceType, image, address, configMap and grpcPodConfig: the other field specifies the catalog",
            message_expression: Some(format!(
                "'remove ' + {} + ': ' + {} + ' specifies the catalog' + (has(self.grpcPodConfig) ? '; set pod options in \
                 catalogImageSource.podSpecOverrides' : '')",
                names("self", &DEPRECATED),
                names("self", &MEMBERS)
            )),
        },
    ]
}

/// Returns the rules for fields that members allow only for images.
fn image_only_rules() -> [ValidationRule; 2] {
    let is_image = "!(has(S.catalogServiceSource) || has(S.configMapSource))";
    [
        ValidationRule {
            condition: format!("!has(S.updateStrategy) || {is_image}"),
            violation: &["updateStrategy"],
            at: Some(".updateStrategy"),
            reason: FORBIDDEN,
            message: "only for catalogImageSource, whose image is polled: remove updateStrategy",
            message_expression: None,
        },
        ValidationRule {
            condition: format!("!has(S.secrets) || S.secrets.size() == 0 || {is_image}"),
            violation: &["secrets"],
            at: Some(".secrets"),
            reason: FORBIDDEN,
            message: "only for catalogImageSource, whose image is pulled with secrets: remove secrets",
            message_expression: None,
        },
    ]
}

/// Returns the rules that require a source and its type.
fn legacy_rules() -> [ValidationRule; 3] {
    let (has_member, has_field) = (any(&MEMBERS), any(&FIELDS));
    [
        ValidationRule {
            condition: format!("{has_member} || has(S.sourceType) || {has_field}"),
            violation: &[],
            at: None,
            reason: REQUIRED,
            message: "one of catalogImageSource, catalogServiceSource or configMapSource must be set",
            message_expression: None,
        },
        ValidationRule {
            condition: format!("{has_member} || has(S.sourceType) || !({has_field})"),
            violation: &[],
            at: Some(".sourceType"),
            reason: REQUIRED,
            message: "image and address require sourceType grpc, configMap requires configmap; or use catalogImageSource, \
                      catalogServiceSource or configMapSource instead",
            message_expression: None,
        },
        ValidationRule {
            condition: format!(
                "{has_member} || !has(S.sourceType) || S.sourceType in ['grpc', 'configmap', 'internal']"
            ),
            violation: &["sourceType"],
            at: Some(".sourceType"),
            reason: INVALID,
            message: "unknown sourcetype: must be grpc or configmap",
            message_expression: Some(
                "'unknown sourcetype: ' + self.sourceType + ': must be grpc or configmap'".into(),
            ),
        },
    ]
}

/// Returns a CEL expression that is true if OLM's form has one of these types. The type may be absent.
fn has_type(types: &str) -> String {
    format!(
        "!({}) && has(S.sourceType) && S.sourceType in [{types}]",
        any(&MEMBERS)
    )
}

const GRPC: &str = "'grpc'";
const MAP: &str = "'configmap', 'internal'";

/// Returns the rules for fields that a type requires or ignores.
fn type_rules() -> [ValidationRule; 5] {
    let (grpc, map) = (has_type(GRPC), has_type(MAP));
    [
        ValidationRule {
            condition: format!("!({grpc}) || has(S.image) || has(S.address)"),
            violation: &[],
            at: Some(".image"),
            reason: REQUIRED,
            message: "image and address unset: at least one must be set for sourcetype: grpc",
            message_expression: None,
        },
        ValidationRule {
            condition: format!(
                "!({grpc}) || !has(S.image) || S.image == '' || !has(S.address) || S.address == ''"
            ),
            violation: &["address"],
            at: Some(".address"),
            reason: FORBIDDEN,
            message: "ignored when image is set: remove address, or remove image to use the server at that address",
            message_expression: None,
        },
        ValidationRule {
            condition: format!("!({grpc}) || !has(S.configMap)"),
            violation: &["configMap"],
            at: Some(".configMap"),
            reason: FORBIDDEN,
            message: "ignored with sourceType grpc: remove configMap, or set sourceType configmap and remove image and \
                      address",
            message_expression: None,
        },
        ValidationRule {
            condition: format!("!({map}) || has(S.configMap)"),
            violation: &[],
            at: Some(".configMap"),
            reason: REQUIRED,
            message: "configmap name unset: must be set for sourcetype: configmap",
            message_expression: Some(
                "'configmap name unset: must be set for sourcetype: ' + self.sourceType".into(),
            ),
        },
        ValidationRule {
            condition: format!(
                "!({grpc} || {map}) || !has(S.grpcPodConfig) || has(S.image) && S.sourceType == 'grpc'"
            ),
            violation: &["grpcPodConfig"],
            at: Some(".grpcPodConfig"),
            reason: FORBIDDEN,
            message: "only images are served by a registry pod: remove grpcPodConfig",
            message_expression: None,
        },
    ]
}

/// Returns the rules that reject empty fields, and fields beside a ConfigMap.
fn field_rules() -> Vec<ValidationRule> {
    let (has_member, map) = (any(&MEMBERS), has_type(MAP));
    let mut rules = Vec::new();
    for (field, violation, at, with_map) in [
        ("image", &["image"], ".image", true),
        ("address", &["address"], ".address", true),
        ("configMap", &["configMap"], ".configMap", false),
    ] {
        rules.push(ValidationRule {
            condition: format!("{has_member} || !has(S.{field}) || S.{field} != ''"),
            violation,
            at: Some(at),
            reason: INVALID,
            message: "empty: remove the field",
            message_expression: None,
        });
        if with_map {
            rules.push(ValidationRule {
                condition: format!("!({map}) || !has(S.{field})"),
                violation,
                at: Some(at),
                reason: FORBIDDEN,
                message: "ignored when configMap is set: remove the field, or set sourceType grpc and remove configMap",
                message_expression: None,
            });
        }
    }
    rules
}

impl ValidationRule {
    fn to_json(&self) -> Value {
        let condition = |of: &str| self.condition.replace("S.", &format!("{of}."));
        let mut unchanged = vec![
            "oldSelf.hasValue()".to_owned(),
            format!("!({})", condition("oldSelf.value()")),
        ];
        for field in self.violation {
            // Comparing optional values would be shorter, but the API server estimates an unbounded cost for them.
            let old = format!("oldSelf.value().{field}");
            let mut was = format!("has({old})");
            if !MEMBERS.contains(field) {
                was = format!("{was} && self.{field} == {old}");
            }
            unchanged.push(format!("(!has(self.{field}) || {was})"));
        }
        let mut rule = Map::new();
        let text = format!("({}) || {}", condition("self"), unchanged.join(" && "));
        rule.insert("rule".into(), text.into());
        rule.insert("optionalOldSelf".into(), true.into());
        rule.insert("message".into(), self.message.into());
        rule.insert("reason".into(), self.reason.into());
        if let Some(at) = self.at {
            rule.insert("fieldPath".into(), at.into());
        }
        if let Some(message_expression) = &self.message_expression {
            rule.insert(
                "messageExpression".into(),
                message_expression.as_str().into(),
            );
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

/// Returns a CEL expression for the names of the fields that are set, concatenated without a list: the API server estimates
/// an unbounded cost for `join`.
pub(in crate::api) fn names(of: &str, fields: &[&str]) -> String {
    let mut before: Vec<String> = Vec::new();
    let mut each = Vec::new();
    for field in fields {
        let is_set = format!("has({of}.{field})");
        let name = match before.join(" || ") {
            none if none.is_empty() => format!("'{field}'"),
            some => format!("({some} ? ', {field}' : '{field}')"),
        };
        each.push(format!("({is_set} ? {name} : '')"));
        before.push(is_set);
    }
    each.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::catalog_source::Invalid;

    // parity: serve-11
    #[test]
    fn rule_messages_start_with_those_of_olm() {
        let messages: Vec<String> = rules().iter().map(|rule| rule.message.to_owned()).collect();
        let begins = |with: &str| messages.iter().any(|message| message.starts_with(with));
        assert!(begins(&Invalid::NoPlace.to_string()));
        assert_rows!(begins(&Invalid::NoConfigMap("configmap".into()).to_string()) => true);
        assert_rows!(begins(&Invalid::Type(String::new()).to_string().replace(": :", ":")) => true);
    }

    /// Each rule considers the old object, and no placeholder `S` remains.
    #[test]
    fn every_rule_accepts_unchanged_objects() {
        for rule in spec() {
            let text = rule["rule"].as_str().unwrap();
            assert_rows!(!text.contains("S.") && text.contains("oldSelf.hasValue() && !(") => true, "{text}");
            assert_eq!(rule["optionalOldSelf"], true);
        }
    }
}
