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
fn only_a_single_bearer_token_is_accepted() {
    for value in ["Bearer abc", "bearer abc", "Bearer   abc "] {
        assert_eq!(token(&headers(&[value.as_bytes()])), Ok("abc"), "{value:?}");
    }
    let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_LEN + 1));
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
        assert_rows!(matches!(token(&headers(values)), Err(AuthError::Unauthenticated(_))) => true, "{values:?}");
    }
}

#[test]
fn forbidden_response_names_the_permission() {
    let message = forbidden("system:serviceaccount:a:b", Operation::Download, "x");
    assert_rows! {
        message => "system:serviceaccount:a:b is not allowed to get /bundles/x.tgz; an admin grants it \
         with \"kubectl create clusterrolebinding <name> --clusterrole=bundle-reader --serviceaccount=a:b\"";
    }
    let message = forbidden("jane", Operation::ReadUpload, "x");
    assert_rows! {
        forbidden("jane", Operation::Upload, "x") =>
        "jane is not allowed to update bundles.core.rukpak.io/content of Bundle x; an admin grants it for this Bundle with \"kubectl \
         create clusterrole <role> --verb=update --resource=bundles.core.rukpak.io/content --resource-name=x\" and \"kubectl \
         create clusterrolebinding <name> --clusterrole=<role> --user=jane\", or for all Bundles with \"kubectl create \
         clusterrolebinding <name> --clusterrole=bundle-uploader --user=jane\"";
        message.starts_with("jane is not allowed to get bundles.core.rukpak.io/content of Bundle x;") => true, "{message}";
    }
}

#[test]
fn permission_checks_name_one_bundle() {
    for (operation, permission, path, verb, is_deprecated) in ::tests::rows![
        Operation::Download, Permission::Url, "/bundles/x.tgz", "get" => false;
        Operation::ReadUpload, Permission::Url, "/uploads/x.tgz", "get" => true;
        Operation::Upload, Permission::Url, "/uploads/x.tgz", "update" => true;
        Operation::ReadUpload, Permission::Content, "x", "get" => false;
        Operation::Upload, Permission::Content, "x", "update" => false;
    ] {
        assert!(operation.permissions().contains(&permission));
        assert_eq!(operation.is_deprecated(permission), is_deprecated);
        let spec = attributes(operation, permission, "x");
        let url = spec.non_resource_attributes.map(|url| (url.path, url.verb));
        let content = spec.resource_attributes.map(|content| {
            assert_eq!(content.group.as_deref(), Some("core.rukpak.io"));
            assert_eq!(content.resource.as_deref(), Some("bundles"));
            assert_eq!(content.subresource.as_deref(), Some("content"));
            assert_eq!(content.namespace, None);
            (content.name, content.verb)
        });
        assert_rows! {
            [url, content].into_iter().flatten().collect::<Vec<_>>()
                => [(Some(path.to_owned()), Some(verb.to_owned()))], "{operation:?} {permission:?}";
        }
    }
}

#[test]
fn a_denial_counts_more_than_an_allowance() {
    let status = |allowed, denied| with!(SubjectAccessReviewStatus::default() => allowed: allowed, denied: denied);
    assert_each!(|status, may| is_allowed(status.as_ref()) => may;
        None => false;
        Some(status(false, None)) => false;
        Some(status(true, None)) => true;
        Some(status(true, Some(false))) => true;
        Some(status(true, Some(true))) => false;
    );
}

#[test]
fn cached_answers_expire_and_are_bounded() {
    let answers = TtlCache::new(2, Duration::from_secs(10));
    let start = Instant::now();
    let get = |key, seconds| answers.get(&key, start + Duration::from_secs(seconds));
    answers.put(1, true, start);
    answers.put(2, false, start);
    assert_eq!((get(1, 0), get(2, 9)), (Some(true), Some(false)));
    answers.put(3, true, start);
    assert_rows!((get(1, 0), get(2, 0), get(3, 0)) => (None, Some(false), Some(true)));
    assert_eq!((get(2, 10), get(3, 10)), (None, None));
    assert_eq!((get(2, 0), get(3, 0)), (None, None));
}
