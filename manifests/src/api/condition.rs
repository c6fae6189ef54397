//! Condition types and reasons (rukpak parity where rukpak has them).

/// The content of a Bundle has been fetched, checked and stored.
pub const UNPACKED: &str = "Unpacked";
/// The content store has the content of an unpacked Bundle. The condition exists while that is not so.
pub const CONTENT_AVAILABLE: &str = "ContentAvailable";
/// The Bundle of the current template can be installed.
pub const HAS_VALID_BUNDLE: &str = "HasValidBundle";
/// The objects of a bundle are in the cluster; the message says of which one.
pub const INSTALLED: &str = "Installed";
/// What was installed works.
pub const HEALTHY: &str = "Healthy";
/// Something is under way, or would be if nothing were in its way.
pub const PROGRESSING: &str = "Progressing";
/// The generation is installed as declared, and every object is healthy.
pub const READY: &str = "Ready";
/// The controller works on the generation. The condition exists only while its status is True.
pub const RECONCILING: &str = "Reconciling";
/// The generation needs a change by a user, or its progress deadline has passed. The condition exists only while its status
/// is True.
pub const STALLED: &str = "Stalled";

/// Why a condition is what it is.
pub mod reason {
    /// Waiting for something before unpacking begins.
    pub const UNPACK_PENDING: &str = "UnpackPending";
    /// Fetching.
    pub const UNPACKING: &str = "Unpacking";
    /// The source or its content is no good.
    pub const UNPACK_FAILED: &str = "UnpackFailed";
    /// The source has an entry that no bundle may have, such as a symbolic link among the manifests.
    pub const ENTRY_REFUSED: &str = "EntryRefused";
    /// The content is stored.
    pub const UNPACK_SUCCESSFUL: &str = "UnpackSuccessful";
    /// Nobody here serves that class.
    pub const UNKNOWN_CLASS: &str = "UnknownProvisionerClass";
    /// Bundles could not be listed or created.
    pub const RECONCILE_FAILED: &str = "ReconcileFailed";
    /// The first installation failed.
    pub const INSTALL_FAILED: &str = "InstallFailed";
    /// A pivot failed.
    pub const UPGRADE_FAILED: &str = "UpgradeFailed";
    /// All objects are applied.
    pub const INSTALLATION_SUCCEEDED: &str = "InstallationSucceeded";
    /// Another client replaced the installed Bundle, and nothing is applied or repaired from it.
    pub const INSTALLED_BUNDLE_REPLACED: &str = "InstalledBundleReplaced";
    /// Nothing has been installed yet.
    pub const NOT_INSTALLED: &str = "NotInstalled";
    /// `spec.paused`.
    pub const PAUSED: &str = "Paused";
    /// Applying, or waiting for something.
    pub const APPLYING: &str = "Applying";
    /// Nothing to do.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// The previous bundle was brought back.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// Somebody else changes what we apply, again and again.
    pub const FIGHTING: &str = "FieldConflict";
    /// Being deleted.
    pub const UNINSTALLING: &str = "Uninstalling";
    /// Every object is well.
    pub const HEALTHY: &str = "Healthy";
    /// Some object is not.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Not looked at yet, or it cannot be.
    pub const HEALTH_UNKNOWN: &str = "HealthUnknown";
    /// All objects are applied, some of them are not ready.
    pub const WAITING_FOR_HEALTH: &str = "WaitingForHealth";
    /// What failed is tried again.
    pub const RETRYING: &str = "Retrying";
    /// What failed will not work before somebody changes something.
    pub const BLOCKED: &str = "Blocked";
    /// The controller works towards the generation.
    pub const PROGRESSING: &str = "Progressing";
    /// The controller works towards the generation, and retries what failed.
    pub const PROGRESSING_WITH_RETRY: &str = "ProgressingWithRetry";
    /// The generation did not become ready before its progress deadline.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// There is nothing to be healthy.
    pub const INSTALLATION_STATUS_FALSE: &str = "InstallationStatusFalse";
}
