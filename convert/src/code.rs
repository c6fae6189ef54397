//! The codes of findings: stable names that scripts, CI filters and conditions may rely on.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Which rule a finding comes from. The name is stable across releases.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

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
    /// A folder or file that every bundle needs is missing.
    Missing,
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
