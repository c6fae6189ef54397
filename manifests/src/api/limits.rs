//! Limits of the fields of API objects: the CRDs enforce them, and the writers of a status truncate to them.
//!
//! The API server rejects the whole status if one field exceeds its limit, and the object would look as if nothing happened
//! to it.

/// Maximum of a deadline, in seconds: one year.
pub const SECONDS: u32 = 31_536_000;
/// Maximum number of archived revisions of a BundleInstance.
pub const REVISION_HISTORY: u32 = 20;
/// Maximum number of revisions in a status: the archived ones, some more while objects of former revisions remain, and the
/// live ones.
pub const REVISIONS: u32 = REVISION_HISTORY + 10;
/// Maximum length of a `Bundle` name. Derived names (`<bundle>-upload-<n>`, a pod) still fit 63 characters.
pub const BUNDLE_NAME: u32 = 52;
/// Maximum length of a `BundleInstance` name.
pub const INSTANCE_NAME: u32 = 45;
/// Maximum length of a package name, as in OpenShift's CRD.
pub const PACKAGE_NAME: u32 = 56;
/// Maximum number of overrides, which are constraints to ignore for one content.
pub const OVERRIDES: u32 = 16;
/// Maximum number of Bundles that a BundleInstance records: the installed, the previous and the desired one, and those of
/// earlier templates.
pub const CREATED_BUNDLES: u32 = 16;
/// Maximum length of a provisioner class.
pub const MAX_CLASS_LEN: u32 = 128;
/// Maximum length of an image reference.
pub const REFERENCE: u32 = 1024;
/// Maximum length of a URL.
pub const URL: u32 = 2048;
/// Maximum length of a path in a repository or bundle.
pub const PATH: u32 = 1024;
/// Maximum length of a branch or tag.
pub const GIT_REF: u32 = 512;
/// Maximum size of PEM certificates: twice the size of a distribution's CA bundle.
pub const CERTIFICATES: u32 = 512 * 1024;
/// Maximum number of ConfigMaps of one Bundle.
pub const CONFIG_MAPS: u32 = 64;
/// Maximum number of labels, and of annotations, in a template.
pub const LABELS: u32 = 64;
/// Maximum length of one annotation in a template.
pub const ANNOTATION: u32 = 16 * 1024;

/// Maximum number of conditions of one object.
pub const CONDITIONS: u32 = 32;
/// Maximum length of a condition message, in characters, as in the Kubernetes API.
pub const MESSAGE: u32 = 32 * 1024;
/// Maximum length of a name, version, digest or similar value in a status.
pub const WORD: u32 = 512;
/// Maximum length of one entry of a list in a status.
pub const LINE: u32 = 1024;
/// Maximum number of such entries: requirements, APIs, deferred objects, released objects.
pub const LINES: u32 = 512;
/// Maximum number of paths of skipped entries.
pub const SKIPPED_PATHS: u32 = 16;
/// Maximum number of findings of a conversion.
pub const FINDINGS: u32 = 64;
/// Maximum number of listed concerns about a cluster upgrade.
pub const CONCERNS: u32 = 1024;
/// Maximum number of kinds in an inventory.
pub const INVENTORY_KINDS: u32 = 512;
/// Maximum number of objects of each kind in an inventory.
pub const INVENTORY_OBJECTS: u32 = 8192;
