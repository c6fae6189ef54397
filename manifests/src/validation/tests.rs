use std::collections::HashMap;

use futures::executor::block_on;

use self::rows::Offer;
use super::*;
use crate::api::{crds, limits};

mod rows;

fn validators() -> HashMap<String, Validator> {
    let all = crds::all().into_iter().chain(crds::optional_crds());
    all.map(|crd| {
        let schema = crd.spec.versions[0].schema.as_ref().unwrap();
        let schema = serde_json::to_value(&schema.open_api_v3_schema).unwrap();
        (crd.spec.names.kind, Validator::new(schema).unwrap())
    })
    .collect()
}

fn merge(object: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *object = patch;
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(&name);
        } else {
            merge(&mut object[name], value);
        }
    }
}

#[test]
fn objects_follow_the_rules_of_their_crds() {
    let validators = validators();
    let test = async |offer: Offer| {
        let (object, old) = match offer {
            Offer::Create(object) => (object, None),
            Offer::Change { object, patch } => {
                let mut changed = object.clone();
                merge(&mut changed, patch);
                (changed, Some(object))
            }
        };
        let validator = &validators[object["kind"].as_str().unwrap()];
        let errors = validator.errors(object, old.as_ref()).unwrap();
        if errors.is_empty() {
            "accepted".to_owned()
        } else {
            errors.join(", ")
        }
    };
    block_on(async {
        rows::sources(test).await;
        rows::bundles(test).await;
        rows::bundle_instances(test).await;
        rows::class_names(test).await;
        rows::platform_operators(test).await;
        rows::catalog_sources(test).await;
        rows::catalog_fields(test).await;
        rows::pod_options(test).await;
        rows::changes(test).await;
    });
}
