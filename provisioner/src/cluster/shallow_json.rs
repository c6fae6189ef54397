//! JSON with a limited depth.
//!
//! Kubernetes stores objects with ten thousand nested levels, but clients reject more than about a hundred. A list with
//! such an object fails as a whole. Here deeper values become null, and all others are kept.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Maximum depth: more than the CRDs of the provisioner need, and small enough for clients after the value is embedded in
/// other objects.
const MAX_DEPTH: usize = 100;

/// JSON value without the levels below [`MAX_DEPTH`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DepthLimited(pub(crate) Value);

impl<'de> Deserialize<'de> for DepthLimited {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DepthSeed(MAX_DEPTH).deserialize(deserializer).map(Self)
    }
}

/// Deserializer with the number of remaining levels.
struct DepthSeed(usize);

impl DepthSeed {
    fn below(&self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl<'de> DeserializeSeed<'de> for DepthSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0 == 0 {
            // Does not recurse, unlike other deserializers.
            return IgnoredAny::deserialize(deserializer).map(|_| Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DepthSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.below())? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            object.insert(name, members.next_value_seed(self.below())?);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shallow_values_are_unchanged() {
        let object =
            r#"{"a":[1,-2,0.1,18446744073709551615,true,null,"ä\n\u0000",{}],"b":{"c":[[]]}}"#;
        let read = serde_json::from_str::<DepthLimited>;
        for text in [object, "null", "7"] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(text).unwrap().0, value);
        }
        for text in ["", "{", "[1,]", "{\"a\":1}x", "{7:1}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn deep_values_become_null() {
        let nested = |depth: usize| format!("{}7{}", "[".repeat(depth), "]".repeat(depth));
        for (depth, is_whole) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false), (1 << 20, false)] {
            let text = nested(depth);
            let shallow: DepthLimited = serde_json::from_str(&text).unwrap();
            let read = shallow.0.to_string();
            assert_eq!(read == text, is_whole, "{depth}");
            let text = format!(r#"{{"deep":{text},"b":1}}"#);
            let shallow: DepthLimited = serde_json::from_str(&text).unwrap();
            assert_eq!(shallow.0["b"], 1);
            // The result can be parsed again.
            let again: Value = serde_json::from_str(&shallow.0.to_string()).unwrap();
            assert_eq!(again, shallow.0);
        }
    }
}
