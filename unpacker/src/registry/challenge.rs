//! What a registry asks for when it answers with 401: the `WWW-Authenticate` headers.

use http::{HeaderMap, header::WWW_AUTHENTICATE};
use http_auth::parser::ChallengeParser;

/// More than any registry sends; a server that sends more is not listened to any further.
const MAX_CHALLENGES: usize = 8;
const MAX_HEADER: usize = 8 << 10;

/// How a registry wants to be told who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// By a token, which a service gives.
    Bearer {
        /// The service's URL, as sent.
        realm: String,
        /// What the service calls the registry.
        service: Option<String>,
    },
    /// By name and password.
    Basic,
}

/// The challenge to take up: a token if that is offered. Others, and what cannot be read, are passed over.
pub(crate) fn choose(headers: &HeaderMap) -> Option<Challenge> {
    let mut found = None;
    for header in headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .take(MAX_CHALLENGES)
    {
        let Some(text) = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER) else {
            continue;
        };
        // Stops at the first thing that is no challenge; those before it count.
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
                found = Some(Challenge::Basic);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        time::{Duration, Instant},
    };

    use http::HeaderValue;

    use super::*;

    fn chosen(headers: &[&str]) -> Option<Challenge> {
        let values = headers
            .iter()
            .map(|text| (WWW_AUTHENTICATE, HeaderValue::from_str(text).unwrap()));
        choose(&values.collect())
    }

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        }
    }

    #[test]
    fn a_token_is_chosen_before_a_password_and_all_else_is_passed_over() {
        let full = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull""#;
        let long = format!("Bearer realm=\"{}\"", "x".repeat(MAX_HEADER));
        let many = "Other a=b, ".repeat(MAX_CHALLENGES) + "Basic realm=x";
        for (headers, challenge) in [
            (
                vec![full],
                Some(bearer(
                    "https://auth.example/token",
                    Some("registry.example"),
                )),
            ),
            (vec![r#"bearer REALM="r""#], Some(bearer("r", None))),
            (vec!["Bearer realm=plain"], Some(bearer("plain", None))),
            (
                vec![r#"Bearer realm="a\"b\\c, Basic realm=x""#],
                Some(bearer(r#"a"b\c, Basic realm=x"#, None)),
            ),
            (vec![r#"Basic realm="x""#], Some(Challenge::Basic)),
            (vec!["Basic"], Some(Challenge::Basic)),
            (
                vec![r#"Basic realm="x", Bearer realm="r",service="s""#],
                Some(bearer("r", Some("s"))),
            ),
            (
                vec![r#"Basic realm="x""#, r#"Bearer realm="r""#],
                Some(bearer("r", None)),
            ),
            (
                vec![r#"Negotiate, Digest realm="x", nonce="n", Basic realm="y""#],
                Some(Challenge::Basic),
            ),
            (
                vec![r#"Basic realm="x", Bearer realm="unclosed"#],
                Some(Challenge::Basic),
            ),
            (vec!["Bearer service=x"], None),
            (vec!["Negotiate"], None),
            (vec![""], None),
            (vec![",,, ,"], None),
            (vec!["="], None),
            (vec![&long], None),
            (vec![&many], None),
            (vec![], None),
        ] {
            assert_eq!(chosen(&headers), challenge, "{headers:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(
            WWW_AUTHENTICATE,
            HeaderValue::from_bytes(b"Basic realm=\"\xff\xfe\"").unwrap(),
        );
        assert_eq!(choose(&headers), None);
    }

    #[test]
    fn changed_headers_never_panic() {
        let seconds = env::var("RUKPAK_FUZZ_SECONDS")
            .ok()
            .and_then(|text| text.parse().ok());
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let telling = br#" ,="\abBearerBasicrealm:/&"#;
        let seed =
            br#"Basic realm="x", Bearer realm="https://a/t",service="s",scope="repository:a:pull""#;
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |end: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % end.max(1) as u64).unwrap()
        };
        let (mut rounds, mut chosen) = (0, 0);
        while until.map_or(rounds < 50_000, |until| Instant::now() < until) {
            rounds += 1;
            let mut bytes = seed.to_vec();
            for _ in 0..=below(6) {
                let at = below(bytes.len());
                let byte = telling
                    .get(below(telling.len()))
                    .copied()
                    .unwrap_or_default();
                match below(4) {
                    0 => bytes.truncate(at + 1),
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.drain(at..(at + below(9)).min(bytes.len()))),
                    _ => bytes.splice(at..=at, [byte]).for_each(drop),
                }
                if bytes.is_empty() {
                    bytes.push(b' ');
                }
            }
            let Ok(value) = HeaderValue::from_bytes(&bytes) else {
                continue;
            };
            let mut headers = HeaderMap::new();
            headers.append(WWW_AUTHENTICATE, value);
            if let Some(Challenge::Bearer { realm, .. }) = choose(&headers) {
                assert!(realm.len() <= bytes.len());
                chosen += 1;
            }
        }
        assert!(
            chosen > rounds / 20,
            "{chosen} of {rounds} were read: the changes are too wild to test anything"
        );
    }
}
