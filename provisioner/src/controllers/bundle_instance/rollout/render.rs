//! Renders the stored content of a Bundle into objects for this cluster.

use apply::{
    api_error,
    revision::{self, Revision},
};
use convert::{
    Class as Format, Options, bundle_info::BundleInfo, deployment_config::DeploymentConfig,
};
use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        bundle::Bundle,
        bundle_instance::{
            BundleInstance, BundleInstanceStatus, InstalledBundle, RemovedApi, RevisionStatus,
            ServiceAccountRef,
        },
        labels,
        revision::RevisionDetails,
    },
    object::Object,
    openshift::{MaxOpenShiftVersion, Spelling},
};

use super::{Source, Target, digest::configuration_hash, removed_apis};
use crate::{
    cluster::impersonation,
    controllers::{
        bundle,
        bundle_instance::{
            outcome::{Failure, Remedy, RetryClass},
            state::InstanceContext,
        },
    },
};

/// Default namespace of namespaced objects of plain bundles, as for kubectl.
const PLAIN_NAMESPACE: &str = "default";

/// Content of a revision that has no number yet.
pub(crate) struct Rendered {
    /// Objects of the bundle or of the record.
    pub(crate) objects: Vec<Object>,
    /// Digest that identifies the revision.
    pub(crate) digest: String,
    /// Constraints of the bundle.
    pub(crate) facts: BundleInfo,
    /// Install namespace of the bundle's namespaced objects.
    pub(crate) namespace: String,
    /// Service account that the objects are applied with; `None` for the provisioner's own.
    pub(crate) account: Option<ServiceAccountRef>,
    /// Hash of the content and of the configuration; `None` for the record of an older provisioner.
    pub(crate) configuration_hash: Option<String>,
    /// Details that are recorded with the objects.
    pub(crate) details: RevisionDetails,
    /// Uses of APIs that a later minor version of Kubernetes removes; `None` for the objects of a record.
    pub(crate) removed_apis: Option<Vec<RemovedApi>>,
}

/// Error of rendering a Bundle.
pub(crate) enum RenderError {
    /// The content could not be loaded. It may be valid.
    NotLoaded(Failure),
    /// The content cannot be rendered with the spec for this cluster.
    Rejected(Failure),
}

impl RenderError {
    /// Returns the failure of the attempt.
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::NotLoaded(failure) | Self::Rejected(failure) => failure,
        }
    }
}

impl From<Failure> for RenderError {
    fn from(failure: Failure) -> Self {
        Self::Rejected(failure)
    }
}

/// Returns the digest that identifies a revision.
pub(super) fn digest(
    objects: &[Object],
    reference: Option<&ServiceAccountRef>,
    namespace: &str,
) -> String {
    revision::digest(
        objects,
        reference.map(impersonation::from_reference).as_ref(),
        namespace,
    )
}

impl Rendered {
    /// Creates the content from a record, with the service account of the current spec.
    fn of_record(
        record: Revision<RevisionDetails>,
        instance: &BundleInstance,
        configuration_hash: Option<String>,
    ) -> Self {
        let Revision { header, objects } = record;
        let facts = &header.details.facts;
        let account = instance.spec.service_account.clone();
        Self {
            digest: digest(&objects, account.as_ref(), &header.namespace),
            facts: BundleInfo {
                package: facts.package.clone().unwrap_or_default(),
                name: facts.cluster_service_version.clone().unwrap_or_default(),
                max_open_shift_version: facts
                    .max_open_shift_version
                    .as_deref()
                    .map(|text| MaxOpenShiftVersion::new(text, Spelling::BundleProperties)),
                min_kube_version: facts.min_kube_version.clone(),
                ..BundleInfo::default()
            },
            objects,
            namespace: header.namespace,
            account,
            configuration_hash,
            details: header.details,
            removed_apis: None,
        }
    }

    /// Creates the content of a target from the record of its revision.
    pub(crate) fn of_target(
        record: Revision<RevisionDetails>,
        instance: &BundleInstance,
        before: &BundleInstanceStatus,
        target: &Target<'_>,
        revision: &RevisionStatus,
    ) -> Self {
        match target.source {
            Source::Newest(_) => {
                Self::of_revision(record, instance, revision, before.installed.as_ref())
            }
            Source::Bundle(_) | Source::Revision(_) => {
                Self::of_record(record, instance, revision.configuration_hash.clone())
            }
        }
    }

    /// Creates the content from the record of an interrupted rollout of a Bundle. Returns `None` if an older provisioner recorded
    /// no key.
    pub(crate) fn of_unfinished(
        record: Revision<RevisionDetails>,
        instance: &BundleInstance,
        revision: &RevisionStatus,
        bundle: &Bundle,
    ) -> Option<Self> {
        record.header.details.key.as_ref()?;
        let present = InstalledBundle::new(bundle);
        let rendered = Self::of_revision(record, instance, revision, Some(&present));
        Some(rendered)
    }

    /// Creates the content from the record of a revision, with the service account and the Bundle of the revision. `present` is
    /// the installed Bundle or that of the template, and may be the Bundle of the revision with another UID.
    fn of_revision(
        record: Revision<RevisionDetails>,
        instance: &BundleInstance,
        revision: &RevisionStatus,
        present: Option<&InstalledBundle>,
    ) -> Self {
        let hash = revision.configuration_hash.clone();
        let mut rendered = Self::of_record(record, instance, hash);
        rendered.account.clone_from(&revision.service_account);
        rendered.digest.clone_from(&revision.digest);
        let details = &mut rendered.details;
        let bundle = &mut details.bundle;
        bundle.name.clone_from(&revision.bundle);
        if let Some(present) = present
            && present.name == bundle.name
            && present.content_digest == bundle.content_digest
        {
            bundle.uid.clone_from(&present.uid);
        }
        details.template_hash.clone_from(&revision.template_hash);
        rendered
    }

    /// Creates the content from a record with the objects of a Bundle. The record may be that of another Bundle with the same
    /// content.
    pub(crate) fn of_bundle_record(
        record: Revision<RevisionDetails>,
        instance: &BundleInstance,
        bundle: &Bundle,
    ) -> Self {
        let hash = configuration_hash(&instance.spec, bundle);
        let mut rendered = Self::of_record(record, instance, Some(hash));
        rendered.details.bundle = InstalledBundle::new(bundle);
        rendered.details.template_hash = bundle.labels().get(labels::TEMPLATE_HASH).cloned();
        rendered
    }
}

/// Renders the objects of a Bundle, configured by the spec of the instance.
///
/// # Errors
/// Returns an error if the content cannot be read, or cannot be converted with the spec.
pub(crate) async fn render(
    instance: &BundleInstance,
    shared: &InstanceContext,
    bundle: &Bundle,
) -> Result<Rendered, RenderError> {
    let spec = &instance.spec;
    let ctx = &shared.ctx;
    let fail = |message: String, retry, remedy| Failure {
        bundle: bundle.name_any(),
        message,
        touched: false,
        retry,
        remedy,
    };
    let kube_version = ctx.versions.kubernetes().await.map_err(|error| {
        let error = api_error::chain(&error);
        fail(
            format!("failed to determine the Kubernetes version: {error}"),
            RetryClass::Soon,
            Remedy::World,
        )
    })?;
    let deployment_config = deployment_config(instance)
        .map_err(|message| fail(message, RetryClass::Backoff, Remedy::Own))?;
    let class = Class::parse(&bundle.spec.provisioner_class_name);
    let options = Options {
        class: Some(match class {
            Some(Class::Registry) => Format::Registry,
            _ => Format::Plain,
        }),
        install_namespace: spec.install_namespace.clone(),
        kube_version,
        deployment_config,
        operator_condition: shared.has_conditions(),
        ..Options::default()
    };
    let work = move |content: &_, limits| {
        let conversion = convert::plain(content, &Options { limits, ..options });
        let objects = conversion.objects.as_deref().unwrap_or_default();
        let removed_apis = removed_apis::uses(objects, kube_version);
        (conversion, removed_apis)
    };
    let converted = bundle::convert(ctx, bundle, work).await.map_err(|error| {
        // A panic in the conversion is a bug of the provisioner. It ends neither the process nor the previous installation.
        fail(
            format!(
                "internal error while converting Bundle {}: {error}; report it with the provisioner log",
                bundle.name_any()
            ),
            RetryClass::Backoff,
            Remedy::Own,
        )
    })?;
    let (conversion, removed_apis) = converted.map_err(|error| {
        let (message, retry) = not_loaded(&error);
        RenderError::NotLoaded(fail(message, retry, Remedy::World))
    })?;
    let Some(objects) = conversion.objects else {
        return Err(RenderError::Rejected(fail(
            bundle::rejection(class.unwrap_or(Class::Plain), &conversion.report),
            RetryClass::Backoff,
            Remedy::Own,
        )));
    };
    let facts = conversion.report.facts;
    let namespace = [
        spec.install_namespace.as_deref().unwrap_or_default(),
        &facts.install_namespace,
        PLAIN_NAMESPACE,
    ]
    .into_iter()
    .find(|name| !name.is_empty())
    .unwrap_or(PLAIN_NAMESPACE)
    .to_owned();
    let status = bundle.status.clone().unwrap_or_default();
    let account = spec.service_account.clone();
    Ok(Rendered {
        digest: digest(&objects, account.as_ref(), &namespace),
        objects,
        facts,
        namespace,
        account,
        configuration_hash: Some(configuration_hash(spec, bundle)),
        details: RevisionDetails {
            bundle: InstalledBundle::new(bundle),
            template_hash: bundle.labels().get(labels::TEMPLATE_HASH).cloned(),
            source: status.resolved_source,
            facts: status.facts,
            key: None,
            provisioner: env!("CARGO_PKG_VERSION").to_owned(),
            kubernetes: kube_version.to_string(),
        },
        removed_apis: Some(removed_apis),
    })
}

/// Returns the message about content that cannot be loaded, and the class of the delay until the next attempt.
fn not_loaded(error: &bundle::LoadError) -> (String, RetryClass) {
    let retry = if error.is_terminal() {
        RetryClass::Backoff
    } else {
        RetryClass::Soon
    };
    let remedy = match error {
        bundle::LoadError::Fetch { .. } => "; restore the source, or change spec.template",
        bundle::LoadError::NotUnpacked { .. } | bundle::LoadError::Store { .. } => "",
    };
    (format!("{}{remedy}", api_error::chain(error)), retry)
}

/// Returns `spec.config` as the configuration of Deployments.
fn deployment_config(instance: &BundleInstance) -> Result<Option<DeploymentConfig>, String> {
    let config = instance.spec.config.as_ref();
    config
        .and_then(|config| config.deployment_config.clone())
        .map(DeploymentConfig::try_from)
        .transpose()
        .map_err(|error| {
            let name = instance.name_any();
            format!("spec.config of BundleInstance {name}: {error}")
        })
}

#[cfg(test)]
mod tests {
    use apply::revision::Header;

    use super::*;
    use crate::controllers::bundle_instance::revisions::tests::revision;

    #[test]
    fn objects_of_a_revision_belong_to_the_present_bundle() {
        let bundle = |name: &str, uid: &str, digest: &str| InstalledBundle {
            name: name.to_owned(),
            uid: uid.to_owned(),
            content_digest: digest.to_owned(),
        };
        let instance: BundleInstance = object!({"metadata": {"name": "a"}});
        let revision = with!(revision(1) => configuration_hash: Some("hash".to_owned()));
        let uid = |present: Option<InstalledBundle>| {
            // Another Bundle with the same content has replaced the Bundle of the record.
            let header = Header {
                owner: String::new(),
                number: 1,
                namespace: "default".to_owned(),
                account: None,
                details: with!(RevisionDetails, bundle: bundle("former", "1", "sha256:a")),
            };
            let objects = Vec::new();
            let record = Revision { header, objects };
            let rendered = Rendered::of_revision(record, &instance, &revision, present.as_ref());
            assert_eq!(rendered.details.bundle.name, "bundle-1");
            assert_eq!(rendered.configuration_hash.as_deref(), Some("hash"));
            rendered.details.bundle.uid
        };
        assert_rows! {
            uid(None) => "1";
            uid(Some(bundle("bundle-1", "2", "sha256:a"))) => "2";
            uid(Some(bundle("bundle-2", "2", "sha256:a"))) => "1";
            uid(Some(bundle("bundle-1", "2", "sha256:b"))) => "1", "the content of a moved tag";
        }
    }
}
