//! A server that gives away more than anybody wants to keep.

use std::collections::BTreeSet;

use catalog::registry::{Bounds, packages, wire::Bundle};
use prost::Message;

use crate::suspicion::{connect, data, framed, of, server, trailers};

#[tokio::test]
async fn of_a_package_without_end_nothing_is_kept() {
    let skipped = "s".repeat(1 << 20);
    let messages = |name: &str, skips: Vec<String>| {
        let [csv_name, package_name, channel_name] = [name, "wanted", "c"].map(str::to_owned);
        let version = "1.0.0".to_owned();
        let bundle = with!(Bundle, csv_name, package_name, channel_name, version, skips);
        framed(&bundle.encode_to_vec())
    };
    // One bundle in very many places with long edges, and very many bundles.
    let long = messages("b", vec![skipped]);
    let many: Vec<_> = (0..6000)
        .map(|at| messages(&format!("b{at}"), Vec::new()))
        .collect();
    for (frames, problem) in tests::rows![
        vec![long; 100] => "its bundles and edges take more than 67108864 bytes";
        many => "it has more than 5000 bundles";
    ] {
        let address = server(move || {
            let mut frames: Vec<_> = frames.iter().cloned().map(data).collect();
            frames.push(trailers("0", ""));
            of(frames)
        })
        .await;
        let client = connect(address, Bounds::default()).await;
        let wanted = BTreeSet::from(["wanted".to_owned()]);
        let found = packages(&client, &wanted).await.unwrap();
        assert!(found.packages.is_empty());
        assert_eq!(found.broken["wanted"], problem);
    }
}
