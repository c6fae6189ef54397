use super::*;

fn headers(values: &[&[u8]]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        let value = HeaderValue::from_bytes(value).unwrap();
        headers.append(header::AUTHORIZATION, value);
    }
    headers
}

#[test]
fn a_token_is_one_bearer_token_and_nothing_else() {
    for value in ["Bearer abc", "bearer abc", "Bearer   abc "] {
        assert_eq!(token(&headers(&[value.as_bytes()])), Ok("abc"), "{value:?}");
    }
    let long = format!("Bearer {}", "a".repeat(TOKEN + 1));
    let bad: [&[&[u8]]; 9] = [
        &[],
        &[b""],
        &[b"Bearer"],
        &[b"Bearer "],
        &[b"Bearer a b"],
        &[b"Basic YTpi"],
        &[b"Bearer \xff"],
        &[b"Bearer abc", b"Bearer abc"],
        &[long.as_bytes()],
    ];
    for values in bad {
        let headers = headers(values);
        let found = token(&headers);
        assert!(matches!(found, Err(Denied::Unknown(_))), "{values:?}");
    }
}

#[test]
fn whoever_may_not_is_told_which_role_is_missing() {
    let message = forbidden("system:serviceaccount:a:b", Verb::Get, "/bundles/x.tgz");
    assert_eq!(
        message,
        "system:serviceaccount:a:b may not get /bundles/x.tgz: ClusterRole bundle-reader allows it. An administrator can \
         grant it with \"kubectl create clusterrolebinding <name> --clusterrole=bundle-reader --serviceaccount=a:b\""
    );
    let message = forbidden("jane", Verb::Update, "/uploads/x.tgz");
    assert!(
        message.ends_with("--clusterrole=bundle-uploader --user=jane\""),
        "{message}"
    );
}

#[test]
fn a_denial_counts_more_than_an_allowance() {
    let status = |allowed, denied| SubjectAccessReviewStatus {
        allowed,
        denied,
        ..SubjectAccessReviewStatus::default()
    };
    for (status, may) in [
        (None, false),
        (Some(status(false, None)), false),
        (Some(status(true, None)), true),
        (Some(status(true, Some(false))), true),
        (Some(status(true, Some(true))), false),
    ] {
        assert_eq!(is_allowed(status.as_ref()), may, "{status:?}");
    }
}

#[test]
fn answers_are_forgotten_by_age_and_by_number() {
    let answers = Remember::new(2, Duration::from_secs(10));
    let start = Instant::now();
    let get = |key, seconds| answers.get(&key, start + Duration::from_secs(seconds));
    answers.put(1, true, start);
    answers.put(2, false, start);
    assert_eq!((get(1, 0), get(2, 9)), (Some(true), Some(false)));
    answers.put(3, true, start);
    assert_eq!(
        (get(1, 0), get(2, 0), get(3, 0)),
        (None, Some(false), Some(true))
    );
    assert_eq!((get(2, 10), get(3, 10)), (None, None));
    assert_eq!((get(2, 0), get(3, 0)), (None, None));
}
