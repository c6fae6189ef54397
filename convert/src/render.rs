//! From a bundle that may be converted to the objects that run it.
//!
//! | part | rule |
//! | --- | --- |
//! | [`namespace`] | where namespaced objects go, and the Namespace object itself |
//! | [`accounts`] | ServiceAccounts of permissions and Deployments, merged with those shipped |
//! | [`permissions`] | every permission becomes cluster-wide |
//! | [`deployments`] | the install strategy's Deployments, with what OLM adds to their pods |
//! | [`extra`] | everything else the bundle ships |

pub(crate) mod accounts;
pub(crate) mod deployments;
pub(crate) mod extra;
pub(crate) mod namespace;
pub(crate) mod permissions;

use std::collections::BTreeMap;

use manifests::object::{Identity, Object};
use serde_json::Value;

use crate::{
    bundle::Item,
    csv::Csv,
    options::{NamespaceObject, Options},
    property::Property,
    report::Findings,
};

/// What rendering needs to know.
pub(crate) struct Input<'a> {
    pub(crate) csv: Csv<'a>,
    pub(crate) properties: Option<&'a [Property]>,
    pub(crate) namespace: &'a str,
    pub(crate) options: &'a Options,
}

/// All objects, ordered, each identity once.
pub(crate) fn objects(
    input: &Input<'_>,
    others: Vec<Item>,
    findings: &mut Findings,
) -> Vec<Object> {
    let mut values: Vec<Value> = Vec::new();
    if input.options.namespace_object == NamespaceObject::Emit {
        values.push(namespace::object(input.csv, input.namespace, findings));
    }
    let extra = extra::objects(others, input.namespace, findings);
    let shipped = accounts::shipped(&extra);
    values.extend(accounts::objects(
        input.csv,
        input.namespace,
        &shipped,
        findings,
    ));
    values.extend(permissions::objects(input.csv, input.namespace, findings));
    values.extend(deployments::objects(input, findings));
    values.extend(extra);

    let mut unique: BTreeMap<Identity, Object> = BTreeMap::new();
    for object in values
        .into_iter()
        .filter_map(|value| Object::try_from(value).ok())
    {
        unique.insert(object.identity(), object);
    }
    let mut objects: Vec<Object> = unique.into_values().collect();
    objects.sort_by_cached_key(Object::order);
    objects
}
