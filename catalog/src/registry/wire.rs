//! The messages of `proto/registry.proto`, which a test compares with these.
//!
//! They are few and their names are fixed, so they are written here instead of being generated at each build.

/// A channel of a package, and the bundle at its head.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Channel {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The bundle at the head.
    #[prost(string, tag = "2")]
    pub csv_name: String,
    /// Present if it is deprecated.
    #[prost(message, optional, tag = "3")]
    pub deprecation: Option<Deprecation>,
}

/// One package of a catalog.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct PackageName {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A package and its channels, which are sorted by name.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Package {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Sorted by name.
    #[prost(message, repeated, tag = "2")]
    pub channels: Vec<Channel>,
    /// The channel for whoever names none.
    #[prost(string, tag = "3")]
    pub default_channel_name: String,
    /// Present if it is deprecated.
    #[prost(message, optional, tag = "4")]
    pub deprecation: Option<Deprecation>,
}

/// An API. Catalogs know no plural; it is always empty.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GroupVersionKind {
    /// Of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// The older view of a required property.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Dependency {
    /// Names the shape of the value.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// JSON.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// What a bundle says of itself: a type, and a JSON text.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Property {
    /// Names the shape of the value.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// JSON.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A bundle as an entry of one channel.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Bundle {
    /// The name of the bundle.
    #[prost(string, tag = "1")]
    pub csv_name: String,
    /// The package.
    #[prost(string, tag = "2")]
    pub package_name: String,
    /// The channel.
    #[prost(string, tag = "3")]
    pub channel_name: String,
    /// The ClusterServiceVersion as JSON. Empty in lists where there is an image.
    #[prost(string, tag = "4")]
    pub csv_json: String,
    /// All manifests as JSON. Empty where `csv_json` is.
    #[prost(string, repeated, tag = "5")]
    pub object: Vec<String>,
    /// The image that the bundle is in.
    #[prost(string, tag = "6")]
    pub bundle_path: String,
    /// What it brings.
    #[prost(message, repeated, tag = "7")]
    pub provided_apis: Vec<GroupVersionKind>,
    /// What it needs.
    #[prost(message, repeated, tag = "8")]
    pub required_apis: Vec<GroupVersionKind>,
    /// Its semantic version.
    #[prost(string, tag = "9")]
    pub version: String,
    /// Versions that it can be installed over.
    #[prost(string, tag = "10")]
    pub skip_range: String,
    /// The older view of required APIs and packages.
    #[prost(message, repeated, tag = "11")]
    pub dependencies: Vec<Dependency>,
    /// All but those that hold manifests.
    #[prost(message, repeated, tag = "12")]
    pub properties: Vec<Property>,
    /// Empty wherever one bundle is asked for.
    #[prost(string, tag = "13")]
    pub replaces: String,
    /// Empty wherever one bundle is asked for.
    #[prost(string, repeated, tag = "14")]
    pub skips: Vec<String>,
    /// Present if it is deprecated.
    #[prost(message, optional, tag = "15")]
    pub deprecation: Option<Deprecation>,
}

/// That a bundle of a channel replaces another.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ChannelEntry {
    /// The package.
    #[prost(string, tag = "1")]
    pub package_name: String,
    /// The channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
    /// The name of the bundle.
    #[prost(string, tag = "3")]
    pub bundle_name: String,
    /// What the bundle replaces or skips.
    #[prost(string, tag = "4")]
    pub replaces: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ListPackageRequest {}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ListBundlesRequest {}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetPackageRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetBundleRequest {
    /// The package.
    #[prost(string, tag = "1")]
    pub pkg_name: String,
    /// The channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
    /// The name of the bundle.
    #[prost(string, tag = "3")]
    pub csv_name: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetBundleInChannelRequest {
    /// The package.
    #[prost(string, tag = "1")]
    pub pkg_name: String,
    /// The channel.
    #[prost(string, tag = "2")]
    pub channel_name: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetAllReplacementsRequest {
    /// The name of the bundle.
    #[prost(string, tag = "1")]
    pub csv_name: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetReplacementRequest {
    /// The name of the bundle.
    #[prost(string, tag = "1")]
    pub csv_name: String,
    /// The package.
    #[prost(string, tag = "2")]
    pub pkg_name: String,
    /// The channel.
    #[prost(string, tag = "3")]
    pub channel_name: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetAllProvidersRequest {
    /// Of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetLatestProvidersRequest {
    /// Of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct GetDefaultProviderRequest {
    /// Of the API.
    #[prost(string, tag = "1")]
    pub group: String,
    /// Of the API.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Of the API.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Ignored.
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// Why something is deprecated.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Deprecation {
    /// For people.
    #[prost(string, tag = "1")]
    pub message: String,
}

/// The question of the rpc that takes it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ExperimentalListPackageCustomSchemasRequest {
    /// The schema of the blobs.
    #[prost(string, tag = "1")]
    pub schema: String,
    /// The package.
    #[prost(string, tag = "2")]
    pub package_name: String,
}
