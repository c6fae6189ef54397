//! Authentication challenges: the `WWW-Authenticate` headers of a response with status 401.

use http::{HeaderMap, header::WWW_AUTHENTICATE};
use http_auth::parser::ChallengeParser;

/// Maximum number of challenges that are read. Registries send fewer; further challenges are ignored.
const MAX_CHALLENGES: usize = 8;
const MAX_HEADER: usize = 8 << 10;

/// An authentication scheme that a registry requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// Bearer token, issued by a token service.
    Bearer {
        /// URL of the token service, as sent by the registry.
        realm: String,
        /// Name of the registry at the token service.
        service: Option<String>,
    },
    /// User name and password.
    Basic,
}

/// Chooses the challenge to answer. Bearer is preferred over Basic; other schemes and malformed headers are skipped.
pub(crate) fn choose(headers: &HeaderMap) -> Option<Challenge> {
    let mut fallback = None;
    for header in headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .take(MAX_CHALLENGES)
    {
        let Some(text) = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER) else {
            continue;
        };
        // Parsing stops at the first malformed challenge. The challenges before it are used.
        for challenge in ChallengeParser::new(text)
            .map_while(Result::ok)
            .take(MAX_CHALLENGES)
        {
            let parameter = |name: &str| {
                let mut parameters = challenge.params.iter();
                let (_, value) = parameters.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
                Some(value.to_unescaped())
            };
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                if let Some(realm) = parameter("realm") {
                    return Some(Challenge::Bearer {
                        realm,
                        service: parameter("service"),
                    });
                }
            } else if challenge.scheme.eq_ignore_ascii_case("basic") {
                fallback = Some(Challenge::Basic);
            }
        }
    }
    fallback
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn chosen(headers: &[&str]) -> Option<Challenge> {
        let values = headers.iter();
        let values = values.map(|text| (WWW_AUTHENTICATE, HeaderValue::from_str(text).unwrap()));
        choose(&values.collect())
    }

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        }
    }

    #[test]
    fn token_challenge_precedes_basic_and_others_are_skipped() {
        let full = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull""#;
        let long = format!("Bearer realm=\"{}\"", "x".repeat(MAX_HEADER));
        let many = "Other a=b, ".repeat(MAX_CHALLENGES) + "Basic realm=x";
        assert_each!(|headers, challenge| chosen(&headers) => challenge;
            vec![full] => Some(bearer("https://auth.example/token", Some("registry.example")));
            vec![r#"bearer REALM="r""#] => Some(bearer("r", None));
            vec!["Bearer realm=plain"] => Some(bearer("plain", None));
            vec![r#"Bearer realm="a\"b\\c, Basic realm=x""#] => Some(bearer(r#"a"b\c, Basic realm=x"#, None));
            vec![r#"Basic realm="x""#] => Some(Challenge::Basic);
            vec!["Basic"] => Some(Challenge::Basic);
            vec![r#"Basic realm="x", Bearer realm="r",service="s""#] => Some(bearer("r", Some("s")));
            vec![r#"Basic realm="x""#, r#"Bearer realm="r""#] => Some(bearer("r", None));
            vec![r#"Negotiate, Digest realm="x", nonce="n", Basic realm="y""#] => Some(Challenge::Basic);
            vec![r#"Basic realm="x", Bearer realm="unclosed"#] => Some(Challenge::Basic);
            vec![] => None;
        );
        let others = "Bearer|Bearer service=x|Negotiate||,,, ,|=|\"".split('|');
        let mut others = others.chain([&*long, &many]);
        assert_eq!(others.find(|header| chosen(&[header]).is_some()), None);
        let odd = HeaderValue::from_bytes(b"Basic realm=\"\xff\xfe\"").unwrap();
        assert_rows!(choose(&[(WWW_AUTHENTICATE, odd)].into_iter().collect()) => None);
    }

    #[test]
    fn fuzz_changed_headers_are_read() {
        const SEED: &[u8] =
            br#"Basic realm="x", Bearer realm="https://a/t",service="s",scope="repository:a:pull""#;
        ::tests::fuzz::fuzz(50_000, 5, |random| {
            let mut bytes = SEED.to_vec();
            for _ in 0..=random.below(6) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => drop(bytes.drain(at..(at + random.below(9)).min(bytes.len()))),
                    _ => random.change(&mut bytes, br#" ,="\abBearerBasicrealm:/&"#),
                }
                if bytes.is_empty() {
                    bytes.push(b' ');
                }
            }
            let Ok(value) = HeaderValue::from_bytes(&bytes) else {
                return 0;
            };
            let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, value)]);
            let Some(Challenge::Bearer { realm, .. }) = choose(&headers) else {
                return 0;
            };
            assert!(realm.len() <= bytes.len());
            1
        });
    }
}
