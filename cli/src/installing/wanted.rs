//! What is to be installed, as far as it can be known without a cluster.

use std::path::Path;

use anyhow::{Context, bail};
use convert::{Level, Options};
use hyper::body::Bytes;
use manifests::api::{
    Class, GROUP,
    bundle::{BundleSource, GitRef, GitSource, HttpSource, ImageSource, UploadSource},
    instance::{BundleInstance, ServiceAccountRef},
    labels,
};
use serde_json::{Value, json};
use unpacker::{
    Source, Tree,
    source::{Git, Http, Image, Local, Revision},
};

use crate::{
    args::{self, Format, InstallArgs},
    message::{self, count},
};

/// So much of a digest tells content from other content, and fits a label.
const DIGITS: usize = 40;

/// What is to be installed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// `None`: what the instance has, or else registry+v1.
    class: Option<Format>,
    source: BundleSource,
    pub(super) upload: Option<Upload>,
}

/// Content that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upload {
    /// The beginning of its digest.
    pub(super) digest: String,
    /// A tar.gz.
    pub(super) archive: Bytes,
}

impl Wanted {
    /// Reads the command line, and the bundle if it is here; `None` if it was refused, and said why.
    pub(super) fn of(args: &InstallArgs) -> anyhow::Result<Option<Self>> {
        let source = match args.bundle.to_str() {
            Some(text) => Source::parse(text, Path::exists)
                .unwrap_or_else(|error| args::usage(&error.to_string())),
            None => Source::Local(Local::Path((&args.bundle).into())),
        };
        if !matches!(source, Source::Image(_)) && (args.pull_secret.is_some() || !args.tls_verify) {
            args::usage("--pull-secret and --tls-verify=false are for images");
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

    /// The BundleInstance, as far as we have something to say about it. What was said about an existing one stays.
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
        let had = before.map(|it| &it.spec);
        let namespace = args.install_namespace.as_ref();
        let namespace = namespace.or(had.and_then(|it| it.install_namespace.as_ref()));
        let account = match &args.service_account {
            Some((namespace, name)) => Some(ServiceAccountRef {
                namespace: namespace.clone(),
                name: name.clone(),
            }),
            None => had.and_then(|it| it.service_account.clone()),
        };
        let mut spec = json!({
            "provisionerClassName": had.map_or(class, |it| &it.provisioner_class_name),
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

/// What is not said is left to others.
fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}

/// Returns the class name to apply. An instance keeps its spelling of the same class.
fn class_name(format: Option<Format>, before: Option<&str>) -> &str {
    let name = format.map(class);
    match (name, before) {
        (Some(name), Some(before)) if Class::parse(name) == Class::parse(before) => before,
        _ => name.or(before).unwrap_or(class(Format::Registry)),
    }
}

fn class(format: Format) -> &'static str {
    match format {
        Format::Registry => "core-rukpak-io-registry",
        Format::Plain => "core-rukpak-io-plain",
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
            "the provisioner has to know what to take of the repository: add #refs/heads/BRANCH, #refs/tags/TAG or the whole \
             #COMMIT",
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
        args::usage(
            "a BundleInstance cannot say which digest a URL must have; leave out #sha256:…",
        );
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

/// Reads what is here, and converts it as the provisioner will: what would be refused there is refused here.
fn read(local: &Local, args: &InstallArgs) -> anyhow::Result<Option<Wanted>> {
    let content = unpacker::local(local, None, &args.limits.into())?
        .tree
        .into_content()?;
    let format = args
        .class
        .unwrap_or_else(|| match convert::class(&content) {
            convert::Class::Registry => Format::Registry,
            convert::Class::Plain => Format::Plain,
        });
    let options = Options {
        class: Some(match format {
            Format::Registry => convert::Class::Registry,
            Format::Plain => convert::Class::Plain,
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
            "the bundle cannot be installed, and nothing was changed: {}",
            count(report.refusals().count(), "problem")
        ));
        return Ok(None);
    }
    let warnings = report.of(Level::Warning).count();
    if warnings > 0 {
        message::note(&format!(
            "{}: {} validate {}",
            count(warnings, "warning"),
            args::name(),
            args.bundle.display()
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
    Ok(Some(Wanted {
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
            digest: digest.hex().chars().take(DIGITS).collect(),
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
            class_name(Some(Format::Registry), Some(converter)) => converter;
            class_name(Some(Format::Plain), Some(converter)) => "core-rukpak-io-plain";
            class_name(Some(Format::Plain), Some("core.rukpak.io/plain")) => "core.rukpak.io/plain";
            class_name(Some(Format::Plain), None) => "core-rukpak-io-plain";
            class_name(Some(Format::Registry), Some("example.com/own")) => "core-rukpak-io-registry";
        }
    }
}
