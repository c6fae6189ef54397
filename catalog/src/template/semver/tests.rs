use super::*;
use crate::testing::{has, list};

const BOTH: Channels = Channels {
    major: true,
    minor: true,
    preferred: Stream::Minor,
};
const MINOR: Channels = with!(Channels, major: false; ..BOTH);
const MAJOR: Channels = with!(Channels, minor: false, preferred: Stream::Major; ..BOTH);

/// Returns bundles for versions that are separated by spaces; the name of a bundle is its version.
fn listed(versions: &str) -> Vec<ListedBundle> {
    let listed = versions.split_whitespace().map(|version| ListedBundle {
        name: version.to_owned(),
        version: version.parse().unwrap(),
    });
    let mut listed: Vec<_> = listed.collect();
    listed.sort_by(|a, b| a.version.cmp_precedence(&b.version));
    listed
}

/// Formats the default channel, and a line for each channel: `1.0.0 | 1.1.0 > 1.0.0 - 0.9.0` replaces the first and
/// skips the second one.
fn drawn(lists: [&str; 3], options: Channels) -> (String, Vec<String>) {
    let (default, channels) = graph("tide", &lists.map(listed), options).unwrap();
    let lines = channels.iter().map(|channel| {
        assert_eq!(channel.package, "tide");
        let entries = channel.entries.iter().flatten().map(|entry| {
            assert_eq!(entry.skip_range, None);
            let replaces = list(&entry.replaces, |name| format!(" > {name}"));
            let skips = entry.skips.join(" ");
            let skips = list(entry.skips.first(), |_| format!(" - {skips}"));
            format!("{}{replaces}{skips}", entry.name)
        });
        let entries = entries.collect::<Vec<_>>().join(" | ");
        format!("{}: {entries}", channel.name)
    });
    (default, lines.collect())
}

#[test]
fn channels_follow_versions() {
    assert_each!(|lists, options, default, channels|
        drawn(lists, options) => (default.to_owned(), channels.iter().map(ToString::to_string).collect());
        ["", "", "1.0.0"], MINOR, "stable-v1.0" => &["stable-v1.0: 1.0.0"][..];
        ["1.0.0", "", ""], MAJOR, "candidate-v1" => &["candidate-v1: 1.0.0"];
        // Within a minor version, the last one skips the others, in the order of their names.
        ["", "1.0.10 1.0.2 1.0.9", ""], MINOR, "fast-v1.0" => &["fast-v1.0: 1.0.2 | 1.0.9 | 1.0.10 - 1.0.2 1.0.9"];
        // The next minor version replaces the last one of the previous minor version, and skips all others; gaps are
        // ignored.
        ["", "", "1.0.0 1.0.1 1.4.0 1.4.2 1.9.0"], MINOR, "stable-v1.9" => &[
            "stable-v1.0: 1.0.0 | 1.0.1 - 1.0.0", "stable-v1.4: 1.4.0 | 1.4.2 > 1.0.1 - 1.0.0 1.4.0",
            "stable-v1.9: 1.9.0 > 1.4.2 - 1.0.0 1.0.1 1.4.0",
        ];
        ["", "", "1.0.0 1.0.1 1.4.0 1.4.2 1.9.0"], MAJOR, "stable-v1"
            => &["stable-v1: 1.0.0 | 1.0.1 - 1.0.0 | 1.4.0 | 1.4.2 > 1.0.1 - 1.0.0 1.4.0 | 1.9.0 > 1.4.2 - 1.0.0 1.0.1 1.4.0"];
        // No edge leads from one major version to another.
        ["", "", "0.9.0 1.0.0 1.1.0 2.0.0 10.0.0"], MAJOR, "stable-v10"
            => &["stable-v0: 0.9.0", "stable-v1: 1.0.0 | 1.1.0 > 1.0.0", "stable-v10: 10.0.0", "stable-v2: 2.0.0"];
        // Pre-releases precede their release, and numeric identifiers are compared as numbers.
        ["1.0.0-rc.10 1.0.0 1.0.0-rc.9 1.0.0-alpha 1.1.0-rc.1", "", ""], MINOR, "candidate-v1.1" => &[
            "candidate-v1.0: 1.0.0-alpha | 1.0.0-rc.9 | 1.0.0-rc.10 | 1.0.0 - 1.0.0-alpha 1.0.0-rc.10 1.0.0-rc.9",
            "candidate-v1.1: 1.1.0-rc.1 > 1.0.0 - 1.0.0-alpha 1.0.0-rc.10 1.0.0-rc.9",
        ];
        // Lists are independent; a bundle can be in several.
        ["1.0.0 1.1.0 2.0.0", "1.0.0 1.1.0", "1.0.0"], BOTH, "stable-v1.0" => &[
            "candidate-v1: 1.0.0 | 1.1.0 > 1.0.0", "candidate-v1.0: 1.0.0", "candidate-v1.1: 1.1.0 > 1.0.0",
            "candidate-v2: 2.0.0", "candidate-v2.0: 2.0.0", "fast-v1: 1.0.0 | 1.1.0 > 1.0.0", "fast-v1.0: 1.0.0",
            "fast-v1.1: 1.1.0 > 1.0.0", "stable-v1: 1.0.0", "stable-v1.0: 1.0.0",
        ];
        // Build metadata is only part of the name.
        ["", "", "1.0.0+a 1.1.0+b"], MINOR, "stable-v1.1" => &["stable-v1.0: 1.0.0+a", "stable-v1.1: 1.1.0+b > 1.0.0+a"];
        ["", "", ""], BOTH, "" => &[];
    );
}

#[test]
fn default_channel_is_the_most_stable_and_newest() {
    let preferred = |preferred| Channels { preferred, ..BOTH };
    assert_each!(|lists, options, expected| drawn(lists, options).0 => expected;
        ["9.0.0", "8.0.0", "1.0.0"], MINOR => "stable-v1.0";
        ["9.0.0", "8.0.0", ""], MAJOR => "fast-v8";
        ["", "", "1.0.0 2.0.0"], preferred(Stream::Major) => "stable-v2";
        ["", "", "1.0.0 2.0.0"], preferred(Stream::Minor) => "stable-v2.0";
        // A channel is ranked by its first version; a later minor version ranks above its major version.
        ["", "", "1.0.0 1.1.0"], preferred(Stream::Major) => "stable-v1.1";
        ["", "", "1.0.0 1.0.1"], preferred(Stream::Major) => "stable-v1";
        // As in opm.
        ["0.0.0", "", ""], MINOR => "candidate-v0.0";
        ["0.0.0-rc.1", "", ""], MINOR => "";
        ["", "0.0.0-rc.1", ""], MINOR => "fast-v0.0";
        ["0.0.0-rc.1 0.1.0", "", ""], MINOR => "candidate-v0.1";
    );
}

#[test]
fn edges_are_bounded() {
    let mut left = 10;
    let versions = listed("1.0.0 1.1.0 1.2.0 1.3.0 1.4.0");
    assert!(edges(&versions, &mut left).is_ok());
    assert_eq!(left, 0);
    has(edges(&versions, &mut left).unwrap_err(), "list fewer");
}
