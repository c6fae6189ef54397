//! Ingress: v1 nests the service of a backend, and requires a type for every path.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    json::{self, Object, object_at, objects_in, rename, take},
    notes::UpgradeNotes,
};
use crate::finding::code::Code;

/// Converts the backends. Annotations such as `kubernetes.io/ingress.class` still have an effect and are kept.
pub(super) fn reshape(object: &mut Object, notes: &mut UpgradeNotes<'_>) {
    object.remove("status");
    let Some(spec) = object_at(object, &["spec"]) else {
        return;
    };
    rename(spec, "backend", "defaultBackend");
    if let Some(default) = object_at(spec, &["defaultBackend"]) {
        backend(default, || Path::from(["spec", "backend"]), notes);
    }
    for (rule_at, rule) in objects_in(spec, "rules") {
        let Some(http) = object_at(rule, &["http"]) else {
            continue;
        };
        for (path_at, path) in objects_in(http, "paths") {
            // The default of v1beta1.
            json::default(path, "pathType", "ImplementationSpecific");
            let at = || {
                Path::from(["spec", "rules"])
                    .index(rule_at)
                    .key("http")
                    .key("paths")
                    .index(path_at)
                    .key("backend")
            };
            if let Some(target) = object_at(path, &["backend"]) {
                backend(target, at, notes);
            }
        }
    }
}

fn backend(backend: &mut Object, at: impl Fn() -> Path, notes: &mut UpgradeNotes<'_>) {
    let (name, port) = (take(backend, "serviceName"), take(backend, "servicePort"));
    if name.is_none() && port.is_none() {
        return; // A resource, or already in the form of v1.
    }
    let mut service = Object::new();
    if let Some(name) = name {
        service.insert("name".into(), name);
    }
    match port {
        None => {}
        Some(Value::String(text)) => {
            // The name of a port contains a letter, so digits alone can only be the number.
            let port = match text.parse::<u16>() {
                Ok(number) => {
                    let message = format!(
                        "has a service port {text:?}, which is treated as the number {number}"
                    );
                    notes.change(Code::UpgradedAPI, at().key("servicePort"), message);
                    json!({"number": number})
                }
                Err(_) => json!({"name": text}),
            };
            service.insert("port".into(), port);
        }
        Some(number @ Value::Number(_)) => {
            service.insert("port".into(), json!({"number": number}));
        }
        Some(_) => notes.reject(
            at().key("servicePort"),
            "the service port is neither a number nor a name",
        ),
    }
    backend.insert("service".into(), service.into());
}
