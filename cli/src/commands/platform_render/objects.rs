//! Objects for the new cluster, in apply order.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use catalog::choose::Choice;
use manifests::{
    api::{
        catalog_source::{CatalogSource, CatalogSourceSpec},
        crds, install,
        platform_operator::{CatalogRef, Package, PlatformOperator, PlatformOperatorSpec},
    },
    object::{Object, get_path, mapping},
    yaml,
};
use serde::Serialize;
use serde_json::{Value, json};
use unpacker::Source;

use crate::{
    args::{PackageSpec, PlatformRenderArgs},
    commands::catalog::Catalogs,
    output::message,
    source::all as sources,
};

/// Namespace of the catalogs in OpenShift.
pub(super) const MARKETPLACE: &str = "openshift-marketplace";

pub(super) fn all(
    args: &PlatformRenderArgs,
    catalogs: &Catalogs,
    chosen: &[(&PackageSpec, Choice)],
) -> anyhow::Result<Vec<Object>> {
    let namespace = args.catalog_namespace.clone().unwrap_or_else(|| {
        match args.openshift_version {
            Some(_) => MARKETPLACE,
            None => &args.namespace,
        }
        .to_owned()
    });
    let mut objects = if args.release_payload {
        message::warning(
            "feature set TechPreviewNoUpgrade cannot be undone, and the cluster cannot be upgraded to another minor version",
        );
        let gate = install::release::feature_gate();
        let gate: Result<Vec<Value>, _> = yaml::documents(gate.as_bytes()).collect();
        gate.context("failed to read the FeatureGate")?
    } else {
        installed(args, &namespace)?
    };
    let refs = catalog_sources(args, catalogs, chosen, &namespace)?;
    for source in refs.values() {
        objects.push(value(source)?);
    }
    for (wanted, choice) in chosen {
        let source = refs.get(&choice.catalog);
        objects.push(value(&operator(wanted, source))?);
    }
    let objects = objects.into_iter().map(Object::try_from);
    let objects: Result<Vec<Object>, _> = objects.collect();
    let mut objects = objects.context("invalid object of the provisioner")?;
    // Requested objects are last: they have no effect before the others exist.
    let is_requested =
        |object: &Object| matches!(object.kind(), "CatalogSource" | "PlatformOperator");
    objects.sort_by(|a, b| {
        let by_order = || a.order().cmp(&b.order());
        is_requested(a).cmp(&is_requested(b)).then_with(by_order)
    });
    Ok(objects)
}

/// Returns the objects of the provisioner, and the CRDs that it uses.
fn installed(args: &PlatformRenderArgs, catalog_namespace: &str) -> anyhow::Result<Vec<Value>> {
    let mut options = install::Options {
        namespace: args.namespace.clone(),
        ..install::Options::default()
    };
    if let Some(image) = &args.image {
        options.image.clone_from(image);
    }
    let mut objects = install::objects(&options);
    if args.openshift_version.is_some() {
        for object in yaml::documents(install::openshift(&options).as_bytes()) {
            let object = object.context("failed to read the manifests for OpenShift")?;
            // Manifests for OpenShift replace those for Kubernetes.
            match objects
                .iter_mut()
                .find(|existing| is_same(existing, &object))
            {
                Some(same) => *same = object,
                None if object.is_object() => objects.push(object),
                None => {}
            }
        }
    }
    for crd in crds::optional_crds() {
        let is_of_olm = crd.spec.group == "operators.coreos.com";
        if !(is_of_olm && (args.olm || args.openshift_version.is_some())) {
            objects.push(value(&crd)?);
        }
    }
    let has_namespace = catalog_namespace == args.namespace
        || (catalog_namespace == MARKETPLACE && args.openshift_version.is_some());
    if !has_namespace {
        let metadata = json!({"name": catalog_namespace});
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        objects.push(install::catalog_secrets(&options, catalog_namespace));
        if !args.olm && args.openshift_version.is_none() {
            objects.push(install::catalog_server(&options, catalog_namespace));
        }
    }
    let default_namespaces = [args.namespace.as_str(), MARKETPLACE];
    if !default_namespaces.contains(&catalog_namespace) {
        // The flag replaces the default namespaces.
        let flag = format!(
            "--catalog-namespaces={},{catalog_namespace}",
            default_namespaces.join(",")
        );
        let deployment = objects.iter_mut().find(|object| {
            get_path(object, &["kind"]).and_then(Value::as_str) == Some("Deployment")
        });
        let args = deployment
            .and_then(|deployment| deployment.pointer_mut("/spec/template/spec/containers/0/args"))
            .and_then(Value::as_array_mut)
            .context("the provisioner's Deployment has no arguments")?;
        args.push(flag.into());
    }
    Ok(objects)
}

fn is_same(a: &Value, b: &Value) -> bool {
    let paths: [&[&str]; 4] = [
        &["apiVersion"],
        &["kind"],
        &["metadata", "name"],
        &["metadata", "namespace"],
    ];
    paths
        .iter()
        .all(|path| get_path(a, path) == get_path(b, path))
}

/// Returns a CatalogSource for each catalog with a chosen bundle, by the name of the catalog.
fn catalog_sources(
    args: &PlatformRenderArgs,
    catalogs: &Catalogs,
    chosen: &[(&PackageSpec, Choice)],
    namespace: &str,
) -> anyhow::Result<BTreeMap<String, CatalogSource>> {
    let mut all = BTreeMap::new();
    let Some(name) = &args.catalog_source else {
        return Ok(all);
    };
    let locations = sources(&args.catalogs, &args.access);
    for (position, ((catalog, _), source)) in catalogs.iter().zip(locations).enumerate() {
        if !chosen.iter().any(|(_, choice)| choice.catalog == *catalog) {
            continue;
        }
        let Ok(Source::Image(image)) = &source.location else {
            bail!(
                "catalog {catalog:?} is not an image in a registry, which a CatalogSource requires; push it first, or \
                 remove --catalog-source"
            );
        };
        let name = match position {
            0 => name.clone(),
            more => format!("{name}-{}", more + 1),
        };
        let spec = CatalogSourceSpec {
            // OLM supports no other type.
            source_type: Some("grpc".to_owned()),
            image: Some(image.reference.to_string()),
            secrets: args.catalog_secrets.clone(),
            // Earlier catalogs have a higher priority.
            priority: i64::try_from(position)
                .ok()
                .map(|position| -position)
                .filter(|priority| *priority != 0),
            ..CatalogSourceSpec::default()
        };
        let mut source = CatalogSource::new(&name, spec);
        source.metadata.namespace = Some(namespace.to_owned());
        all.insert(catalog.clone(), source);
    }
    Ok(all)
}

fn operator(wanted: &PackageSpec, source: Option<&CatalogSource>) -> PlatformOperator {
    let catalog = source.map(|source| CatalogRef {
        name: source.metadata.name.clone().unwrap_or_default(),
        namespace: source.metadata.namespace.clone(),
    });
    let spec = PlatformOperatorSpec {
        package: Package {
            name: wanted.package.clone(),
        },
        catalog,
        channel: wanted.channel.clone(),
        version: wanted.range.as_ref().map(|(text, _)| text.clone()),
        ..PlatformOperatorSpec::default()
    };
    PlatformOperator::new(&wanted.package, spec)
}

fn value(object: &impl Serialize) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(object).context("failed to serialize an object")?;
    mapping(&mut value).remove("status");
    // Default values are omitted.
    if let Some(spec) = value.pointer_mut("/spec").and_then(Value::as_object_mut) {
        for (key, default) in [
            ("upgradeApproval", "WithCluster"),
            ("approveNewRights", "Automatic"),
        ] {
            if spec.get(key).is_some_and(|value| value == default) {
                spec.remove(key);
            }
        }
    }
    Ok(value)
}
