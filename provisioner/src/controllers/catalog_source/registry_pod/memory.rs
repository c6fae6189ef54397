//! Memory quantities in the formats of Kubernetes and of the Go runtime.

/// Returns the bytes of a quantity, rounded up: `30Mi`, `1.5Gi`, `100M`, `1e8`, `1500m`. Returns `None` if the quantity is
/// malformed, negative or too large.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || part.contains('.') || number.len() > 18 {
        return None;
    }
    let (multiplier, divisor) = scale(suffix)?;
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let below = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let product = digits.checked_mul(multiplier)?;
    u64::try_from(product.div_ceil(below.checked_mul(divisor)?)).ok()
}

/// Returns the multiplier and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    let decimal = |power| Some((10u128.pow(power), 1));
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => decimal(3)?,
        "M" => decimal(6)?,
        "G" => decimal(9)?,
        "T" => decimal(12)?,
        "P" => decimal(15)?,
        "E" => decimal(18)?,
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        other => {
            let power: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10u128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, factor) } else { (factor, 1) }
        }
    })
}

/// Returns the value of `GOMEMLIMIT`, in the largest unit without a remainder: `30MiB`.
pub(super) fn go_limit(mut bytes: u64) -> String {
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if bytes == 0 || !bytes.is_multiple_of(1024) {
            break;
        }
        bytes /= 1024;
        unit = next;
    }
    format!("{bytes}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: pod-7
    #[test]
    fn memory_limit_is_converted_to_units_of_go() {
        assert_each!(|text, expected| bytes(text).map(go_limit).as_deref() => Some(expected);
            "30Mi" => "30MiB";
            "1024Mi" => "1GiB";
            "1.5Gi" => "1536MiB";
            "100M" => "100000000B";
            "1e3" => "1000B";
            "2E" => "1953125000000000KiB";
            "1500m" => "2B";
            "0.1" => "1B";
            "0" => "0B";
            ".5Ki" => "512B";
            "2048Gi" => "2TiB";
        );
        let none = "|.|Mi|-1Mi|1.2.3|30MB|30 Mi|999999Ei|1e999|1e|9999999999999999999999";
        for text in none.split('|') {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
