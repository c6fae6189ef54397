//! Lists of properties in annotations, decoded like Go in opm and OLM v0: field names are case-insensitive, the last of
//! several equal fields is used, `null` sets no value, and unknown fields are ignored. serde's derived structs differ in
//! each of these points. Pure; no I/O.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Error, value::RawValue};

/// A property in a list.
#[derive(Debug, Clone, Default)]
pub struct Property {
    /// Type of the property, such as `olm.maxOpenShiftVersion`; empty if missing.
    pub type_: String,
    /// JSON text of the value, or `None` if missing.
    pub value: Option<Box<RawValue>>,
}

/// Parses the annotation [`PROPERTIES_ANNOTATION`](super::PROPERTIES_ANNOTATION): `[{"type": …, "value": …}]`.
///
/// # Errors
/// Returns an error if the text is not JSON, or not a list of objects whose types are strings.
///
/// ```
/// use manifests::openshift::properties;
/// let list = properties::parse_list(r#"[{"Type": "a", "value": 4.1, "Value": 4.10}]"#).unwrap();
/// assert_eq!(list[0].type_, "a");
/// assert_eq!(list[0].value.as_deref().unwrap().get(), "4.10");
/// ```
pub fn parse_list(json: &str) -> Result<Vec<Property>, Error> {
    let list: Option<Vec<Property>> = serde_json::from_str(json)?;
    Ok(list.unwrap_or_default())
}

/// Parses the annotation [`INSTALLED_PROPERTIES_ANNOTATION`](super::INSTALLED_PROPERTIES_ANNOTATION): `{"properties":
/// [{"type": …, "value": …}]}`.
///
/// # Errors
/// Returns an error if the text is not JSON, or not an object with such a list.
///
/// ```
/// use manifests::openshift::properties;
/// assert_eq!(properties::parse_installed("{}").unwrap().len(), 0);
/// assert!(properties::parse_installed("[]").is_err());
/// ```
pub fn parse_installed(json: &str) -> Result<Vec<Property>, Error> {
    let Installed(list) = serde_json::from_str(json)?;
    Ok(list)
}

/// Reports whether Go decodes a key into the field of this name, which is lower-case ASCII.
fn is_field(key: &str, name: &str) -> bool {
    let fold = |c| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars())
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PropertyVisitor)
    }
}

struct PropertyVisitor;

impl<'de> Visitor<'de> for PropertyVisitor {
    type Value = Property;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with type and value")
    }

    fn visit_unit<E>(self) -> Result<Property, E> {
        Ok(Property::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Property, A::Error> {
        let mut property = Property::default();
        while let Some(key) = map.next_key::<String>()? {
            if is_field(&key, "type") {
                // In Go, decoding null into a string has no effect.
                if let Some(type_) = map.next_value()? {
                    property.type_ = type_;
                }
            } else if is_field(&key, "value") {
                property.value = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(property)
    }
}

/// The object that contains the list.
struct Installed(Vec<Property>);

impl<'de> Deserialize<'de> for Installed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InstalledVisitor)
    }
}

struct InstalledVisitor;

impl<'de> Visitor<'de> for InstalledVisitor {
    type Value = Installed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with properties")
    }

    fn visit_unit<E>(self) -> Result<Installed, E> {
        Ok(Installed(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Installed, A::Error> {
        let mut list = None;
        while let Some(key) = map.next_key::<String>()? {
            if is_field(&key, "properties") {
                list = map.next_value::<Option<Vec<Property>>>()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Installed(list.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns types and values of a list, or the error.
    fn describe(list: Result<Vec<Property>, Error>) -> String {
        let text = |property: Property| {
            let value = property.value.as_deref().map_or("missing", RawValue::get);
            format!("{}={value}", property.type_)
        };
        let list = list.map(|list| list.into_iter().map(text).collect::<Vec<_>>());
        list.map_or("error".to_owned(), |list| list.join(" "))
    }

    #[test]
    fn lists_are_read_as_go_reads_them() {
        assert_each!(|json, expected| describe(parse_list(json)) => expected;
            "null" => "";
            "[]" => "";
            "[null, {}]" => "=missing =missing";
            r#"[{"type": "a", "value": 4.10}]"# => "a=4.10";
            r#"[{"TYPE": "a", "vAlUe": "4.8"}]"# => "a=\"4.8\"";
            r#"[{"t\u0079pe": "a", "value": null}]"# => "a=null";
            // The last one is used, and a type of null has no effect.
            r#"[{"type": "a", "type": "b", "value": 1, "Value": 2}]"# => "b=2";
            r#"[{"Value": 2, "value": 1, "Type": "b", "type": "a"}]"# => "a=1";
            r#"[{"type": "a", "type": null}]"# => "a=missing";
            r#"[{"type": "a", "types": 7, "value ": 1}]"# => "a=missing";
        );
        let mut others = r#"[{"type": 7}]|[["a", 4.8]]|["a"]|{}|7||[] []"#.split('|');
        assert_eq!(others.find(|json| parse_list(json).is_ok()), None);
    }

    #[test]
    fn installed_lists_are_read_as_go_reads_them() {
        assert_each!(|json, expected| describe(parse_installed(json)) => expected;
            "null" => "";
            "{}" => "";
            r#"{"properties": null}"# => "";
            r#"{"other": [7], "Properties": [{"Type": "a", "Value": 1}]}"# => "a=1";
            r#"{"propertieſ": [{"type": "a"}]}"# => "a=missing";
            r#"{"properties": [{"type": "a"}], "PROPERTIES": [{"type": "b"}]}"# => "b=missing";
            r#"{"properties": [{"type": "a"}], "properties": null}"# => "";
        );
        let mut others = r#"{"properties": {}}|[]|[[{"type": "a"}]]|garbage|"#.split('|');
        assert_eq!(others.find(|json| parse_installed(json).is_ok()), None);
    }

    #[test]
    fn nesting_ends_in_an_error() {
        let deep = |text: &str| text.repeat(100_000);
        assert!(parse_list(&deep("[")).is_err());
        assert!(parse_installed(&deep("{\"properties\":")).is_err());
        assert_rows!(describe(parse_list(&format!("[{{\"x\": {}{}}}]", deep("["), deep("]")))) => "=missing");
    }
}
