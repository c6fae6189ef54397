//! `rukpak catalogsource migrate`.
//!
//! Each CatalogSource is written individually, and only if it is unchanged since it was read. The CRD is written last, when
//! all objects are stored in its storage version. An interruption thus never leaves an inconsistent state.

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use manifests::api::catalog_source::{
    CatalogSource,
    convert::{Dropped, Error, drop_ignored},
};
use serde_json::json;

use crate::{
    ExitStatus,
    args::{CatalogSourceMigrateArgs, DryRun},
    cluster::{self, Cluster, FIELD_MANAGER},
    output,
    output::message,
};

const CRD_NAME: &str = "catalogsources.operators.coreos.com";
/// Number of CatalogSources per list page.
const PAGE_SIZE: u32 = 250;
/// Maximum number of attempts to write an object that other clients change.
const MAX_ATTEMPTS: u32 = 5;

pub(super) fn run(args: &CatalogSourceMigrateArgs) -> anyhow::Result<ExitStatus> {
    let interrupted =
        || message::note("completed changes are kept; run the same command again to continue");
    cluster::run(&args.cluster, interrupted, async |cluster| {
        migrate(cluster, args.dry_run).await
    })
}

async fn migrate(cluster: &Cluster, dry_run: DryRun) -> anyhow::Result<ExitStatus> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let crd = match crds.get(CRD_NAME).await {
        Ok(found) => found,
        Err(error) if Cluster::is_absent(&error) => {
            bail!(
                "the cluster does not serve CatalogSources: CustomResourceDefinition {CRD_NAME} not found"
            )
        }
        Err(error) => {
            return Err(cluster.explain(
                format!("failed to read CustomResourceDefinition {CRD_NAME}"),
                error,
            ));
        }
    };
    if !is_rukpak_crd(&crd) {
        bail!(
            "CustomResourceDefinition {CRD_NAME} is not rukpak's because it has no field catalogImageSource; it is probably \
             OLM's; no changes were made"
        );
    }
    let (storage, stale) = versions(&crd);
    let mut exit = ExitStatus::Done;
    let mut next = ListParams::default().limit(PAGE_SIZE);
    let mut all_stored = true;
    loop {
        let page = sources(cluster, None).list(&next).await;
        let page = page.map_err(|error| cluster.explain("failed to list CatalogSources", error))?;
        for object in page.items {
            match migrate_object(cluster, object, !stale.is_empty(), dry_run).await {
                Ok(true) => {}
                Ok(false) => exit = ExitStatus::Failed,
                // An error of one object does not affect the others.
                Err(error) => {
                    message::error(&format!("{error:#}"));
                    (exit, all_stored) = (ExitStatus::Failed, false);
                }
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => {
                next = ListParams::default()
                    .limit(PAGE_SIZE)
                    .continue_token(&token);
            }
            None => break,
        }
    }
    if let Some(storage) = storage.filter(|_| all_stored && !stale.is_empty()) {
        let done = output::print_dry_run("removed", dry_run);
        // The patch applies only to the observed version: the storage version may have changed.
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": crd.resource_version()},
            "status": {"storedVersions": [storage]},
        }));
        let params = PatchParams {
            dry_run: dry_run == DryRun::Server,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        let patched = crds.patch_status(CRD_NAME, &params, &patch);
        patched.await.map_err(|error| {
            cluster.explain(
                format!("failed to update the status of CustomResourceDefinition {CRD_NAME}"),
                error,
            )
        })?;
        output::print(&format!(
            "customresourcedefinition/{CRD_NAME}: stored versions {} {done}\n",
            stale.join(", ")
        ))?;
    }
    Ok(exit)
}

/// Migrates one CatalogSource, and returns whether it is correct. With `rewrite`, it is written even if it is unchanged, so
/// that it is stored in the storage version.
async fn migrate_object(
    cluster: &Cluster,
    mut object: DynamicObject,
    rewrite: bool,
    dry_run: DryRun,
) -> anyhow::Result<bool> {
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let api = sources(cluster, Some(&namespace));
    let params = PostParams {
        dry_run: dry_run == DryRun::Server,
        field_manager: Some(FIELD_MANAGER.to_owned()),
    };
    for _ in 0..MAX_ATTEMPTS {
        let (cleaned, dropped, problem) = without_unread_fields(&object)?;
        let is_correct = problem.is_none();
        if !rewrite && cleaned == object {
            print_changes(&namespace, &name, &[], problem.as_ref(), dry_run)?;
            return Ok(is_correct);
        }
        match api.replace(&name, &params, &cleaned).await {
            Ok(_) => {
                print_changes(&namespace, &name, &dropped, problem.as_ref(), dry_run)?;
                return Ok(is_correct);
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) if Cluster::is_absent(&error) => return Ok(true),
            Err(error) => {
                return Err(cluster.explain(
                    format!("failed to update CatalogSource {namespace}/{name}"),
                    error,
                ));
            }
        }
        object = match api.get(&name).await {
            Ok(found) => found,
            Err(error) if Cluster::is_absent(&error) => return Ok(true),
            Err(error) => {
                return Err(cluster.explain(
                    format!("failed to read CatalogSource {namespace}/{name}"),
                    error,
                ));
            }
        };
    }
    bail!(
        "CatalogSource {namespace}/{name} was changed by another client at every attempt; check managedFields for its \
         writer, and run the same command again"
    )
}

/// Returns the object without ignored fields, the removed fields, and the reason why the object remains invalid.
fn without_unread_fields(
    object: &DynamicObject,
) -> anyhow::Result<(DynamicObject, Vec<Dropped>, Option<Error>)> {
    let value = serde_json::to_value(object).context("failed to serialize a CatalogSource")?;
    Ok(match drop_ignored(value) {
        Ok(done) => {
            let object = serde_json::from_value(done.object);
            let object = object.context("failed to read a CatalogSource")?;
            (object, done.dropped, None)
        }
        Err(error) => (object.clone(), Vec::new(), Some(error)),
    })
}

fn print_changes(
    namespace: &str,
    name: &str,
    dropped: &[Dropped],
    problem: Option<&Error>,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    if let Some(problem) = problem {
        message::error(&format!(
            "CatalogSource {namespace}/{name}: {problem}; fix its spec"
        ));
    }
    for dropped in dropped {
        let done = output::print_dry_run(&dropped.to_string(), dry_run);
        output::print(&format!("catalogsource/{namespace}/{name}: {done}\n"))?;
    }
    Ok(())
}

fn sources(cluster: &Cluster, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<CatalogSource>(&());
    let client = cluster.client.clone();
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

/// Reports whether the CRD is rukpak's. OLM's CRD has the same name, and none of the new fields.
fn is_rukpak_crd(crd: &CustomResourceDefinition) -> bool {
    let mut versions = crd.spec.versions.iter();
    let version = versions.find(|version| version.name == CatalogSource::version(&()));
    let spec = version.and_then(|version| {
        let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        schema.properties.as_ref()?.get("spec")?.properties.as_ref()
    });
    spec.is_some_and(|spec| spec.contains_key("catalogImageSource"))
}

/// Returns the storage version, and the other versions in which objects may be stored.
fn versions(crd: &CustomResourceDefinition) -> (Option<String>, Vec<String>) {
    let mut versions = crd.spec.versions.iter();
    let storage = versions.find(|version| version.storage);
    let storage = storage.map(|version| version.name.clone());
    let status = crd.status.as_ref();
    let stored = status.and_then(|status| status.stored_versions.clone());
    let stale = stored.unwrap_or_default();
    let stale = stale
        .into_iter()
        .filter(|version| Some(version) != storage.as_ref());
    let stale = stale.collect();
    (storage, stale)
}
