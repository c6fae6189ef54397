//! Links and sparse files in catalogs: skipped, counted and reported.

use std::{fs, os::unix::fs::symlink, process::Command};

use crate::{bundle::Place, catalog::CATALOG};

const REMEDY: &str = "put regular files in their place if they belong to the catalog";

#[test]
fn validate_warns_about_links_and_sparse_files_of_a_catalog() {
    let place = Place::new();
    place.write("shared.yaml", CATALOG);
    place.write("s/c/.indexignore", "ignored.yaml\n");
    for link in ["catalog.yaml", "ignored.yaml"] {
        symlink("../../shared.yaml", place.path("s/c").join(link)).unwrap();
    }
    let sparse = fs::File::create(place.path("s/c/holes.yaml")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    place.tar("s.tar", "-cSf", "s", "c");
    let skipped = "skipped entries that are not regular files: 1 symbolic link, 1 sparse file (c/catalog.yaml, c/holes.yaml)";
    let expected = format!("{skipped}; {REMEDY}");

    let text = place.ok("catalog validate s.tar");
    text.out_has(&expected);
    assert_eq!(text.err, "0 errors, 1 warning, 0 packages without errors\n");
    let json = place.ok("catalog validate s.tar -o json").json();
    assert_eq!(json["findings"][0]["level"], "warning");
    assert_eq!(json["findings"][0]["message"], expected);
    assert_eq!(json["passed"], true);

    for command in [
        "catalog choose tidewatch --catalog s.tar",
        "catalog list packages s.tar",
        "catalog render s.tar",
    ] {
        let run = place.run(command);
        run.err_starts_with("warning: s");
        run.err_has(format!(": {expected}\n"));
        assert_eq!(run.err.matches(skipped).count(), 1, "{run:?}");
    }
}

/// A bundle whose directory is a link is no catalog, but a bundle that is rejected.
#[test]
fn render_refuses_a_bundle_whose_directory_is_a_link() {
    let place = Place::new();
    for directory in ["manifests", "metadata"] {
        place.good(directory);
        let at = |name: &str| place.path(&format!("{directory}/{name}"));
        fs::rename(at(directory), at("m")).unwrap();
        symlink("m", at(directory)).unwrap();
        let archive = format!("{directory}.tgz");
        let status = Command::new("tar")
            .arg("-czf")
            .arg(place.path(&archive))
            .arg("-C")
            .arg(place.path(directory))
            .arg(".")
            .status();
        assert!(status.unwrap().success());
        for bundle in [directory, &archive] {
            let run = place.fail(&format!("catalog render {bundle}"));
            run.err_has(format!(
                "entry \"{directory}\" is a symbolic link to \"m\", not a directory; replace the link with a copy of the \
                 directory"
            ));
            let run = place.fail(&format!("catalog migrate {bundle} out"));
            run.err_has(format!("entry \"{directory}\" is a symbolic link to \"m\""));
        }
    }
}
