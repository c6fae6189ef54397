//! Quantities (`500m`, `2Gi`), parsed and printed like `k8s.io/apimachinery/pkg/api/resource`.

use serde_json::{Number, Value};

use super::{
    Type,
    scalar::{self, Scalar},
};

const NANO: i32 = -9;

#[derive(Clone, Copy, PartialEq)]
enum Format {
    DecimalExponent,
    DecimalSi,
    BinarySi,
}

/// Returns the bytes of a quantity of memory, rounded up: `30Mi`, `1.5Gi`, `100M`, `1e8`, `1500m`. Returns `None` if the
/// quantity is malformed or too large, has a sign, or has more than 18 characters before its suffix.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let number = text.get(..end.unwrap_or(text.len()))?;
    if number.len() > 18 || number.trim_matches('.').is_empty() {
        return None;
    }
    let parts = parts(text)?;
    let digits: u128 = format!("0{}{}", parts.whole, parts.fraction).parse().ok()?;
    let base: u128 = match parts.format {
        Format::BinarySi => 2,
        Format::DecimalExponent | Format::DecimalSi => 10,
    };
    let power = base.checked_pow(parts.exponent.unsigned_abs())?;
    let (multiplier, divisor) = match parts.exponent {
        0.. => (power, 1),
        _ => (1, power),
    };
    let below = 10_u128.checked_pow(u32::try_from(parts.fraction.len()).ok()?)?;
    let product = digits.checked_mul(multiplier)?;
    u64::try_from(product.div_ceil(below.checked_mul(divisor)?)).ok()
}

/// Converts a quantity that the manifest writes as a number: Go prints it as a string.
pub(super) fn of_number(number: &Number) -> Scalar {
    let text = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) => go_float(float),
        (None, None) => number.to_string(),
    };
    match printed(&text) {
        Some(printed) => Scalar::Normalized(Value::from(printed)),
        None => Scalar::Mismatch(scalar::expected(Type::Quantity)),
    }
}

/// Converts a quantity that the manifest writes as a string: Go prints it in its canonical form.
pub(super) fn of_text(text: &str) -> Scalar {
    match printed(text.trim()) {
        Some(printed) if printed == text => Scalar::Valid,
        Some(printed) => Scalar::Normalized(Value::from(printed)),
        None => Scalar::Mismatch(scalar::expected(Type::Quantity)),
    }
}

/// Formats a float64 like Go's `encoding/json`.
fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let exponent = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .unwrap_or_default();
    if (-6..21).contains(&exponent) || float == 0.0 {
        float.to_string()
    } else if exponent > 0 {
        scientific.replace('e', "e+")
    } else {
        scientific
    }
}

struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    exponent: i32,
    format: Format,
}

/// Returns the output of Go for the text, or `None` if Go fails.
fn printed(text: &str) -> Option<String> {
    let parts = parts(text)?;
    let scale = match parts.format {
        Format::BinarySi => 0,
        Format::DecimalExponent | Format::DecimalSi => parts.exponent,
    }
    .checked_sub(i32::try_from(parts.fraction.len()).ok()?)?;
    if keeps_text(&parts, scale) {
        return Some(text.to_owned());
    }
    // Numbers beyond 38 digits do not justify a big integer type; they are left unchanged.
    Some(canonical(&parts, scale).unwrap_or_else(|| text.to_owned()))
}

/// Implements `parseQuantityString` and `interpret`.
fn parts(text: &str) -> Option<Parts<'_>> {
    if text.is_empty() {
        return None;
    }
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = digits(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    let (exponent, format) = match suffix {
        "" => (0, Format::DecimalSi),
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (exponent, Format::DecimalExponent)
        }
    };
    Some(Parts {
        negative,
        whole: whole.trim_start_matches('0'),
        fraction,
        exponent,
        format,
    })
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Reports whether Go prints the text unchanged: the number fits a 64-bit integer, and its form looks canonical.
fn keeps_text(parts: &Parts<'_>, scale: i32) -> bool {
    let whole = if parts.whole.is_empty() {
        "0"
    } else {
        parts.whole
    };
    let places = |digits: usize| i32::try_from(digits).unwrap_or(i32::MAX);
    let (precision, factor) = match parts.format {
        Format::BinarySi if parts.fraction.is_empty() => (
            14 - places(whole.len()) - parts.exponent * 3 / 10,
            1_i64.checked_shl(parts.exponent.unsigned_abs()),
        ),
        Format::BinarySi => (-1, None),
        _ => (
            18_i32.saturating_sub(places(whole.len() + parts.fraction.len())),
            Some(1),
        ),
    };
    if precision < 0 || scale < NANO {
        return false;
    }
    let shifted = format!("{whole}{}", parts.fraction);
    let (Ok(value), Some(factor)) = (shifted.parse::<i64>(), factor) else {
        return false;
    };
    if value.checked_mul(factor).is_none() {
        return false;
    }
    match parts.format {
        Format::BinarySi => value & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    }
}

/// Implements `CanonicalizeBytes`; returns `None` if the number is out of range.
fn canonical(parts: &Parts<'_>, mut scale: i32) -> Option<String> {
    let all = format!("0{}{}", parts.whole, parts.fraction);
    let mut amount: i128 = all.parse().ok()?;
    if amount == 0 {
        return Some("0".into());
    }
    let mut format = parts.format;
    if parts.format == Format::BinarySi {
        // Go caps only binary quantities.
        let max = i128::from(i64::MAX);
        amount = amount.saturating_mul(1_i128.checked_shl(parts.exponent.unsigned_abs())?);
        let places = 10_i128.checked_pow(scale.unsigned_abs());
        if places.is_some_and(|places| amount / places >= max) {
            (amount, scale) = (max, 0);
        }
    }
    // Amounts below a nano are rounded up to it.
    while scale < NANO {
        // Every amount has fewer digits.
        scale = scale.max(NANO - 40);
        amount = (amount + 9) / 10;
        scale += 1;
    }
    (amount, scale) = without_factors(amount, 10, scale);

    if format == Format::BinarySi {
        let whole = u32::try_from(scale)
            .ok()
            .and_then(|scale| amount.checked_mul(10_i128.checked_pow(scale)?));
        if let Some(whole) = whole.filter(|whole| *whole >= 1024) {
            let (amount, times) = without_factors(whole, 1024, 0);
            let suffix =
                ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(usize::try_from(times).ok()?)?;
            return Some(print(parts.negative, amount, suffix));
        }
        // Small amounts and fractions use decimal suffixes.
        format = Format::DecimalSi;
    }

    while scale.rem_euclid(3) != 0 {
        amount = amount.checked_mul(10)?;
        scale -= 1;
    }
    let suffix = match (format, scale) {
        (_, 0) => String::new(),
        (Format::DecimalExponent, _) => format!("e{scale}"),
        _ => ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
            .get(usize::try_from(scale / 3 + 3).ok()?)?
            .to_string(),
    };
    Some(print(parts.negative, amount, &suffix))
}

fn without_factors(mut amount: i128, base: i128, mut times: i32) -> (i128, i32) {
    while amount != 0 && amount % base == 0 {
        amount /= base;
        times += 1;
    }
    (amount, times)
}

fn print(negative: bool, amount: i128, suffix: &str) -> String {
    format!("{}{amount}{suffix}", if negative { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line is a text and its output in apimachinery 0.36.3. Texts that Go prints as another amount
    /// (`1000E` becomes `1`) are not among them.
    #[test]
    fn quantities_print_as_in_go() {
        let lines = include_str!("quantity/go.txt").lines();
        for (text, expected) in lines.filter_map(|line| line.split_once('\t')) {
            assert_rows!(printed(text).unwrap_or_else(|| "error".into()) => expected, "{text}");
        }
    }

    #[test]
    fn quantities_out_of_range_are_unchanged() {
        let texts = "1000E 1e60 123456789012345678901234567890123456789012 1e2000000001";
        assert_rows!(texts.split(' ').find(|text| printed(text).as_deref() != Some(*text)) => None);
        assert_eq!(printed("1e-2000000000").as_deref(), Some("1e-9"));
    }

    #[test]
    fn numbers_become_text_as_in_go() {
        assert_each!(|float, expected| go_float(float) => expected;
            0.0 => "0";
            0.5 => "0.5";
            -2.25 => "-2.25";
            1e-6 => "0.000001";
            1e-7 => "1e-7";
            1.5e-9 => "1.5e-9";
            1e16 => "10000000000000000";
            1e20 => "100000000000000000000";
            1e21 => "1e+21";
            1.25e22 => "1.25e+22";
        );
    }
}
