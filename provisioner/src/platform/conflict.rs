//! Whose a package is: one PlatformOperator's, and nobody else's.
//!
//! Two that name the same package would fight over the same objects. The one that has it in the cluster keeps it, also when
//! somebody has made it name another one; else the one that was created first has it, by name where both are of the same
//! second. The other one says so. A package that an OLM manages stays with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use manifests::{
    api::platform::{PlatformOperator, Unserved},
    object::shortened,
};

/// A package that an OLM manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managed {
    /// Which package.
    pub package: String,
    /// By what: `Subscription operators/etcd`, `ClusterServiceVersion operators/etcd.v1`.
    pub by: String,
}

/// Why a package is not this operator's, if it is somebody else's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another PlatformOperator has it.
    #[error(
        "package {package} belongs to PlatformOperator {first}, which had it before {second}; delete one of them"
    )]
    Operator {
        /// The package.
        package: String,
        /// Who has it.
        first: String,
        /// Who wants it.
        second: String,
    },
    /// An OLM has it.
    #[error(
        "package {package} is managed by OLM: {by}; delete that, and what it has installed, to have it as a platform operator"
    )]
    Olm {
        /// The package.
        package: String,
        /// What manages it.
        by: String,
    },
}

/// Whether somebody else has the package of an operator. Who is about to go has it until then; who can never be served has
/// none.
///
/// `held` is the package of an operator's BundleInstance, or of the choice that is recorded for a deleted one, if there is any.
pub fn of<'a>(
    operator: &PlatformOperator,
    all: impl IntoIterator<Item = &'a PlatformOperator>,
    held: impl Fn(&PlatformOperator) -> Option<String>,
    managed: &[Managed],
) -> Option<Conflict> {
    let package = &operator.spec.package.name;
    let wanted = shortened(package, 80);
    // Where somebody else's definition lets the package be changed, what is in the cluster counts.
    let has = |other: &PlatformOperator| match held(other) {
        Some(held) => held == *package,
        None => other.spec.package.name == *package,
    };
    let age = |it: &PlatformOperator| age(it, held(it).is_some());
    let first = all
        .into_iter()
        .filter(|other| may_have(other) && has(other))
        .min_by_key(|other| age(other));
    if let Some(first) = first
        && age(first) < age(operator)
    {
        return Some(Conflict::Operator {
            package: wanted,
            first: first.name_any(),
            second: operator.name_any(),
        });
    }
    let by = managed
        .iter()
        .filter(|it| it.package == *package)
        .map(|it| it.by.as_str())
        .min()?;
    Some(Conflict::Olm {
        package: wanted,
        by: shortened(by, 300),
    })
}

/// A range of versions can be corrected, and so counts as nothing that is wrong.
fn may_have(operator: &PlatformOperator) -> bool {
    matches!(operator.check(), Ok(()) | Err(Unserved::Range { .. }))
}

/// Who has it comes first, then the older one; who has no time yet is the youngest.
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

    use super::*;

    fn operator(name: &str, package: &str, minute: Option<u32>) -> PlatformOperator {
        object!({
            "metadata": {"name": name, "creationTimestamp": minute.map(|minute| format!("2026-01-01T00:{minute:02}:00Z"))},
            "spec": {"package": {"name": package}},
        })
    }

    // parity: platform-8, openshift-16
    #[test]
    fn the_first_one_has_the_package() {
        let all = [
            operator("late", "etcd", Some(9)),
            operator("first", "etcd", Some(1)),
            operator("same-b", "tide", Some(3)),
            operator("same-a", "tide", Some(3)),
            operator("alone", "moon", Some(5)),
            operator("new", "moon", None),
        ];
        let of_name = |name: &str| {
            let operator = all.iter().find(|it| it.name_any() == name).unwrap();
            of(operator, &all, |_| None, &[]).map(|conflict| conflict.to_string())
        };
        for winner in ["first", "same-a", "alone"] {
            assert_eq!(of_name(winner), None, "{winner}");
        }
        for (loser, winner) in [("late", "first"), ("same-b", "same-a"), ("new", "alone")] {
            let said = of_name(loser).unwrap();
            let words =
                format!("belongs to PlatformOperator {winner}, which had it before {loser}");
            assert!(said.contains(&words), "{said}");
        }
        // Who can never be served does not keep others from it; who will be, once his range is mended, does.
        let ranged =
            with!(operator("ranged", "etcd", Some(0)) => spec.version: Some("soon".into()));
        let endless = operator(&"e".repeat(60), "etcd", Some(0));
        assert_eq!(of(&all[1], [&all[1], &endless], |_| None, &[]), None);
        assert!(of(&all[1], [&all[1], &ranged], |_| None, &[]).is_some());
        // Of two of the same second the one that has something keeps it.
        let has = |it: &PlatformOperator| (it.name_any() == "same-b").then(|| "tide".to_owned());
        assert_eq!(of(&all[2], &all, has, &[]), None);
        assert!(of(&all[3], &all, has, &[]).is_some());
        // Who has it in the cluster keeps it, whoever is older, and whatever it names by now.
        let has = |it: &PlatformOperator| (it.name_any() == "alone").then(|| "etcd".to_owned());
        let said = of(&all[1], &all, has, &[]).unwrap().to_string();
        assert!(said.contains("belongs to PlatformOperator alone"), "{said}");
        assert_eq!(of(&all[5], &all, has, &[]), None);
        // A cache that has not seen the operator itself knows nothing against it.
        assert_eq!(of(&all[1], [], |_| None, &[]), None);
    }

    // parity: platform-8
    #[test]
    fn what_olm_manages_stays_with_it() {
        let by = [
            "Subscription operators/etcd",
            "ClusterServiceVersion operators/etcd.v1",
        ];
        let managed = by.map(|by| Managed {
            package: "etcd".into(),
            by: by.into(),
        });
        let etcd = operator("etcd", "etcd", Some(1));
        assert_rows! {
            of(&etcd, [&etcd], |_| None, &managed).unwrap().to_string() => "package etcd is managed by OLM: \
             ClusterServiceVersion operators/etcd.v1; delete that, and what it has installed, to have it as a platform operator";
        }
        assert_rows!(of(&operator("a", "tide", Some(1)), [], |_| None, &managed) => None);
    }
}
