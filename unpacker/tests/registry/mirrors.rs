//! Images from mirrors.

use crate::*;
use tests::Registry;

/// Returns access without CAs and with a rule for `source.example/org`.
fn ruled(settings: &str) -> Access {
    let conf = format!("[[registry]]\nprefix = \"source.example/org\"\n{settings}");
    with!(trusting(String::new()) => mirrors: Mirrors::from_registries_conf(&conf).unwrap(), timeouts.attempts: 1)
}

#[tokio::test]
async fn mirrors_are_tried_in_their_order() {
    let (empty, full) = (Registry::plain(), Registry::plain());
    let digest = pushed(&full.image("copies/app:v1"), &plain()).await;
    let values = Values::default()
        .with("empty", empty.image("copies"))
        .with("full", full.image("copies"))
        .with("digest", digest.unwrap())
        .with("zero", "0");
    let rows = "
        # mirrors, image, the resolved image or the error
        first that has it | 127.0.0.1:1 {empty} {full} | source.example/org/app:v1 | source.example/org/app@{digest}
        pinned         | 127.0.0.1:1 {empty} {full} | source.example/org/app@{digest} | source.example/org/app@{digest}
        none has it    | 127.0.0.1:1 {empty} | source.example/org/app:v1
          | NotFound, transient: *from 2 endpoints*127.0.0.1:1*{empty}/app*does not exist*
        tag, digests   | {full}=digests | source.example/org/app:v1 | RegistryBlocked, *cannot be pulled*
        digest, digests | {full}=digests | source.example/org/app@{digest} | source.example/org/app@{digest}
        other digest   | {full} | source.example/org/app@sha256:{zero*64} | NotFound, *
        no certificate | {full}=secure | source.example/org/app:v1 | NotTLS, *
    ";
    table::check(rows, &values, async |[mirrors, image]: &[Cell; 2]| {
        let mut settings = "blocked = true\n".to_owned();
        for mirror in mirrors.text().split(' ') {
            let (location, kind) = mirror.split_once('=').unwrap_or((mirror, ""));
            let pull = ["all", "digest-only"][usize::from(kind == "digests")];
            let insecure = kind != "secure";
            settings.extend([
                format!("[[registry.mirror]]\nlocation = \"{location}\"\n"),
                format!("pull-from-mirror = \"{pull}\"\ninsecure = {insecure}\n"),
            ]);
        }
        let (access, image) = (ruled(&settings), image.text());
        match pull(&image, &access).await {
            Ok(fetched) => {
                let resolved = image::resolve(&source(&image), &access).await.unwrap();
                let fetched = fetched.resolved.to_string();
                assert_eq!(fetched, resolved.reference.to_string());
                fetched
            }
            Err(error) => outcome(Err(error)),
        }
    })
    .await;
}

#[tokio::test]
async fn images_are_pushed_to_the_location_of_the_rule() {
    let real = Registry::plain();
    let place = format!("location = \"{}\"\ninsecure = true\n", real.image("real/"));
    let image = "source.example/org/app:v1";
    let digest = pushed(image, &ruled(&place)).await.unwrap();
    let image = real.image(&format!("real/app@{digest}"));
    pull(&image, &plain()).await.unwrap();

    let error = pushed("source.example/org/app:v1", &ruled("blocked = true\n")).await;
    assert_has(error.unwrap_err(), "cannot be pushed");
}
