//! Lookup of the BundleInstance that a command refers to, by package and by namespace if the user gave one.

use anyhow::bail;
use kube::{ResourceExt as _, api::ListParams};
use manifests::api::bundle_instance::BundleInstance;

use super::instance::{self, install_namespace, is_own};
use crate::{
    cluster::Cluster,
    commands::{run_bundle::command, upgrade_check::cluster_state::each},
    output::message::{self, count},
};

/// Result of the lookup of a package's BundleInstance.
#[derive(Debug)]
pub(super) enum LocatedInstance {
    None,
    /// In the requested namespace, or in one that the status does not report yet.
    InNamespace(Box<BundleInstance>),
    /// Only in another namespace.
    OtherNamespace(Box<BundleInstance>),
}

/// Returns the BundleInstance of a package, or the one in the requested namespace if the package has several.
pub(super) async fn locate(
    cluster: &Cluster,
    package: &str,
    requested: Option<&str>,
) -> anyhow::Result<LocatedInstance> {
    let found = list_for_package(cluster, package).await?;
    choose(found, package, requested, &remove_others())
}

/// Returns the BundleInstance of a package like [`locate`]. Instances of other commands count only if `run bundle` created
/// none.
pub(super) async fn locate_own(
    cluster: &Cluster,
    package: &str,
    requested: Option<&str>,
) -> anyhow::Result<LocatedInstance> {
    let found = list_for_package(cluster, package).await?;
    choose_own(found, package, requested)
}

/// Reports whether a BundleInstance of a package exists in the requested namespace.
pub(in crate::commands::run_bundle) async fn is_installed(
    cluster: &Cluster,
    package: &str,
    requested: Option<&str>,
) -> anyhow::Result<bool> {
    let (inside, elsewhere) =
        split_by_namespace(list_for_package(cluster, package).await?, requested);
    if inside.is_empty()
        && let Some((requested, found)) = requested.zip(elsewhere.first())
    {
        message::note(&format!(
            "{}, not in {requested}; using OLM",
            describe_namespace(found)
        ));
    }
    Ok(!inside.is_empty())
}

/// Describes the namespace in which an instance is installed.
pub(super) fn describe_namespace(found: &BundleInstance) -> String {
    let name = found.name_any();
    match install_namespace(found) {
        Some(namespace) => format!("BundleInstance {name} is installed in {namespace}"),
        None => format!("BundleInstance {name} does not report its install namespace yet"),
    }
}

/// Lists the BundleInstances of a package: by their annotation, else by the installed bundle.
async fn list_for_package(cluster: &Cluster, package: &str) -> anyhow::Result<Vec<BundleInstance>> {
    let mut found = Vec::new();
    let params = ListParams::default().limit(500);
    let instances = cluster.instances();
    let listed = each(&instances, params, |instance| {
        if instance::is_of(&instance, package) {
            found.push(instance);
        }
    });
    listed
        .await
        .map_err(|error| cluster.explain("failed to list BundleInstances", error))?;
    found.sort_by_key(kube::ResourceExt::name_any);
    Ok(found)
}

/// Splits instances into those that may be in the requested namespace and those in other namespaces.
fn split_by_namespace(
    found: Vec<BundleInstance>,
    requested: Option<&str>,
) -> (Vec<BundleInstance>, Vec<BundleInstance>) {
    let is_inside = |instance: &BundleInstance| {
        requested
            .zip(install_namespace(instance))
            .is_none_or(|(requested, namespace)| requested == namespace)
    };
    found.into_iter().partition(is_inside)
}

fn choose_own(
    mut found: Vec<BundleInstance>,
    package: &str,
    requested: Option<&str>,
) -> anyhow::Result<LocatedInstance> {
    let has_own = found.iter().any(is_own);
    found.retain(|instance| is_own(instance) == has_own);
    let remedy = if has_own {
        remove_others()
    } else {
        let uninstall = command("uninstall NAME");
        format!(
            "\"run bundle\" installed none of them; nothing was deleted; run {uninstall} instead"
        )
    };
    choose(found, package, requested, &remedy)
}

/// Returns the remedy for several instances of a package.
fn remove_others() -> String {
    format!("remove all but one with {}", command("uninstall NAME"))
}

fn choose(
    found: Vec<BundleInstance>,
    package: &str,
    requested: Option<&str>,
    remedy: &str,
) -> anyhow::Result<LocatedInstance> {
    let (mut inside, elsewhere) = split_by_namespace(found, requested);
    if inside.len() > 1 {
        let names: Vec<String> = inside
            .iter()
            .take(10)
            .map(kube::ResourceExt::name_any)
            .collect();
        bail!(
            "package {package:?} has {}: {}; {remedy}",
            count(inside.len(), "BundleInstance"),
            names.join(", ")
        );
    }
    let inside = inside.pop().map(Box::new).map(LocatedInstance::InNamespace);
    let elsewhere = || elsewhere.into_iter().next().map(Box::new);
    Ok(inside
        .or_else(|| elsewhere().map(LocatedInstance::OtherNamespace))
        .unwrap_or(LocatedInstance::None))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(name: &str, spec: Option<&str>, status: Option<&str>) -> BundleInstance {
        crate::testing::instance(&json!({
            "metadata": {"name": name}, "spec": {"installNamespace": spec}, "status": {"installNamespace": status},
        }))
    }

    fn outcome(located: anyhow::Result<LocatedInstance>) -> anyhow::Result<String> {
        located.map(|located| match located {
            LocatedInstance::None => "nothing".to_owned(),
            LocatedInstance::InNamespace(instance) => format!("here {}", instance.name_any()),
            LocatedInstance::OtherNamespace(other) => format!("elsewhere {}", other.name_any()),
        })
    }

    #[test]
    fn requested_namespace_selects_the_instance() {
        let prod = || instance("tide", None, Some("prod"));
        let ci = || instance("high", Some("ci"), None);
        let unknown = || instance("new", None, None);
        for (found, requested, expected) in ::tests::rows![
            vec![], Some("ci") => Ok("nothing");
            vec![prod()], None => Ok("here tide");
            vec![prod()], Some("prod") => Ok("here tide");
            vec![prod()], Some("ci") => Ok("elsewhere tide");
            vec![ci()], Some("ci") => Ok("here high");
            vec![ci()], Some("prod") => Ok("elsewhere high");
            vec![prod(), ci()], Some("ci") => Ok("here high");
            vec![prod(), ci()], Some("dev") => Ok("elsewhere tide");
            // An instance that has not reported its namespace yet may be in the requested one.
            vec![unknown()], Some("ci") => Ok("here new");
            vec![prod(), ci()], None => Err("*has 2 BundleInstances: tide, high*");
            vec![ci(), unknown()], Some("ci") => Err("*has 2 BundleInstances: high, new*");
        ] {
            let found = outcome(choose(found, "tide", requested, "remedy"));
            ::tests::table::assert_outcome(found, expected.map(str::to_owned), requested);
        }
    }

    #[test]
    fn cleanup_ignores_foreign_instances_beside_own_ones() {
        let foreign = |name: &str| instance(name, Some("ci"), None);
        let own = |name: &str, namespace: &str| {
            let mut own = instance(name, Some(namespace), None);
            let annotation = ("core.rukpak.io/package".to_owned(), "tide".to_owned());
            own.annotations_mut().extend([annotation]);
            own
        };
        for (found, requested, expected) in ::tests::rows![
            vec![], None => Ok("nothing");
            vec![foreign("a"), own("b", "ci"), foreign("c")], None => Ok("here b");
            vec![foreign("a"), own("b", "ci")], Some("ci") => Ok("here b");
            vec![foreign("a"), own("b", "prod")], Some("ci") => Ok("elsewhere b");
            vec![foreign("a"), own("b", "ci"), own("c", "ci")], None
                => Err("package \"tide\" has 2 BundleInstances: b, c; remove all but one with \"* uninstall NAME\"");
            vec![foreign("a"), foreign("b")], None
                => Err("package \"tide\" has 2 BundleInstances: a, b; \"run bundle\" installed none of them; *");
            vec![foreign("a"), foreign("b")], Some("prod") => Ok("elsewhere a");
            // The message about a single one names the command for its owner.
            vec![foreign("a")], None => Ok("here a");
        ] {
            let found = outcome(choose_own(found, "tide", requested));
            ::tests::table::assert_outcome(found, expected.map(str::to_owned), requested);
        }
    }

    #[test]
    fn install_namespace_is_described() {
        ::tests::assert_rows! {
            describe_namespace(&instance("tide", Some("ci"), Some("prod"))) => "BundleInstance tide is installed in prod";
            describe_namespace(&instance("tide", None, None)) => "BundleInstance tide does not report its install namespace \
                                                                  yet";
        }
    }
}
