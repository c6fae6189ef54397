use clap::CommandFactory as _;

use super::*;

fn parse(flags: &str) -> Result<Args, String> {
    let args = std::iter::once("provisioner").chain(flags.split_whitespace());
    Args::try_parse_from(args).map_err(|error| error.to_string())
}

fn configuration(flags: &str) -> Result<RuntimeConfig, String> {
    let configuration = parse(flags)?.configuration();
    configuration.map_err(|error| error.to_string())
}

#[test]
fn serve_command_has_separate_flags() {
    Args::command().debug_assert();
    let served = |flags: &str| match parse(flags)?.command {
        Some(Command::Serve(args)) => Ok((args.port, args.enforces())),
        _ => Err("another command".to_owned()),
    };
    assert_rows! {
        served("serve x") => Ok((50051, false));
        served("serve x --cache-dir=c") => Ok((50051, true));
        served("serve x --cache-dir=c --cache-only -p1") => Ok((1, false));
        parse("--leader-elect").unwrap().command.is_none() => true;
    }
    assert_each!(|flags, problem| parse(flags).unwrap_err() => has problem;
        "serve" => "<DIR>";
        "--leader-elect serve x" => "cannot be used with";
        "serve x --leader-elect" => "unexpected argument";
        "serve x --cache-enforce-integrity" => "--cache-dir";
        "x" => "unrecognized subcommand";
    );
}

#[test]
fn conversion_webhook_has_separate_flags() {
    let parsed = |flags: &str| parse(&format!("convert-catalogsources {flags}")).unwrap();
    let options = |flags: &str| match parsed(flags).command {
        Some(Command::ConvertCatalogsources(args)) => args.options(),
        _ => panic!("another command"),
    };
    let flags = "--namespace=elsewhere --bind-address=127.0.0.1:1 --tls-secret=serving.tls";
    let given = options(flags);
    assert_eq!(options(""), crate::conversion_webhook::Options::default());
    assert_eq!(given.bind, ([127, 0, 0, 1], 1).into());
    assert_rows!((given.namespace.as_str(), given.tls_secret.as_deref()) => ("elsewhere", Some("serving.tls")));
}

#[test]
fn missing_flags_use_the_default_settings() {
    let found = configuration("").unwrap();
    let (settings, defaults) = (&found.settings, settings::Settings::default());
    assert_eq!(settings.system_namespace, defaults.system_namespace);
    assert_eq!(settings.external_address, defaults.external_address);
    assert_eq!(settings.content_address, defaults.content_address);
    assert_eq!(settings.optional_kinds, defaults.optional_kinds);
    assert_eq!(settings.unpack, defaults.unpack);
    assert_eq!(settings.resync, defaults.resync);
    assert_eq!(settings.concurrency, defaults.concurrency);
    assert_eq!(found.lease, None);
    let (content, defaults) = (&found.content, content::Options::default());
    assert_eq!(content.bind.port(), 8443);
    assert_eq!(content.uploads, defaults.uploads);
    assert_eq!(content.downloads, defaults.downloads);
    assert_eq!(found.probes.map(|address| address.port()), Some(8081));
    assert_eq!(found.metrics.map(|address| address.port()), Some(8080));
    assert_eq!(found.admin, Some(([127, 0, 0, 1], 8082).into()));
}

#[test]
fn flags_set_the_settings() {
    let flags = "--system-namespace=operators --controllers=instance --leader-elect --lease-duration=30s \
                 --optional-kinds=A.example.com,B.example.com --metrics-bind-address=0 --persistent-storage=true \
                 --health-probe-bind-address=[::1]:9 --content-tls-secret=serving.tls --max-file-size=64Mi";
    let configuration = configuration(flags).unwrap();
    let settings = configuration.settings;
    assert_rows! {
        settings.system_namespace => "operators";
        settings.external_address => "https://core.operators.svc";
        settings.content_address => "https://core.operators.svc";
        settings.optional_kinds.into_iter().collect::<Vec<_>>() => ["A.example.com", "B.example.com"];
        settings.persistent_store => true;
        !settings.release_payload => true;
        settings.release => None;
        settings.unpack.limits.file => 32 << 20, "no file is larger than a bundle";
        configuration.controllers => Controllers { bundle: false, instance: true, platform: false, aggregator: false };
        configuration.lease => Some(Duration::from_secs(30));
        configuration.metrics => None;
        configuration.probes => "[::1]:9".parse().ok();
        configuration.content.tls_secret.as_deref() => Some("serving.tls");
    }
}

#[test]
fn catalogs_are_served_at_the_pod_address() {
    use crate::runtime::settings::{Namespaces, Ports};
    let serving = |flags: &str| configuration(flags).unwrap().settings.serving;
    let serving_at_address = |flags: &str| serving(&format!("--catalog-address=10.1.2.3 {flags}"));
    let some =
        |names: &[&str]| Namespaces::Some(names.iter().map(|&name| name.to_owned()).collect());
    let usual = serving_at_address("").unwrap();
    let share = serving_at_address("--catalogs-per-namespace=2 --catalog-size-per-namespace=5Mi");
    let share = share.unwrap().share;
    let flags_text = "--catalog-address=fd00::1 --catalog-namespaces=none --served-namespaces=c";
    let ipv6_serving = serving(&format!("{flags_text} --catalog-ports=20000-20000")).unwrap();
    assert_rows! {
        usual.ports => Ports::Any;
        usual.namespaces => some(&["rukpak-system", "openshift-marketplace"]);
        usual.share => settings::NamespaceQuota::default();
        (share.catalogs, share.bytes) => (2, 5 << 20);
        serving_at_address("--catalog-namespaces=a,b").unwrap().namespaces => some(&["a", "b"]);
        ipv6_serving.address.is_ipv6() => true;
        ipv6_serving.namespaces => some(&["c"]);
        ipv6_serving.ports => Ports::Range { first: 20_000, last: 20_000 };
        serving_at_address("--served-namespaces=a,*").unwrap().namespaces => Namespaces::All;
        serving_at_address("--served-namespaces=none") => None;
        serving_at_address("--served-namespaces=a --served-namespaces=b,c").unwrap().namespaces => some(&["b", "c"]);
        serving_at_address("--catalog-namespaces=none --catalog-namespaces=a").unwrap().namespaces => some(&["a"]);
        serving("") => None, "without an address";
    }
}

#[test]
fn invalid_flags_are_rejected_with_a_remedy() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let empty = format!("--ca-file={}", file.path().display());
    assert_each!(|flag, expected| configuration(flag).unwrap_err() => has expected;
        "--controllers=bundles" => "use a comma-separated list of bundle, instance, platform and aggregator, or none";
        "--system-namespace=Rukpak" => "lower-case letters";
        "--optional-kinds=servicemonitors" => "use Kind.group";
        "--http-external-address=core.svc" => "use https://HOST";
        "--http-external-address=https://me@core.svc" => "use https://HOST";
        "--content-address=core.svc" => "use https://HOST";
        "--health-probe-bind-address=8081" => "use :PORT, IP:PORT, or 0";
        "--content-bind-address=0" => "--content-bind-address";
        "--catalog-ports=20000" => "use FIRST-LAST";
        "--catalog-ports=20001-20000" => "use FIRST-LAST";
        "--catalog-ports=80-90" => "from 1024";
        "--catalog-ports=60000-70000" => "to 65535";
        "--catalog-address=127.0.0.1" => "address of this pod";
        "--catalog-address=core" => "address of this pod";
        "--served-namespaces=a,B" => "lower-case letters";
        "--served-namespaces=a,none" => "--served-namespaces: \"none\" cannot be combined with namespaces";
        "--catalog-namespaces=none,a" => "combined with namespaces; remove \"none\" or all namespaces";
        "--admin-bind-address=:8082" => "127.0.0.1";
        "--admin-bind-address=10.0.0.1:8082" => "127.0.0.1";
        "--lease-duration=15" => "15s";
        "--lease-duration=0s" => "from 1s";
        "--max-bundle-size=lots" => "Ki, Mi";
        "--storage-size=1Mi" => "or more";
        "--max-bundle-size=5Gi" => "--storage-size";
        "--concurrency=0" => "1..=256";
        "--log-level=everything" => "error, warn, info, debug or trace";
        "--ca-file=/nowhere" => "/nowhere";
        &empty => "no certificate";
    );
}

#[test]
fn install_manifests_use_known_flags() {
    for (file, is_of_payload) in ::tests::rows![
        "install/rukpak.yaml" => false;
        "install/openshift.yaml" => false;
        "release/0000_50_cluster-platform-operator-manager_06-deployment.yaml" => true;
    ] {
        let path = format!("{}/../manifests/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(path).unwrap();
        let mut objects = manifests::yaml::documents(&text).map(Result::unwrap);
        let deployment = objects.find(|object| object["kind"] == "Deployment");
        let deployment = deployment.unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let flags = container["args"].as_array().unwrap();
        let flags: Vec<_> = flags.iter().map(|flag| flag.as_str().unwrap()).collect();
        let configuration = configuration(&flags.join(" ")).unwrap();
        // The ports of the flags are those of the pod.
        let port = |name: &str| {
            let ports = container["ports"].as_array().unwrap();
            let port = ports.iter().find(|port| port["name"] == name).unwrap();
            port["containerPort"].as_u64().unwrap()
        };
        assert_rows! {
            configuration.settings.release_payload => is_of_payload, "{file}";
            u64::from(configuration.content.bind.port()) => port("https"), "{file}";
            u64::from(configuration.metrics.unwrap().port()) => port("metrics"), "{file}";
            u64::from(configuration.probes.unwrap().port()) => port("probes"), "{file}";
            configuration.grace.as_secs() < pod["terminationGracePeriodSeconds"].as_u64().unwrap() => true, "{file}";
        }
    }
}

#[test]
fn every_flag_is_described() {
    let page = include_str!("../../../../docs/operations.md");
    let command = Args::command();
    assert_described(&command, page);
    for subcommand in command.get_subcommands() {
        let called = format!("`provisioner {}", subcommand.get_name());
        let mut sections = page.split("\n## ");
        let section = sections.find(|section| section.contains(&called));
        assert_described(subcommand, section.expect(&called));
    }
}

fn assert_described(command: &clap::Command, text: &str) {
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
    for name in flags.filter_map(clap::Arg::get_long) {
        assert_rows! {
            text.contains(&format!("`--{name}`"))
                => true, "docs/operations.md does not describe --{name} of {}", command.get_name();
        }
    }
}

#[test]
fn flags_of_rukpak_are_known() {
    let flags = "--bundle-ca-file=/etc/pki/tls/ca.crt --http-external-address=https://core.rukpak-system.svc \
                 --health-probe-bind-address=:8081 --storage-dir=/var/cache/bundles --leader-elect=false";
    assert_eq!(configuration(flags).unwrap().unused, ["--bundle-ca-file"]);
}

#[test]
fn the_last_of_equal_flags_counts_and_lists_add_up() {
    let roots = ::tests::TestCa::new("sources").pem();
    let files = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let flags = files.each_ref().map(|file| {
        std::fs::write(file.path(), &roots).unwrap();
        format!("--ca-file={}", file.path().display())
    });
    let flags = flags.join(" --lease-duration=20s --leader-elect ") + " --lease-duration=30s";
    let configuration = configuration(&flags).unwrap();
    assert_eq!(configuration.lease, Some(Duration::from_secs(30)));
    assert_rows!(configuration.settings.access.trust.roots.matches("BEGIN CERTIFICATE").count() => 2);
}
