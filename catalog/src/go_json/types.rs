//! Declarations of the types of operator-registry's `declcfg` and `property`, and of the types of OLM's API that they
//! contain.

use super::{GoStruct, GoType};

const TEXT: GoType = GoType::Text("string");

const fn lenient(name: &'static str, fields: &'static [(&'static str, GoType)]) -> GoStruct {
    GoStruct {
        name,
        fields,
        is_strict: false,
    }
}

// --- blobs ---

const PROPERTIES: GoType = GoType::List(&GoType::Struct(&PROPERTY));

static PROPERTY: GoStruct = lenient(
    "property.Property",
    &[("type", TEXT), ("value", GoType::Raw)],
);

pub(crate) static PACKAGE: GoStruct = lenient(
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

static ICON: GoStruct = lenient(
    "declcfg.Icon",
    &[("base64data", GoType::Bytes), ("mediatype", TEXT)],
);

pub(crate) static CHANNEL: GoStruct = lenient(
    "declcfg.Channel",
    &[
        ("schema", TEXT),
        ("name", TEXT),
        ("package", TEXT),
        ("entries", GoType::List(&GoType::Struct(&ENTRY))),
        ("properties", PROPERTIES),
    ],
);

static ENTRY: GoStruct = lenient(
    "declcfg.ChannelEntry",
    &[
        ("name", TEXT),
        ("replaces", TEXT),
        ("skips", GoType::List(&TEXT)),
        ("skipRange", TEXT),
    ],
);

pub(crate) static BUNDLE: GoStruct = lenient(
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

static RELATED_IMAGE: GoStruct =
    lenient("declcfg.RelatedImage", &[("name", TEXT), ("image", TEXT)]);

pub(crate) static DEPRECATION: GoStruct = lenient(
    "declcfg.Deprecation",
    &[
        ("schema", TEXT),
        ("package", TEXT),
        ("entries", GoType::List(&GoType::Struct(&DEPRECATION_ENTRY))),
    ],
);

static DEPRECATION_ENTRY: GoStruct = lenient(
    "declcfg.DeprecationEntry",
    &[("reference", GoType::Struct(&REFERENCE)), ("message", TEXT)],
);

static REFERENCE: GoStruct = lenient(
    "declcfg.PackageScopedReference",
    &[("schema", TEXT), ("name", TEXT)],
);

// --- properties ---

pub(crate) static PACKAGE_PROPERTY: GoStruct = lenient(
    "property.Package",
    &[("packageName", TEXT), ("version", TEXT), ("release", TEXT)],
);

pub(crate) static PACKAGE_REQUIRED: GoStruct = lenient(
    "property.PackageRequired",
    &[("packageName", TEXT), ("versionRange", TEXT)],
);

pub(crate) static GVK: GoStruct = lenient(
    "property.GVK",
    &[("group", TEXT), ("kind", TEXT), ("version", TEXT)],
);

pub(crate) static GVK_REQUIRED: GoStruct = lenient(
    "property.GVKRequired",
    &[("group", TEXT), ("kind", TEXT), ("version", TEXT)],
);

pub(crate) static CHANNEL_PROPERTY: GoStruct = lenient(
    "property.Channel",
    &[("channelName", TEXT), ("priority", GoType::Int(64))],
);

pub(crate) static BUNDLE_OBJECT: GoStruct =
    lenient("property.BundleObject", &[("data", GoType::Bytes)]);

pub(crate) static CSV_METADATA: GoStruct = lenient(
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

static API_SERVICES: GoStruct = lenient(
    "v1alpha1.APIServiceDefinitions",
    &[
        ("owned", GoType::List(&GoType::Struct(&API_SERVICE))),
        ("required", GoType::List(&GoType::Struct(&API_SERVICE))),
    ],
);

static CRDS: GoStruct = lenient(
    "v1alpha1.CustomResourceDefinitions",
    &[
        ("owned", GoType::List(&GoType::Struct(&CRD))),
        ("required", GoType::List(&GoType::Struct(&CRD))),
    ],
);

static API_SERVICE: GoStruct = lenient(
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

static CRD: GoStruct = lenient(
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

static RESOURCE: GoStruct = lenient(
    "v1alpha1.APIResourceReference",
    &[("name", TEXT), ("kind", TEXT), ("version", TEXT)],
);

static STATUS: GoStruct = lenient("v1alpha1.StatusDescriptor", DESCRIPTOR);
static SPEC: GoStruct = lenient("v1alpha1.SpecDescriptor", DESCRIPTOR);
static ACTION: GoStruct = lenient("v1alpha1.ActionDescriptor", DESCRIPTOR);

const DESCRIPTOR: &[(&str, GoType)] = &[
    ("path", TEXT),
    ("displayName", TEXT),
    ("description", TEXT),
    ("x-descriptors", GoType::List(&TEXT)),
    ("value", GoType::Raw),
];

static INSTALL_MODE: GoStruct = lenient(
    "v1alpha1.InstallMode",
    &[
        ("type", GoType::Text("v1alpha1.InstallModeType")),
        ("supported", GoType::Bool),
    ],
);

static LINK: GoStruct = lenient("v1alpha1.AppLink", &[("name", TEXT), ("url", TEXT)]);

static MAINTAINER: GoStruct = lenient("v1alpha1.Maintainer", &[("name", TEXT), ("email", TEXT)]);

static NATIVE_API: GoStruct = lenient(
    "v1.GroupVersionKind",
    &[("group", TEXT), ("version", TEXT), ("kind", TEXT)],
);

// --- constraints: their decoder rejects unknown fields ---

const fn strict(name: &'static str, fields: &'static [(&'static str, GoType)]) -> GoStruct {
    GoStruct {
        name,
        fields,
        is_strict: true,
    }
}

pub(crate) static CONSTRAINT: GoStruct = strict(
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

static COMPOUND: GoStruct = strict(
    "constraints.CompoundConstraint",
    &[("constraints", GoType::List(&GoType::Struct(&CONSTRAINT)))],
);

static CEL: GoStruct = strict("constraints.Cel", &[("rule", TEXT)]);

static PACKAGE_CONSTRAINT: GoStruct = strict(
    "constraints.PackageConstraint",
    &[("packageName", TEXT), ("versionRange", TEXT)],
);

static GVK_CONSTRAINT: GoStruct = strict(
    "constraints.GVKConstraint",
    &[("group", TEXT), ("kind", TEXT), ("version", TEXT)],
);

// --- catalog templates: the decoder of semver templates rejects unknown fields ---

pub(crate) static BASIC: GoStruct = lenient(
    "basic.BasicTemplateData",
    &[("schema", TEXT), ("entries", GoType::List(&GoType::Raw))],
);

pub(crate) static SUBSTITUTES: GoStruct = lenient(
    "substitutes.SubstitutesTemplateData",
    &[
        ("schema", TEXT),
        ("entries", GoType::List(&GoType::Raw)),
        ("substitutions", GoType::List(&GoType::Struct(&SUBSTITUTE))),
    ],
);

static SUBSTITUTE: GoStruct = lenient("substitutes.Substitute", &[("name", TEXT), ("base", TEXT)]);

pub(crate) static SEMVER: GoStruct = strict(
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

static LISTED: GoStruct = strict(
    "semver.channelBundles",
    &[("bundles", GoType::List(&GoType::Struct(&LISTED_BUNDLE)))],
);

static LISTED_BUNDLE: GoStruct = strict("semver.bundleEntry", &[("image", TEXT)]);
