//! Condition types and reasons (rukpak parity where rukpak has them), and the setter and the lookup of conditions. Pure; no
//! I/O.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Returns the condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets a condition in its place, or adds the condition.
pub fn set(conditions: &mut Vec<Condition>, condition: Condition) {
    let condition = with_time_of(conditions, condition);
    let mut former = conditions.iter_mut();
    match former.find(|former| former.type_ == condition.type_) {
        Some(former) => *former = condition,
        None => conditions.push(condition),
    }
}

/// Returns a new condition with the transition time of the former one of its type, unless the status differs: the time
/// moves with the status only.
pub fn with_time_of(former: &[Condition], condition: Condition) -> Condition {
    let former = find(former, &condition.type_);
    let last_transition_time = match former.filter(|former| former.status == condition.status) {
        Some(former) => former.last_transition_time.clone(),
        None => condition.last_transition_time,
    };
    Condition {
        last_transition_time,
        ..condition
    }
}

/// The content of a Bundle was fetched, checked and stored.
pub const UNPACKED: &str = "Unpacked";
/// The content store has the content of an unpacked Bundle. The condition exists only while its status is False.
pub const CONTENT_AVAILABLE: &str = "ContentAvailable";
/// The Bundle of the current template can be installed.
pub const HAS_VALID_BUNDLE: &str = "HasValidBundle";
/// The objects of a bundle are in the cluster; the message names the Bundle.
pub const INSTALLED: &str = "Installed";
/// The installed objects work.
pub const HEALTHY: &str = "Healthy";
/// The controller works on the object, or would if nothing blocked it.
pub const PROGRESSING: &str = "Progressing";
/// The generation is installed as declared, and every object is healthy.
pub const READY: &str = "Ready";
/// The controller works on the generation. The condition exists only while its status is True.
pub const RECONCILING: &str = "Reconciling";
/// The generation needs a change by a user, or its progress deadline has passed. The condition exists only while its status
/// is True.
pub const STALLED: &str = "Stalled";

/// Reasons of conditions.
pub mod reason {
    /// The fetch has not started: it waits for a precondition.
    pub const UNPACK_PENDING: &str = "UnpackPending";
    /// The content is being fetched.
    pub const UNPACKING: &str = "Unpacking";
    /// The source or its content is invalid.
    pub const UNPACK_FAILED: &str = "UnpackFailed";
    /// The source contains an entry that is not allowed in bundles, such as a symbolic link among the manifests.
    pub const ENTRY_REFUSED: &str = "EntryRefused";
    /// The content is stored.
    pub const UNPACK_SUCCESSFUL: &str = "UnpackSuccessful";
    /// This provisioner does not handle the class.
    pub const UNKNOWN_CLASS: &str = "UnknownProvisionerClass";
    /// Bundles could not be listed or created.
    pub const RECONCILE_FAILED: &str = "ReconcileFailed";
    /// The first installation failed.
    pub const INSTALL_FAILED: &str = "InstallFailed";
    /// An upgrade failed.
    pub const UPGRADE_FAILED: &str = "UpgradeFailed";
    /// All objects are applied.
    pub const INSTALLATION_SUCCEEDED: &str = "InstallationSucceeded";
    /// Another client replaced the installed Bundle. The provisioner applies and repairs no objects from it.
    pub const INSTALLED_BUNDLE_REPLACED: &str = "InstalledBundleReplaced";
    /// The BundleInstance has no installed bundle yet.
    pub const NOT_INSTALLED: &str = "NotInstalled";
    /// Reconciles are paused by `spec.paused`.
    pub const PAUSED: &str = "Paused";
    /// Objects are being applied, or wait for a precondition.
    pub const APPLYING: &str = "Applying";
    /// The object has no pending changes.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// The provisioner rolled back to the previous bundle.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// Another field manager repeatedly changes applied fields.
    pub const FIELD_CONFLICT: &str = "FieldConflict";
    /// The object is being deleted.
    pub const UNINSTALLING: &str = "Uninstalling";
    /// Every object is healthy.
    pub const HEALTHY: &str = "Healthy";
    /// Some objects are not healthy.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Health was not observed yet, or cannot be observed.
    pub const HEALTH_UNKNOWN: &str = "HealthUnknown";
    /// All objects are applied, but some of them are not ready.
    pub const WAITING_FOR_HEALTH: &str = "WaitingForHealth";
    /// An attempt failed, and the controller retries.
    pub const RETRYING: &str = "Retrying";
    /// The failure persists until it is fixed.
    pub const BLOCKED: &str = "Blocked";
    /// The controller works towards the generation.
    pub const PROGRESSING: &str = "Progressing";
    /// The controller works towards the generation, and retries what failed.
    pub const PROGRESSING_WITH_RETRY: &str = "ProgressingWithRetry";
    /// The generation did not become ready before its progress deadline.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// Health does not apply, because no objects are installed.
    pub const INSTALLATION_STATUS_FALSE: &str = "InstallationStatusFalse";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, second: i64) -> Condition {
        let condition = serde_json::json!({
            "type": type_, "status": status, "reason": format!("At{second}"), "message": "",
            "lastTransitionTime": format!("1970-01-01T00:00:0{second}Z"),
        });
        serde_json::from_value(condition).unwrap()
    }

    #[test]
    fn transition_time_moves_with_the_status_only() {
        let former = [(INSTALLED, 1), (HEALTHY, 2)];
        let former = former.map(|(type_, second)| condition(type_, "True", second));
        for (type_, status, seconds) in [
            (INSTALLED, "True", [1, 2]),
            (INSTALLED, "False", [9, 2]),
            (HEALTHY, "Unknown", [1, 9]),
        ] {
            let mut conditions = former.to_vec();
            set(&mut conditions, condition(type_, status, 9));
            assert_rows!([0, 1].map(|at| conditions[at].last_transition_time.0.as_second()) => seconds, "{type_} {status}");
            let set = find(&conditions, type_).unwrap();
            assert_eq!((set.status.as_str(), set.reason.as_str()), (status, "At9"));
        }
        let mut conditions = former.to_vec();
        set(&mut conditions, condition(READY, "False", 9));
        assert_rows!(conditions.split_at(2) => (&former[..], &[condition(READY, "False", 9)][..]));
    }
}
