use manifests::version::Version;

use super::*;
use crate::{
    model::{Bundle, Entry},
    testing::{has, starts},
};

fn package() -> Package {
    let entry = |name: &str, replaces: Option<&str>| with!(Entry, name: name.into(), replaces: replaces.map(str::to_owned));
    let last = with!(
        entry("c", Some("b")) => skips: ["a", "b", "x"].map(str::to_owned).into(), skip_range: Some(">=0.1.0 <1.0.0".into())
    );
    let entries = vec![entry("a", Some("absent")), entry("b", Some("a")), last];
    let stable = with!(Channel, name: "stable".into(), entries);
    let old = Channel {
        name: "old".into(),
        deprecation: Some("use stable".into()),
        entries: vec![entry("a", None)],
    };
    let channels = [old, stable].map(|channel| (channel.name.clone(), channel));
    let (name, default_channel) = ("foo".into(), "stable".into());
    let mut package = with!(Package, name, default_channel, channels: channels.into());
    for (name, minor) in [("a", 1), ("b", 2), ("c", 3)] {
        let bundle = Bundle::new(name, Version::new(0, minor, 0));
        package.bundles.insert(name.into(), bundle);
    }
    package.bundles.get_mut("a").unwrap().deprecation = Some("old".into());
    package
}

#[test]
fn channel_is_drawn_in_mermaid() {
    assert_rows!(draw(&package(), Some("stable"), GraphFormat::Mermaid) => "\
flowchart LR
  subgraph c0[\"channel stable (default)\"]
    c0b0[\"a<br/>0.1.0\"]:::deprecated
    c0b1[\"b<br/>0.2.0\"]
    c0b2[\"c<br/>0.3.0\"]:::head
    c0o0[\"absent\"]:::outside
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
  classDef deprecatedHead fill:#ddd,color:#666,stroke-width:4px
  classDef outside stroke-dasharray:4
");
}

#[test]
fn mermaid_nodes_have_one_defined_class() {
    let drawn = draw(&package(), None, GraphFormat::Mermaid);
    has(&drawn, "    c0b0[\"a<br/>0.1.0\"]:::deprecatedHead\n");
    for (_, class) in drawn.lines().filter_map(|line| line.split_once(":::")) {
        has(&drawn, &format!("\n  classDef {class} "));
    }
}

#[test]
fn dot_drawing_has_every_channel() {
    let drawn = draw(&package(), None, GraphFormat::Dot);
    starts(
        &drawn,
        "digraph \"foo\" {\n  rankdir=LR;\n  node [shape=box];\n  subgraph cluster_0 {\n    label=\"channel old, deprecated\";\n    \
         c0b0 [label=\"a\\n0.1.0\", penwidth=3, style=filled, fillcolor=lightgrey];\n  }\n",
    );
    let part = "    c1r2 [label=\">=0.1.0 <1.0.0\", shape=ellipse];\n";
    has(&drawn, part);
    has(&drawn, "  c1b0 -> c1b2 [style=dashed, label=skips];\n");
    assert!(drawn.ends_with("}\n"));
}

#[test]
fn names_are_escaped() {
    let names = "\"]\nend\nclick a \"javascript:x\"·\"; evil -> x; \"·\\\"·#quot;·%%{init}%%·\u{1b}[31m·a\u{202e}b\u{2066}c·<script>";
    for name in names.split('·') {
        let mut package = package();
        for channel in package.channels.values_mut() {
            for entry in &mut channel.entries {
                entry.replaces = Some(name.into());
            }
        }
        for language in [GraphFormat::Mermaid, GraphFormat::Dot] {
            let drawn = draw(&package, None, language);
            let is_escaped = !drawn.contains(['\u{1b}', '\u{202e}', '\u{2066}']);
            assert!(is_escaped && !drawn.contains("\nend\nclick"), "{drawn}");
            for line in drawn.lines().filter(|line| line.contains('"')) {
                // Quotes only delimit labels.
                assert_rows!(line.replace("\\\\", "").replace("\\\"", "").matches('"').count() => 2, "{line}");
            }
            let has_code = ["%%", "<script"].iter().any(|part| drawn.contains(part));
            assert!(language == GraphFormat::Dot || !has_code, "{drawn}");
        }
    }
}

#[test]
fn drawing_is_limited() {
    let mut package = package();
    let names: Vec<String> = (0..200).map(|at| format!("b{at}")).collect();
    let entry = |name: &String| with!(Entry, name: name.clone(), skips: names.clone());
    package.channels.get_mut("stable").unwrap().entries = names.iter().map(entry).collect();
    for language in [GraphFormat::Mermaid, GraphFormat::Dot] {
        let drawn = draw(&package, Some("stable"), language);
        assert!(drawn.lines().count() < 5_100);
        has(&drawn, "more channels, nodes and edges");
    }
    // Thousands of channels are not drawn either.
    let stable = package.channels["stable"].clone();
    for at in 0..8_000 {
        let (name, entries) = (format!("c{at}"), stable.entries[..1].to_vec());
        let channel = with!(Channel, name: name.clone(), entries);
        package.channels.insert(name, channel);
    }
    for language in [GraphFormat::Mermaid, GraphFormat::Dot] {
        let lines = draw(&package, None, language).lines().count();
        assert!(lines < 15_100, "{lines}");
    }
}
