//! Ages in tables. Pure; no I/O.

/// Formats an age in seconds as kubectl does: two units while the first one is small.
pub(crate) fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = seconds.max(0); // the clocks may differ
    let two = |unit: (i64, char), smaller: (i64, char)| {
        let whole = seconds / unit.0;
        match seconds % unit.0 / smaller.0 {
            0 => format!("{whole}{}", unit.1),
            rest => format!("{whole}{}{rest}{}", unit.1, smaller.1),
        }
    };
    if seconds < 2 * MINUTE {
        format!("{seconds}s")
    } else if seconds < 10 * MINUTE {
        two((MINUTE, 'm'), (1, 's'))
    } else if seconds < 3 * HOUR {
        format!("{}m", seconds / MINUTE)
    } else if seconds < 8 * HOUR {
        two((HOUR, 'h'), (MINUTE, 'm'))
    } else if seconds < 2 * DAY {
        format!("{}h", seconds / HOUR)
    } else if seconds < 8 * DAY {
        two((DAY, 'd'), (HOUR, 'h'))
    } else if seconds < 2 * YEAR {
        format!("{}d", seconds / DAY)
    } else if seconds < 8 * YEAR {
        two((YEAR, 'y'), (DAY, 'd'))
    } else {
        format!("{}y", seconds / YEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        ::tests::assert_rows! {
            age(-5) => "0s";
            age(0) => "0s";
            age(119) => "119s";
            age(120) => "2m";
            age(125) => "2m5s";
            age(600) => "10m";
            age(3 * 3600 - 1) => "179m";
            age(3 * 3600) => "3h";
            age(3 * 3600 + 60) => "3h1m";
            age(8 * 3600) => "8h";
            age(47 * 3600) => "47h";
            age(49 * 3600) => "2d1h";
            age(9 * 86400) => "9d";
            age(800 * 86400) => "2y70d";
            age(10 * 365 * 86400) => "10y";
            age(i64::MAX) => "292471208677y";
        }
    }
}
