//! `EndpointSlice`: v1 has fields for the node and the zone, in place of topology labels.

use serde_json::Value;

use super::json::{self, Object, objects_in, take};

/// Converts the topology of each endpoint like the API server.
pub(super) fn reshape(object: &mut Object) {
    for (_, endpoint) in objects_in(object, "endpoints") {
        let Some(Value::Object(mut topology)) = take(endpoint, "topology") else {
            continue;
        };
        for (label, field) in [
            ("kubernetes.io/hostname", "nodeName"),
            ("topology.kubernetes.io/zone", "zone"),
        ] {
            if let Some(value) = topology.remove(label) {
                json::default(endpoint, field, value);
            }
        }
        if !topology.is_empty() {
            endpoint.insert("deprecatedTopology".into(), topology.into());
        }
    }
}
