//! How long things may be in our resources: the schema says it, and whoever writes a status keeps to it.
//!
//! A bound that the apiserver enforces on a status is one that a controller must cut to: a status that is too long is
//! refused as a whole, and the resource would look as if nothing happened to it.

/// Seconds of a deadline: a year.
pub const SECONDS: u32 = 31_536_000;
/// Archived revisions of an instance.
pub const REVISION_HISTORY: u32 = 20;
/// Revisions that a status lists: the archived ones, some more while objects of former revisions remain, and the live ones.
pub const REVISIONS: u32 = REVISION_HISTORY + 10;
/// The name of a `Bundle`: what is made from it (`<bundle>-upload-<n>`, a pod) still fits 63 characters.
pub const BUNDLE_NAME: u32 = 52;
/// The name of a `BundleInstance`.
pub const INSTANCE_NAME: u32 = 45;
/// The name of a package, as OpenShift's definition bounds it.
pub const PACKAGE_NAME: u32 = 56;
/// Constraints that do not count for a content.
pub const OVERRIDES: u32 = 16;
/// Bundles that a BundleInstance records: the installed, the previous and the desired one, and those of earlier templates.
pub const CREATED_BUNDLES: u32 = 16;
/// Class names.
pub const CLASS: u32 = 128;
/// References of images.
pub const REFERENCE: u32 = 1024;
/// URLs.
pub const URL: u32 = 2048;
/// Paths in repositories and bundles.
pub const PATH: u32 = 1024;
/// Branches and tags.
pub const GIT_REF: u32 = 512;
/// Certificates, PEM: twice what a distribution's collection of authorities takes.
pub const CERTIFICATES: u32 = 512 * 1024;
/// ConfigMaps of one Bundle.
pub const CONFIG_MAPS: u32 = 64;
/// Labels, and annotations, of a template.
pub const LABELS: u32 = 64;
/// One annotation of a template.
pub const ANNOTATION: u32 = 16 * 1024;

/// Conditions of one object.
pub const CONDITIONS: u32 = 32;
/// The message of a condition, in characters; the Kubernetes API's own bound.
pub const MESSAGE: u32 = 32 * 1024;
/// Names, versions, digests and the like in a status.
pub const WORD: u32 = 512;
/// Each of several things that are listed in a status.
pub const LINE: u32 = 1024;
/// How many of them: requirements, APIs, what waits, what was left.
pub const LINES: u32 = 512;
/// Paths of skipped entries.
pub const SKIPPED_PATHS: u32 = 16;
/// Findings of a conversion.
pub const FINDINGS: u32 = 64;
/// Operators that are listed with what speaks against an upgrade of the cluster.
pub const CONCERNS: u32 = 1024;
/// Kinds of an inventory.
pub const INVENTORY_KINDS: u32 = 512;
/// Objects of each kind.
pub const INVENTORY_OBJECTS: u32 = 8192;
