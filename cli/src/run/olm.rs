//! The engine `olm`: a package is a CatalogSource, a Subscription and what OLM makes of them.
//!
//! ```text
//! composed catalog ─ parts ─► ConfigMaps ─► pod (provisioner serve) ◄── gRPC ── OLM
//!                                            │ its address                        │
//! history ─ annotations ─► CatalogSource ◄───┘                                    ▼
//!             group ─► OperatorGroup   Subscription ─► InstallPlans: approved one by one ─► ClusterServiceVersion
//! ```
//!
//! Whoever is killed leaves the operator that runs alone, and the same command goes on. What it finds, after each thing that is
//! written:
//!
//! | written | so far OLM has | the next run |
//! | --- | --- | --- |
//! | a CatalogSource without an address | nothing, or nothing else | takes it, whatever the bundle is |
//! | ConfigMaps, then the pod | the catalog of before | takes those of the same name, which tells what is in them; removes others |
//! | address and history of the CatalogSource, in one patch | the new catalog | knows the last of the history, and makes the same again |
//! | removal of what served before | the new catalog | removes what is left of it, by its label |
//! | OperatorGroup, Subscription | what is missing of them | takes them |
//! | approval of an InstallPlan | one version more | waits, and approves the next one |
//!
//! What OLM gives up for good ends the command, and what gets it past that is told. `cleanup` removes what tells of the others last,
//! so that it can be run again.

mod api;
mod approving;
mod cleaning;
mod group;
mod installing;
mod making;
mod objects;
mod parts;
mod past;
mod pod;
mod progress;
mod replacing;
mod serving;
mod unpacking;
mod upgrading;

use anyhow::Context;
use catalog::inject::Composed;
use convert::facts::Facts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use manifests::{
    image::Reference,
    object::text,
    openshift::{MAX_PROPERTY, OlmV0},
};
use serde_json::Value;

pub(super) use self::{cleaning::cleanup, making::bundle, upgrading::upgrade};
use self::{parts::Parts, pod::Wanted};
use super::{demands, pulling::Pulled};
use crate::{
    args::{RegistryArgs, SecurityContext},
    cluster::Cluster,
    message,
};

/// What serves catalogs: the image of the provisioner of this release.
const SERVER: &str = concat!("quay.io/rukpak/provisioner:v", env!("CARGO_PKG_VERSION"));
/// What unpacks catalogs for other servers: operator-sdk's choice.
const DECOMPRESSION: &str = "registry.access.redhat.com/ubi9/ubi:9.8";
/// Who unpacks and serves where nobody may be root, and the cluster does not choose: that of opm's image. The image that unpacks
/// has root, as a rule.
const USER: i64 = 1001;

/// Where operators go: as asked for, else where the kubeconfig's context is.
pub(super) fn namespace<'a>(cluster: &'a Cluster, asked: Option<&'a str>) -> &'a str {
    asked.unwrap_or(&cluster.config.default_namespace)
}

/// Says which flags mean nothing here.
fn tell_meaningless(args: &RegistryArgs) {
    if args.ca_secret_name.is_some() {
        message::warning(
            "--ca-secret-name means nothing, as this machine reads the index, and not a pod of the cluster",
        );
    }
}

/// Refuses what this cluster cannot run; whether it is an OpenShift.
async fn check(cluster: &Cluster, pulled: &Pulled) -> anyhow::Result<bool> {
    if let Some(text) = undeterminable(&pulled.bundle.name, &pulled.facts) {
        message::warning(&text);
    }
    let (here, is_hidden) = demands::check(cluster, pulled).await?;
    Ok(is_hidden || here.releases.openshift.is_some())
}

/// Returns the warning for a bundle whose max OpenShift version cannot be determined: it is installed without this check, and
/// OLM has its own reading of the value.
fn undeterminable(name: &str, facts: &Facts) -> Option<String> {
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

/// Cuts a catalog into ConfigMaps, and tells what is wrong with other packages in it.
fn cut(composed: &Composed) -> anyhow::Result<Parts> {
    composed.warnings.iter().for_each(|it| message::warning(it));
    message::note("Generated a valid File-Based Catalog");
    Parts::of(composed.documents()).context("nothing was changed")
}

fn owner(source: &Value) -> anyhow::Result<OwnerReference> {
    let field = |path: &[&str]| {
        let found = text(source, path).map(str::to_owned);
        found.with_context(|| format!("the CatalogSource has no {}", path.join(".")))
    };
    Ok(OwnerReference {
        api_version: field(&["apiVersion"])?,
        kind: field(&["kind"])?,
        name: field(&["metadata", "name"])?,
        uid: field(&["metadata", "uid"])?,
        ..OwnerReference::default()
    })
}

/// The pod that is to serve, as flags ask for it. OpenShift gives every namespace a user of its own, and refuses others.
fn wanted<'a>(
    args: &'a RegistryArgs,
    is_openshift: bool,
    namespace: &'a str,
    owner: &'a OwnerReference,
    bundle: &'a str,
) -> Wanted<'a> {
    let image = args.registry_image.as_deref().unwrap_or(SERVER);
    let unpacks = (!reads_parts(image)).then(|| {
        let chosen = args.decompression_image.as_deref();
        chosen.unwrap_or(DECOMPRESSION)
    });
    let security = args
        .security_context_config
        .unwrap_or(SecurityContext::Legacy);
    let is_free = security == SecurityContext::Restricted && !is_openshift;
    Wanted {
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

/// Whether an image is our server's, which reads compressed parts itself: mirrors keep its name.
fn reads_parts(image: &str) -> bool {
    let read: Result<Reference, _> = image.parse();
    read.is_ok_and(|it| it.path().rsplit('/').next() == Some("provisioner"))
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
        let pod = wanted(&args.registry, false, "tides", &owner, "tide");
        let version = concat!(":v", env!("CARGO_PKG_VERSION"));
        assert!(pod.image.ends_with(version), "{}", pod.image);
        let installed = include_str!("../../../manifests/install/rukpak.yaml");
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
            let facts = ::tests::with!(Facts, max_open_shift_version: Some(max), properties: vec![property]);
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
        assert_eq!(undeterminable("tide.v1", &Facts::default()), None);
    }

    // parity: sdk-19
    #[test]
    fn who_unpacks_and_as_whom_is_as_flags_and_cluster_say() {
        let opm = "--registry-image=quay.io/operator-framework/opm";
        let ours = "--registry-image=localhost:5000/provisioner:v1";
        let other = "--decompression-image=a.io/busybox";
        let restricted = "--security-context-config=restricted";
        for (flags, is_openshift, unpacks, user) in ::tests::rows![
            &[][..], false, None => None;
            &[ours, other, restricted], false, None => None;
            &[opm], false, Some(DECOMPRESSION) => None;
            &[opm, other], false, Some("a.io/busybox") => None;
            &[opm, other, restricted], false, Some("a.io/busybox") => Some(USER);
            &[opm, restricted], true, Some(DECOMPRESSION) => None;
        ] {
            let line = [&["quay.io/example/tide:v1"], flags].concat();
            let args: RunBundleArgs = parse(&line).unwrap();
            let owner = OwnerReference::default();
            let wanted = wanted(&args.registry, is_openshift, "tides", &owner, "tide");
            assert_eq!((wanted.unpacks, wanted.user), (unpacks, user), "{flags:?}");
        }
    }
}
