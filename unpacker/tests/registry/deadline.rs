//! How long all requests for one image may take together.

use std::{thread, time::Duration};

use unpacker::{Access, Options, Source, fetch::Progress, source::Image, web::Patience};

use crate::{
    images::{Registry, Store, layer, noise},
    server::Answer,
};

#[tokio::test]
async fn many_layers_that_take_just_not_too_long_are_too_long_together() {
    let layers: Vec<_> = (0..12)
        .map(|number| layer(&[(&*format!("manifests/{number}"), &noise(number, 100))]))
        .collect();
    let registry = Registry::but(Store::image(&layers), |seen| {
        if seen.target.contains("/blobs/") {
            thread::sleep(Duration::from_millis(300));
        }
        None::<Answer>
    })
    .await;
    let image = Source::Image(Image {
        reference: registry.image("app:v1").parse().unwrap(),
        platform: None,
    });
    let fetch = async |total| {
        let patience = Patience {
            total,
            ..registry.access().patience
        };
        let access = Access {
            patience,
            ..registry.access()
        };
        unpacker::fetch(&image, &access, &Options::default(), &Progress::default()).await
    };
    let error = fetch(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!((error.reason(), error.is_terminal()), ("TimedOut", false));
    assert!(error.to_string().contains("--timeout"), "{error}");
    assert!(fetch(Duration::from_secs(60)).await.is_ok());
}
