//! The provisioner as the install file deploys it, and its image.

use std::{fs, path::Path};

use super::{
    environment::{CORE_LABELS, CORE_POD, world},
    wait::{self, container, ready},
};

// parity: rukpak-45
#[tokio::test]
async fn provisioner_image_runs_without_root_or_shell() {
    let world = world().await;
    let _untouched = CORE_POD.read().await;
    let pod = wait::pod(world.pods(), CORE_LABELS, "Ready", ready).await;
    let status = container(&pod);
    let image = &status.image;
    assert!(image.starts_with("quay.io/rukpak/provisioner:"), "{image}");
    assert_eq!(status.restart_count, 0);

    let process = super::restart::process(status);
    let status_text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let value = |key: &str| {
        let found = status_text.lines().find_map(|line| line.strip_prefix(key));
        found.unwrap().split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!([value("Uid:"), value("Gid:")], ["65532", "65532"]);
    assert_eq!(u64::from_str_radix(&value("CapEff:"), 16), Ok(0));
    assert_eq!(value("NoNewPrivs:"), "1");
    let files = Path::new("/proc").join(process.to_string()).join("root");
    // The image has two programs and the CA bundle; the container runtime adds the other entries.
    let mut found: Vec<String> = fs::read_dir(&files)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let expected = "dev etc proc provisioner sys tmp unpack var";
    assert_eq!(found.join(" "), expected);
    let cas = files.join("etc/ssl/certs/ca-certificates.crt");
    let cas = fs::read_to_string(cas).unwrap();
    assert!(cas.matches("BEGIN CERTIFICATE").count() > 50);
}
