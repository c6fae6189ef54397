//! Images from mirrors.

use tests::{Cell, Registry, Values, table};
use unpacker::{
    Access, image,
    registry::{
        Mirrors,
        mirrors::{Mirror, Pull, Rule},
    },
};

use crate::{outcome, plain, pull, real::pushed, source, trusting};

/// Nobody listens there.
const NOWHERE: &str = "127.0.0.1:1";

fn once(access: Access, mirrors: Mirrors) -> Access {
    let mut access = Access { mirrors, ..access };
    access.patience.tries = 1;
    access
}

#[tokio::test]
async fn mirrors_are_asked_in_their_order() {
    let (empty, full) = (Registry::plain(), Registry::plain());
    let digest = pushed(&full.image("copies/app:v1"), &plain())
        .await
        .unwrap();
    let values = Values::default()
        .with("empty", empty.image("copies"))
        .with("full", full.image("copies"))
        .with("digest", &*digest)
        .with("zero", "0");
    let rows = "
        # mirrors, image, the resolved image or the error
        first that has it | 127.0.0.1:1 {empty} {full} | source.example/org/app:v1 | source.example/org/app@{digest}
        pinned         | 127.0.0.1:1 {empty} {full} | source.example/org/app@{digest} | source.example/org/app@{digest}
        none has it    | 127.0.0.1:1 {empty} | source.example/org/app:v1
          | NotFound, transient: *any of 2 places*127.0.0.1:1*{empty}/app*does not exist*
        tag, digests   | {full}=digests | source.example/org/app:v1 | RegistryBlocked, *may not be pulled*
        digest, digests | {full}=digests | source.example/org/app@{digest} | source.example/org/app@{digest}
        other digest   | {full} | source.example/org/app@sha256:{zero*64} | NotFound, *
    ";
    table::check(rows, &values, async |[mirrors, image]: &[Cell; 2]| {
        let mirrors = mirrors.text();
        let mirrors = mirrors.split(' ').map(|mirror| Mirror {
            location: mirror.trim_end_matches("=digests").to_owned(),
            pull: if mirror.ends_with("=digests") {
                Pull::Digests
            } else {
                Pull::All
            },
            insecure: false,
        });
        let rule = Rule {
            source: "source.example/org".to_owned(),
            mirrors: mirrors.collect(),
            blocked: true,
            ..Rule::default()
        };
        let access = once(plain(), Mirrors::new([rule]).unwrap());
        match pull(&image.text(), &access).await {
            Ok(fetched) => {
                let resolved = image::resolve(&source(&image.text()), &access)
                    .await
                    .unwrap();
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
async fn only_insecure_mirrors_are_trusted_without_a_certificate() {
    let full = Registry::plain();
    pushed(&full.image("copies/app:v1"), &plain())
        .await
        .unwrap();
    for insecure in [true, false] {
        let conf = format!(
            "[[registry]]\nprefix = \"source.example/org\"\nlocation = \"{NOWHERE}\"\n\
             [[registry.mirror]]\nlocation = \"{}\"\ninsecure = {insecure}\n",
            full.image("copies")
        );
        let mirrors = Mirrors::from_registries_conf(&conf).unwrap();
        let access = once(trusting(String::new()), mirrors);
        let fetched = pull("source.example/org/app:v1", &access).await;
        assert_eq!(fetched.is_ok(), insecure, "{:?}", fetched.map(drop));
    }
}

#[tokio::test]
async fn images_are_pushed_to_the_location_of_the_rule() {
    let real = Registry::plain();
    let pushing = |settings: &str| {
        let conf = format!("[[registry]]\nprefix = \"source.example/org/\"\n{settings}");
        Access {
            mirrors: Mirrors::from_registries_conf(&conf).unwrap(),
            ..trusting(String::new())
        }
    };
    let conf = format!("location = \"{}\"\ninsecure = true\n", real.image("real/"));
    let digest = pushed("source.example/org/app:v1", &pushing(&conf))
        .await
        .unwrap();
    pull(&real.image(&format!("real/app@{digest}")), &plain())
        .await
        .unwrap();

    let blocked = pushing("blocked = true\n");
    let error = pushed("source.example/org/app:v1", &blocked)
        .await
        .unwrap_err();
    assert!(error.contains("may not be pushed"), "{error}");
}
