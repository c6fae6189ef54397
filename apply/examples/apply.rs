//! Applies the manifests of a file to the cluster of the current kubeconfig, as objects of a BundleInstance that exists.
//!
//! ```console
//! $ kubectl get bundleinstance tide -o jsonpath={.metadata.uid} | xargs cargo run -p apply --example apply -- tide objects.yaml
//! ```

use std::{collections::BTreeSet, env, error::Error, fs};

use apply::{
    discovery::Discovery,
    inventory::Inventory,
    plan::{self, InstanceOwner},
    ssa::Applier,
};
use kube::Client;
use manifests::{object::Object, yaml};
use tokio::sync::Semaphore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [name, file, uid] = args.try_into().map_err(|_| "usage: apply NAME FILE UID")?;
    let file = fs::read(file)?;
    let documents = yaml::documents(&file).collect::<Result<Vec<_>, _>>()?;
    let objects = documents.into_iter().filter(|document| !document.is_null());
    let objects = objects
        .map(Object::try_from)
        .collect::<Result<Vec<_>, _>>()?;

    let client = Client::try_default().await?;
    let kinds = Discovery::new(client.clone());
    let served = kinds.find(objects.iter().map(plan::kind_of)).await?;
    let owner = InstanceOwner { name, uid };
    let (inventory, optional) = (Inventory::new(), BTreeSet::new());
    let plan = plan::new(objects, &served, &inventory, &owner, "default", &optional);
    for absent in &plan.missing {
        eprintln!("{} {} is not served", absent.api_version, absent.kind);
    }

    let apply = Applier {
        client: &client,
        kinds: &kinds,
        concurrency: 8,
        permits: &Semaphore::new(8),
    };
    let report = apply.run(&plan.steps).await;
    for identity in report.applied.keys() {
        println!("{identity} applied");
    }
    for failure in &report.failed {
        eprintln!("{}", failure.message);
    }
    Ok(())
}
