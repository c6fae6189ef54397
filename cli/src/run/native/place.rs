//! Which BundleInstance a command means: that of the package, and of the namespace if one was asked for.

use anyhow::bail;
use kube::{ResourceExt as _, api::ListParams};
use manifests::api::instance::BundleInstance;

use super::object::{self, is_in};
use crate::{
    cluster::Cluster,
    message::{self, count},
    run::command,
    upgrade::read::each,
};

/// What there is of a package.
#[derive(Debug)]
pub(super) enum Located {
    Nothing,
    /// In the namespace that was asked for, or on its way to one that it does not tell yet.
    Here(Box<BundleInstance>),
    /// In another namespace alone.
    Elsewhere(Box<BundleInstance>),
}

/// Finds the only BundleInstance of a package, or of those the one of the namespace that was asked for.
pub(super) async fn locate(
    cluster: &Cluster,
    package: &str,
    asked: Option<&str>,
) -> anyhow::Result<Located> {
    choose(located(cluster, package).await?, package, asked)
}

/// Whether there is a BundleInstance of a package, in the namespace that was asked for.
pub(in crate::run) async fn is_installed(
    cluster: &Cluster,
    package: &str,
    asked: Option<&str>,
) -> anyhow::Result<bool> {
    let (here, elsewhere) = parted(located(cluster, package).await?, asked);
    if here.is_empty()
        && let Some((asked, found)) = asked.zip(elsewhere.first())
    {
        message::note(&format!(
            "{}, and not in {asked}; OLM is taken",
            tells(found)
        ));
    }
    Ok(!here.is_empty())
}

/// Where something is, in words.
pub(super) fn tells(found: &BundleInstance) -> String {
    let name = found.name_any();
    match is_in(found) {
        Some(namespace) => format!("BundleInstance {name} is installed in {namespace}"),
        None => format!("BundleInstance {name} does not tell yet where it is installed"),
    }
}

/// The BundleInstances of a package: those that say so, else those that have it installed.
async fn located(cluster: &Cluster, package: &str) -> anyhow::Result<Vec<BundleInstance>> {
    let mut found = Vec::new();
    let params = ListParams::default().limit(500);
    let instances = cluster.instances();
    let listed = each(&instances, params, |it| {
        if object::is_of(&it, package) {
            found.push(it);
        }
    });
    listed
        .await
        .map_err(|error| cluster.trouble("failed to list BundleInstances", error))?;
    found.sort_by_key(kube::ResourceExt::name_any);
    Ok(found)
}

/// Those that may be in the namespace that was asked for, and those that are in others.
fn parted(
    found: Vec<BundleInstance>,
    asked: Option<&str>,
) -> (Vec<BundleInstance>, Vec<BundleInstance>) {
    let is_here = |it: &BundleInstance| asked.zip(is_in(it)).is_none_or(|(asked, it)| asked == it);
    found.into_iter().partition(is_here)
}

fn choose(
    found: Vec<BundleInstance>,
    package: &str,
    asked: Option<&str>,
) -> anyhow::Result<Located> {
    let (mut here, elsewhere) = parted(found, asked);
    if here.len() > 1 {
        let names: Vec<String> = here
            .iter()
            .take(10)
            .map(kube::ResourceExt::name_any)
            .collect();
        bail!(
            "package {package:?} has {}: {}; remove all but one with {}",
            count(here.len(), "BundleInstance"),
            names.join(", "),
            command("uninstall NAME")
        );
    }
    let here = here.pop().map(Box::new).map(Located::Here);
    let elsewhere = || elsewhere.into_iter().next().map(Box::new);
    Ok(here
        .or_else(|| elsewhere().map(Located::Elsewhere))
        .unwrap_or(Located::Nothing))
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

    #[test]
    fn only_what_is_in_the_namespace_is_meant_when_one_is_asked_for() {
        let prod = || instance("tide", None, Some("prod"));
        let wanted = || instance("high", Some("ci"), None);
        let unknown = || instance("new", None, None);
        for (found, asked, expected) in ::tests::rows![
            vec![], Some("ci") => "nothing";
            vec![prod()], None => "here tide";
            vec![prod()], Some("prod") => "here tide";
            vec![prod()], Some("ci") => "elsewhere tide";
            vec![wanted()], Some("ci") => "here high";
            vec![wanted()], Some("prod") => "elsewhere high";
            vec![prod(), wanted()], Some("ci") => "here high";
            vec![prod(), wanted()], Some("dev") => "elsewhere tide";
            // It may be there as soon as it tells.
            vec![unknown()], Some("ci") => "here new";
            vec![prod(), wanted()], None => "has 2 BundleInstances: tide, high";
            vec![wanted(), unknown()], Some("ci") => "has 2 BundleInstances: high, new";
        ] {
            let told = match choose(found, "tide", asked) {
                Ok(Located::Nothing) => "nothing".to_owned(),
                Ok(Located::Here(it)) => format!("here {}", it.name_any()),
                Ok(Located::Elsewhere(it)) => format!("elsewhere {}", it.name_any()),
                Err(error) => error.to_string(),
            };
            assert!(
                told.contains(expected),
                "{told}, not {expected} in {asked:?}"
            );
        }
    }

    #[test]
    fn where_something_is_can_be_told() {
        ::tests::assert_rows! {
            tells(&instance("tide", Some("ci"), Some("prod"))) => "BundleInstance tide is installed in prod";
            tells(&instance("tide", None, None)) => "BundleInstance tide does not tell yet where it is installed";
        }
    }
}
