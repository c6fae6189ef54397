//! Tables of rules.

use serde_json::json;
use tests::table::Values;

/// Sources, in a Bundle and in the template of a BundleInstance. Rows v1 to v8 are rukpak's own tests.
pub(super) const SOURCES: &str = r#"
    v1 image | {"type": "image", "image": {"ref": "quay.io/example/bundle:v1"}} | accepted
    v1 image with all fields | {"type": "image", "image": {all-of-image}} | accepted
    v1 branch | {"type": "git", "git": {{repository}, "ref": {"branch": "main"}}} | accepted
    v1 tag    | {"type": "git", "git": {{repository}, "ref": {"tag": "v0.0.1"}}} | accepted
    v1 commit | {"type": "git", "git": {{repository}, "ref": {"commit": "9e3ab7f1a36302ef512294d5c9f2e9b9566b811e"}}} | accepted
    v1 git with all fields | {"type": "git", "git": {all-of-git}} | accepted
    v1 http | {"type": "http", "http": {"url": "https://example.com/a.tgz"}} | accepted
    v1 ConfigMaps
      | {"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}}, {"configMap": {"name": "a.b"}, "path": "manifests"}]}
      | accepted
    v1 upload           | {"type": "upload", "upload": {}} | accepted
    v1 upload by digest | {"type": "upload", "upload": {"digest": "sha256:{zero*64}"}} | accepted

    v3 git without git      | {"type": "git", "image": {"ref": "a"}} | *{at}.git must be set for source type "git"*
    v4 image without image  | {{main}}, "type": "image"} | *{at}.image must be set for source type "image"*
    v4 http without http    | {{main}}, "type": "http"} | *{at}.http must be set for source type "http"*
    v4 maps without maps    | {{main}}, "type": "configMaps"} | *{at}.configMaps must be set for source type "configMaps"*
    v4 upload without upload | {{main}}, "type": "upload"} | *{at}.upload must be set for source type "upload"*
    v5 two refs | {"type": "git", "git": {{repository}, "ref": {"branch": "main", "tag": "v1"}}}
      | *"spec.source.git.ref" must validate one and only one schema (oneOf). Found 2 valid alternatives*
    v6 no ref | {"type": "git", "git": {{repository}, "ref": {}}}
      | *"spec.source.git.ref" must validate one and only one schema (oneOf). Found none valid*
    v7 two sources | {"type": "image", "image": {"ref": "a"}, "upload": {}}
      | *"spec.source" must validate one and only one schema (oneOf). Found 2 valid alternatives*
    v8 no source | {"type": "image"} | *"spec.source" must validate one and only one schema (oneOf). Found none valid*
    null as a member     | {"type": "image", "image": null} | *(oneOf). Found none valid*
    null beside a member | {"type": "image", "image": {"ref": "quay.io/example/bundle:v1"}, "git": null} | accepted

    no digest        | {digest-is}"}} | *{at-digest}: Invalid value: "": {at-digest} in body should match*
    no algorithm     | {digest-is}{zero*64}"}} | *{at-digest}: Invalid value: "{zero*64}": {at-digest} in body should match*
    other algorithm  | {digest-is}sha512:{zero*64}"}} | *{at-digest}: Invalid value: "sha512:{zero*64}": {at-digest} in body should match*
    short digest     | {digest-is}sha256:{zero*63}"}} | *{at-digest}: Invalid value: "sha256:{zero*63}": {at-digest} in body should match*
    long digest      | {digest-is}sha256:{zero*65}"}} | *{at-digest}: Invalid value: "sha256:{zero*65}": {at-digest} in body should match*
    upper case       | {digest-is}sha256:{upper*64}"}} | *{at-digest}: Invalid value: "sha256:{upper*64}": {at-digest} in body should match*
    digest and line  | {digest-is}sha256:{zero*64}\\n"}} | *{at-digest}: Invalid value: "sha256:{zero*64}\\n": {at-digest} in body should match*

    long ref           | {"type": "image", "image": {"ref": "{long-reference}"}}
      | *spec.source.image.ref: Too long: may not be more than 1024 bytes*
    long secret        | {"type": "image", "image": {"ref": "a", "pullSecret": "{a*254}"}} | *spec.source.image.pullSecret: Too long*
    long certificates  | {"type": "image", "image": {"ref": "a", "certificateData": "{long-certificates}"}}
      | *spec.source.image.certificateData: Too long*
    long branch        | {"type": "git", "git": {{repository}, "ref": {"branch": "{long-ref}"}}} | *spec.source.git.ref.branch: Too long*
    long URL           | {"type": "http", "http": {"url": "https://{long-url}"}} | *spec.source.http.url: Too long*
    many ConfigMaps    | {"type": "configMaps", "configMaps": {many-maps}}
      | *spec.source.configMaps: Too many: 65: must have at most 64 items*
    no ConfigMap       | {"type": "configMaps", "configMaps": []} | *spec.source.configMaps in body should have at least 1 items*

    empty ref          | {"type": "image", "image": {"ref": ""}} | *spec.source.image.ref in body should be at least 1 chars*
    two lines          | {"type": "image", "image": {"ref": "a\\nb"}} | *spec.source.image.ref in body should match*
    other direction    | {"type": "image", "image": {"ref": "a\u{202e}b"}} | *spec.source.image.ref in body should match*
    path as a secret   | {"type": "image", "image": {"ref": "a", "pullSecret": "../a"}} | *spec.source.image.pullSecret in body should match*
    number             | {"type": "image", "image": {"ref": 1}} | *spec.source.image.ref in body must be of type string*
    no type            | {"type": "Image", "image": {"ref": "a"}}
      | *spec.source.type: Unsupported value: "Image": supported values: "image", "git", "http", "configMaps", "upload"*
    file as a URL      | {"type": "http", "http": {"url": "file:///etc/passwd"}} | *spec.source.http.url in body should match*
    branch as a commit | {"type": "git", "git": {{repository}, "ref": {"commit": "main"}}} | *spec.source.git.ref.commit in body should match*
    space in a branch  | {"type": "git", "git": {{repository}, "ref": {"branch": "a b"}}} | *spec.source.git.ref.branch in body should match*
    path as a name     | {"type": "configMaps", "configMaps": [{"configMap": {"name": "a/b"}}]}
      | *spec.source.configMaps[0].configMap.name in body should match*

    parent      | {{main}, "directory": ".."}} | *{at}.git.directory begins with "../": directory must define path within the repository*
    below it    | {{main}, "directory": "../a"}} | *{at}.git.directory begins with "../": directory must define path within the repository*
    above it    | {{main}, "directory": "../../a"}} | *{at}.git.directory begins with "../": directory must define path within the repository*
    hidden      | {{main}, "directory": "./.."}} | *{at}.git.directory contains "..": directory must*
    last part   | {{main}, "directory": "a/../.."}} | *{at}.git.directory contains "..": directory must*
    in between  | {{main}, "directory": "a/../b"}} | *{at}.git.directory contains "..": directory must*
    empty       | {{main}, "directory": ""}} | accepted
    same        | {{main}, "directory": "."}} | accepted
    within      | {{main}, "directory": "./a/b/"}} | accepted
    dots        | {{main}, "directory": "a..b/..c/d.."}} | accepted
    three dots  | {{main}, "directory": "..."}} | accepted

    path: parent   | {map-at}.."}]} | *spec.source.configMaps[0]: Invalid value: path is invalid: ".." is outside bundle root*
    path: below it | {map-at}../a"}]} | *spec.source.configMaps[0]: Invalid value: path is invalid: "../a" is outside bundle root*
    path: above    | {map-at}a/../../b"}]} | *spec.source.configMaps[0]: Invalid value: path is invalid: "a/../../b" is outside bundle root*
    path: root     | {map-at}/a"}]} | *spec.source.configMaps[0]: Invalid value: path is invalid: "/a" is outside bundle root*
    path: dots     | {"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": "manifests/a..b"}]} | accepted
"#;

/// Parts of a Bundle. rukpak used the message of the API server of its time for the name: `may not be longer than 52`.
pub(super) const BUNDLES: &str = r#"
    v2 name of 52 | {"metadata": {"name": "{a*52}"}} | accepted
    v2 name of 53 | {"metadata": {"name": "{a*53}"}} | *metadata.name: Too long: may not be more than 52 bytes*
"#;

pub(super) const INSTANCES: &str = r#"
    v10 name of 45  | {"metadata": {"name": "{a*45}"}} | accepted
    v10 name of 46  | {"metadata": {"name": "{a*46}"}} | *metadata.name: Too long: may not be more than 45 bytes*
    namespace       | {"spec": {"installNamespace": "A"}} | *spec.installNamespace in body should match*
    long namespace  | {"spec": {"installNamespace": "{a*64}"}} | *spec.installNamespace: Too long*
    account         | {"spec": {"serviceAccount": {"name": "a"}}} | *spec.serviceAccount.namespace: Required value*
    name of account | {"spec": {"serviceAccount": {"name": "a:b", "namespace": "a"}}} | *spec.serviceAccount.name in body should match*
    deletion        | {"spec": {"crdDeletionPolicy": "Never"}}
      | *spec.crdDeletionPolicy: Unsupported value: "Never": supported values: "Retain", "DeleteIfUnused", "Delete"*
    rollback        | {"spec": {"rollback": "Always"}} | *spec.rollback: Unsupported value*
    preflight       | {"spec": {"preflight": {"crdUpgradeSafety": "off"}}} | *spec.preflight.crdUpgradeSafety: Unsupported value*
    config          | {"spec": {"config": {"deploymentConfig": "a"}}} | *spec.config.deploymentConfig in body must be of type object*
    many labels     | {"spec": {"template": {"metadata": {"labels": {many-labels}}}}}
      | *spec.template.metadata.labels: Too many: 65: must have at most 64 items*
    label           | {"spec": {"template": {"metadata": {"labels": {"a": "b c"}}}}} | *spec.template.metadata.labels.a in body should match*
    long label      | {"spec": {"template": {"metadata": {"labels": {"a": "{a*64}"}}}}} | *spec.template.metadata.labels.a: Too long*
    paused          | {"spec": {"paused": "yes"}} | *spec.paused in body must be of type boolean*
    revisions       | {"spec": {"rollbackTo": 3, "revisionHistoryLimit": 20, "progressDeadlineSeconds": 0}} | accepted
    revision 0      | {"spec": {"rollbackTo": 0}}
      | *spec.rollbackTo: Invalid value: 0: spec.rollbackTo in body should be greater than or equal to 1*
    revision a      | {"spec": {"rollbackTo": "a"}} | *spec.rollbackTo in body must be of type integer*
    no history      | {"spec": {"revisionHistoryLimit": 0}} | *in body should be greater than or equal to 1*
    long history    | {"spec": {"revisionHistoryLimit": 21}}
      | *spec.revisionHistoryLimit: Invalid value: 21: spec.revisionHistoryLimit in body should be less than or equal to 20*
    past deadline   | {"spec": {"progressDeadlineSeconds": -1}} | *in body should be greater than or equal to 0*

    override           | {"spec": {"overrides": [{one}]}} | accepted
    other constraint   | {"spec": {"overrides": [{"constraint": "everything", "digest": "{digest}", "reason": "tested"}]}}
      | *spec.overrides[0].constraint: Unsupported value: "everything": supported values: "maxOpenShiftVersion", "minKubeVersion"*
    short digest       | {min}, "digest": "sha256:1", "reason": "tested"}]}} | *spec.overrides[0].digest in body should match*
    null as the digest | {min}, "digest": null, "reason": "tested"}]}} | *spec.overrides[0].digest: Required value*
    no reason          | {min}, "digest": "{digest}", "reason": ""}]}}
      | *spec.overrides[0].reason in body should be at least 1 chars*
    long reason        | {min}, "digest": "{digest}", "reason": "{a*513}"}]}} | *spec.overrides[0].reason: Too long*
    many overrides     | {"spec": {"overrides": {many}}} | *spec.overrides: Too many: 17: must have at most 16 items*
"#;

pub(super) const CLASSES: &str = r"
    slash         | invalid/class-name       | *rejected by its name*
    no name       | core.rukpak.io/          | *rejected by its name*
    two slashes   | core.rukpak.io/a/b       | *rejected by its name*
    upper case    | Plain                    | *rejected by its name*
    space         | a b                      | *rejected by its name*
    dash          | -a                       | *rejected by its name*
    line          | a\n                      | *rejected by its name*
    empty         |                          | *rejected by its name*
    ours          | core.rukpak.io/plain     | accepted
    ours, too     | core.rukpak.io/registry  | accepted
    our converter | core.rukpak.io/converter | accepted
    with a dash   | core-rukpak-io-plain     | accepted
    and registry  | core-rukpak-io-registry  | accepted
    other         | other-provisioner        | accepted
";

pub(super) const OPERATORS: &str = r#"
    package      | good   | {{etcd}} | accepted
    long package | good   | {"package": {"name": "{a*56}"}} | accepted
    digit        | good   | {"package": {"name": "3scale"}} | accepted
    long name    | {a*45} | {{etcd}} | accepted
    all fields   | good   | {{etcd}, {all-of-operator}} | accepted

    no package     | bad | {} | *spec.package: Required value*
    no name        | bad | {"package": {}} | *spec.package.name: Required value*
    # OpenShift's own pattern has no anchors, and accepts this.
    pattern        | bad | {"package": {"name": "Foo_Bar!"}} | *spec.package.name in body should match*
    line           | bad | {"package": {"name": "etcd\\n"}} | *spec.package.name in body should match*
    dash           | bad | {"package": {"name": "-etcd"}} | *spec.package.name in body should match*
    empty          | bad | {"package": {"name": ""}} | *spec.package.name in body should*
    too long       | bad | {"package": {"name": "{a*57}"}} | *spec.package.name: Too long: may not be more than 56 bytes*
    name too long  | {a*46} | {{etcd}} | *metadata.name: Too long: may not be more than 45 bytes*
    empty channel  | bad | {{etcd}, "channel": ""} | *spec.channel in body should*
    channel        | bad | {{etcd}, "channel": "a b"} | *spec.channel in body should match*
    version        | bad | {{etcd}, "version": "1.0\\n2.0"} | *spec.version in body should match*
    long version   | bad | {{etcd}, "version": "{digit*513}"} | *spec.version: Too long*
    approval       | bad | {{etcd}, "upgradeApproval": "Never"}
      | *spec.upgradeApproval: Unsupported value: "Never": supported values: "WithCluster", "Automatic", "Manual"*
    rights         | bad | {{etcd}, "approveNewRights": "No"}
      | *spec.approveNewRights: Unsupported value: "No": supported values: "Automatic", "Manual"*
    approved       | bad | {{etcd}, "approvedVersion": "1.2.3"}
      | *spec.approvedVersion requires spec.upgradeApproval Manual: set it to Manual, or remove spec.approvedVersion*
    approved right | bad | {{etcd}, "approvedRights": "{digest}"}
      | *spec.approvedRights requires spec.approveNewRights Manual: set it to Manual, or remove spec.approvedRights*
    no version     | bad | {{etcd}, "upgradeApproval": "Manual", "approvedVersion": "1.2"} | *spec.approvedVersion in body should match*
    no digest      | bad | {{etcd}, "approveNewRights": "Manual", "approvedRights": "sha256:1"}
      | *spec.approvedRights in body should match*
    catalog        | bad | {{etcd}, "catalog": {"namespace": "a"}} | *spec.catalog.name: Required value*
    its name       | bad | {{etcd}, "catalog": {"name": "A"}} | *spec.catalog.name in body should match*
    namespace      | bad | {{etcd}, "bundle": {"installNamespace": "A"}} | *spec.bundle.installNamespace in body should match*
    account        | bad | {{etcd}, "bundle": {"serviceAccount": {"name": "a"}}}
      | *spec.bundle.serviceAccount.namespace: Required value*
"#;

pub(super) const CHANGES: &str = r#"
    b4 source | Bundle | {} | {"spec": {"source": {"image": {"ref": "quay.io/example/bundle:v2"}}}} | *bundle.spec is immutable*
    b4 secret | Bundle | {} | {"spec": {"source": {"image": {"pullSecret": "a"}}}} | *bundle.spec is immutable*
    b4 class  | Bundle | {} | {"spec": {"provisionerClassName": "core-rukpak-io-registry"}} | *bundle.spec is immutable*
    b5 labels | Bundle | {} | {"metadata": {"labels": {"a": "b"}}} | accepted
    namespace        | BundleInstance | {} | {"spec": {"installNamespace": "one"}} | accepted
    other namespace  | BundleInstance | {"spec": {"installNamespace": "one"}} | {"spec": {"installNamespace": "two"}}
      | *spec.installNamespace is immutable once set*
    no namespace     | BundleInstance | {"spec": {"installNamespace": "one"}} | {"spec": {"installNamespace": null}}
      | *spec.installNamespace is immutable once set*
    same namespace   | BundleInstance | {"spec": {"installNamespace": "one"}} | {"spec": {"installNamespace": "one"}} | accepted
    package | PlatformOperator | {"spec": {"bundle": {"installNamespace": "etcd"}}} | {"spec": {"package": {"name": "other"}}}
      | *spec.package.name is immutable: create another PlatformOperator for another package*
    its namespace | PlatformOperator | {"spec": {"bundle": {"installNamespace": "etcd"}}} | {"spec": {"bundle": {"installNamespace": "other"}}}
      | *spec.bundle.installNamespace is immutable once set*
    none of its | PlatformOperator | {"spec": {"bundle": {"installNamespace": "etcd"}}} | {"spec": {"bundle": {"installNamespace": null}}}
      | *spec.bundle.installNamespace is immutable once set*
    the rest | PlatformOperator | {"spec": {"bundle": {"installNamespace": "etcd"}}}
      | {"spec": {"channel": "stable", "upgradeApproval": "Manual", "approvedVersion": "1.2.3"}} | accepted
"#;

/// The forms of a catalog, as fields of a spec.
pub(super) fn catalog_values() -> Values {
    let pod = r#"{"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {}},
        "priorityClassName": "", "securityContextConfig": "restricted", "memoryTarget": "50Mi",
        "extractContent": {"catalogDir": "/configs", "cacheDir": "/cache"}}"#;
    let tolerations = json!(vec![json!({"operator": "Exists"}); 65]);
    let fields = ::tests::rows![
        "image" => r#""catalogImageSource": {"catalogImage": "r/c:v1"}"#;
        "service" => r#""catalogServiceSource": {"address": "some.namespace.svc"}"#;
        "map" => r#""configMapSource": {"configMap": "m"}"#;
        "by-image" => r#""sourceType": "grpc", "image": "r/c:v1""#;
        "by-address" => r#""sourceType": "grpc", "address": "a:50051""#;
        "by-map" => r#""sourceType": "configmap", "configMap": "m""#;
        "polled" => r#""updateStrategy": {"registryPoll": {"interval": "30m"}}"#;
        "pod" => pod;
        "required" => r#""requiredDuringSchedulingIgnoredDuringExecution""#;
    ];
    let with = |values: Values, (name, text): (&str, &str)| values.with(name, text);
    let values = fields.into_iter().fold(Values::default(), with);
    values.with("many-tolerations", tolerations.to_string())
}

pub(super) const CATALOG_SOURCES: &str = r#"
    # FIELDS has the other valid sources.
    internal           | {"sourceType": "internal", "configMap": "m"} | accepted
    pod, deprecated    | {{by-image}, "grpcPodConfig": {pod}} | accepted
    pod                | {"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": {pod}}} | accepted
    empty fields       | {{image}, "displayName": "", "secrets": [], "priority": -1} | accepted

    # More than one source.
    two     | {{image}, {service}} | *spec: Forbidden: exactly one of catalogImageSource, catalogServiceSource must be set*
    three   | {{image}, {service}, {map}}
      | *spec: Forbidden: exactly one of catalogImageSource, catalogServiceSource, configMapSource must be set*
    address beside image | {{by-image}, "address": "a:1"}
      | *spec.address: Forbidden: ignored when image is set: remove address, or remove image to use the server at that address*
    both forms | {{image}, {by-image}} | *spec: Forbidden: remove sourceType, image: catalogImageSource specifies the catalog*
    both forms, map | {{service}, {by-map}}
      | *spec: Forbidden: remove sourceType, configMap: catalogServiceSource specifies the catalog*
    image in both | {{image}, "image": "r/c:v1"} | *spec: Forbidden: remove image: catalogImageSource specifies the catalog*
    empty address | {{map}, "address": ""} | *spec: Forbidden: remove address: configMapSource specifies the catalog*
    type besides  | {{image}, "sourceType": "grpc"}
      | *spec: Forbidden: remove sourceType: catalogImageSource specifies the catalog*
    pod besides   | {{image}, "grpcPodConfig": {}}
      | *spec: Forbidden: remove grpcPodConfig: catalogImageSource specifies the catalog; set pod options in catalogImageSource.podSpecOverrides*

    # No source, or half of one.
    type alone | {"sourceType": "grpc"}
      | *spec.image: Required value: image and address unset: at least one must be set for sourcetype: grpc*
    type of a map | {"sourceType": "configmap"}
      | *spec.configMap: Required value: configmap name unset: must be set for sourcetype: configmap*
    internal type | {"sourceType": "internal"}
      | *spec.configMap: Required value: configmap name unset: must be set for sourcetype: internal*
    no type | {"image": "r/c:v1"}
      | *spec.sourceType: Required value: image and address require sourceType grpc, configMap requires configmap; or use catalogImageSource, catalogServiceSource or configMapSource instead*
    nothing | {} | *spec: Required value: one of catalogImageSource, catalogServiceSource or configMapSource must be set*
    nothing but a name | {"displayName": "a", "grpcPodConfig": {}} | *spec: Required value: one of catalogImageSource*
    no image    | {"catalogImageSource": {}} | *spec.catalogImageSource.catalogImage: Required value*
    empty image | {"catalogImageSource": {"catalogImage": ""}}
      | *spec.catalogImageSource.catalogImage in body should be at least 1 chars long*
    no address  | {"catalogServiceSource": {}} | *spec.catalogServiceSource.address: Required value*
    empty map   | {"configMapSource": {"configMap": ""}} | *spec.configMapSource.configMap in body should be at least 1 chars long*

    # Fields that nothing reads.
    image of a map | {{by-map}, "image": "r/c:v1"}
      | *spec.image: Forbidden: ignored when configMap is set: remove the field, or set sourceType grpc and remove configMap*
    address of a map | {{by-map}, "address": "a:1"} | *spec.address: Forbidden: ignored when configMap is set*
    map of an image | {{by-image}, "configMap": "m"} | *spec.configMap: Forbidden: ignored with sourceType grpc: remove configMap*
    unknown type | {"sourceType": "foo", "image": "r/c:v1"} | *unknown sourcetype: foo: must be grpc or configmap*
    empty type | {"sourceType": "", "image": "r/c:v1"} | *unknown sourcetype: : must be grpc or configmap*
    case of the type | {"sourceType": "configMap", "configMap": "m"} | *unknown sourcetype: configMap: must be grpc or configmap*
    empty image besides | {{by-address}, "image": ""} | *spec.image: Invalid value: empty: remove the field*
    empty map, deprecated | {"sourceType": "configmap", "configMap": ""} | *spec.configMap: Invalid value: empty: remove the field*
    pod of an address | {{by-address}, "grpcPodConfig": {}}
      | *spec.grpcPodConfig: Forbidden: only images are served by a registry pod: remove grpcPodConfig*
    pod of a map | {{by-map}, "grpcPodConfig": {}} | *spec.grpcPodConfig: Forbidden: only images are served by a registry pod*
    polled service | {{service}, {polled}}
      | *spec.updateStrategy: Forbidden: only for catalogImageSource, whose image is polled: remove updateStrategy*
    polled map | {{map}, "updateStrategy": {}} | *spec.updateStrategy: Forbidden: only for catalogImageSource*
    secret of a service | {{service}, "secrets": ["s"]}
      | *spec.secrets: Forbidden: only for catalogImageSource, whose image is pulled with secrets: remove secrets*
"#;

/// The names of the values that a field of [`FIELDS`] is combined with, in the order of its outcomes.
pub(super) const CATALOG_FORMS: &str = "image service map by-image by-address by-map";

/// A field beside each of the [`CATALOG_FORMS`].
pub(super) const FIELDS: &str = r#"
    type          | {"sourceType": "grpc"}    | no no no yes yes no
    image         | {"image": "r/c:v1"}       | no no no yes no no
    address       | {"address": "a:50051"}    | no no no no yes no
    map           | {"configMap": "m"}        | no no no no no yes
    pod           | {"grpcPodConfig": {}}     | no no no yes no no
    image source  | {{image}}                 | yes no no no no no
    address source | {{service}}              | no yes no no no no
    map source    | {{map}}                   | no no yes no no no
    # As OLM's: reported, and not rejected, in the deprecated form.
    polled        | {{polled}}                | yes no no yes yes yes
    secrets       | {"secrets": ["s"]}        | yes no no yes yes yes
    no secrets    | {"secrets": []}           | yes yes yes yes yes yes
    priority      | {"priority": -1}          | yes yes yes yes yes yes
    name          | {"displayName": "Mine"}   | yes yes yes yes yes yes
    description   | {"description": "Mine"}   | yes yes yes yes yes yes
    publisher     | {"publisher": "Me"}       | yes yes yes yes yes yes
    icon          | {"icon": {"base64data": "AAAA", "mediatype": "image/png"}} | yes yes yes yes yes yes
"#;

/// Options of a catalog's pod; the paths are those of the deprecated form.
pub(super) const POD_OPTIONS: &str = r#"
    text             | "none" | *spec.grpcPodConfig: *must be of type object: "string"*
    security         | {"securityContextConfig": "bogus"}
      | *spec.grpcPodConfig.securityContextConfig: *Unsupported value: "bogus": supported values: "legacy", "restricted"*
    no directory     | {"extractContent": {}} | *spec.grpcPodConfig.extractContent.catalogDir: *Required value*
    tolerations      | {"tolerations": "all"} | *spec.grpcPodConfig.tolerations: *must be of type array: "string"*
    number as a key  | {"tolerations": [{"key": 7}]} | *spec.grpcPodConfig.tolerations[0].key: *must be of type string: "integer"*
    many tolerations | {"tolerations": {many-tolerations}} | *spec.grpcPodConfig.tolerations: *must have at most 64 items*
    memory           | {"memoryTarget": {}} | *spec.grpcPodConfig.memoryTarget: *must be of type integer,string: "object"*
    no quantity      | {"memoryTarget": "lots"} | *spec.grpcPodConfig.memoryTarget: *should match*
    deep selector    | {"nodeSelector": {"a": "deep"}} | *spec.grpcPodConfig.nodeSelector.a: *must be of type string: "object"*
    class            | {"priorityClassName": ["a"]} | *spec.grpcPodConfig.priorityClassName: *must be of type string: "array"*
    no terms         | {"affinity": {"nodeAffinity": {{required}: {}}}}
      | *spec.grpcPodConfig.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: *Required value*
    terms            | {"affinity": {"nodeAffinity": {{required}: {"nodeSelectorTerms": "any"}}}}
      | *spec.grpcPodConfig.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: *must be of type array: "string"*
"#;
