//! Waits until granted permissions are in effect.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::Value;

use crate::wait::eventually;
use crate::{Cluster, Error, Result};

const TIMEOUT: Duration = Duration::from_secs(60);

impl Cluster {
    /// Reports whether the API server permits an action.
    pub async fn permits(&self, action: &SubjectAccessReviewSpec) -> Result<bool> {
        let review = SubjectAccessReview {
            spec: action.clone(),
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(self.client()?);
        let reviewed = reviews.create(&PostParams::default(), &review).await;
        let reviewed = reviewed.map_err(Error::api("review a permission"))?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }

    /// Waits until a role binding takes effect, a moment after it is stored. Checks only the first subject and the first rule
    /// about resources. Returns at once if either is missing.
    pub(crate) async fn wait_effective(&self, binding: &Value) -> Result<()> {
        let rules = rules(self.client()?, binding).await?;
        let Some(action) = action(binding, &rules) else {
            return Ok(());
        };
        let effective = eventually(TIMEOUT, async || match self.permits(&action).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(" (the API server denies {action:?})")),
            Err(error) => Err(format!(" ({error:?})")),
        });
        let name = text(binding, "/metadata/name").unwrap_or_default();
        let expectation = format!("the role binding {name} is in effect");
        effective
            .await
            .map_err(|detail| Error::timeout(expectation, TIMEOUT, detail))
    }
}

/// Returns the rules of the role that a binding names, or none if the role does not exist.
async fn rules(client: Client, binding: &Value) -> Result<Vec<PolicyRule>> {
    let name = text(binding, "/roleRef/name").unwrap_or_default();
    let found = if text(binding, "/roleRef/kind") == Some("Role") {
        let roles = Api::<Role>::namespaced(client, namespace(binding));
        let found = roles.get_opt(name).await;
        found.map(|role| role.and_then(|role| role.rules))
    } else {
        let found = Api::<ClusterRole>::all(client).get_opt(name).await;
        found.map(|role| role.and_then(|role| role.rules))
    };
    Ok(found
        .map_err(Error::api(format!("read the role {name}")))?
        .unwrap_or_default())
}

fn namespace(binding: &Value) -> &str {
    text(binding, "/metadata/namespace").unwrap_or("default")
}

fn text<'v>(object: &'v Value, path: &str) -> Option<&'v str> {
    object.pointer(path)?.as_str()
}

/// Returns an action that a binding permits its first subject.
fn action(binding: &Value, rules: &[PolicyRule]) -> Option<SubjectAccessReviewSpec> {
    let first = |list: &Option<Vec<String>>| list.as_ref()?.first().cloned();
    let (rule, resource) = rules
        .iter()
        .find_map(|rule| Some((rule, first(&rule.resources)?)))?;
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
        None => (resource, None),
    };
    let namespace = namespace(binding);
    let attributes = ResourceAttributes {
        group: first(&rule.api_groups),
        name: first(&rule.resource_names),
        namespace: (text(binding, "/kind") == Some("RoleBinding")).then(|| namespace.to_owned()),
        resource: Some(resource),
        subresource,
        verb: rule.verbs.first().cloned(),
        ..ResourceAttributes::default()
    };
    let name = text(binding, "/subjects/0/name")?;
    let (user, groups) = match text(binding, "/subjects/0/kind")? {
        "User" => (Some(name.to_owned()), None),
        "Group" => (None, Some(vec![name.to_owned()])),
        _ => {
            let namespace = text(binding, "/subjects/0/namespace")?;
            let user = format!("system:serviceaccount:{namespace}:{name}");
            (Some(user), None)
        }
    };
    Some(SubjectAccessReviewSpec {
        groups,
        resource_attributes: Some(attributes),
        user,
        ..SubjectAccessReviewSpec::default()
    })
}
