//! The version of the OLM that serves catalogs, from declarations in the cluster. Pure; no I/O.
//!
//! OLM has no API that reports its version, and its released manifests pin its image by digest. Four places declare the
//! version; the first declaration decides.
//!
//! ```text
//!  1  label olm.version of Deployment catalog-operator              set by an admin
//!  2  status.versions of ClusterOperator operator-lifecycle-manager reported by OLM on OpenShift
//!  3  tag of the image of Deployment catalog-operator               v0.38.0
//!  4  label olm.version of ClusterServiceVersion packageserver      in OLM's released manifests
//! ```

use k8s_openapi::api::apps::v1::Deployment;
use manifests::{
    api::{config::ClusterOperator, olm::OPERATOR},
    image::Reference,
    object::truncate,
};
use semver::Version;

/// The label that declares the version of OLM.
pub(super) const VERSION_LABEL: &str = "olm.version";
/// The ClusterOperator of OLM, and the name of OLM among its versions.
pub(super) const CLUSTER_OPERATOR: &str = "operator-lifecycle-manager";
/// The ClusterServiceVersion that comes with OLM.
pub(super) const PACKAGESERVER: &str = "packageserver";
/// The maximum length of an image in a message.
const MAX_IMAGE_LEN: usize = 200;

/// The declarations of the version of OLM; `None` where a place does not exist or declares nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OlmFacts {
    pub(super) deployment: DeploymentFacts,
    /// The version in the status of the ClusterOperator.
    pub(super) cluster_operator: Option<String>,
    /// The label of the ClusterServiceVersion.
    pub(super) packageserver: Option<String>,
}

/// The declarations of the Deployment of OLM's catalog-operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeploymentFacts {
    /// The label [`VERSION_LABEL`].
    pub(super) label: Option<String>,
    /// The image of the container.
    pub(super) image: Option<String>,
}

// === impl OlmFacts ===

impl OlmFacts {
    /// Returns the version that the first place declares.
    pub(super) fn version(&self) -> Option<Version> {
        let deployment = &self.deployment;
        [
            deployment.label.as_deref().and_then(parse),
            self.cluster_operator.as_deref().and_then(parse),
            deployment.image.as_deref().and_then(parse_tag),
            self.packageserver.as_deref().and_then(parse),
        ]
        .into_iter()
        .flatten()
        .next()
    }

    /// Describes why the version is unknown, and how an admin declares it.
    pub(super) fn describe_unknown(&self) -> String {
        let image = match &self.deployment.image {
            Some(image) => format!("image {:?}", truncate(image, MAX_IMAGE_LEN)),
            None => "the image".to_owned(),
        };
        format!(
            "cannot determine the version of OLM: neither {image} of Deployment {OPERATOR}, nor ClusterOperator \
             {CLUSTER_OPERATOR}, nor label {VERSION_LABEL} of ClusterServiceVersion {PACKAGESERVER} declares it; set label \
             {VERSION_LABEL} on Deployment {OPERATOR}"
        )
    }
}

// === impl DeploymentFacts ===

impl From<&Deployment> for DeploymentFacts {
    fn from(deployment: &Deployment) -> Self {
        let labels = deployment.metadata.labels.as_ref();
        let pod = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref());
        let containers = pod.map_or(&[][..], |pod| &pod.containers);
        let named = containers
            .iter()
            .find(|container| container.name == OPERATOR);
        Self {
            label: labels.and_then(|labels| labels.get(VERSION_LABEL).cloned()),
            image: named
                .or(containers.first())
                .and_then(|container| container.image.clone()),
        }
    }
}

/// Returns the version of OLM in the status of its ClusterOperator. The entry `operator` is the release of OpenShift.
pub(super) fn reported_version(operator: &ClusterOperator) -> Option<String> {
    let status = operator.status.as_ref()?;
    let mut versions = status.versions.iter();
    let own = versions.find(|version| version.name == CLUSTER_OPERATOR)?;
    Some(own.version.clone())
}

fn parse_tag(image: &str) -> Option<Version> {
    parse(image.parse::<Reference>().ok()?.tag()?)
}

/// Parses a version of three numbers. `0.0.0` is ignored, because development builds declare it.
fn parse(text: &str) -> Option<Version> {
    let version = Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()?;
    let is_placeholder = (version.major, version.minor, version.patch) == (0, 0, 0);
    (!is_placeholder).then_some(version)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    // parity: switch-5
    #[test]
    fn first_place_that_declares_a_version_decides() {
        let image = "quay.io/operator-framework/olm:v0.38.0";
        let digest = format!("sha256:{}", "a".repeat(64));
        let pinned = format!("quay.io/operator-framework/olm@{digest}");
        let tagged = format!("quay.io/operator-framework/olm:v0.30.0@{digest}");
        // Label and image of the Deployment, ClusterOperator, packageserver, and the version.
        for (label, image, cluster_operator, packageserver, expected) in ::tests::rows![
            None, None, None, None => None;
            None, Some(image), None, None => Some("0.38.0");
            None, Some(&*tagged), None, None => Some("0.30.0");
            None, Some(&*pinned), None, None => None;
            None, Some(&*pinned), None, Some("0.28.0") => Some("0.28.0");
            None, Some(&*pinned), Some("0.19.0"), Some("0.28.0") => Some("0.19.0");
            None, Some(image), None, Some("0.28.0") => Some("0.38.0");
            None, Some(image), Some("0.19.0"), None => Some("0.19.0");
            Some("0.40.1"), Some(image), Some("0.19.0"), Some("0.28.0") => Some("0.40.1");
            Some("v0.40.1"), None, None, None => Some("0.40.1");
            // A text without three numbers declares nothing.
            Some("soon"), Some(image), None, None => Some("0.38.0");
            Some("0.0.0-dev"), Some(image), None, None => Some("0.38.0");
            None, Some("quay.io/operator-framework/olm:latest"), None, Some("0.28.0") => Some("0.28.0");
            None, Some("mirror.example.com/olm:4.20"), None, None => None;
            None, Some("quay.io/operator-framework/olm"), None, None => None;
            None, Some("not an image:v1.2.3"), Some(""), Some("") => None;
            None, Some("r.example.com:5000/olm:0.38.0-rc.1"), None, None => Some("0.38.0-rc.1");
        ] {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let facts = with!(OlmFacts::default() => deployment.label: text(label), deployment.image: text(image),
                cluster_operator: text(cluster_operator), packageserver: text(packageserver));
            assert_rows!(facts.version().map(|version| version.to_string()).as_deref() => expected, "{facts:?}");
            let unknown = facts.describe_unknown();
            assert!(unknown.contains(image.unwrap_or("the image")), "{unknown}");
            assert!(unknown.len() < 700, "{unknown}");
        }
    }

    #[test]
    fn facts_are_those_of_the_operator_and_not_of_its_neighbors() {
        let deployment: Deployment = object!({
            "metadata": {"name": OPERATOR, "labels": {"app": OPERATOR, "olm.version": "0.38.0"}},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "proxy", "image": "example.com/proxy:v9.9.9"},
                {"name": OPERATOR, "image": "example.com/olm:v0.38.0"},
            ]}}},
        });
        let facts = DeploymentFacts::from(&deployment);
        assert_rows! {
            facts.label.as_deref() => Some("0.38.0");
            facts.image.as_deref() => Some("example.com/olm:v0.38.0");
            DeploymentFacts::from(&Deployment::default()) => DeploymentFacts::default();
        }

        let operator = |versions: Value| -> ClusterOperator {
            object!({"metadata": {"name": CLUSTER_OPERATOR}, "spec": {}, "status": {"versions": versions}})
        };
        assert_each!(|versions, expected| reported_version(&operator(versions)).as_deref() => expected;
            json!([]) => None;
            json!([{"name": "operator", "version": "4.20.1"}]) => None;
            json!([{"name": "operator", "version": "4.20.1"}, {"name": CLUSTER_OPERATOR, "version": "0.19.0"}]) => Some("0.19.0");
        );
    }
}
