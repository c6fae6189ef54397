//! The codes of findings: stable names that scripts, CI filters and conditions may rely on.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Which rule a finding comes from. The name is stable across releases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])* $name,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in reports.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What the rule is about, in a sentence.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

codes! {
    // Reading the bundle.
    /// A file is not YAML or JSON as Kubernetes reads it.
    Unreadable,
    /// The manifests folder has a sub-directory.
    Subdirectory,
    /// An entry of the manifests or the metadata is a link, a device or a sparse file, whose content is missing.
    EntryRefused,
    /// A folder or file that every bundle needs is missing.
    Missing,
    /// There is more of something than a bundle may have.
    TooMany,
    /// A value has the wrong type or shape.
    WrongShape,
    /// A field that its API does not know was dropped.
    UnknownField,
    /// An object has no apiVersion, kind or name.
    Unidentified,
    /// Two objects have the same identity.
    DuplicateObject,
    /// A number lost or may lose its spelling; quote it.
    UnquotedNumber,
    /// An annotation of the bundle is missing or wrong.
    BundleAnnotation,
    /// A bundle property is wrong.
    Property,
    /// The max OpenShift version cannot be determined, or two places declare different ones.
    MaxOpenShiftVersion,
    /// A bundle dependency is wrong.
    Dependency,
    /// A version is not a semantic version.
    Version,

    // What the product does not do.
    /// The CSV defines webhooks.
    Webhooks,
    /// The CSV owns API services.
    APIServices,
    /// The CSV does not support the AllNamespaces install mode.
    InstallMode,
    /// The install strategy is not "deployment".
    InstallStrategy,
    /// The bundle ships webhook configurations as plain objects.
    WebhookObject,
    /// The bundle ships API services as plain objects.
    APIServiceObject,

    // What makes a bundle inconsistent.
    /// The bundle has no ClusterServiceVersion, or several.
    CSVCount,
    /// Two deployments of the install strategy have the same name.
    DuplicateDeployment,
    /// Two CustomResourceDefinitions have the same name.
    DuplicateCRD,
    /// The CSV owns a CustomResourceDefinition that the bundle does not have.
    MissingCRD,
    /// A name is not legal for its kind.
    IllegalName,
    /// The package name is empty.
    PackageName,

    // What was changed so that it works today.
    /// An object was moved to an API that current Kubernetes serves.
    UpgradedAPI,
    /// An object in an API without successor was dropped.
    DroppedAPI,
    /// An object's API is not served by the target Kubernetes version.
    UnservedAPI,
    /// A schema was changed to satisfy the rules of apiextensions.k8s.io/v1.
    Schema,
    /// An object was moved to the install namespace.
    Namespace,
    /// Permissions were merged or promoted.
    Permissions,
    /// A ServiceAccount was merged with one the bundle ships.
    ServiceAccount,
    /// A kind that OLM would not install.
    UnsupportedKind,
    /// A kind whose scope is not known.
    UnknownScope,
    /// An option had no effect.
    Option,

    // Advice of validate.
    /// A hidden file stands among the manifests.
    HiddenFile,
    /// A file holds more objects than the first one, which is all that other tools read.
    SeveralDocuments,
    /// The bundle is, or soon will be, too large for OLM.
    BundleSize,
    /// A channel is illegal, repeated, or not among the bundle's.
    Channel,
    /// A channel's name does not follow the convention.
    ChannelName,
    /// A field of the CSV that OLM requires is empty.
    RequiredField,
    /// The CSV's name does not have the form `<name>.v<version>`.
    CSVName,
    /// A release version does not fit the bundle's name or version.
    Release,
    /// An install mode is unknown, repeated or does not go with another field.
    InstallModeList,
    /// The oldest Kubernetes version is missing, malformed, or newer than the target.
    MinKubeVersion,
    /// An annotation that OLM knows is written in another case.
    AnnotationCase,
    /// The CSV carries properties that belong to metadata/properties.yaml.
    PropertiesAnnotation,
    /// A related image is empty or malformed.
    RelatedImage,
    /// The bundle's place in the upgrade graph is not one.
    UpgradeGraph,
    /// An example of a custom resource is missing or wrong.
    Example,
    /// The CSV does not name a provider.
    Provider,
    /// A maintainer has no name or no valid address.
    Maintainer,
    /// A link has no name or no valid address.
    Link,
    /// The icon is missing or not one.
    Icon,
    /// The capability level is not one of OperatorHub.io's.
    Capabilities,
    /// A category is not one of OperatorHub.io's.
    Categories,
    /// Names of a CustomResourceDefinition are missing, illegal or do not fit each other.
    CRDNames,
    /// The scope of a CustomResourceDefinition is missing or unknown.
    CRDScope,
    /// Versions of a CustomResourceDefinition are missing or contradict each other.
    CRDVersions,
    /// The conversion between versions of a CustomResourceDefinition cannot work.
    CRDConversion,
    /// Two CustomResourceDefinitions define the same kind.
    DuplicateKind,
    /// What the CSV says of a CustomResourceDefinition is incomplete or differs from it.
    OwnedCRD,
    /// The CSV does not describe a CustomResourceDefinition.
    CRDDescription,
    /// The CSV owns a version that its CustomResourceDefinition does not serve.
    UnservedVersion,
    /// The bundle has a CustomResourceDefinition that the CSV does not own.
    UnownedCRD,
    /// The CSV installs nothing that runs.
    NoDeployment,
    /// A container has no resource requests.
    ResourceRequests,
    /// A container's image may change under its name, or is no image.
    MutableImage,
    /// A container is privileged.
    Privileged,
    /// A permission allows everything.
    WildcardPermissions,
    /// A permission allows to write CustomResourceDefinitions.
    CRDPermissions,
    /// A permission allows to write PodDisruptionBudgets.
    BudgetPermissions,
    /// A permission allows to change OpenShift's default SecurityContextConstraints.
    SecurityConstraints,
    /// The bundle ships a ServiceAccount that OLM makes itself.
    ShippedServiceAccount,
    /// A binding names an account of the bundle in another namespace than the bundle's.
    BindingNamespace,
    /// A binding refers to a Role that the bundle does not ship.
    MissingRole,
    /// A PodDisruptionBudget forbids every disruption.
    DisruptionBudget,
    /// A PriorityClass is the default of the whole cluster.
    GlobalPriority,
    /// A Service selects none of the bundle's pods.
    ServiceSelector,
    /// The bundle uses an API that newer clusters do not serve.
    RemovedAPI,
    /// A permission may be for an API that newer clusters do not serve.
    MentionedAPI,
    /// The bundle does not tell on which OpenShift releases OLM can install it.
    OpenShiftRange,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
