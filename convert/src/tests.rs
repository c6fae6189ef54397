//! Helpers of the tests of several modules.

use serde_json::Value;

/// JSON pointers of a value and of all values in it.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(key, child)| (key.replace('/', "~1"), child))
                .collect()
        }
        Value::Array(list) => (0..).map(|at: usize| at.to_string()).zip(list).collect(),
        _ => Vec::new(),
    };
    let below = children.into_iter().flat_map(|(key, child)| {
        let below = pointers(child).into_iter();
        below.map(move |pointer| format!("/{key}{pointer}"))
    });
    below.chain([String::new()]).collect()
}
