//! Pod options of a CatalogSource: `grpcPodConfig`, or `podSpecOverrides` in the newer form.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Invalid, memory};

/// Settings of a registry pod. Defaults apply to unset options.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Node selector; replaces the default, which selects Linux nodes.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations of the pod.
    pub tolerations: Option<Vec<Toleration>>,
    /// Affinity of the pod.
    pub affinity: Option<Affinity>,
    /// Priority class of the pod. An empty name selects the cluster's default.
    pub priority_class_name: Option<String>,
    /// Security level of the pod; `None` follows the namespace's Pod Security Standard.
    pub security_context_config: Option<Security>,
    /// Memory request of the container, also used as `GOMEMLIMIT` for Go programs.
    #[serde(deserialize_with = "text_or_number")]
    pub memory_target: Option<String>,
    /// Location of the catalog in the image.
    pub extract_content: Option<ExtractContent>,
}

/// Security level of a registry pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// Unrestricted: the pod runs as the image requires.
    Legacy,
    /// Settings that the Pod Security Standard `restricted` requires.
    Restricted,
}

/// Location of a catalog in its image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractContent {
    /// Directory of the catalog.
    pub catalog_dir: String,
    /// Directory of a cache that was built from the catalog earlier.
    #[serde(default)]
    pub cache_dir: Option<String>,
}

// === impl Options ===

impl Options {
    /// Parses the value of the option field.
    ///
    /// # Errors
    /// Returns an error if the value is invalid.
    pub fn read(field: &str, options: Option<&Value>) -> Result<Self, Invalid> {
        let invalid = |below: &str, problem: String| Invalid::Option {
            field: format!("{field}{below}"),
            problem,
        };
        let parsed = match options {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(_)) => {
                return Err(invalid("", "expected an object, found a list".to_owned()));
            }
            Some(options) => Self::deserialize(options),
        };
        let parsed = parsed.map_err(|error| invalid("", error.to_string()))?;
        if let Some(memory) = &parsed.memory_target
            && memory::parse_bytes(memory).is_none()
        {
            let problem = format!("{memory:?} is not a quantity such as 100Mi");
            return Err(invalid(".memoryTarget", problem));
        }
        if let Some(extract) = &parsed.extract_content {
            let directories = [
                (".catalogDir", Some(&extract.catalog_dir)),
                (".cacheDir", extract.cache_dir.as_ref()),
            ];
            for (key, directory) in directories {
                // An argument that starts with a dash would be parsed as a flag.
                if directory.is_some_and(|path| !path.starts_with('/')) {
                    let problem = "not an absolute path".to_owned();
                    return Err(invalid(&format!(".extractContent{key}"), problem));
                }
            }
        }
        Ok(parsed)
    }
}

fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        None => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: pod-7
    #[test]
    fn invalid_pod_options_are_reported_by_name() {
        let read = |options: &Value| Options::read("spec.grpcPodConfig", Some(options));
        let all = json!({
            "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": {},
            "priorityClassName": "", "securityContextConfig": "restricted", "memoryTarget": 30_000_000,
            "extractContent": {"catalogDir": "/configs", "cacheDir": "/tmp/cache"}, "later": true,
        });
        let all = read(&all).unwrap();
        assert_rows! {
            read(&Value::Null) => Ok(Options::default());
            Options::read("x", None) => Ok(Options::default());
            all.priority_class_name.as_deref() => Some("");
            all.security_context_config => Some(Security::Restricted);
            all.memory_target.as_deref() => Some("30000000");
            all.tolerations.map(|tolerations| tolerations.len()) => Some(1);
        }
        assert_each!(|options, problem| read(&options).unwrap_err() => has problem;
            json!([]) => "failed to parse spec.grpcPodConfig";
            json!({"memoryTarget": "lots"}) => "spec.grpcPodConfig.memoryTarget";
            json!({"memoryTarget": {}}) => "spec.grpcPodConfig.memoryTarget";
            json!({"securityContextConfig": "loose"}) => "loose";
            json!({"tolerations": "all"}) => "expected a sequence";
            json!({"extractContent": {}}) => "catalogDir";
            json!({"extractContent": {"catalogDir": "--port=1"}}) => "spec.grpcPodConfig.extractContent.catalogDir";
            json!({"extractContent": {"catalogDir": "/a", "cacheDir": ""}}) => "spec.grpcPodConfig.extractContent.cacheDir";
        );
    }
}
