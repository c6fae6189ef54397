//! OpenShift's CRDs: ClusterVersion, ClusterOperator, and the PlatformOperator of 4.12 to 4.16, and the CRDs of others, from
//! the Go modules that publish them.

use std::{fs, path::Path, process::Command};

use manifests::yaml;
use serde_json::Value;

pub(crate) const OPENSHIFT: &str = "github.com/openshift/api";
pub(crate) const OLM: &str = "github.com/operator-framework/api";

pub(crate) const CLUSTER_VERSION: (&str, &str) = (
    "clusterversions.config.openshift.io",
    "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
);
pub(crate) const CLUSTER_OPERATOR: (&str, &str) = (
    "clusteroperators.config.openshift.io",
    "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
);
pub(crate) const PLATFORM_OPERATOR: (&str, &str) = (
    "platformoperators.platform.openshift.io",
    "platform/v1alpha1/zz_generated.crd-manifests/platformoperators-TechPreviewNoUpgrade.crd.yaml",
);

pub(crate) fn crd((name, file): (&str, &str)) -> Value {
    let crd = definition_of(OPENSHIFT, file);
    assert_eq!(crd["metadata"]["name"], *name);
    crd
}

/// Returns a CRD, by its Go module and its file in that module.
pub(crate) fn definition_of(module: &str, file: &str) -> Value {
    let place = ["openshift", "gotypes"][usize::from(module == OLM)];
    let place = format!("{}/../tests/cluster/{place}", env!("CARGO_MANIFEST_DIR"));
    let script = "go mod download $0 >&2 && go list -m -f '{{.Dir}}' $0";
    let mut command = Command::new("sh");
    let command = command.args(["-c", script, module]).current_dir(place);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let directory = String::from_utf8(output.stdout).unwrap();
    let bytes = fs::read(Path::new(directory.trim_end()).join(file)).unwrap();
    yaml::documents(&bytes).next().unwrap().unwrap()
}
