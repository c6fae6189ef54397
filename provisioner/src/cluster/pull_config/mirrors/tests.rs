use manifests::image::Reference;

use super::*;

fn set(source: &str, mirrors: &[&str], never: bool) -> MirrorSet {
    MirrorSet {
        source: source.to_owned(),
        mirrors: mirrors.iter().map(ToString::to_string).collect(),
        mirror_source_policy: never.then_some(MirrorSourcePolicy::NeverContactSource),
    }
}

fn set_entry(pull: Pull, entry: &MirrorSet) -> SetEntry<'_> {
    let source = match pull {
        Pull::Tags => Source::ImageTagMirrorSet,
        _ => Source::ImageDigestMirrorSet,
    };
    SetEntry {
        source,
        object: "mine",
        pull,
        entry,
    }
}

fn registries(insecure: &[&str], blocked: &[&str], allowed: &[&str]) -> RegistrySources {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    RegistrySources {
        insecure_registries: owned(insecure),
        blocked_registries: owned(blocked),
        allowed_registries: owned(allowed),
    }
}

/// Formats the rules: source, flags, and mirrors with the kind of pull.
fn rule_lines(mirrors: &Mirrors) -> Vec<String> {
    let flag = |set: bool, text: &'static str| if set { text } else { "" };
    let rules = mirrors.rules().iter().map(|rule| {
        let mirrors = rule.mirrors.iter().map(|mirror| {
            let pull = match mirror.pull {
                Pull::All => "",
                Pull::Digests => "@",
                Pull::Tags => ":",
            };
            format!(" {}{pull}{}", mirror.location, flag(mirror.insecure, "!"))
        });
        let mirrors: String = mirrors.collect();
        let (insecure, blocked) = (flag(rule.insecure, "!"), flag(rule.blocked, " blocked"));
        format!("{}{insecure}{blocked}{mirrors}", rule.source)
    });
    rules.collect()
}

#[test]
fn order_of_mirrors_agrees_with_each_list() {
    assert_each!(|lists, order| ordered("zz", &lists.iter().map(|list| list.to_vec()).collect::<Vec<_>>()) => order;
        &[&["a"][..]][..] => &["a"][..];
        &[&["b", "a"]] => &["b", "a"];
        &[&["b", "c"], &["a", "b"]] => &["a", "b", "c"];
        &[&["a", "c"], &["b"]] => &["a", "b", "c"];
        // Contradictions are resolved by the order of names.
        &[&["b", "a"], &["a", "b"]] => &["a", "b"];
        &[&["z", "x"], &["x", "z"], &["y"]] => &["y", "x", "z"];
        // The source is one of its mirrors.
        &[&["a", "zz", "b"]] => &["a", "zz", "b"];
        &[&["a", "zz"]] => &["a"];
        &[&["a", "a"]] => &["a"];
        &[&[]] => &[];
        &[] => &[];
    );
}

#[test]
fn sets_of_a_source_are_merged_into_one_rule() {
    let digests = set("quay.io/org", &["b.example", "c.example/x"], false);
    let more = set("quay.io/org", &["a.example", "b.example"], false);
    let tags = set("quay.io/org", &["t.example"], true);
    let itself = set("ghcr.io", &["ghcr.io"], true);
    let none = set("docker.io", &[], true);
    let wild = set("*.example.com", &["w.example/all"], true);
    let sets = [&digests, &more, &itself, &none, &wild].map(|set| set_entry(Pull::Digests, set));
    let (mirrors, problems) = rules(&sets, &RegistrySources::default());
    assert_rows! {
        problems => [];
        rule_lines(&mirrors) => ["*.example.com blocked w.example/all@", "quay.io/org a.example@ b.example@ c.example/x@"];
    }
    // Contradicting policies for the source are reported, and ignored.
    let sets = [(Pull::Digests, &digests), (Pull::Tags, &tags)];
    let sets = sets.map(|(pull, set)| set_entry(pull, set));
    let (mirrors, problems) = rules(&sets, &RegistrySources::default());
    assert_rows! {
        rule_lines(&mirrors) => ["quay.io/org blocked b.example@ c.example/x@ t.example:"];
        problems.len() => 1;
        problems[0].source => Source::ImageTagMirrorSet;
        problems[0].text.contains("use the same value in all of them") => true, "{problems:?}";
    }
}

#[test]
fn insecure_and_blocked_apply_to_nested_scopes() {
    let one = set("quay.io/org", &["mirror.lab/x", "other.example"], false);
    let two = set("a.lab/app", &["quay.io/copies"], false);
    let sets = [set_entry(Pull::Digests, &one), set_entry(Pull::Tags, &two)];
    let lists = registries(&["*.lab"], &["quay.io", "b.lab:5000"], &[]);
    let (mirrors, problems) = rules(&sets, &lists);
    assert_eq!(problems, []);
    assert_rows! {
        rule_lines(&mirrors) => [
            "*.lab!", "a.lab/app! quay.io/copies:", "b.lab:5000! blocked", "quay.io blocked",
            "quay.io/org blocked mirror.lab/x@! other.example@",
        ];
    }
    let admission = &mirrors.admissions()[0];
    assert_rows! {
        (&admission.allowed, admission.blocked.as_slice()) => (&None, &["quay.io".to_owned(), "b.lab:5000".to_owned()][..]);
    }
}

#[test]
fn scopes_match_whole_path_segments() {
    assert_each!(|place, scope, within| is_within(place, scope) => within;
        "quay.io", "quay.io" => true;
        "quay.io/org", "quay.io" => true;
        "quay.io/organization", "quay.io/org" => false;
        "quay.io:5000", "quay.io" => false;
        "*.a.example", "*.example" => true;
        "*.example", "*.example" => true;
        "example", "*.example" => false;
        "a.example:5000/x", "*.example" => true;
        "quay.io/a.example", "*.example" => false;
    );
}

#[test]
fn allow_list_applies_even_if_all_entries_are_invalid() {
    for (allowed, image, passes) in ::tests::rows![
        &[][..], "ghcr.io/app" => true;
        &["quay.io/org"], "quay.io/org/app" => true;
        &["quay.io/org"], "quay.io/app" => false;
        &["reg.example/org/app:latest"], "reg.example/org/app" => true;
        &["reg.example/org/app:latest"], "reg.example/org/app:v2" => false;
        &["not a place"], "quay.io/app" => false;
    ] {
        let (mirrors, problems) = rules(&[], &registries(&[], &[], allowed));
        let image: Reference = image.parse().unwrap();
        assert_eq!(mirrors.admissions().is_empty(), allowed.is_empty());
        assert_rows!(mirrors.is_admitted(&image) => passes, "{allowed:?} {image}");
        assert_rows!(problems.is_empty() => allowed != ["not a place"], "{problems:?}");
    }
    let (mirrors, problems) = rules(&[], &registries(&[], &["quay.io/a"], &["quay.io"]));
    assert_rows!(problems[0].text.contains("both allowedRegistries and") => true, "{problems:?}");
    assert_each!(|image, passes| mirrors.is_admitted(&image.parse().unwrap()) => passes;
        "quay.io/b" => true;
        "quay.io/a" => false;
        "ghcr.io/a" => false;
    );
}

#[test]
fn invalid_entries_are_skipped_and_reported() {
    let bad_source = set("https://quay.io", &["a.example"], true);
    let bad_mirror = set("quay.io", &["a.example", "*.b", "Bad Place"], false);
    let never = set("ghcr.io", &["a.example", "ghcr.io"], true);
    let lost = set("gcr.io", &["https://a.example"], true);
    let sets = [&bad_source, &bad_mirror, &never, &lost].map(|set| set_entry(Pull::Digests, set));
    let (mirrors, problems) = rules(&sets, &registries(&["org", "*.a/b"], &["a*b.io", ""], &[]));
    assert_rows!(rule_lines(&mirrors) => ["gcr.io blocked", "ghcr.io blocked a.example@", "quay.io a.example@"]);
    let texts: Vec<_> = problems.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts.len(), 9, "{texts:#?}");
    for (text, part) in texts.iter().zip([
        "the source of a mirror set is ignored: \"https://quay.io\"",
        "a mirror of \"quay.io\" is ignored: \"*.b\"",
        "a mirror of \"quay.io\" is ignored: \"Bad Place\"",
        "source \"ghcr.io\" must not be contacted (NeverContactSource) but is listed as its own mirror",
        "a mirror of \"gcr.io\" is ignored",
        "spec.registrySources.insecureRegistries is ignored: \"org\"",
        "insecureRegistries is ignored: \"*.a/b\"",
        "blockedRegistries is ignored: \"a*b.io\"",
        "blockedRegistries is ignored: \"\"",
    ]) {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn excess_sets_and_entries_are_reported_and_bounded() {
    let hosts = (0..MAX_ENTRIES + 10).map(|number| format!("h{number}.example"));
    let lines: Vec<_> = hosts.collect();
    let many = lines.iter().map(|host| set(host, &["a.example"], false));
    let many: Vec<_> = many.collect();
    let sets = many.iter().map(|set| set_entry(Pull::Digests, set));
    let lists = with!(RegistrySources::default() => insecure_registries: lines.clone());
    let (mirrors, problems) = rules(&sets.collect::<Vec<_>>(), &lists);
    assert_eq!(mirrors.rules().len(), MAX_ENTRIES);
    assert_eq!(problems.len(), 2, "{problems:?}");
    // A long cycle terminates as well.
    let forth: Vec<&str> = lines.iter().map(String::as_str).take(MAX_ENTRIES).collect();
    let back: Vec<&str> = forth.iter().rev().copied().collect();
    assert_rows!(ordered("s", &[forth, back]).iter().filter(|name| **name != "s").collect::<BTreeSet<_>>().len() => MAX_ENTRIES);
}
