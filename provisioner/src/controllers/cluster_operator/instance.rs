//! The part of a BundleInstance that decisions need. Since thousands of instances are cached, texts and lists have no spare
//! capacity, and values that depend only on the instance replace their inputs. Pure; no I/O.

use catalog::{choose::Installed, model::Release};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle_identity::{Identity, identity},
        bundle_instance::{
            BundleInstance, BundleInstanceStatus, Constraint, RemovedApi, RevisionStatus,
        },
        condition::{self, reason},
        inventory_format, labels,
    },
    object::truncate,
};

use super::reduce::MAX_MESSAGE_LEN;
use crate::{cluster::overrides::ContentDigests, controllers::platform_operator::installed};

/// Reasons of the condition Installed for an operator that is installed with a problem.
const FAILED: [&str; 4] = [
    reason::INSTALLED_BUNDLE_REPLACED,
    reason::UPGRADE_FAILED,
    reason::RECONCILE_FAILED,
    reason::ROLLED_BACK,
];

/// An observed BundleInstance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedInstance {
    pub(super) name: Box<str>,
    /// Name of its platform operator; `None` without one.
    pub(super) owner: Option<Box<str>>,
    pub(super) install_namespace: Option<Box<str>>,
    /// Whether objects are installed, even of a partly applied bundle.
    pub(super) has_objects: bool,
    /// Package of the installed bundle; `None` if it is not known.
    pub(super) package: Option<Box<str>>,
    /// Name of the installed bundle in catalogs, and digest of its image; `None` if one of them is not known.
    image: Option<(Box<str>, Box<str>)>,
    /// Installed bundle, from which upgrades lead; `None` if it is not known.
    pub(super) installed: Option<Installed>,
    /// Name of the installed ClusterServiceVersion, which is that of the OperatorCondition.
    pub(super) cluster_service_version: Option<Box<str>>,
    /// Max OpenShift version that the installed bundle declares.
    pub(super) max_openshift: Option<Box<str>>,
    /// Max OpenShift versions that the other live revisions declare, the oldest first.
    pub(super) other_maxima: Box<[Box<str>]>,
    /// Reason of the override of the max OpenShift version for the installed content; `None` without an override.
    pub(super) overridden: Option<Box<str>>,
    /// Uses of removed APIs that the live revisions list.
    pub(super) removed_apis: Box<[RemovedApi]>,
    /// Whether more uses may exist: a live revision does not list its uses.
    pub(super) has_unlisted_uses: bool,
    /// ServiceAccounts as `namespace:name`, one per line. They are looked up in the calls that the cluster counts.
    pub(super) accounts: Box<str>,
    /// Problem of an installed operator; `None` without one.
    pub(super) problem: Option<Box<OperatorProblem>>,
}

/// Problem of an installed operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OperatorProblem {
    /// Earliest time by the conditions that have one.
    pub(super) since: Timestamp,
    /// Whether a condition without such a time reports a problem.
    pub(super) has_no_time: bool,
    pub(super) message: String,
}

impl ObservedInstance {
    /// Reads a BundleInstance.
    pub fn new(instance: &BundleInstance) -> Self {
        let empty = BundleInstanceStatus::default();
        let status = instance.status.as_ref().unwrap_or(&empty);
        let bundle = status.installed_bundle_name.as_ref();
        let live = status.revisions.iter();
        let live: Vec<&RevisionStatus> = live.filter(|revision| revision.is_live()).collect();
        let others = live
            .iter()
            .filter(|revision| Some(&revision.bundle) != bundle);
        let maxima = others.filter_map(|revision| revision.max_open_shift_version.as_deref());
        let listed = live.iter().map(|revision| revision.removed_apis.as_ref());
        let has_unlisted = listed.clone().any(|uses| uses.is_none());
        let overridden = ContentDigests::of_installed(status)
            .find(&instance.spec.overrides, Constraint::MaxOpenShiftVersion);
        let facts = &status.facts;
        let (package, image) = match identity(instance) {
            Some(found) => (
                Some(found.package),
                Some((found.bundle.into(), found.digest.into())),
            ),
            None => (facts.package.clone(), None),
        };
        let installed = installed::installed(instance).map(|bundle| Installed {
            name: bundle.name,
            version: bundle.version.map(|version| Release {
                version,
                release: bundle.release,
            }),
            catalog: bundle.catalog,
        });
        Self {
            name: instance.name_any().into(),
            owner: boxed(instance.labels().get(labels::PLATFORM_OPERATOR)),
            install_namespace: boxed(status.install_namespace.as_ref()),
            has_objects: bundle.is_some() || !live.is_empty(),
            package: boxed(package.as_ref()),
            image,
            installed,
            cluster_service_version: boxed(facts.cluster_service_version.as_ref()),
            max_openshift: boxed(facts.max_open_shift_version.as_ref()),
            other_maxima: maxima.map(Into::into).collect(),
            overridden: boxed(overridden.map(|found| &found.reason)),
            removed_apis: listed.flatten().flatten().cloned().collect(),
            has_unlisted_uses: has_unlisted || (live.is_empty() && bundle.is_some()),
            accounts: accounts(status).join("\n").into(),
            problem: problem(&status.conditions).map(Box::new),
        }
    }

    /// Returns the identity of the installed bundle; `None` if it is not known.
    pub(super) fn identity(&self) -> Option<Identity> {
        let (bundle, digest) = self.image.as_ref()?;
        Some(Identity {
            package: self.package.as_deref()?.to_owned(),
            bundle: bundle.to_string(),
            digest: digest.to_string(),
        })
    }
}

fn boxed(text: Option<&String>) -> Option<Box<str>> {
    text.map(|text| text.as_str().into())
}

fn accounts(status: &BundleInstanceStatus) -> Vec<String> {
    let kinds = status
        .inventory
        .iter()
        .flat_map(|inventory| &inventory.kinds);
    kinds
        .filter(|kind| kind.api_version == "v1" && kind.kind == "ServiceAccount")
        .flat_map(|kind| inventory_format::entries(std::slice::from_ref(kind)))
        .map(|(identity, _)| format!("{}:{}", identity.namespace, identity.name))
        .collect()
}

fn problem(conditions: &[Condition]) -> Option<OperatorProblem> {
    let of = |type_: &str| {
        let mut conditions = conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    };
    // The condition remains True after a failed upgrade or repair.
    let failed =
        of(condition::INSTALLED).filter(|condition| FAILED.contains(&condition.reason.as_str()));
    let timed = [
        // The next bundle of the operator.
        of(condition::HAS_VALID_BUNDLE)
            .filter(|condition| condition.status != "True" && condition.reason != reason::PAUSED),
        of(condition::HEALTHY).filter(|condition| condition.status == "False"),
    ];
    let timed = timed.into_iter().flatten();
    let since = timed.clone();
    let since = since
        .map(|condition| condition.last_transition_time.0)
        .min();
    let messages: Vec<String> = failed
        .into_iter()
        .chain(timed)
        .map(|condition| truncate(&condition.message, MAX_MESSAGE_LEN))
        .collect();
    (!messages.is_empty()).then(|| OperatorProblem {
        since: since.unwrap_or(Timestamp::MAX),
        has_no_time: failed.is_some(),
        message: messages.join("; "),
    })
}
