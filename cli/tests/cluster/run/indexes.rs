//! Indexes as scripts of operator-sdk name them.

use super::{INDEX, INJECTED, get, history, said, scene::Operator};
use crate::world::{unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn any_opm_stands_for_no_index_and_is_remembered() {
    let world = world().await;
    let operator = Operator::new(&unique("opm"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let opm = "quay.io/operator-framework/opm:v1.30.0";
    let run = ["run", "bundle", &images[0], "--use-http"];
    // As operator-sdk, which makes a database of it.
    let index = ["--index-image", opm, "--mode", "semver"];
    world.run(&[&run[..], &index].concat()).exits(0);
    assert_eq!(said(&get(name).await, INDEX), Some(opm));
    world
        .run(&["run", "bundle-upgrade", &images[1], "--use-http"])
        .exits(0);
    let instance = get(name).await;
    assert_eq!(said(&instance, INDEX), Some(opm));
    assert_eq!(history(&instance).len(), 2);
    let injected = said(&instance, INJECTED).unwrap();
    assert!(injected.ends_with("\"mode\":\"semver\"}]"), "{injected}");
    world.run(&["cleanup", name]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_remembered_as_an_image() {
    let world = world().await;
    let operator = Operator::new(&unique("transport"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let index = operator.publish_index(&["other"]);
    let named = format!("docker://{index}");
    let args = [
        "run",
        "bundle",
        &images[0],
        "--use-http",
        "--index-image",
        &named,
    ];
    world.run(&args).exits(0);
    assert_eq!(said(&get(name).await, INDEX), Some(index.as_str()));
    world
        .run(&["run", "bundle-upgrade", &images[1], "--use-http"])
        .exits(0)
        .says(&format!(
            "Rendering a File-Based Catalog of the Index Image \"{index}\""
        ));
    world.run(&["cleanup", name]).exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_its_usual_place_needs_no_label() {
    let world = world().await;
    let operator = Operator::new(&unique("unlabelled"));
    let name = &operator.name;
    let image = operator.publish("0.0.1");
    let index = operator.publish_unlabelled("index.db");
    let args = [
        "run",
        "bundle",
        &image,
        "--use-http",
        "--index-image",
        &index,
    ];
    world
        .run(&args)
        .exits(0)
        .says("the catalog is an SQLite database, a form that is not made any more");
    assert_eq!(said(&get(name).await, INDEX), Some(index.as_str()));
    world.run(&["cleanup", name]).exits(0);

    // What is neither labelled nor there is no index.
    let other = operator.publish_unlabelled("other.db");
    let args = args.map(|it| if it == index { &*other } else { it });
    world
        .run(&args)
        .exits(1)
        .says("the image is no catalog: it has no label");
}
