//! Condition Installed of a platform operator, from its BundleInstance. Pure; no I/O.
//!
//! | BundleInstance | Installed | reason | message |
//! | --- | --- | --- | --- |
//! | `Installed` is True | True | `InstallSuccessful` | applied, and the problem of the next bundle if it has one |
//! | no `HasValidBundle` | False | `UnpackPending` | waiting |
//! | `HasValidBundle` is not True | False | that of `HasValidBundle` | that of `HasValidBundle` |
//! | no `Installed` | False | `InstallPending` | waiting |
//! | `Installed` is not True | False | that of `Installed` | that of `Installed` |
//!
//! An operator remains installed while its next bundle is fetched, or if that fails.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use manifests::api::{
    bundle_instance::BundleInstance,
    condition::{self, HAS_VALID_BUNDLE, INSTALLED, reason as below},
    platform_operator::reason,
};

/// The condition Installed of a platform operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledCondition {
    /// Whether the operator is installed.
    pub is_installed: bool,
    /// CamelCase reason, never empty.
    pub reason: String,
    /// Message for people.
    pub message: String,
}

/// Returns the condition for the BundleInstance of an operator.
pub fn condition(instance: &BundleInstance) -> InstalledCondition {
    let conditions = instance
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let find = |type_| condition::find(conditions, type_);
    let not = |reason: &str, message: &str| InstalledCondition {
        is_installed: false,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match (find(HAS_VALID_BUNDLE), find(INSTALLED)) {
        (valid, Some(installed)) if installed.status == "True" => InstalledCondition {
            is_installed: true,
            reason: reason::INSTALL_SUCCESSFUL.to_owned(),
            message: applied(&instance.name_any(), valid, installed),
        },
        (None, _) => not(
            reason::UNPACK_PENDING,
            "Waiting for the bundle to be unpacked",
        ),
        (Some(valid), _) if valid.status != "True" => not(&valid.reason, &valid.message),
        (_, None) => not(
            reason::INSTALL_PENDING,
            "Waiting for the bundle to be installed",
        ),
        (_, Some(installed)) => not(&installed.reason, &installed.message),
    }
}

fn applied(name: &str, valid: Option<&Condition>, installed: &Condition) -> String {
    let mut message = format!("Successfully applied the {name} BundleInstance resource");
    let problem = if installed.reason == below::INSTALLATION_SUCCEEDED {
        valid.filter(|valid| valid.status == "False" && valid.reason == below::UNPACK_FAILED)
    } else {
        Some(installed)
    };
    if let Some(problem) = problem {
        message.push_str("; ");
        message.push_str(&problem.message);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::platform_operator::fixtures;

    fn instance(conditions: &[(&str, &str, &str)]) -> BundleInstance {
        let conditions = conditions.iter();
        let conditions: Vec<_> = conditions
            .map(|(type_, status, reason)| fixtures::condition(type_, status, reason))
            .collect();
        object!({"metadata": {"name": "etcd"}, "status": {"conditions": conditions}})
    }

    // parity: openshift-12
    #[test]
    fn installed_condition_reflects_the_instance() {
        const APPLIED: &str = "Successfully applied the etcd BundleInstance resource";
        let unpacked = ("HasValidBundle", "True", "UnpackSuccessful");
        let failed = ("HasValidBundle", "False", "UnpackFailed");
        let installed = ("Installed", "True", "InstallationSucceeded");
        assert_each!(|conditions, is_installed, reason, message|
            condition(&instance(conditions)) => InstalledCondition { is_installed, reason: reason.to_owned(), message };
            &[][..], false, "UnpackPending" => "Waiting for the bundle to be unpacked".to_owned();
            &[failed][..], false, "UnpackFailed" => "UnpackFailed!".into();
            &[("HasValidBundle", "Unknown", "ReconcileFailed")][..], false, "ReconcileFailed" => "ReconcileFailed!".into();
            &[failed, ("Installed", "False", "NotInstalled")][..], false, "UnpackFailed" => "UnpackFailed!".into();
            &[unpacked][..], false, "InstallPending" => "Waiting for the bundle to be installed".into();
            &[unpacked, ("Installed", "False", "InstallFailed")][..], false, "InstallFailed" => "InstallFailed!".into();
            &[unpacked, installed][..], true, "InstallSuccessful" => APPLIED.into();
            // The reason does not matter.
            &[unpacked, ("Installed", "True", "Odd")][..], true, "InstallSuccessful" => format!("{APPLIED}; Odd!");
            // The next bundle is fetched, cannot be fetched, or cannot be installed.
            &[("HasValidBundle", "False", "Unpacking"), installed][..], true, "InstallSuccessful" => APPLIED.into();
            &[failed, installed][..], true, "InstallSuccessful" => format!("{APPLIED}; UnpackFailed!");
            &[unpacked, ("Installed", "True", "UpgradeFailed")][..], true, "InstallSuccessful"
                => format!("{APPLIED}; UpgradeFailed!");
        );
    }
}
