//! Hash of the desired spec, by which changes are detected.

use serde_json::Value;
use sha2::{Digest as _, Sha224};

/// Returns the SHA-224 of a spec in base 62, which is valid as a label value.
pub(super) fn hash(spec: &Value) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = Sha224::digest(format!("{spec}\n")).to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0u32;
        for byte in &mut number {
            let value = remainder << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or_default();
            remainder = value % 62;
        }
        digits.extend(DIGITS.get(remainder as usize));
    }
    digits.reverse();
    String::from_utf8(digits).unwrap_or_default()
}
