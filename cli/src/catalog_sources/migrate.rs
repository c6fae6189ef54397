//! `rukpak catalogsource migrate`.
//!
//! Each CatalogSource is written by itself, and only as the one that was read; the definition comes last, when everything is
//! stored as it says. So there is no moment at which an end would leave a half.

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use manifests::api::catalog_source::{
    CatalogSource,
    convert::{Dropped, Error, mend},
};
use serde_json::json;

use crate::{
    Exit,
    args::{CatalogSourceMigrateArgs, DryRun},
    cluster::{self, Cluster, MANAGER},
    message, output,
};

const DEFINITION: &str = "catalogsources.operators.coreos.com";
/// Of each page of the list.
const PAGE: u32 = 250;
/// How often somebody else may have been faster.
const ATTEMPTS: u32 = 5;

pub(super) fn run(args: &CatalogSourceMigrateArgs) -> anyhow::Result<Exit> {
    let interrupted = || message::note("what was done is done: run it again to go on");
    cluster::run(&args.cluster, interrupted, async |cluster| {
        migrate(cluster, args.dry_run).await
    })
}

async fn migrate(cluster: &Cluster, dry_run: DryRun) -> anyhow::Result<Exit> {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let definition = match definitions.get(DEFINITION).await {
        Ok(found) => found,
        Err(error) if Cluster::is_absent(&error) => {
            bail!("the cluster has no CatalogSources: there is no definition {DEFINITION}")
        }
        Err(error) => {
            return Err(
                cluster.trouble(format!("failed to read the definition {DEFINITION}"), error)
            );
        }
    };
    if !is_ours(&definition) {
        bail!(
            "the definition {DEFINITION} is not rukpak's, for it knows no catalogImageSource: it is OLM's, most likely, and \
             nothing is changed"
        );
    }
    let (storage, stale) = versions(&definition);
    let mut exit = Exit::Done;
    let mut next = ListParams::default().limit(PAGE);
    let mut all_stored = true;
    loop {
        let page = sources(cluster, None).list(&next).await;
        let page = page.map_err(|error| cluster.trouble("failed to list CatalogSources", error))?;
        for object in page.items {
            match settle(cluster, object, !stale.is_empty(), dry_run).await {
                Ok(true) => {}
                Ok(false) => exit = Exit::Failed,
                // What the next one is like has nothing to do with it.
                Err(error) => {
                    message::error(&format!("{error:#}"));
                    (exit, all_stored) = (Exit::Failed, false);
                }
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => next = ListParams::default().limit(PAGE).continue_token(&token),
            None => break,
        }
    }
    if let Some(storage) = storage.filter(|_| all_stored && !stale.is_empty()) {
        let done = output::tried("forgotten", dry_run);
        // Only while it is what was seen: another version may be the one that is stored by now.
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": definition.resource_version()},
            "status": {"storedVersions": [storage]},
        }));
        let params = PatchParams {
            dry_run: dry_run == DryRun::Server,
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = definitions.patch_status(DEFINITION, &params, &patch);
        patched.await.map_err(|error| {
            cluster.trouble(
                format!("failed to write the status of the definition {DEFINITION}"),
                error,
            )
        })?;
        output::print(&format!(
            "customresourcedefinition/{DEFINITION}: stored versions {} {done}\n",
            stale.join(", ")
        ))?;
    }
    Ok(exit)
}

/// Puts one CatalogSource right; tells whether it is. `anew` has it stored again also when nothing is wrong with it.
async fn settle(
    cluster: &Cluster,
    mut object: DynamicObject,
    anew: bool,
    dry_run: DryRun,
) -> anyhow::Result<bool> {
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let api = sources(cluster, Some(&namespace));
    let params = PostParams {
        dry_run: dry_run == DryRun::Server,
        field_manager: Some(MANAGER.to_owned()),
    };
    for _ in 0..ATTEMPTS {
        let (mended, dropped, problem) = mended(&object)?;
        let is_right = problem.is_none();
        if !anew && mended == object {
            tell(&namespace, &name, &[], problem.as_ref(), dry_run)?;
            return Ok(is_right);
        }
        match api.replace(&name, &params, &mended).await {
            Ok(_) => {
                tell(&namespace, &name, &dropped, problem.as_ref(), dry_run)?;
                return Ok(is_right);
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) if Cluster::is_absent(&error) => return Ok(true),
            Err(error) => {
                return Err(cluster.trouble(
                    format!("failed to write CatalogSource {namespace}/{name}"),
                    error,
                ));
            }
        }
        object = match api.get(&name).await {
            Ok(found) => found,
            Err(error) if Cluster::is_absent(&error) => return Ok(true),
            Err(error) => {
                return Err(cluster.trouble(
                    format!("failed to read CatalogSource {namespace}/{name}"),
                    error,
                ));
            }
        };
    }
    bail!(
        "CatalogSource {namespace}/{name} was changed by somebody else each time; see who writes it in its managedFields, and \
         run this again"
    )
}

/// The object as it should be, what is not in it any more, and why it cannot be right.
fn mended(object: &DynamicObject) -> anyhow::Result<(DynamicObject, Vec<Dropped>, Option<Error>)> {
    let value = serde_json::to_value(object).context("failed to write a CatalogSource")?;
    Ok(match mend(value) {
        Ok(done) => {
            let object = serde_json::from_value(done.object);
            let object = object.context("failed to read a CatalogSource")?;
            (object, done.dropped, None)
        }
        Err(error) => (object.clone(), Vec::new(), Some(error)),
    })
}

fn tell(
    namespace: &str,
    name: &str,
    dropped: &[Dropped],
    problem: Option<&Error>,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    if let Some(problem) = problem {
        message::error(&format!(
            "CatalogSource {namespace}/{name}: {problem}; correct its spec"
        ));
    }
    for dropped in dropped {
        let done = output::tried(&dropped.to_string(), dry_run);
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

/// OLM's has the same name, and none of the new members.
fn is_ours(definition: &CustomResourceDefinition) -> bool {
    let mut versions = definition.spec.versions.iter();
    let ours = versions.find(|version| version.name == CatalogSource::version(&()));
    let spec = ours.and_then(|version| {
        let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        schema.properties.as_ref()?.get("spec")?.properties.as_ref()
    });
    spec.is_some_and(|spec| spec.contains_key("catalogImageSource"))
}

/// The version that is stored, and those that were.
fn versions(definition: &CustomResourceDefinition) -> (Option<String>, Vec<String>) {
    let mut versions = definition.spec.versions.iter();
    let storage = versions.find(|version| version.storage);
    let storage = storage.map(|version| version.name.clone());
    let status = definition.status.as_ref();
    let stored = status.and_then(|status| status.stored_versions.clone());
    let stale = stored.unwrap_or_default();
    let stale = stale.into_iter().filter(|it| Some(it) != storage.as_ref());
    let stale = stale.collect();
    (storage, stale)
}
