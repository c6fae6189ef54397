//! Conflicts about packages: only one PlatformOperator may have a package, and only without OLM. Pure; no I/O.
//!
//! Two PlatformOperators of the same package would change the same objects. The one that has the package in the cluster
//! keeps it, even if its spec now names another package. Otherwise the older one gets it, or the first by name if both
//! have the same creation time. The other one reports the conflict. A package that OLM manages remains with OLM.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use manifests::{
    api::platform_operator::{InvalidOperator, PlatformOperator},
    object::truncate,
};

/// A package that OLM manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OlmPackage {
    /// Name of the package.
    pub package: String,
    /// Object that manages it: `Subscription operators/etcd`, `ClusterServiceVersion operators/etcd.v1`.
    pub by: String,
}

/// Reason why an operator cannot have a package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageConflict {
    /// Another PlatformOperator has the package.
    #[error(
        "package {package} already belongs to PlatformOperator {first}; delete PlatformOperator {first} or {second}"
    )]
    Operator {
        /// Name of the package.
        package: String,
        /// Name of the operator that has the package.
        first: String,
        /// Name of the operator that requests the package.
        second: String,
    },
    /// OLM manages the package.
    #[error(
        "package {package} is managed by OLM ({by}); delete that and what it installed before you create a \
         PlatformOperator"
    )]
    Olm {
        /// Name of the package.
        package: String,
        /// Object of OLM that manages the package.
        by: String,
    },
}

/// Returns the conflict about the package of an operator, if one exists. A terminating operator has its package until it is
/// deleted. An operator with an invalid spec has no package.
///
/// `held` returns the package of an operator's BundleInstance, or of the choice that is recorded for a deleted one.
pub fn find_conflict<'a>(
    operator: &PlatformOperator,
    all: impl IntoIterator<Item = &'a PlatformOperator>,
    held: impl Fn(&PlatformOperator) -> Option<String>,
    managed: &[OlmPackage],
) -> Option<PackageConflict> {
    let package = &operator.spec.package.name;
    let requested = truncate(package, 80);
    // If the CRD of another product allows changes of the package, the package in the cluster counts.
    let has = |other: &PlatformOperator| match held(other) {
        Some(held) => held == *package,
        None => other.spec.package.name == *package,
    };
    let age = |operator: &PlatformOperator| age(operator, held(operator).is_some());
    let first = all
        .into_iter()
        .filter(|other| may_have(other) && has(other))
        .min_by_key(|other| age(other));
    if let Some(first) = first
        && age(first) < age(operator)
    {
        return Some(PackageConflict::Operator {
            package: requested,
            first: first.name_any(),
            second: operator.name_any(),
        });
    }
    let by = managed
        .iter()
        .filter(|managed| managed.package == *package)
        .map(|managed| managed.by.as_str())
        .min()?;
    Some(PackageConflict::Olm {
        package: requested,
        by: truncate(by, 300),
    })
}

/// Reports whether the spec permits an operator to have a package. An invalid version range does not matter, since it can
/// be corrected.
fn may_have(operator: &PlatformOperator) -> bool {
    matches!(
        operator.check(),
        Ok(()) | Err(InvalidOperator::Range { .. })
    )
}

/// Returns the sort key of an operator: operators that have the package first, then by age. An operator without a creation
/// time is the youngest.
fn age(
    operator: &PlatformOperator,
    has_instance: bool,
) -> (bool, bool, Option<jiff::Timestamp>, String) {
    let created = operator.metadata.creation_timestamp.as_ref();
    let created = created.map(|Time(created)| *created);
    (
        !has_instance,
        created.is_none(),
        created,
        operator.name_any(),
    )
}

#[cfg(test)]
mod tests {
    use ::tests::assert_has;

    use super::*;

    fn operator(name: &str, package: &str, minute: Option<u32>) -> PlatformOperator {
        object!({
            "metadata": {"name": name, "creationTimestamp": minute.map(|minute| format!("2026-01-01T00:{minute:02}:00Z"))},
            "spec": {"package": {"name": package}},
        })
    }

    // parity: platform-8, openshift-16
    #[test]
    fn first_operator_owns_the_package() {
        let all = [
            operator("late", "etcd", Some(9)),
            operator("first", "etcd", Some(1)),
            operator("same-b", "tide", Some(3)),
            operator("same-a", "tide", Some(3)),
            operator("alone", "moon", Some(5)),
            operator("new", "moon", None),
        ];
        let conflict = |operator: &PlatformOperator| find_conflict(operator, &all, |_| None, &[]);
        for (loser, winner) in [(0, 1), (2, 3), (5, 4)] {
            assert_eq!(conflict(&all[winner]), None, "{winner}");
            let message = conflict(&all[loser]).unwrap().to_string();
            let [loser, winner] = [loser, winner].map(|index: usize| all[index].name_any());
            let owner = format!("PlatformOperator {winner}");
            let expected = format!("already belongs to {owner}; delete {owner} or {loser}");
            assert_has(message, &expected);
        }
        let ranged =
            with!(operator("ranged", "etcd", Some(0)) => spec.version: Some("soon".into()));
        let endless = operator(&"e".repeat(60), "etcd", Some(0));
        let installed = |name: &'static str, package: &'static str| {
            move |other: &PlatformOperator| (other.name_any() == name).then(|| package.to_owned())
        };
        let (same, alone) = (installed("same-b", "tide"), installed("alone", "etcd"));
        assert_rows! {
            // An operator that can never be installed does not block others; one with a correctable range does.
            find_conflict(&all[1], [&all[1], &endless], |_| None, &[]) => None;
            find_conflict(&all[1], [&all[1], &ranged], |_| None, &[]).is_some() => true;
            // Of two operators of the same second, the one with an installed bundle owns the package.
            find_conflict(&all[2], &all, same, &[]) => None;
            find_conflict(&all[3], &all, same, &[]).is_some() => true;
            find_conflict(&all[5], &all, alone, &[]) => None;
            // A cache without the operator itself finds no conflict.
            find_conflict(&all[1], [], |_| None, &[]) => None;
        }
        // The operator that has installed the package owns it, even if another is older or its spec names another
        // package.
        let message = find_conflict(&all[1], &all, alone, &[]).unwrap();
        assert_has(message, "belongs to PlatformOperator alone");
    }

    // parity: platform-8
    #[test]
    fn package_managed_by_olm_is_a_conflict() {
        let by = [
            "Subscription operators/etcd",
            "ClusterServiceVersion operators/etcd.v1",
        ];
        let managed = by.map(|by| OlmPackage {
            package: "etcd".into(),
            by: by.into(),
        });
        let etcd = operator("etcd", "etcd", Some(1));
        let message = "package etcd is managed by OLM (ClusterServiceVersion operators/etcd.v1); delete that and what it \
                       installed before you create a PlatformOperator";
        assert_rows! {
            find_conflict(&etcd, [&etcd], |_| None, &managed).unwrap().to_string() => message;
            find_conflict(&operator("a", "tide", Some(1)), [], |_| None, &managed) => None;
        }
    }
}
