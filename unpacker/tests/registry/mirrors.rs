//! Content from elsewhere than its name says.

use tests::Registry;
use unpacker::{
    Access, image,
    registry::{
        Mirrors,
        mirrors::{Mirror, Pull, Rule},
    },
};

use crate::{outcome, plain, pull, real::pushed, source};

/// Nobody listens there.
const NOWHERE: &str = "127.0.0.1:1";

fn rule(mirrors: &[(String, Pull)], blocked: bool) -> Access {
    let mirrors = mirrors.iter().map(|(location, pull)| Mirror {
        location: location.clone(),
        pull: *pull,
        insecure: false,
    });
    let rule = Rule {
        source: "source.example/org".to_owned(),
        mirrors: mirrors.collect(),
        blocked,
        ..Rule::default()
    };
    let mut access = Access {
        mirrors: Mirrors::new([rule]).unwrap(),
        ..plain()
    };
    access.patience.tries = 1;
    access
}

#[tokio::test]
async fn the_first_mirror_that_has_an_image_gives_it() {
    let (empty, full) = (Registry::plain(), Registry::plain());
    let digest = pushed(&full.image("copies/app:v1"), &plain())
        .await
        .unwrap();
    let access = rule(
        &[
            (NOWHERE.to_owned(), Pull::All),
            (empty.image("copies"), Pull::All),
            (full.image("copies"), Pull::All),
        ],
        true,
    );
    let pinned = format!("source.example/org/app@{digest}");
    for reference in ["source.example/org/app:v1", &pinned] {
        let fetched = pull(reference, &access).await.unwrap();
        assert_eq!(
            fetched.resolved.to_string(),
            pinned,
            "the name stays that of the source"
        );
    }
    let resolved = image::resolve(&source("source.example/org/app:v1"), &access)
        .await
        .unwrap();
    assert_eq!(resolved.reference.to_string(), pinned);
}

#[tokio::test]
async fn all_places_are_named_when_none_has_it() {
    let empty = Registry::plain();
    let access = rule(
        &[
            (NOWHERE.to_owned(), Pull::All),
            (empty.image("copies"), Pull::All),
        ],
        true,
    );
    let error = outcome(pull("source.example/org/app:v1", &access).await).unwrap_err();
    for part in [
        "any of 2 places",
        NOWHERE,
        &empty.image("copies/app"),
        "does not exist",
    ] {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

#[tokio::test]
async fn a_mirror_for_digests_is_not_asked_what_a_tag_means() {
    let full = Registry::plain();
    let digest = pushed(&full.image("copies/app:v1"), &plain())
        .await
        .unwrap();
    let access = rule(&[(full.image("copies"), Pull::Digests)], true);
    let error = outcome(pull("source.example/org/app:v1", &access).await).unwrap_err();
    assert!(
        error.starts_with("RegistryBlocked") && error.contains("may not be pulled"),
        "{error}"
    );
    pull(&format!("source.example/org/app@{digest}"), &access)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_mirror_cannot_give_something_else_for_a_digest() {
    let full = Registry::plain();
    pushed(&full.image("copies/app:v1"), &plain())
        .await
        .unwrap();
    let access = rule(&[(full.image("copies"), Pull::All)], true);
    let other = format!("source.example/org/app@sha256:{}", "0".repeat(64));
    let error = outcome(pull(&other, &access).await).unwrap_err();
    assert!(error.starts_with("NotFound"), "{error}");
}

#[tokio::test]
async fn only_an_insecure_mirror_is_believed_without_proof() {
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
        let mut access = Access {
            mirrors: Mirrors::from_registries_conf(&conf).unwrap(),
            ..crate::trusting(String::new())
        };
        access.patience.tries = 1;
        let fetched = pull("source.example/org/app:v1", &access).await;
        assert_eq!(fetched.is_ok(), insecure, "{:?}", fetched.map(drop));
    }
}

#[tokio::test]
async fn what_is_pushed_goes_where_the_rule_says() {
    let real = Registry::plain();
    let pushing = |settings: &str| {
        let conf = format!("[[registry]]\nprefix = \"source.example/org/\"\n{settings}");
        Access {
            mirrors: Mirrors::from_registries_conf(&conf).unwrap(),
            ..crate::trusting(String::new())
        }
    };
    let location = real.image("real/");
    let conf = format!("location = \"{location}\"\ninsecure = true\n");
    let digest = pushed("source.example/org/app:v1", &pushing(&conf))
        .await
        .unwrap();
    let pinned = real.image(&format!("real/app@{digest}"));
    pull(&pinned, &plain()).await.unwrap();

    let blocked = pushing("blocked = true\n");
    let error = pushed("source.example/org/app:v1", &blocked).await;
    let error = error.unwrap_err();
    assert!(error.contains("may not be pushed"), "{error}");
}
