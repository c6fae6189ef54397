//! Indexes as scripts of operator-sdk name them.

use super::{INDEX, get, said, scene::Operator};
use crate::world::{unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_its_usual_place_needs_no_label() {
    let world = world().await;
    let operator = Operator::new(&unique("unlabeled"));
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
        .ok(&args)
        .says("the catalog is an SQLite database, a form that is not made any more");
    assert_eq!(said(&get(name).await, INDEX), Some(index.as_str()));
    world.ok(&format!("cleanup {name}"));

    // What is neither labeled nor there is no index.
    let other = operator.publish_unlabelled("other.db");
    let args = args.map(|it| if it == index { &*other } else { it });
    world
        .fail(&args)
        .says("the image is no catalog: it has no label");
}
