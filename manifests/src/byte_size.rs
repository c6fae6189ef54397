//! Parser of sizes.
//!
//! ```
//! assert_eq!(manifests::byte_size::bytes("64Ki"), Ok(65536));
//! ```

/// Parses a size like Kubernetes: a number of bytes, or a number with a unit.
///
/// # Errors
/// Returns an error if the text is malformed, or the size exceeds 64 bits.
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    const PROBLEM: &str =
        "use a number of bytes, or a number with the suffix Ki, Mi, Gi, k, M or G";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.strip_prefix(digits) {
        Some("") => 1,
        Some("k") => 1000,
        Some("M") => 1000 * 1000,
        Some("G") => 1000 * 1000 * 1000,
        Some("Ki") => 1 << 10,
        Some("Mi") => 1 << 20,
        Some("Gi") => 1 << 30,
        _ => return Err(PROBLEM),
    };
    let number: u64 = digits.parse().map_err(|_| PROBLEM)?;
    number.checked_mul(unit).ok_or("the size exceeds 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        assert_each!(|text, expected| bytes(text).ok() => expected;
            "0" => Some(0);
            "512" => Some(512);
            "5k" => Some(5000);
            "64Ki" => Some(65536);
            "64Mi" => Some(64 << 20);
            "2Gi" => Some(2 << 30);
            "1M" => Some(1_000_000);
        );
        let mut others = ",Mi,1.5Mi,-1,1mi,1 Mi,18446744073709551615Gi".split(',');
        assert_eq!(others.find(|text| bytes(text).is_ok()), None);
    }
}
