//! What a CatalogSource says about its pod: `grpcPodConfig`, or `podSpecOverrides` in the newer form.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Invalid, quantity};

/// How the pod of a catalog is to be; what is not said is as usual.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Instead of those for Linux.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations.
    pub tolerations: Option<Vec<Toleration>>,
    /// Affinity.
    pub affinity: Option<Affinity>,
    /// An empty name is one, too: the cluster's default, whatever would be used otherwise.
    pub priority_class_name: Option<String>,
    /// How much the pod may do.
    pub security_context_config: Option<Security>,
    /// The memory to ask for, and the limit of what a program in Go lets itself use.
    #[serde(deserialize_with = "text_or_number")]
    pub memory_target: Option<String>,
    /// Where in the image the catalog is.
    pub extract_content: Option<Extract>,
}

/// How much a pod may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// What the image wants.
    Legacy,
    /// What the pod security standard of that name allows.
    Restricted,
}

/// Where in the image the catalog is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extract {
    /// Its folder.
    pub catalog_dir: String,
    /// The folder of what was made of it before.
    #[serde(default)]
    pub cache_dir: Option<String>,
}

// === impl Options ===

impl Options {
    /// Reads what stands in this field.
    ///
    /// # Errors
    /// When it is none of it.
    pub fn read(field: &str, options: Option<&Value>) -> Result<Self, Invalid> {
        let invalid = |below: &str, problem: String| Invalid::Option {
            field: format!("{field}{below}"),
            problem,
        };
        let read = match options {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(_)) => return Err(invalid("", "it is a list".to_owned())),
            Some(options) => Self::deserialize(options),
        };
        let read = read.map_err(|error| invalid("", error.to_string()))?;
        if let Some(memory) = &read.memory_target
            && quantity::bytes(memory).is_none()
        {
            let problem = format!("{memory:?} is no amount of memory such as 100Mi");
            return Err(invalid(".memoryTarget", problem));
        }
        if let Some(extract) = &read.extract_content {
            let folders = [
                (".catalogDir", Some(&extract.catalog_dir)),
                (".cacheDir", extract.cache_dir.as_ref()),
            ];
            for (key, folder) in folders {
                // Arguments that begin with a dash are others.
                if folder.is_some_and(|it| !it.starts_with('/')) {
                    let problem = "it is no path that begins with a slash".to_owned();
                    return Err(invalid(&format!(".extractContent{key}"), problem));
                }
            }
        }
        Ok(read)
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
    fn options_are_read_or_told_by_name() {
        let read = |options: &Value| Options::read("spec.grpcPodConfig", Some(options));
        assert_eq!(read(&Value::Null), Ok(Options::default()));
        assert_eq!(Options::read("x", None), Ok(Options::default()));
        let all = json!({
            "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": {},
            "priorityClassName": "", "securityContextConfig": "restricted", "memoryTarget": 30_000_000,
            "extractContent": {"catalogDir": "/configs", "cacheDir": "/tmp/cache"}, "later": true,
        });
        let all = read(&all).unwrap();
        assert_eq!(all.priority_class_name.as_deref(), Some(""));
        assert_eq!(all.security_context_config, Some(Security::Restricted));
        assert_eq!(all.memory_target.as_deref(), Some("30000000"));
        assert_eq!(all.tolerations.map(|it| it.len()), Some(1));
        for (options, problem) in ::tests::rows![
            json!([]) => "spec.grpcPodConfig cannot be read";
            json!({"memoryTarget": "lots"}) => "spec.grpcPodConfig.memoryTarget";
            json!({"memoryTarget": {}}) => "spec.grpcPodConfig.memoryTarget";
            json!({"securityContextConfig": "loose"}) => "loose";
            json!({"tolerations": "all"}) => "expected a sequence";
            json!({"extractContent": {}}) => "catalogDir";
            json!({"extractContent": {"catalogDir": "--port=1"}}) => "spec.grpcPodConfig.extractContent.catalogDir";
            json!({"extractContent": {"catalogDir": "/a", "cacheDir": ""}}) => "spec.grpcPodConfig.extractContent.cacheDir";
        ] {
            let error = read(&options).unwrap_err().to_string();
            assert!(error.contains(problem), "{options}: {error}");
        }
    }
}
