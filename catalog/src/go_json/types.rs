//! Declarations of the types of operator-registry's `declcfg` and `property`, and of the types of OLM's API that they
//! contain.

use super::{Struct, Type};

const TEXT: Type = Type::Text("string");

const fn lenient(name: &'static str, fields: &'static [(&'static str, Type)]) -> Struct {
    Struct {
        name,
        fields,
        is_strict: false,
    }
}

// --- blobs ---

const PROPERTIES: Type = Type::List(&Type::Struct(&PROPERTY));

static PROPERTY: Struct = lenient("property.Property", &[("type", TEXT), ("value", Type::Raw)]);

pub(crate) static PACKAGE: Struct = lenient(
    "declcfg.Package",
    &[
        ("schema", TEXT),
        ("name", TEXT),
        ("defaultChannel", TEXT),
        ("icon", Type::Struct(&ICON)),
        ("description", TEXT),
        ("properties", PROPERTIES),
    ],
);

static ICON: Struct = lenient(
    "declcfg.Icon",
    &[("base64data", Type::Bytes), ("mediatype", TEXT)],
);

pub(crate) static CHANNEL: Struct = lenient(
    "declcfg.Channel",
    &[
        ("schema", TEXT),
        ("name", TEXT),
        ("package", TEXT),
        ("entries", Type::List(&Type::Struct(&ENTRY))),
        ("properties", PROPERTIES),
    ],
);

static ENTRY: Struct = lenient(
    "declcfg.ChannelEntry",
    &[
        ("name", TEXT),
        ("replaces", TEXT),
        ("skips", Type::List(&TEXT)),
        ("skipRange", TEXT),
    ],
);

pub(crate) static BUNDLE: Struct = lenient(
    "declcfg.Bundle",
    &[
        ("schema", TEXT),
        ("name", TEXT),
        ("package", TEXT),
        ("image", TEXT),
        ("properties", PROPERTIES),
        ("relatedImages", Type::List(&Type::Struct(&RELATED_IMAGE))),
    ],
);

static RELATED_IMAGE: Struct = lenient("declcfg.RelatedImage", &[("name", TEXT), ("image", TEXT)]);

pub(crate) static DEPRECATION: Struct = lenient(
    "declcfg.Deprecation",
    &[
        ("schema", TEXT),
        ("package", TEXT),
        ("entries", Type::List(&Type::Struct(&DEPRECATION_ENTRY))),
    ],
);

static DEPRECATION_ENTRY: Struct = lenient(
    "declcfg.DeprecationEntry",
    &[("reference", Type::Struct(&REFERENCE)), ("message", TEXT)],
);

static REFERENCE: Struct = lenient(
    "declcfg.PackageScopedReference",
    &[("schema", TEXT), ("name", TEXT)],
);

// --- properties ---

pub(crate) static PACKAGE_PROPERTY: Struct = lenient(
    "property.Package",
    &[("packageName", TEXT), ("version", TEXT), ("release", TEXT)],
);

pub(crate) static PACKAGE_REQUIRED: Struct = lenient(
    "property.PackageRequired",
    &[("packageName", TEXT), ("versionRange", TEXT)],
);

pub(crate) static GVK: Struct = lenient(
    "property.GVK",
    &[("group", TEXT), ("kind", TEXT), ("version", TEXT)],
);

pub(crate) static GVK_REQUIRED: Struct = lenient(
    "property.GVKRequired",
    &[("group", TEXT), ("kind", TEXT), ("version", TEXT)],
);

pub(crate) static CHANNEL_PROPERTY: Struct = lenient(
    "property.Channel",
    &[("channelName", TEXT), ("priority", Type::Int(64))],
);

pub(crate) static BUNDLE_OBJECT: Struct =
    lenient("property.BundleObject", &[("data", Type::Bytes)]);

pub(crate) static CSV_METADATA: Struct = lenient(
    "property.CSVMetadata",
    &[
        ("annotations", Type::Texts),
        ("apiServiceDefinitions", Type::Struct(&API_SERVICES)),
        ("crdDescriptions", Type::Struct(&CRDS)),
        ("description", TEXT),
        ("displayName", TEXT),
        ("installModes", Type::List(&Type::Struct(&INSTALL_MODE))),
        ("keywords", Type::List(&TEXT)),
        ("labels", Type::Texts),
        ("links", Type::List(&Type::Struct(&LINK))),
        ("maintainers", Type::List(&Type::Struct(&MAINTAINER))),
        ("maturity", TEXT),
        ("minKubeVersion", TEXT),
        ("nativeAPIs", Type::List(&Type::Struct(&NATIVE_API))),
        ("provider", Type::Struct(&LINK)),
    ],
);

static API_SERVICES: Struct = lenient(
    "v1alpha1.APIServiceDefinitions",
    &[
        ("owned", Type::List(&Type::Struct(&API_SERVICE))),
        ("required", Type::List(&Type::Struct(&API_SERVICE))),
    ],
);

static CRDS: Struct = lenient(
    "v1alpha1.CustomResourceDefinitions",
    &[
        ("owned", Type::List(&Type::Struct(&CRD))),
        ("required", Type::List(&Type::Struct(&CRD))),
    ],
);

static API_SERVICE: Struct = lenient(
    "v1alpha1.APIServiceDescription",
    &[
        ("name", TEXT),
        ("group", TEXT),
        ("version", TEXT),
        ("kind", TEXT),
        ("deploymentName", TEXT),
        ("containerPort", Type::Int(32)),
        ("displayName", TEXT),
        ("description", TEXT),
        ("resources", Type::List(&Type::Struct(&RESOURCE))),
        ("statusDescriptors", Type::List(&Type::Struct(&STATUS))),
        ("specDescriptors", Type::List(&Type::Struct(&SPEC))),
        ("actionDescriptors", Type::List(&Type::Struct(&ACTION))),
    ],
);

static CRD: Struct = lenient(
    "v1alpha1.CRDDescription",
    &[
        ("name", TEXT),
        ("version", TEXT),
        ("kind", TEXT),
        ("displayName", TEXT),
        ("description", TEXT),
        ("resources", Type::List(&Type::Struct(&RESOURCE))),
        ("statusDescriptors", Type::List(&Type::Struct(&STATUS))),
        ("specDescriptors", Type::List(&Type::Struct(&SPEC))),
        ("actionDescriptors", Type::List(&Type::Struct(&ACTION))),
    ],
);

static RESOURCE: Struct = lenient(
    "v1alpha1.APIResourceReference",
    &[("name", TEXT), ("kind", TEXT), ("version", TEXT)],
);

static STATUS: Struct = lenient("v1alpha1.StatusDescriptor", DESCRIPTOR);
static SPEC: Struct = lenient("v1alpha1.SpecDescriptor", DESCRIPTOR);
static ACTION: Struct = lenient("v1alpha1.ActionDescriptor", DESCRIPTOR);

const DESCRIPTOR: &[(&str, Type)] = &[
    ("path", TEXT),
    ("displayName", TEXT),
    ("description", TEXT),
    ("x-descriptors", Type::List(&TEXT)),
    ("value", Type::Raw),
];

static INSTALL_MODE: Struct = lenient(
    "v1alpha1.InstallMode",
    &[
        ("type", Type::Text("v1alpha1.InstallModeType")),
        ("supported", Type::Bool),
    ],
);

static LINK: Struct = lenient("v1alpha1.AppLink", &[("name", TEXT), ("url", TEXT)]);

static MAINTAINER: Struct = lenient("v1alpha1.Maintainer", &[("name", TEXT), ("email", TEXT)]);

static NATIVE_API: Struct = lenient(
    "v1.GroupVersionKind",
    &[("group", TEXT), ("version", TEXT), ("kind", TEXT)],
);

// --- constraints: their decoder rejects unknown fields ---

const fn strict(name: &'static str, fields: &'static [(&'static str, Type)]) -> Struct {
    Struct {
        name,
        fields,
        is_strict: true,
    }
}

pub(crate) static CONSTRAINT: Struct = strict(
    "constraints.Constraint",
    &[
        ("failureMessage", TEXT),
        ("cel", Type::Struct(&CEL)),
        ("package", Type::Struct(&PACKAGE_CONSTRAINT)),
        ("gvk", Type::Struct(&GVK_CONSTRAINT)),
        ("all", Type::Struct(&COMPOUND)),
        ("any", Type::Struct(&COMPOUND)),
        ("not", Type::Struct(&COMPOUND)),
    ],
);

static COMPOUND: Struct = strict(
    "constraints.CompoundConstraint",
    &[("constraints", Type::List(&Type::Struct(&CONSTRAINT)))],
);

static CEL: Struct = strict("constraints.Cel", &[("rule", TEXT)]);

static PACKAGE_CONSTRAINT: Struct = strict(
    "constraints.PackageConstraint",
    &[("packageName", TEXT), ("versionRange", TEXT)],
);

static GVK_CONSTRAINT: Struct = strict(
    "constraints.GVKConstraint",
    &[("group", TEXT), ("kind", TEXT), ("version", TEXT)],
);

// --- catalog templates: the decoder of semver templates rejects unknown fields ---

pub(crate) static BASIC: Struct = lenient(
    "basic.BasicTemplateData",
    &[("schema", TEXT), ("entries", Type::List(&Type::Raw))],
);

pub(crate) static SUBSTITUTES: Struct = lenient(
    "substitutes.SubstitutesTemplateData",
    &[
        ("schema", TEXT),
        ("entries", Type::List(&Type::Raw)),
        ("substitutions", Type::List(&Type::Struct(&SUBSTITUTE))),
    ],
);

static SUBSTITUTE: Struct = lenient("substitutes.Substitute", &[("name", TEXT), ("base", TEXT)]);

pub(crate) static SEMVER: Struct = strict(
    "semver.SemverTemplateData",
    &[
        ("schema", TEXT),
        ("generateMajorChannels", Type::Bool),
        ("generateMinorChannels", Type::Bool),
        (
            "defaultChannelTypePreference",
            Type::Text("semver.StreamType"),
        ),
        ("candidate", Type::Struct(&LISTED)),
        ("fast", Type::Struct(&LISTED)),
        ("stable", Type::Struct(&LISTED)),
    ],
);

static LISTED: Struct = strict(
    "semver.channelBundles",
    &[("bundles", Type::List(&Type::Struct(&LISTED_BUNDLE)))],
);

static LISTED_BUNDLE: Struct = strict("semver.bundleEntry", &[("image", TEXT)]);
