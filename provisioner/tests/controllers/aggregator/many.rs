//! A thousand operators that block, on a cluster whose instances nobody else writes.

use futures::{StreamExt as _, stream};
use kube::api::PostParams;
use manifests::api::instance::BundleInstance;

use super::*;
use crate::support::{Options, image, instance};

const COUNT: usize = 1000;

#[tokio::test]
async fn a_thousand_operators_fit_into_a_message() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    history(platform.world.cluster, &["Completed 4.12.0"]).await;
    let api = platform.world.api::<BundleInstance>();
    let make = |number: usize| {
        let api = api.clone();
        async move {
            // Some words of a name, as long as names may be, and one that no release can be read from.
            let name = format!("{:a<40}-{number:04}", "operator");
            let made = instance(&name, "registry", image("example.com/none:v1"));
            api.create(&PostParams::default(), &made).await.unwrap();
            let maximum = if number == 0 {
                "x".repeat(500)
            } else {
                "\"4.12\"".to_owned()
            };
            let status = json!({"status": {
                "installedBundleName": name, "installNamespace": format!("{:n<60}", "n"),
                "package": name, "clusterServiceVersion": format!("{name}.v1"), "maxOpenShiftVersion": maximum,
            }});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
    };
    stream::iter(0..COUNT)
        .map(make)
        .buffer_unordered(16)
        .collect::<()>()
        .await;
    let options = Options {
        flags: vec!["--controllers=aggregator".into()],
        ..Options::default()
    };
    let _provisioner = platform.start_with(options).await;
    let will_not = "The following operators will not run on the next OpenShift Version: ";
    let reason = "IncompatibleOperatorsInstalled";
    let operator = becomes(&platform, "Upgradeable", "False", reason, will_not).await;
    let status = operator.status.unwrap();
    let message = find(&status, "Upgradeable")
        .unwrap()
        .message
        .clone()
        .unwrap();
    assert!(message.len() < 32 << 10, "{}", message.len());
    let first = message.lines().next().unwrap();
    assert!(
        first.starts_with(will_not) && first.contains(", and "),
        "{first}"
    );
    assert!(message.ends_with("more"), "{message}");
    let details = status.extension.unwrap();
    assert_eq!(details["concerns"].as_array().unwrap().len(), COUNT);
    let of = |effect: &str| {
        let concerns = details["concerns"].as_array().unwrap();
        concerns.iter().filter(|it| it["effect"] == effect).count()
    };
    assert_eq!((of("Blocks"), of("Unknown")), (COUNT - 1, 1));
}
