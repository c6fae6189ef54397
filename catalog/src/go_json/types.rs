//! Declarations of the types of operator-registry's `declcfg` and `property`, and of the types of OLM's API that they
//! contain.

use super::{GoType, Struct};

const TEXT: GoType = GoType::Text("string");

const fn lenient(name: &'static str, fields: &'static [(&'static str, GoType)]) -> Struct {
    Struct {
        name,
        fields,
        is_strict: false,
    }
}

// --- blobs ---

const PROPERTIES: GoType = GoType::List(&GoType::Struct(&PROPERTY));

static PROPERTY: Struct = lenient(
    "property.Property",
    &[("type", TEXT), ("value", GoType::Raw)],
);

pub(crate) static PACKAGE: Struct = lenient(
    "declcfg.Package",
    &[
        ("schema", TEXT),
        ("name", TEXT),
        ("defaultChannel", TEXT),
        ("icon", GoType::Struct(&ICON)),
        ("description", TEXT),
        ("properties", PROPERTIES),
    ],
);

static ICON: Struct = lenient(
    "declcfg.Icon",
    &[("base64data", GoType::Bytes), ("mediatype", TEXT)],
);

pub(crate) static CHANNEL: Struct = lenient(
    "declcfg.Channel",
    &[
        ("schema", TEXT),
        ("name", TEXT),
        ("package", TEXT),
        ("entries", GoType::List(&GoType::Struct(&ENTRY))),
        ("properties", PROPERTIES),
    ],
);

static ENTRY: Struct = lenient(
    "declcfg.ChannelEntry",
    &[
        ("name", TEXT),
        ("replaces", TEXT),
        ("skips", GoType::List(&TEXT)),
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
        (
            "relatedImages",
            GoType::List(&GoType::Struct(&RELATED_IMAGE)),
        ),
    ],
);

static RELATED_IMAGE: Struct = lenient("declcfg.RelatedImage", &[("name", TEXT), ("image", TEXT)]);

pub(crate) static DEPRECATION: Struct = lenient(
    "declcfg.Deprecation",
    &[
        ("schema", TEXT),
        ("package", TEXT),
        ("entries", GoType::List(&GoType::Struct(&DEPRECATION_ENTRY))),
    ],
);

static DEPRECATION_ENTRY: Struct = lenient(
    "declcfg.DeprecationEntry",
    &[("reference", GoType::Struct(&REFERENCE)), ("message", TEXT)],
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
    &[("channelName", TEXT), ("priority", GoType::Int(64))],
);

pub(crate) static BUNDLE_OBJECT: Struct =
    lenient("property.BundleObject", &[("data", GoType::Bytes)]);

pub(crate) static CSV_METADATA: Struct = lenient(
    "property.CSVMetadata",
    &[
        ("annotations", GoType::Texts),
        ("apiServiceDefinitions", GoType::Struct(&API_SERVICES)),
        ("crdDescriptions", GoType::Struct(&CRDS)),
        ("description", TEXT),
        ("displayName", TEXT),
        ("installModes", GoType::List(&GoType::Struct(&INSTALL_MODE))),
        ("keywords", GoType::List(&TEXT)),
        ("labels", GoType::Texts),
        ("links", GoType::List(&GoType::Struct(&LINK))),
        ("maintainers", GoType::List(&GoType::Struct(&MAINTAINER))),
        ("maturity", TEXT),
        ("minKubeVersion", TEXT),
        ("nativeAPIs", GoType::List(&GoType::Struct(&NATIVE_API))),
        ("provider", GoType::Struct(&LINK)),
    ],
);

static API_SERVICES: Struct = lenient(
    "v1alpha1.APIServiceDefinitions",
    &[
        ("owned", GoType::List(&GoType::Struct(&API_SERVICE))),
        ("required", GoType::List(&GoType::Struct(&API_SERVICE))),
    ],
);

static CRDS: Struct = lenient(
    "v1alpha1.CustomResourceDefinitions",
    &[
        ("owned", GoType::List(&GoType::Struct(&CRD))),
        ("required", GoType::List(&GoType::Struct(&CRD))),
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
        ("containerPort", GoType::Int(32)),
        ("displayName", TEXT),
        ("description", TEXT),
        ("resources", GoType::List(&GoType::Struct(&RESOURCE))),
        ("statusDescriptors", GoType::List(&GoType::Struct(&STATUS))),
        ("specDescriptors", GoType::List(&GoType::Struct(&SPEC))),
        ("actionDescriptors", GoType::List(&GoType::Struct(&ACTION))),
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
        ("resources", GoType::List(&GoType::Struct(&RESOURCE))),
        ("statusDescriptors", GoType::List(&GoType::Struct(&STATUS))),
        ("specDescriptors", GoType::List(&GoType::Struct(&SPEC))),
        ("actionDescriptors", GoType::List(&GoType::Struct(&ACTION))),
    ],
);

static RESOURCE: Struct = lenient(
    "v1alpha1.APIResourceReference",
    &[("name", TEXT), ("kind", TEXT), ("version", TEXT)],
);

static STATUS: Struct = lenient("v1alpha1.StatusDescriptor", DESCRIPTOR);
static SPEC: Struct = lenient("v1alpha1.SpecDescriptor", DESCRIPTOR);
static ACTION: Struct = lenient("v1alpha1.ActionDescriptor", DESCRIPTOR);

const DESCRIPTOR: &[(&str, GoType)] = &[
    ("path", TEXT),
    ("displayName", TEXT),
    ("description", TEXT),
    ("x-descriptors", GoType::List(&TEXT)),
    ("value", GoType::Raw),
];

static INSTALL_MODE: Struct = lenient(
    "v1alpha1.InstallMode",
    &[
        ("type", GoType::Text("v1alpha1.InstallModeType")),
        ("supported", GoType::Bool),
    ],
);

static LINK: Struct = lenient("v1alpha1.AppLink", &[("name", TEXT), ("url", TEXT)]);

static MAINTAINER: Struct = lenient("v1alpha1.Maintainer", &[("name", TEXT), ("email", TEXT)]);

static NATIVE_API: Struct = lenient(
    "v1.GroupVersionKind",
    &[("group", TEXT), ("version", TEXT), ("kind", TEXT)],
);

// --- constraints: their decoder rejects unknown fields ---

const fn strict(name: &'static str, fields: &'static [(&'static str, GoType)]) -> Struct {
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
        ("cel", GoType::Struct(&CEL)),
        ("package", GoType::Struct(&PACKAGE_CONSTRAINT)),
        ("gvk", GoType::Struct(&GVK_CONSTRAINT)),
        ("all", GoType::Struct(&COMPOUND)),
        ("any", GoType::Struct(&COMPOUND)),
        ("not", GoType::Struct(&COMPOUND)),
    ],
);

static COMPOUND: Struct = strict(
    "constraints.CompoundConstraint",
    &[("constraints", GoType::List(&GoType::Struct(&CONSTRAINT)))],
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
    &[("schema", TEXT), ("entries", GoType::List(&GoType::Raw))],
);

pub(crate) static SUBSTITUTES: Struct = lenient(
    "substitutes.SubstitutesTemplateData",
    &[
        ("schema", TEXT),
        ("entries", GoType::List(&GoType::Raw)),
        ("substitutions", GoType::List(&GoType::Struct(&SUBSTITUTE))),
    ],
);

static SUBSTITUTE: Struct = lenient("substitutes.Substitute", &[("name", TEXT), ("base", TEXT)]);

pub(crate) static SEMVER: Struct = strict(
    "semver.SemverTemplateData",
    &[
        ("schema", TEXT),
        ("generateMajorChannels", GoType::Bool),
        ("generateMinorChannels", GoType::Bool),
        (
            "defaultChannelTypePreference",
            GoType::Text("semver.StreamType"),
        ),
        ("candidate", GoType::Struct(&LISTED)),
        ("fast", GoType::Struct(&LISTED)),
        ("stable", GoType::Struct(&LISTED)),
    ],
);

static LISTED: Struct = strict(
    "semver.channelBundles",
    &[("bundles", GoType::List(&GoType::Struct(&LISTED_BUNDLE)))],
);

static LISTED_BUNDLE: Struct = strict("semver.bundleEntry", &[("image", TEXT)]);
