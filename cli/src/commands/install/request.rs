//! Install request from the command line, prepared without a cluster.

use std::time::Duration;

use anyhow::{Context, bail};
use convert::{Level, Options};
use hyper::body::Bytes;
use manifests::api::{
    Class, GROUP,
    bundle::{BundleSource, GitRef, GitSource, HttpSource, ImageSource, UploadSource},
    bundle_instance::{BundleInstance, ServiceAccountRef},
    labels,
};
use serde_json::{Value, json};
use unpacker::{
    Source, Tree,
    source::{Git, Http, Image, Local, Revision},
};

use crate::{
    args::{self, AccessArgs, ContentFormat, InstallArgs},
    output::message::{self, count},
    source,
};

/// Number of digest characters in a label: enough to distinguish contents, and short enough for a label.
const DIGEST_LABEL_LEN: usize = 40;

/// Bundle to install.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InstallRequest {
    /// Format of the bundle. `None` keeps that of the existing instance, and means registry+v1 for a new one.
    class: Option<ContentFormat>,
    source: BundleSource,
    pub(super) upload: Option<Upload>,
}

/// Local content to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upload {
    /// Beginning of the content digest.
    pub(super) digest: String,
    /// Content as a tar.gz archive.
    pub(super) archive: Bytes,
}

impl InstallRequest {
    /// Creates a request from the command line, and reads a local bundle; `None` if the bundle is rejected, after its
    /// problems were printed.
    pub(super) fn from_args(args: &InstallArgs) -> anyhow::Result<Option<Self>> {
        // The provisioner fetches remote bundles, so this command does not use the access settings.
        let access = AccessArgs::with_defaults(args.tls_verify, Duration::ZERO);
        let source = source::one(&args.bundle, &access).location?;
        if !matches!(source, Source::Image(_)) && (args.pull_secret.is_some() || !args.tls_verify) {
            args::usage("--pull-secret and --tls-verify=false apply only to images");
        }
        let remote = |source| Self {
            class: args.class,
            source,
            upload: None,
        };
        Ok(Some(match source {
            Source::Local(local) => return read(&local, args),
            Source::Image(image) => remote(self::image(&image, args)),
            Source::Git(git) => remote(self::git(&git)),
            Source::Http(http) => remote(self::http(&http)),
        }))
    }

    /// Returns the fields of the BundleInstance to apply. Settings of an existing instance are kept unless flags change
    /// them.
    pub(super) fn object(&self, args: &InstallArgs, before: Option<&BundleInstance>) -> Value {
        let class = class_name(
            self.class,
            before.map(|before| {
                let spec = &before.spec;
                let own = spec.template.spec.provisioner_class_name.as_deref();
                own.unwrap_or(&spec.provisioner_class_name)
            }),
        );
        let labels = self
            .upload
            .as_ref()
            .map(|upload| json!({"labels": {labels::CONTENT_DIGEST: upload.digest}}));
        let existing = before.map(|before| &before.spec);
        let namespace = args.install_namespace.as_ref();
        let namespace = namespace.or(existing.and_then(|spec| spec.install_namespace.as_ref()));
        let account = match &args.service_account {
            Some((namespace, name)) => Some(ServiceAccountRef {
                namespace: namespace.clone(),
                name: name.clone(),
            }),
            None => existing.and_then(|spec| spec.service_account.clone()),
        };
        let mut spec = json!({
            "provisionerClassName": existing.map_or(class, |spec| &spec.provisioner_class_name),
            "template": {
                "metadata": labels,
                "spec": {"provisionerClassName": class, "source": self.source},
            },
            "installNamespace": namespace,
            "serviceAccount": account,
        });
        without_nulls(&mut spec);
        json!({
            "apiVersion": format!("{GROUP}/v1alpha1"),
            "kind": "BundleInstance",
            "metadata": {"name": args.name},
            "spec": spec,
        })
    }
}

/// Removes null values, so that other managers keep these fields.
fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}

/// Returns the class name to apply. An instance keeps its spelling of the same class.
fn class_name(format: Option<ContentFormat>, before: Option<&str>) -> &str {
    let name = format.map(class);
    match (name, before) {
        (Some(name), Some(before)) if Class::parse(name) == Class::parse(before) => before,
        _ => name.or(before).unwrap_or(class(ContentFormat::Registry)),
    }
}

fn class(format: ContentFormat) -> &'static str {
    match format {
        ContentFormat::Registry => "core-rukpak-io-registry",
        ContentFormat::Plain => "core-rukpak-io-plain",
    }
}

fn image(image: &Image, args: &InstallArgs) -> BundleSource {
    BundleSource {
        type_: "image".to_owned(),
        image: Some(ImageSource {
            reference: image.reference.to_string(),
            pull_secret: args.pull_secret.clone(),
            insecure_skip_tls_verify: !args.tls_verify,
            certificate_data: None,
            pull: None,
        }),
        ..BundleSource::default()
    }
}

fn git(git: &Git) -> BundleSource {
    let mut reference = GitRef::default();
    match &git.revision {
        Revision::Branch(branch) => reference.branch = Some(branch.clone()),
        Revision::Tag(tag) => reference.tag = Some(tag.clone()),
        Revision::Commit(commit) => reference.commit = Some(commit.clone()),
        Revision::Head | Revision::Name(_) => args::usage(
            "a BundleInstance requires a complete git reference; add #refs/heads/BRANCH, #refs/tags/TAG or the full #COMMIT",
        ),
    }
    BundleSource {
        type_: "git".to_owned(),
        git: Some(GitSource {
            repository: git.repository.to_string(),
            directory: git.directory.clone(),
            reference,
            auth: None,
        }),
        ..BundleSource::default()
    }
}

fn http(http: &Http) -> BundleSource {
    if http.sha256.is_some() {
        args::usage("a BundleInstance cannot pin a URL to a digest; remove #sha256:…");
    }
    BundleSource {
        type_: "http".to_owned(),
        http: Some(HttpSource {
            url: http.url.to_string(),
            auth: None,
        }),
        ..BundleSource::default()
    }
}

/// Reads a local bundle and converts it like the provisioner, so that a bundle that the provisioner would reject is
/// rejected here.
fn read(local: &Local, args: &InstallArgs) -> anyhow::Result<Option<InstallRequest>> {
    let content = unpacker::local(local, None, &args.limits.into())?
        .tree
        .into_content()?;
    let format = args
        .class
        .unwrap_or_else(|| match convert::class(&content) {
            convert::Class::Registry => ContentFormat::Registry,
            convert::Class::Plain => ContentFormat::Plain,
        });
    let options = Options {
        class: Some(match format {
            ContentFormat::Registry => convert::Class::Registry,
            ContentFormat::Plain => convert::Class::Plain,
        }),
        install_namespace: args.install_namespace.clone(),
        limits: args.limits.yaml(),
        ..Options::default()
    };
    let mut conversion = convert::plain(&content, &options);
    let report = &mut conversion.report;
    if conversion.objects.is_none() {
        report.locate(&content);
        report.refusals().for_each(message::finding);
        message::error(&format!(
            "the bundle cannot be installed: {}; no changes were made",
            count(report.refusals().count(), "problem")
        ));
        return Ok(None);
    }
    let warnings = report.with_level(Level::Warning).count();
    if warnings > 0 {
        message::note(&format!(
            "{}: {} validate {}",
            count(warnings, "warning"),
            args::name(),
            message::shell_word(&args.bundle.to_string_lossy())
        ));
    }
    message::skipped(&args.bundle.display().to_string(), &report.skipped);
    let mut archive = Vec::new();
    // With the entries that are not regular files, so that the Bundle's status counts them.
    let digest = Tree::from_content(content)
        .deliver(&mut archive)
        .context("failed to pack the bundle")?;
    if archive.is_empty() {
        bail!("the bundle is empty");
    }
    Ok(Some(InstallRequest {
        class: Some(format),
        source: BundleSource {
            type_: "upload".to_owned(),
            // The provisioner rejects other content for the Bundle, from other clients as well.
            upload: Some(UploadSource {
                digest: Some(digest.to_string()),
            }),
            ..BundleSource::default()
        },
        upload: Some(Upload {
            digest: digest.hex().chars().take(DIGEST_LABEL_LEN).collect(),
            archive: archive.into(),
        }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_keeps_its_spelling_of_the_class() {
        let converter = "core.rukpak.io/converter";
        ::tests::assert_rows! {
            class_name(None, None) => "core-rukpak-io-registry";
            class_name(None, Some("example.com/own")) => "example.com/own";
            class_name(None, Some(converter)) => converter;
            class_name(Some(ContentFormat::Registry), Some(converter)) => converter;
            class_name(Some(ContentFormat::Plain), Some(converter)) => "core-rukpak-io-plain";
            class_name(Some(ContentFormat::Plain), Some("core.rukpak.io/plain")) => "core.rukpak.io/plain";
            class_name(Some(ContentFormat::Plain), None) => "core-rukpak-io-plain";
            class_name(Some(ContentFormat::Registry), Some("example.com/own")) => "core-rukpak-io-registry";
        }
    }
}
