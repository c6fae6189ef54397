//! Rendering of the objects of a bundle that passed all checks.
//!
//! | module | rule |
//! | --- | --- |
//! | [`namespace`] | the install namespace and its Namespace object |
//! | [`accounts`] | ServiceAccounts of permissions and Deployments, merged with those of the bundle |
//! | [`permissions`] | every permission becomes cluster-wide |
//! | [`deployments`] | the install strategy's Deployments, with what OLM adds to their pods |
//! | [`condition`] | the OperatorCondition, if the cluster supports it |
//! | [`pods`] | problems of a Deployment that every API server rejects |
//! | [`extra`] | all other objects of the bundle |

pub(crate) mod deployments;
pub(crate) mod namespace;
pub(crate) mod operator_condition;
pub(crate) mod other_objects;
pub(crate) mod permissions;
pub(crate) mod pod_checks;
pub(crate) mod service_accounts;

use std::collections::{BTreeMap, BTreeSet};

use manifests::object::{Identity, Object};
use serde_json::Value;

use crate::{
    budget::Budget,
    bundle::Item,
    csv::{Csv, Install},
    finding::{Findings, code::Code},
    options::{NamespaceObject, Options},
    property::Property,
};

/// Input of rendering.
pub(crate) struct Input<'a> {
    pub(crate) csv: Csv<'a>,
    pub(crate) properties: Option<&'a [Property]>,
    pub(crate) namespace: &'a str,
    pub(crate) options: &'a Options,
}

/// Returns all objects in order, each identity once.
pub(crate) fn objects(
    input: &Input<'_>,
    install: Install,
    others: Vec<Item>,
    budget: &mut Budget,
    findings: &mut Findings,
) -> Vec<Object> {
    let extra = other_objects::objects(others, input.namespace, findings);
    let shipped = service_accounts::bundled(&extra);
    let mut generated = service_accounts::objects(input, &install, &shipped, budget, findings);
    if input.options.operator_condition {
        generated.extend(operator_condition::objects(
            input.csv.name(),
            &install.deployments,
            input.namespace,
        ));
    }
    let Install {
        deployments,
        permissions,
        cluster_permissions,
    } = install;
    generated.extend(permissions::objects(
        input,
        [permissions, cluster_permissions],
        budget,
        findings,
    ));
    generated.extend(deployments::objects(input, deployments, budget, findings));
    let mut unique: BTreeMap<Identity, Object> = identified(generated).collect();
    let generated: BTreeSet<Identity> = unique.keys().cloned().collect();

    let mut namespace = namespace::object(input.csv, input.namespace, findings);
    for mut item in extra {
        if item.kind() == "Namespace" && item.api_version() == "v1" {
            if item.name() == input.namespace {
                namespace::inherit_metadata(&mut namespace, &item.value);
                continue;
            }
            namespace::mark_keep(&mut item.value);
        }
        let label = item.label();
        for (identity, object) in identified([item.value]) {
            if generated.contains(&identity) {
                findings.error(
                    Code::DuplicateObject,
                    item.place.clone(),
                    format!(
                        "bundle contains {label}, which the ClusterServiceVersion also defines"
                    ),
                    "keep one of them",
                );
            }
            unique.insert(identity, object);
        }
    }
    if input.options.namespace_object == NamespaceObject::Emit {
        unique.extend(identified([namespace]));
    }
    let mut objects: Vec<Object> = unique.into_values().collect();
    objects.sort_by_cached_key(Object::order);
    objects
}

fn identified(values: impl IntoIterator<Item = Value>) -> impl Iterator<Item = (Identity, Object)> {
    values.into_iter().filter_map(|value| {
        let object = Object::try_from(value).ok()?;
        Some((object.identity(), object))
    })
}
