//! Messages of `proto/registry.proto`. A test compares them with that file.
//!
//! The messages are few and their names are fixed, so they are written here instead of being generated at each build.

/// A channel of a package, with the bundle at its head.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Channel {
    /// Name of the channel.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Name of the bundle at the head.
    #[prost(string, tag = "2")]
    pub csv_name: String,
    /// Present if the channel is deprecated.
    #[prost(message, optional, tag = "3")]
    pub deprecation: Option<Deprecation>,
}

/// Name of a package of the catalog.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PackageName {
    /// Name of the package.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A package with its channels.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Package {
    /// Name of the package.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Channels, sorted by name.
    #[prost(message, repeated, tag = "2")]
    pub channels: Vec<Channel>,
    /// Channel for clients that do not specify one.
    #[prost(string, tag = "3")]
    pub default_channel_name: String,
    /// Present if the package is deprecated.
    #[prost(message, optional, tag = "4")]
    pub deprecation: Option<Deprecation>,
}

/// API of a bundle. Catalogs do not contain plurals, so `plural` is always empty.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GroupVersionKind {
    /// Group of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Version of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Kind of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Plural of the API; ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// Required property in the older format of dependencies.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Dependency {
    /// Type that determines the format of the value.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Value as JSON.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Property of a bundle: a type and a JSON value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Property {
    /// Type that determines the format of the value.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Value as JSON.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A bundle as an entry of one channel.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Bundle {
    /// Name of the bundle.
    #[prost(string, tag = "1")]
    pub csv_name: String,
    /// Name of the package.
    #[prost(string, tag = "2")]
    pub package_name: String,
    /// Name of the channel.
    #[prost(string, tag = "3")]
    pub channel_name: String,
    /// ClusterServiceVersion as JSON. In lists, empty for bundles with an image.
    #[prost(string, tag = "4")]
    pub csv_json: String,
    /// All manifests as JSON. Empty if `csv_json` is empty.
    #[prost(string, repeated, tag = "5")]
    pub object: Vec<String>,
    /// Image reference of the bundle.
    #[prost(string, tag = "6")]
    pub bundle_path: String,
    /// APIs that the bundle provides.
    #[prost(message, repeated, tag = "7")]
    pub provided_apis: Vec<GroupVersionKind>,
    /// APIs that the bundle requires.
    #[prost(message, repeated, tag = "8")]
    pub required_apis: Vec<GroupVersionKind>,
    /// Semantic version of the bundle.
    #[prost(string, tag = "9")]
    pub version: String,
    /// Range of versions that the bundle can upgrade.
    #[prost(string, tag = "10")]
    pub skip_range: String,
    /// Required APIs and packages in the older format.
    #[prost(message, repeated, tag = "11")]
    pub dependencies: Vec<Dependency>,
    /// All properties except those that contain manifests.
    #[prost(message, repeated, tag = "12")]
    pub properties: Vec<Property>,
    /// Name of the replaced bundle. Empty in responses with a single bundle.
    #[prost(string, tag = "13")]
    pub replaces: String,
    /// Names of skipped bundles. Empty in responses with a single bundle.
    #[prost(string, repeated, tag = "14")]
    pub skips: Vec<String>,
    /// Present if the bundle is deprecated.
    #[prost(message, optional, tag = "15")]
    pub deprecation: Option<Deprecation>,
}

/// Upgrade edge: a bundle of a channel that replaces or skips another one.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ChannelEntry {
    /// Name of the package.
    #[prost(string, tag = "1")]
    pub package_name: String,
    /// Name of the channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
    /// Name of the bundle.
    #[prost(string, tag = "3")]
    pub bundle_name: String,
    /// Name of the bundle that is replaced or skipped.
    #[prost(string, tag = "4")]
    pub replaces: String,
}

/// Request message of `ListPackages`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ListPackageRequest {}

/// Request message of `ListBundles`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ListBundlesRequest {}

/// Request message of `GetPackage`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetPackageRequest {
    /// Name of the package.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Request message of `GetBundle`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetBundleRequest {
    /// Name of the package.
    #[prost(string, tag = "1")]
    pub pkg_name: String,
    /// Name of the channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
    /// Name of the bundle.
    #[prost(string, tag = "3")]
    pub csv_name: String,
}

/// Request message of `GetBundleForChannel`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetBundleInChannelRequest {
    /// Name of the package.
    #[prost(string, tag = "1")]
    pub pkg_name: String,
    /// Name of the channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
}

/// Request message of `GetChannelEntriesThatReplace`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetAllReplacementsRequest {
    /// Name of the bundle.
    #[prost(string, tag = "1")]
    pub csv_name: String,
}

/// Request message of `GetBundleThatReplaces`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetReplacementRequest {
    /// Name of the bundle.
    #[prost(string, tag = "1")]
    pub csv_name: String,
    /// Name of the package.
    #[prost(string, tag = "2")]
    pub pkg_name: String,
    /// Name of the channel.
    #[prost(string, tag = "3")]
    pub channel_name: String,
}

/// Request message of `GetChannelEntriesThatProvide`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetAllProvidersRequest {
    /// Group of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Version of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Kind of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Plural of the API; ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// Request message of `GetLatestChannelEntriesThatProvide`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetLatestProvidersRequest {
    /// Group of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Version of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Kind of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Plural of the API; ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// Request message of `GetDefaultBundleThatProvides`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetDefaultProviderRequest {
    /// Group of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Version of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Kind of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Plural of the API; ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// Deprecation notice of a package, channel or bundle.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Deprecation {
    /// Message for people.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// Request message of `ExperimentalListPackageCustomSchemas`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ExperimentalListPackageCustomSchemasRequest {
    /// Schema of the blobs.
    #[prost(string, tag = "1")]
    pub schema: String,
    /// Name of the package.
    #[prost(string, tag = "2")]
    pub package_name: String,
}
