//! The engine `olm`: a package is a CatalogSource, a Subscription and the objects that OLM creates from them.
//!
//! ```text
//! composed catalog ─ config_map_parts ─► ConfigMaps ─► registry_pod (provisioner serve) ◄── gRPC ── OLM
//!                                                       │ its address                               │
//! history ─ annotations ─► CatalogSource ◄──────────────┘                                           ▼
//! operator_group ─► OperatorGroup   Subscription ─► approval: InstallPlans, one by one ─► ClusterServiceVersion
//! ```
//!
//! After an interruption the running operator is unchanged, and the same command continues. Its behavior after each write:
//!
//! | written | state of OLM | next run |
//! | --- | --- | --- |
//! | a CatalogSource without an address | no catalog, or no new one | uses it, for any bundle |
//! | ConfigMaps, then the pod | the previous catalog | reuses those with the same hash in the name; removes others |
//! | address and history, in one patch | the new catalog | finds the version in the history; builds the same catalog |
//! | removal of the previous registry | the new catalog | removes its remaining objects, by label |
//! | OperatorGroup, Subscription | the existing ones of the two | reuses them |
//! | approval of an InstallPlan | one version more | waits, and approves the next one |
//!
//! A failure that OLM does not retry ends the command, with a remedy. `cleanup` removes the objects that identify the
//! others last, so that it can be run again.

/// Returns an object from JSON with only the fields that a test needs.
#[cfg(test)]
macro_rules! object {
    ($($fields:tt)+) => {
        serde_json::from_value(serde_json::json!($($fields)+)).unwrap()
    };
}

mod api;
mod approval;
mod cleanup;
mod config_map_parts;
mod history;
mod objects;
mod operator_group;
mod progress;
mod registry;
mod registry_pod;
mod replacement;
mod run;
mod unpack_failures;
mod upgrade;
mod wait;

use anyhow::Context;
use catalog::compose::ComposedCatalog;
use convert::bundle_info::BundleInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use manifests::{
    api::catalog_source::CatalogSource,
    image::Reference,
    openshift::{MAX_PROPERTY, OlmV0},
};

pub(super) use self::{cleanup::cleanup, run::bundle, upgrade::upgrade};
use self::{config_map_parts::Parts, registry_pod::PodRequest};
use super::{constraints, images::PulledBundle};
use crate::{
    args::{RegistryArgs, SecurityContext},
    cluster::Cluster,
    output::message,
};

/// Default image of the registry pod: the provisioner of this release.
const SERVER: &str = concat!("quay.io/rukpak/provisioner:v", env!("CARGO_PKG_VERSION"));
/// Default image that unpacks catalogs for other servers, as in operator-sdk.
const DECOMPRESSION: &str = "registry.access.redhat.com/ubi9/ubi:9.8";
/// User that unpacks and serves where root is forbidden and the cluster does not assign a user: the one of opm's image. The
/// image that unpacks usually runs as root.
const USER: i64 = 1001;

/// Returns the namespace of the operator: the requested one, else the one of the kubeconfig's context.
pub(super) fn namespace<'a>(cluster: &'a Cluster, requested: Option<&'a str>) -> &'a str {
    requested.unwrap_or(&cluster.config.default_namespace)
}

/// Warns about flags that have no effect here.
fn warn_ignored_flags(args: &RegistryArgs) {
    if args.ca_secret_name.is_some() {
        message::warning(
            "--ca-secret-name ignored because the index is read on this machine, not by a pod in the cluster",
        );
    }
}

/// Rejects a bundle that this cluster cannot run. Returns whether the cluster is or may be OpenShift.
async fn check(cluster: &Cluster, pulled: &PulledBundle) -> anyhow::Result<bool> {
    if let Some(text) = undeterminable(&pulled.bundle.name, &pulled.facts) {
        message::warning(&text);
    }
    let (state, is_hidden) = constraints::check(cluster, pulled).await?;
    Ok(is_hidden || state.releases.openshift.is_some())
}

/// Returns the warning for a bundle whose max OpenShift version cannot be determined. It is installed without this check,
/// and OLM interprets the value in its own way.
fn undeterminable(name: &str, facts: &BundleInfo) -> Option<String> {
    let declared = facts.max_open_shift_version.as_ref()?;
    let error = declared.version.as_ref().err()?;
    let properties = facts.properties.iter();
    let values = properties.filter(|property| property.type_ == MAX_PROPERTY);
    let olm_v0 = OlmV0::read(values.map(|property| property.value.get()));
    Some(format!(
        "bundle {name:?}: {error} ({}); the bundle is installed without this check; on OpenShift {olm_v0}",
        declared.source
    ))
}

/// Splits a catalog into ConfigMap parts, and prints the warnings about other packages in it.
fn split_catalog(composed: &ComposedCatalog) -> anyhow::Result<Parts> {
    composed
        .warnings
        .iter()
        .for_each(|text| message::warning(text));
    message::note("Generated a valid File-Based Catalog");
    Parts::split(composed.documents()).context("no changes were made")
}

fn owner(source: &CatalogSource) -> anyhow::Result<OwnerReference> {
    let owner = source.owner_ref(&());
    owner.context("the CatalogSource has no metadata.uid")
}

/// Returns the request for the registry pod. On OpenShift it sets no user, because every namespace has its own range of
/// users.
fn pod_request<'a>(
    args: &'a RegistryArgs,
    is_openshift: bool,
    namespace: &'a str,
    owner: &'a OwnerReference,
    bundle: &'a str,
) -> PodRequest<'a> {
    let image = args.registry_image.as_deref().unwrap_or(SERVER);
    let unpacks = (!reads_parts(image)).then(|| {
        let chosen = args.decompression_image.as_deref();
        chosen.unwrap_or(DECOMPRESSION)
    });
    let security = args
        .security_context_config
        .unwrap_or(SecurityContext::Legacy);
    let is_free = security == SecurityContext::Restricted && !is_openshift;
    PodRequest {
        namespace,
        source: &owner.name,
        owner,
        bundle,
        image,
        unpacks,
        user: unpacks.filter(|_| is_free).map(|_| USER),
        pull_policy: args.image_pull_policy.as_deref().unwrap_or("Always"),
        pull_secret: args.pull_secret_name.as_deref(),
        service_account: args.service_account.as_deref(),
        security,
    }
}

/// Reports whether an image is rukpak's server, which reads compressed parts itself. Mirrors keep the last part of its
/// name.
fn reads_parts(image: &str) -> bool {
    let read: Result<Reference, _> = image.parse();
    read.is_ok_and(|reference| reference.path().rsplit('/').next() == Some("provisioner"))
}

#[cfg(test)]
mod tests {
    use convert::Property;
    use manifests::openshift::{MaxOpenShiftVersion, Spelling};
    use serde_json::value::RawValue;

    use super::*;
    use crate::{args::RunBundleArgs, testing::parse};

    // parity: sdk-21, sdk-22
    #[test]
    fn mirrors_of_our_server_need_no_other_image() {
        ::tests::assert_rows! {
            reads_parts(SERVER) => true;
            reads_parts("registry.example.com:5000/mirror/rukpak/provisioner") => true;
            reads_parts("localhost:5000/provisioner:v1@sha256:0000000000000000000000000000000000000000000000000000000000000000") => true;
            reads_parts("quay.io/operator-framework/opm:latest") => false;
            reads_parts("quay.io/example/provisioner/opm") => false;
            reads_parts("quay.io/example/our-provisioner") => false;
            reads_parts("no image") => false;
        }
    }

    // parity: sdk-22
    #[test]
    fn the_default_server_is_the_image_of_the_install_file() {
        let args: RunBundleArgs = parse(&["quay.io/example/tide:v1"]).unwrap();
        let owner = OwnerReference::default();
        let pod = pod_request(&args.registry, false, "tides", &owner, "tide");
        let version = concat!(":v", env!("CARGO_PKG_VERSION"));
        assert!(pod.image.ends_with(version), "{}", pod.image);
        let installed = include_str!("../../../../manifests/install/rukpak.yaml");
        assert!(installed.contains(&format!("image: {}\n", pod.image)));
    }

    #[test]
    fn undeterminable_max_openshift_is_a_warning() {
        for (json, olm_v0) in ::tests::rows![
            "\"4.20\"" => None;
            "\"4.x\"" => Some("OLM v0 rejects the value and blocks every minor upgrade of the cluster");
            "\"v4.20\"" => Some("OLM v0 reads 4.20 and blocks upgrades of the cluster beyond 4.20");
        ] {
            let property = Property {
                type_: MAX_PROPERTY.to_owned(),
                value: RawValue::from_string(json.to_owned()).unwrap(),
            };
            let max = MaxOpenShiftVersion::new(json, Spelling::BundleProperties);
            let facts = ::tests::with!(BundleInfo, max_open_shift_version: Some(max), properties: vec![property]);
            let warning = undeterminable("tide.v1", &facts);
            assert_eq!(warning.is_some(), olm_v0.is_some(), "{json}");
            if let Some((warning, olm_v0)) = warning.zip(olm_v0) {
                let expected = format!(
                    "bundle \"tide.v1\": max OpenShift version cannot be determined: {json} is not <major>.<minor> \
                     (bundle properties); the bundle is installed without this check; on OpenShift {olm_v0}"
                );
                assert!(warning.starts_with(&expected), "{warning}");
            }
        }
        assert_eq!(undeterminable("tide.v1", &BundleInfo::default()), None);
    }

    // parity: sdk-19
    #[test]
    fn unpack_image_and_user_follow_flags_and_cluster() {
        let opm = "--registry-image=quay.io/operator-framework/opm";
        let own = "--registry-image=localhost:5000/provisioner:v1";
        let other = "--decompression-image=a.io/busybox";
        let restricted = "--security-context-config=restricted";
        for (flags, is_openshift, unpacks, user) in ::tests::rows![
            &[][..], false, None => None;
            &[own, other, restricted], false, None => None;
            &[opm], false, Some(DECOMPRESSION) => None;
            &[opm, other], false, Some("a.io/busybox") => None;
            &[opm, other, restricted], false, Some("a.io/busybox") => Some(USER);
            &[opm, restricted], true, Some(DECOMPRESSION) => None;
        ] {
            let line = [&["quay.io/example/tide:v1"], flags].concat();
            let args: RunBundleArgs = parse(&line).unwrap();
            let owner = OwnerReference::default();
            let request = pod_request(&args.registry, is_openshift, "tides", &owner, "tide");
            ::tests::assert_rows!((request.unpacks, request.user) => (unpacks, user), "{flags:?}");
        }
    }
}
