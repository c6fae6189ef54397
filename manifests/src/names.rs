//! Validation and generation of names.

use sha2::{Digest, Sha256};

/// Maximum length of a name that also fits into a label value.
pub const SHORT: usize = 63;
/// Environment variable for the name of an operator's OperatorCondition.
pub const OPERATOR_CONDITION_VARIABLE: &str = "OPERATOR_CONDITION_NAME";

/// Validates a DNS-1123 subdomain, the rule for most object names.
///
/// # Errors
/// Returns the problem in the API server's terms.
pub fn dns_subdomain(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("must not be empty");
    }
    if name.len() > 253 {
        return Err("must be no more than 253 characters");
    }
    if !name.split('.').all(is_dns_label) {
        return Err(
            "must consist of lower case letters, digits, '-' and '.', and start and end with a letter or digit",
        );
    }
    Ok(())
}

/// Validates a DNS-1123 label, the rule for namespaces and container names.
///
/// # Errors
/// Returns the problem in the API server's terms.
pub fn dns_label(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("must not be empty");
    }
    if name.len() > 63 {
        return Err("must be no more than 63 characters");
    }
    if !is_dns_label(name) {
        return Err(
            "must consist of lower case letters, digits and '-', and start and end with a letter or digit",
        );
    }
    Ok(())
}

/// Validates a DNS-1035 label, the rule for Services.
///
/// # Errors
/// Returns the problem in the API server's terms.
pub fn dns_1035_label(name: &str) -> Result<(), &'static str> {
    dns_label(name)?;
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err("must start with a letter");
    }
    Ok(())
}

/// Validates a path segment, the rule for RBAC objects, whose names may be `system:node` and similar.
///
/// # Errors
/// Returns the problem in the API server's terms.
pub fn path_segment(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("must not be empty"),
        "." | ".." => Err("may not be '.' or '..'"),
        _ if name.contains(['/', '%']) => Err("may not contain '/' or '%'"),
        _ => Ok(()),
    }
}

/// Percent-encodes a name as a part of a URL path. Names of roles may contain nearly any character.
pub fn percent_encoded(name: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Validates a label value.
///
/// # Errors
/// Returns the problem in the API server's terms.
pub fn label_value(value: &str) -> Result<(), &'static str> {
    if value.len() > 63 {
        return Err("must be no more than 63 characters");
    }
    if !value.is_empty() && !is_qualified(value) {
        return Err(
            "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit",
        );
    }
    Ok(())
}

/// Validates the key of a label, or the lowercased key of an annotation: an optional DNS subdomain with a slash, and a name.
///
/// # Errors
/// Returns the problem in the API server's terms.
pub fn qualified(key: &str) -> Result<(), &'static str> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            dns_subdomain(prefix).map_err(|_| "must have a DNS subdomain before '/'")?;
            name
        }
        None => key,
    };
    if name.is_empty() || name.len() > 63 {
        return Err("must have a name of 1 to 63 characters");
    }
    if !is_qualified(name) {
        return Err(
            "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit",
        );
    }
    Ok(())
}

fn is_dns_label(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_qualified(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Generates a name `<readable part>-<hash>`: a DNS-1123 subdomain of at most `max` bytes, which is the same on every
/// machine and in every release. The hash covers all parts of `distinct` in order, which therefore must contain everything
/// that makes the object distinct.
///
/// Only the readable part is truncated, never the hash. Truncation never leaves `-` or `.` before the hash (rukpak's
/// `generateName` fails at both).
///
/// ```
/// use manifests::names::{SHORT, generate_name};
/// let name = generate_name("Argo CD.v1.2", &["ClusterRole", "argocd"], SHORT);
/// assert!(name.starts_with("argo-cd.v1.2-") && name.len() <= SHORT);
/// ```
pub fn generate_name(readable: &str, distinct: &[&str], max: usize) -> String {
    let hash = hash(distinct);
    let mut name = String::with_capacity(max);
    for c in readable.chars() {
        let c = c.to_ascii_lowercase();
        name.push(if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        });
        if name.len() + 1 + hash.len() >= max {
            break;
        }
    }
    // Dots at the edges, or beside another dot or a dash, would enclose an invalid DNS label.
    let mut clean = String::with_capacity(max);
    for label in name
        .split('.')
        .map(|label| label.trim_matches('-'))
        .filter(|label| !label.is_empty())
    {
        if !clean.is_empty() {
            clean.push('.');
        }
        clean.push_str(label);
    }
    if clean.is_empty() {
        return hash;
    }
    format!("{clean}-{hash}")
}

/// Returns 64 bits of SHA-256 as 13 lowercase letters and digits. The length precedes each part, so that `["ab", "c"]` and
/// `["a", "bc"]` differ.
pub fn hash(parts: &[&str]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part.as_bytes());
    }
    let digest = sha.finalize();
    let mut number = digest
        .iter()
        .take(8)
        .fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut text = Vec::with_capacity(13);
    for _ in 0..13 {
        let digit = u8::try_from(number % 36).unwrap_or_default();
        text.push(if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        });
        number /= 36;
    }
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: convert-10
    #[test]
    fn generated_names_are_valid_for_every_input() {
        let long = "a".repeat(300);
        let readable = "- ... foo. foo-.bar Foo_Bar é a.-b keda.v2.17.0-keda-olm-operator";
        let all = readable.split(' ').chain(["", &long]).map(str::to_owned);
        for text in all.chain((40..70).map(|length| format!("{}.-b", "a".repeat(length)))) {
            for max in [20, 30, 63] {
                let name = generate_name(&text, &[&text], max);
                assert_rows!((name.len() <= max, dns_subdomain(&name)) => (true, Ok(())), "{name}");
            }
        }
    }

    /// These names exist in clusters: a change would orphan installed objects.
    #[test]
    fn names_stay_the_same_across_releases() {
        assert_rows!(generate_name("etcd.v1.0.0-etcd", &["etcd.v1.0.0", "ClusterRole"], SHORT) => "etcd.v1.0.0-etcd-62chzsrbwkgp1");
        let expected = "longlonglonglonglonglonglonglonglonglonglonglongl-gt33uehk7gng3";
        assert_eq!(generate_name(&"long".repeat(30), &[], SHORT), expected);
        // The hash includes the boundaries of the parts.
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }

    #[test]
    fn name_check_equals_that_of_the_api_server() {
        // The last name is empty.
        let names = "a a.b 1a A a_b -a a- a..b system:node a/b .. ";
        let accepted = [dns_subdomain, dns_label, dns_1035_label, path_segment].map(|check| {
            let accepted = names.split(' ').filter(|name| check(name).is_ok());
            accepted.collect::<Vec<_>>().join(" ")
        });
        assert_rows!(accepted => ["a a.b 1a", "a 1a", "a", "a a.b 1a A a_b -a a- a..b system:node"]);
        for (value, is_legal) in [("", true), ("a_B.c", true), ("-", false)] {
            assert_eq!(label_value(value).is_ok(), is_legal, "{value:?}");
        }
        for (name, is_legal) in [("a.b/C_d", true), ("/c", false), ("a/b/c", false)] {
            assert_eq!(qualified(name).is_ok(), is_legal, "{name:?}");
        }
    }
}
