//! Labels, annotations and finalizers.

/// Label for the kind of the owner: `BundleInstance` on installed objects and on Bundles, `Bundle` on objects that a Bundle
/// requires (rukpak parity).
pub const OWNER_KIND: &str = "core.rukpak.io/owner-kind";
/// Label for the name of the owner.
pub const OWNER_NAME: &str = "core.rukpak.io/owner-name";
/// Label of a Bundle: the hash of its template.
pub const TEMPLATE_HASH: &str = "core.rukpak.io/bundle-template-hash";
/// Annotation of an existing object: `core.rukpak.io/adopt: <instance>` lets that BundleInstance adopt the object.
pub const ADOPT: &str = "core.rukpak.io/adopt";
/// Annotation of a BundleInstance: a changed value retries failed steps immediately, after a fix that the provisioner does
/// not watch.
pub const RETRY: &str = "core.rukpak.io/retry";
/// Finalizer of a BundleInstance: its objects are removed according to its policies before it is deleted.
pub const UNINSTALL: &str = "core.rukpak.io/uninstall";
/// Annotation of a BundleInstance that is deleted with `--cascade=orphan`, with its uid as the value: its objects are kept.
pub const ORPHANED: &str = "core.rukpak.io/orphaned";
/// Annotation of an object of a bundle: the object is not deleted when it leaves the bundle, or with the BundleInstance.
pub const KEEP: &str = "core.rukpak.io/keep";
/// Annotation of an object of a bundle, `Never` or `WhenImmutable`: takes precedence over `spec.upgrade.recreate` of the
/// BundleInstance.
pub const RECREATE: &str = "core.rukpak.io/recreate";
/// Annotation of an incoming CustomResourceDefinition, with the value `"false"`: its upgrade is not checked (rukpak
/// parity).
pub const SAFE_CRD_UPGRADE: &str = "core.rukpak.io/safe-crd-upgrade-validation";
/// Annotation of a Secret in the system namespace: the hosts that git and http sources may send it to, separated by commas.
/// If unset, any host is allowed.
pub const HOSTS: &str = "core.rukpak.io/hosts";
/// Label of a Secret in the system namespace: the BundleInstance whose revision the Secret holds a part of.
pub const REVISION_OF: &str = "core.rukpak.io/revision-of";
/// Annotation of an applied object: the hash of the object as its revision records it.
pub const OBJECT_HASH: &str = "core.rukpak.io/object-hash";
/// Label of a ConfigMap with the overflow of an inventory: the name of the BundleInstance.
pub const INVENTORY_OF: &str = "core.rukpak.io/inventory-of";
/// Label of the Bundle of an upload, set by its template: a prefix of the content digest, so that other content leads to
/// another Bundle.
pub const CONTENT_DIGEST: &str = "core.rukpak.io/content-digest";
/// Annotation of an unpack Job: the image that it was created for, pinned if the registry resolved it.
pub const IMAGE: &str = "core.rukpak.io/image";
/// Annotation of an unpack Job: the hash of the declared Job, before changes by admission.
pub const SPEC_HASH: &str = "core.rukpak.io/declared";
/// Annotation of an unpack Job: the digest of the content that it delivered.
pub const DELIVERED_DIGEST: &str = "core.rukpak.io/handed-over";
/// Annotation of an unpack Job: the entries of the content that are not regular files and were skipped, as JSON.
pub const SKIPPED: &str = "core.rukpak.io/skipped";
/// Annotation of an unpack Job: the reason why its content was rejected. The same image is rejected each time.
pub const REJECTED: &str = "core.rukpak.io/rejected";
/// Annotation of the ServiceAccount of a registry pod: the pull secrets that the catalog names, separated by commas. The
/// ServiceAccount may have others.
pub const PULL_SECRETS: &str = "core.rukpak.io/pull-secrets";
/// Label of the provisioner's pods: `true` for the leader, which the Service `core` selects.
pub const LEADER: &str = "core.rukpak.io/leader";
/// Annotation of a PlatformOperator: the minor versions of cluster and package when a minor version was last approved, as
/// in `4.12 2.5`. OpenShift's CRD drops the equivalent fields of the status.
pub const APPROVED_MINORS: &str = "core.rukpak.io/kept-minors";
/// Annotation of a PlatformOperator and of its BundleInstance: the chosen bundle, as JSON. A deleted BundleInstance is
/// recreated with that bundle. OpenShift's CRD drops `status.chosenBundle`, which records the same choice.
pub const CHOSEN_BUNDLE: &str = "core.rukpak.io/chosen-bundle";
/// Label of the BundleInstance of a PlatformOperator: the PlatformOperator's name.
pub const PLATFORM_OPERATOR: &str = "core.rukpak.io/platform-operator";
/// Annotation of a BundleInstance that `rukpak run bundle` created: the package.
pub const PACKAGE: &str = "core.rukpak.io/package";
/// Annotation of such a BundleInstance: the name of the ClusterServiceVersion to install.
pub const CSV_NAME: &str = "core.rukpak.io/csv-name";
/// Annotation of such a BundleInstance: the version to install.
pub const VERSION: &str = "core.rukpak.io/version";
/// Annotation of such a BundleInstance: the image to install before the last change.
pub const PREVIOUS_IMAGE: &str = "core.rukpak.io/previous-image";
/// Annotation of a CatalogSource: a template of its image with all variables, where the image field cannot hold the
/// template. The image field gets the resolved image.
pub const CATALOG_IMAGE_TEMPLATE: &str = "core.rukpak.io/catalog-image-template";
/// Label of a registry pod of the provisioner and of its related objects. Objects with only OLM's labels belong to OLM.
pub const CATALOG_POD: &str = "core.rukpak.io/catalog-pod";
/// Label of the Service and the EndpointSlice of a served catalog: the name of the CatalogSource.
pub const CATALOG: &str = "core.rukpak.io/catalog";
/// Annotation of a CatalogSource that is read as `v1`: the parts of the stored object that `v1` cannot express, as JSON. A
/// client that writes `v1` may keep or remove it.
pub const CATALOG_SOURCE: &str = "core.rukpak.io/catalogsource-v1alpha1";
