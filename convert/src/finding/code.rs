//! Codes of findings: stable names for scripts, CI filters and conditions.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The rule that caused a finding. The name is stable across releases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])* $name,)* }

        impl Code {
            /// All codes, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the name in reports.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Returns a one-sentence description of the rule.
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
    /// The manifests directory has a subdirectory.
    Subdirectory,
    /// An entry of the manifests or the metadata is a link, a device or a sparse file, whose content is missing.
    EntryRefused,
    /// A directory or file that every bundle requires is missing.
    Missing,
    /// A bundle exceeds a limit.
    TooMany,
    /// A value has the wrong type or shape.
    WrongShape,
    /// A field that the API does not define was dropped.
    UnknownField,
    /// An object has no apiVersion, kind or name.
    Unidentified,
    /// Two objects have the same identity.
    DuplicateObject,
    /// An unquoted number lost its spelling, or may lose it.
    UnquotedNumber,
    /// An annotation of the bundle is missing or invalid.
    BundleAnnotation,
    /// A bundle property is invalid.
    Property,
    /// The max OpenShift version cannot be determined, or several declarations differ.
    MaxOpenShiftVersion,
    /// A bundle dependency is invalid.
    Dependency,
    /// A version is not a semantic version.
    Version,

    // Unsupported features.
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

    // Inconsistent bundles.
    /// The bundle has no ClusterServiceVersion, or several.
    CSVCount,
    /// Two deployments of the install strategy have the same name.
    DuplicateDeployment,
    /// Two CustomResourceDefinitions have the same name.
    DuplicateCRD,
    /// The CSV owns a CustomResourceDefinition that the bundle does not contain.
    MissingCRD,
    /// A name is invalid for its kind.
    IllegalName,
    /// The package name is empty.
    PackageName,

    // Changes for current Kubernetes versions.
    /// An object was moved to an API that current Kubernetes serves.
    UpgradedAPI,
    /// An object of an API without a successor was dropped.
    DroppedAPI,
    /// An object's API is not served by the target Kubernetes version.
    UnservedAPI,
    /// A schema was changed to satisfy the rules of apiextensions.k8s.io/v1.
    Schema,
    /// An object was moved to the install namespace.
    Namespace,
    /// Permissions were merged or promoted.
    Permissions,
    /// A ServiceAccount was merged with one of the bundle.
    ServiceAccount,
    /// OLM does not support the kind.
    UnsupportedKind,
    /// The scope of the kind is unknown.
    UnknownScope,
    /// An option had no effect.
    Option,

    // Warnings of validate.
    /// The manifests directory contains a hidden file.
    HiddenFile,
    /// A file contains several objects, but other tools read only the first one.
    SeveralDocuments,
    /// The bundle is too large for OLM, or close to the limit.
    BundleSize,
    /// A channel is invalid, repeated, or not one of the bundle's channels.
    Channel,
    /// A channel's name does not follow the convention.
    ChannelName,
    /// A field of the CSV that OLM requires is empty.
    RequiredField,
    /// The CSV's name does not have the form `<name>.v<version>`.
    CSVName,
    /// A release version does not fit the bundle's name or version.
    Release,
    /// An install mode is unknown, repeated, or incompatible with another field.
    InstallModeList,
    /// The oldest Kubernetes version is missing, malformed, or newer than the target.
    MinKubeVersion,
    /// An annotation of OLM is spelled with the wrong case.
    AnnotationCase,
    /// The CSV contains properties that belong in metadata/properties.yaml.
    PropertiesAnnotation,
    /// A related image is empty or malformed.
    RelatedImage,
    /// The upgrade edges of the bundle are invalid.
    UpgradeGraph,
    /// An example of a custom resource is missing or invalid.
    Example,
    /// The CSV does not name a provider.
    Provider,
    /// A maintainer has no name or no valid address.
    Maintainer,
    /// A link has no name or no valid address.
    Link,
    /// The icon is missing or invalid.
    Icon,
    /// The capability level is not one of OperatorHub.io's.
    Capabilities,
    /// A category is not one of OperatorHub.io's.
    Categories,
    /// Names of a CustomResourceDefinition are missing, invalid or inconsistent.
    CRDNames,
    /// The scope of a CustomResourceDefinition is missing or unknown.
    CRDScope,
    /// Versions of a CustomResourceDefinition are missing or contradict each other.
    CRDVersions,
    /// The conversion between versions of a CustomResourceDefinition is invalid.
    CRDConversion,
    /// Two CustomResourceDefinitions define the same kind.
    DuplicateKind,
    /// The entry of a CustomResourceDefinition in the CSV is incomplete, or differs from the CustomResourceDefinition.
    OwnedCRD,
    /// The CSV does not describe a CustomResourceDefinition.
    CRDDescription,
    /// The CSV owns a version that its CustomResourceDefinition does not serve.
    UnservedVersion,
    /// The bundle has a CustomResourceDefinition that the CSV does not own.
    UnownedCRD,
    /// The CSV has no Deployments.
    NoDeployment,
    /// A container has no resource requests.
    ResourceRequests,
    /// A container image is not pinned by digest, or is invalid.
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
    /// The bundle contains a ServiceAccount that OLM creates.
    ShippedServiceAccount,
    /// A binding refers to a ServiceAccount of the bundle in another namespace than the bundle's.
    BindingNamespace,
    /// A binding refers to a Role that the bundle does not contain.
    MissingRole,
    /// A PodDisruptionBudget forbids every disruption.
    DisruptionBudget,
    /// A PriorityClass is the default of the whole cluster.
    GlobalPriority,
    /// A Service selects none of the bundle's pods.
    ServiceSelector,
    /// The bundle uses an API that newer clusters do not serve.
    RemovedAPI,
    /// A permission may refer to an API that newer clusters do not serve.
    MentionedAPI,
    /// The bundle does not declare the OpenShift releases on which OLM can install it.
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
