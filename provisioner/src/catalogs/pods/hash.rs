//! By which it is known whether what was declared has changed.

use serde_json::Value;
use sha2::{Digest as _, Sha224};

/// SHA-224 of a spec, in digits and letters, so that it fits into a label.
pub(super) fn hash(spec: &Value) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = Sha224::digest(format!("{spec}\n")).to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|it| *it != 0) {
        let mut rest = 0u32;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or_default();
            rest = value % 62;
        }
        digits.extend(DIGITS.get(rest as usize));
    }
    digits.reverse();
    String::from_utf8(digits).unwrap_or_default()
}
