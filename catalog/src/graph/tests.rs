use manifests::version::Version;

use super::*;
use crate::model::{Bundle, Entry};

fn package() -> Package {
    let mut package = Package {
        name: "foo".into(),
        default_channel: "stable".into(),
        ..Package::default()
    };
    let entry = |name: &str, replaces: Option<&str>, skips: &[&str], range: Option<&str>| Entry {
        name: name.into(),
        replaces: replaces.map(str::to_owned),
        skips: skips.iter().map(|it| (*it).to_owned()).collect(),
        skip_range: range.map(str::to_owned),
    };
    let stable = Channel {
        name: "stable".into(),
        deprecation: None,
        entries: vec![
            entry("a", Some("gone"), &[], None),
            entry("b", Some("a"), &[], None),
            entry("c", Some("b"), &["a", "b", "x"], Some(">=0.1.0 <1.0.0")),
        ],
    };
    let old = Channel {
        name: "old".into(),
        deprecation: Some("use stable".into()),
        entries: vec![entry("a", None, &[], None)],
    };
    for (name, minor) in [("a", 1), ("b", 2), ("c", 3)] {
        let bundle = Bundle::new(name, Version::new(0, minor, 0));
        package.bundles.insert(name.into(), bundle);
    }
    package.bundles.get_mut("a").unwrap().deprecation = Some("old".into());
    package.channels.insert("stable".into(), stable);
    package.channels.insert("old".into(), old);
    package
}

#[test]
fn a_channel_is_drawn_in_mermaid() {
    assert_eq!(
        draw(&package(), Some("stable"), Language::Mermaid),
        "\
flowchart LR
  subgraph c0[\"channel stable (default)\"]
    c0b0[\"a<br/>0.1.0\"]:::deprecated
    c0b1[\"b<br/>0.2.0\"]
    c0b2[\"c<br/>0.3.0\"]:::head
    c0o0[\"gone\"]:::outside
    c0o5[\"x\"]:::outside
    c0r2([\"#62;#61;0.1.0 #60;1.0.0\"])
  end
  c0o0 --> c0b0
  c0b0 --> c0b1
  c0b1 --> c0b2
  c0b0 -. skips .-> c0b2
  c0o5 -. skips .-> c0b2
  c0r2 -. skipRange .-> c0b2
  classDef head stroke-width:4px
  classDef deprecated fill:#ddd,color:#666
  classDef outside stroke-dasharray:4
"
    );
}

#[test]
fn all_channels_are_drawn_in_dot() {
    let drawn = draw(&package(), None, Language::Dot);
    assert!(drawn.starts_with("digraph \"foo\" {\n  rankdir=LR;\n  node [shape=box];\n  subgraph cluster_0 {\n    label=\"channel old, deprecated\";\n    c0b0 [label=\"a\\n0.1.0\", penwidth=3, style=filled, fillcolor=lightgrey];\n  }\n"), "{drawn}");
    assert!(
        drawn.contains("    c1r2 [label=\">=0.1.0 <1.0.0\", shape=ellipse];\n"),
        "{drawn}"
    );
    assert!(
        drawn.contains("  c1b0 -> c1b2 [style=dashed, label=skips];\n"),
        "{drawn}"
    );
    assert!(drawn.ends_with("}\n"));
}

#[test]
fn names_stay_names() {
    for name in [
        "\"]\nend\nclick a \"javascript:x\"",
        "\"; evil -> x; \"",
        "\\\"",
        "#quot;",
        "%%{init}%%",
        "\u{1b}[31m",
        "a\u{202e}b\u{2066}c",
        "<script>",
    ] {
        let mut package = package();
        for channel in package.channels.values_mut() {
            for entry in &mut channel.entries {
                entry.replaces = Some(name.into());
            }
        }
        for language in [Language::Mermaid, Language::Dot] {
            let drawn = draw(&package, None, language);
            assert!(
                !drawn.contains(['\u{1b}', '\u{202e}', '\u{2066}'])
                    && !drawn.contains("\nend\nclick"),
                "{drawn}"
            );
            for line in drawn.lines().filter(|it| it.contains('"')) {
                // Quotes are those of labels.
                let quotes = line
                    .replace("\\\\", "")
                    .replace("\\\"", "")
                    .matches('"')
                    .count();
                assert_eq!(quotes, 2, "{line}");
            }
            if language == Language::Mermaid {
                assert!(
                    !drawn.contains("%%") && !drawn.contains("<script"),
                    "{drawn}"
                );
            }
        }
    }
}

#[test]
fn what_nobody_can_look_at_is_not_drawn() {
    let mut package = package();
    let channel = package.channels.get_mut("stable").unwrap();
    let names: Vec<String> = (0..200).map(|at| format!("b{at}")).collect();
    channel.entries = names
        .iter()
        .map(|name| Entry {
            name: name.clone(),
            skips: names.clone(),
            ..Entry::default()
        })
        .collect();
    for language in [Language::Mermaid, Language::Dot] {
        let drawn = draw(&package, Some("stable"), language);
        assert!(drawn.lines().count() < 5_100);
        assert!(drawn.contains("more channels, nodes and edges"));
    }
    // Nor are thousands of channels.
    let stable = package.channels["stable"].clone();
    for at in 0..8_000 {
        let channel = Channel {
            name: format!("c{at}"),
            entries: stable.entries.iter().take(1).cloned().collect(),
            ..Channel::default()
        };
        package.channels.insert(channel.name.clone(), channel);
    }
    for language in [Language::Mermaid, Language::Dot] {
        let drawn = draw(&package, None, language);
        assert!(drawn.lines().count() < 15_100, "{}", drawn.lines().count());
    }
}
