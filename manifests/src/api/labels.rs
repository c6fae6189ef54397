//! Labels, annotations and finalizers.

/// The kind of what an object belongs to: `BundleInstance` on installed objects and on Bundles, `Bundle` on what a Bundle
/// needs (rukpak parity).
pub const OWNER_KIND: &str = "core.rukpak.io/owner-kind";
/// Its name.
pub const OWNER_NAME: &str = "core.rukpak.io/owner-name";
/// On a Bundle: the hash of the template it was made from.
pub const TEMPLATE_HASH: &str = "core.rukpak.io/bundle-template-hash";
/// On an existing object: `core.rukpak.io/adopt: <instance>` lets that BundleInstance take the object over.
pub const ADOPT: &str = "core.rukpak.io/adopt";
/// On a BundleInstance: whatever could not be done is tried again at once when the value changes, as something was put
/// right that nobody watches.
pub const RETRY: &str = "core.rukpak.io/retry";
/// On a BundleInstance: its objects are removed, as its policies say, before it goes.
pub const UNINSTALL: &str = "core.rukpak.io/uninstall";
/// On a BundleInstance that is deleted with `--cascade=orphan`, with its uid as the value: its objects stay in the cluster.
pub const ORPHANED: &str = "core.rukpak.io/orphaned";
/// On an object of a bundle: it is not deleted when it leaves the bundle, or with the BundleInstance.
pub const KEEP: &str = "core.rukpak.io/keep";
/// On an object of a bundle, `Never` or `WhenImmutable`: precedes `spec.upgrade.recreate` of the BundleInstance.
pub const RECREATE: &str = "core.rukpak.io/recreate";
/// On an incoming CustomResourceDefinition, with the value `"false"`: its upgrade is not checked (rukpak parity).
pub const SAFE_CRD_UPGRADE: &str = "core.rukpak.io/safe-crd-upgrade-validation";
/// On a Secret of the system namespace: the hosts that git and http sources may send it to, separated by commas. Without
/// it, that is any host.
pub const HOSTS: &str = "core.rukpak.io/hosts";
/// On a Secret of the system namespace: the BundleInstance whose revision the Secret holds a part of.
pub const REVISION_OF: &str = "core.rukpak.io/revision-of";
/// The annotation of an applied object: the hash of the object as its revision records it.
pub const OBJECT_HASH: &str = "core.rukpak.io/object-hash";
/// On ConfigMaps with the overflow of an inventory: the name of the BundleInstance.
pub const INVENTORY_OF: &str = "core.rukpak.io/inventory-of";
/// On the Bundle of an upload, by its template: the beginning of the content's digest, so that other content is another
/// Bundle.
pub const CONTENT_DIGEST: &str = "core.rukpak.io/content-digest";
/// On an unpack Job: the image that it was made for, pinned where the registry could be asked.
pub const IMAGE: &str = "core.rukpak.io/image";
/// On an unpack Job: the hash of what was declared, whatever others made of it.
pub const DECLARED: &str = "core.rukpak.io/declared";
/// On an unpack Job: the digest of the content that it has handed over.
pub const HANDED_OVER: &str = "core.rukpak.io/handed-over";
/// On an unpack Job: the entries of the content that are not regular files and were skipped, as JSON.
pub const SKIPPED: &str = "core.rukpak.io/skipped";
/// On an unpack Job: why the content that it has sent is rejected. The same image is rejected each time.
pub const REJECTED: &str = "core.rukpak.io/rejected";
/// On the ServiceAccount of a catalog's pod: the pull secrets that the catalog names, separated by commas. It may have
/// others.
pub const PULL_SECRETS: &str = "core.rukpak.io/pull-secrets";
/// On the provisioner's pods: `true` for the one that works, which the Service `core` selects.
pub const LEADER: &str = "core.rukpak.io/leader";
/// On a PlatformOperator: the minor versions of cluster and package when a minor version was last approved, as in
/// `4.12 2.5`. OpenShift's own definition drops the fields of the status that say the same.
pub const KEPT_MINORS: &str = "core.rukpak.io/kept-minors";
/// On a PlatformOperator and on its BundleInstance: the chosen bundle, as JSON. A deleted BundleInstance is created again at
/// that bundle. OpenShift's own definition drops `status.chosenBundle`, which records the same choice.
pub const CHOSEN_BUNDLE: &str = "core.rukpak.io/chosen-bundle";
/// On the BundleInstance of a PlatformOperator: the PlatformOperator's name.
pub const PLATFORM_OPERATOR: &str = "core.rukpak.io/platform-operator";
/// On a BundleInstance that `rukpak run bundle` has made: the package.
pub const PACKAGE: &str = "core.rukpak.io/package";
/// On such a BundleInstance: the name of the ClusterServiceVersion that is to be installed.
pub const CSV_NAME: &str = "core.rukpak.io/csv-name";
/// On such a BundleInstance: the version that is to be installed.
pub const VERSION: &str = "core.rukpak.io/version";
/// On such a BundleInstance: the image that was to be installed before.
pub const PREVIOUS_IMAGE: &str = "core.rukpak.io/previous-image";
/// On a CatalogSource: a template of its image, with all variables, where the image cannot hold it. What it becomes is
/// written into the image.
pub const CATALOG_IMAGE_TEMPLATE: &str = "core.rukpak.io/catalog-image-template";
/// On the pod of a catalog that the provisioner has made, and on what belongs to it: what has OLM's labels alone is OLM's.
pub const CATALOG_POD: &str = "core.rukpak.io/catalog-pod";
/// On the Service and the EndpointSlice of a catalog that the provisioner serves itself: the CatalogSource's name.
pub const CATALOG: &str = "core.rukpak.io/catalog";
/// On a CatalogSource that is read as `v1`: what of the stored one `v1` cannot say, as JSON. Whoever writes `v1` may leave it
/// as it is or take it away.
pub const CATALOG_SOURCE: &str = "core.rukpak.io/catalogsource-v1alpha1";
