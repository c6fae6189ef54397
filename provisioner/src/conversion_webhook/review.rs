//! Decodes ConversionReviews and creates their responses. Pure; no I/O.
//!
//! The contract is that of `apiextensions.k8s.io/v1`: the response has the uid of the request, and the converted objects in
//! the order of the request. Of their metadata, only labels and annotations may change. Every stored object can be
//! converted. Values that are nested deeper than any CRD requires become null, and the API server restores the metadata
//! itself.

use manifests::api::catalog_source::{
    GROUP,
    convert::{Version, convert},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::shallow_json::DepthLimited;

const KIND: &str = "ConversionReview";
const API_VERSION: &str = "apiextensions.k8s.io/v1";

/// Reason why a request is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the request is not a {KIND} of {API_VERSION}")]
    Json(#[from] serde_json::Error),
    #[error("the request is a {kind:?} of {version:?}, not a {KIND} of {API_VERSION}")]
    Other { kind: String, version: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(default)]
    objects: Vec<DepthLimited>,
}

/// Returns the response to a request.
///
/// # Errors
/// Returns an error if the request is not a ConversionReview of the supported version.
pub(super) fn answer(body: &[u8]) -> Result<Vec<u8>, Error> {
    let review: Review = serde_json::from_slice(body)?;
    if review.kind != KIND || review.api_version != API_VERSION {
        return Err(Error::Other {
            kind: review.kind,
            version: review.api_version,
        });
    }
    let Request {
        uid,
        desired_api_version,
        objects,
    } = review.request;
    let result = convert_objects(&desired_api_version, objects);
    let response = match result {
        Ok(objects) => {
            json!({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}})
        }
        Err(message) => {
            json!({"uid": uid, "result": {"status": "Failure", "message": message}})
        }
    };
    let answer = json!({"apiVersion": API_VERSION, "kind": KIND, "response": response});
    Ok(serde_json::to_vec(&answer)?)
}

fn convert_objects(desired: &str, objects: Vec<DepthLimited>) -> Result<Vec<Value>, String> {
    let desired_version =
        Version::from_object(&json!({"apiVersion": desired})).ok_or_else(|| {
            format!("unsupported version {desired}; supported: v1alpha1 and v1 of {GROUP}")
        })?;
    let converted = objects.into_iter().map(|DepthLimited(object)| {
        let kind = object.get("kind").and_then(Value::as_str);
        if kind != Some("CatalogSource") || Version::from_object(&object).is_none() {
            let version = object.get("apiVersion").and_then(Value::as_str);
            return Err(format!(
                "only CatalogSources of {GROUP} can be converted, but got {} of {}",
                kind.unwrap_or("an object without a kind"),
                version.unwrap_or("an unknown version")
            ));
        }
        Ok(convert(object, desired_version))
    });
    converted.collect()
}

#[cfg(test)]
mod tests {
    use ::tests::assert_has;

    use super::*;

    fn respond(desired: &str, objects: &Value) -> Value {
        let review = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "request": {"uid": "u-1", "desiredAPIVersion": desired, "objects": objects},
        });
        let answer = answer(review.to_string().as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["apiVersion"], API_VERSION);
        assert_eq!(answer["kind"], KIND);
        assert_eq!(answer["response"]["uid"], "u-1");
        answer["response"].clone()
    }

    fn source(version: &str, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/{version}"), "kind": "CatalogSource",
            "metadata": {"name": name, "uid": name, "labels": {"a": "b"}, "managedFields": [{"manager": "m"}]},
            "spec": spec, "status": {"message": "kept"},
        })
    }

    #[test]
    fn objects_are_converted_in_order() {
        let old = json!({"sourceType": "grpc", "image": "a:1", "displayName": "A"});
        let new = json!({"catalogImageSource": {"catalogImage": "a:1"}, "displayName": "A"});
        // A request may contain objects of both versions.
        let sent = json!([
            source("v1alpha1", "one", &old),
            source("v1", "two", &new),
            source("v1alpha1", "three", &old)
        ]);
        for (version, spec) in [("v1", &new), ("v1alpha1", &old)] {
            let response = respond(&format!("{GROUP}/{version}"), &sent);
            assert_eq!(response["result"], json!({"status": "Success"}));
            assert_rows!(response["convertedObjects"] => json!(["one", "two", "three"].map(|name| source(version, name, spec))));
        }
        assert_rows!(respond(&format!("{GROUP}/v1"), &json!([]))["convertedObjects"] => json!([]));
    }

    /// A CRD that preserves unknown fields may have admitted such an object, and without conversion no list would
    /// succeed.
    #[test]
    fn deeply_nested_objects_are_converted() {
        let deep = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let fields = r#"[{"manager":"m","fieldsV1":DEEP}]"#;
        for (stored, spec, desired, [image, options]) in ::tests::rows![
            "v1alpha1", r#"{"sourceType":"grpc","image":"a:1","grpcPodConfig":DEEP}"#, "v1"
                => ["/catalogImageSource/catalogImage", "/catalogImageSource/podSpecOverrides"];
            "v1", r#"{"catalogImageSource":{"catalogImage":"a:1","podSpecOverrides":DEEP}}"#, "v1alpha1"
                => ["/image", "/grpcPodConfig"];
        ] {
            let object = format!(
                r#"{{"apiVersion":"{GROUP}/{stored}","kind":"CatalogSource","metadata":{{"name":"a","managedFields":{fields}}},"spec":{spec}}}"#
            );
            let review = format!(
                r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u","desiredAPIVersion":"{GROUP}/{desired}","objects":[{object}]}}}}"#
            );
            for depth in [90, 200, 100_000] {
                let answered = answer(review.replace("DEEP", &deep(depth)).as_bytes()).unwrap();
                let answered: Value = serde_json::from_slice(&answered).unwrap();
                let converted = &answered["response"]["convertedObjects"][0];
                assert_eq!(converted["metadata"]["name"], "a");
                let field = |path: &str| converted["spec"].pointer(path).unwrap();
                assert_eq!(*field(image), "a:1");
                let text = field(options).to_string();
                assert_eq!(text == deep(depth), depth == 90, "{stored} {depth}");
            }
        }
    }

    #[test]
    fn conversion_errors_are_reported() {
        let one = source("v1alpha1", "one", &json!({}));
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        for (desired, objects, message) in ::tests::rows![
            "operators.coreos.com/v2", json!([one]) => "unsupported version operators.coreos.com/v2";
            "v1", json!([one]) => "unsupported version v1;";
            "operators.coreos.com/v1", json!([one, pod]) => "but got Pod of v1";
            "operators.coreos.com/v1", json!([7]) => "but got an object without a kind of an unknown version";
        ] {
            let response = respond(desired, &objects);
            assert_eq!(response["result"]["status"], "Failure");
            assert_has(response["result"]["message"].as_str().unwrap(), message);
            assert_eq!(response.get("convertedObjects"), None);
        }
        assert_each!(|body, message| answer(body.as_bytes()).unwrap_err() => has message;
            "" => "the request is not a ConversionReview";
            "[]" => "the request is not a ConversionReview";
            r#"{"apiVersion": "v1", "kind": "Pod", "request": {"uid": "", "desiredAPIVersion": ""}}"# => "is a \"Pod\" of \"v1\"";
        );
    }
}
