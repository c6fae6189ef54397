//! Memory quantities in the formats of Kubernetes and of the Go runtime.

pub(super) use manifests::go_types::quantity::parse_bytes;

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
        assert_each!(|text, expected| parse_bytes(text).map(go_limit).as_deref() => Some(expected);
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
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
