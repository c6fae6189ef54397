use crate::bundle::Place;

fn place() -> Place {
    let place = Place::new();
    for name in ["a", "c", "d", "e"] {
        place.good(name);
    }
    place.bad("b");
    place.write("f.tar.gz", "noise");
    place
}

#[test]
fn several_bundles_get_a_line_each_in_their_order() {
    let run = place().fail("convert e b f.tar.gz d a c");
    let rows: Vec<Vec<&str>> = run
        .out
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(rows[0], ["e", "e.v1.2.3", "converted", ""]);
    assert_eq!(rows[1][..3], ["b", "b.v1.2.3", "refused"]);
    assert!(rows[1][3].starts_with("Webhooks,InstallMode: "), "{rows:?}");
    assert_eq!(rows[2][..3], ["f", "", "failed"]);
    assert!(
        rows[2][3].starts_with("UnknownFormat: failed to unpack \"f.tar.gz\": "),
        "{rows:?}"
    );
    let names: Vec<_> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names, ["e", "b", "f", "d", "a", "c"]);
    run.err_starts_with("6 bundles: 4 converted, 1 refused, 1 failed");
}

#[test]
fn several_good_bundles_are_a_success() {
    let run = place().ok("convert a c -q");
    assert_eq!(
        run.out,
        "a\ta.v1.2.3\tconverted\t\nc\tc.v1.2.3\tconverted\t\n"
    );
    assert_eq!(run.err, "");
}

#[test]
fn a_folder_gets_a_file_for_each_bundle_that_could_be_converted() {
    let place = place();
    let args = "convert a b c f.tar.gz --output-dir out --report report.json";
    place.fail(&args);
    assert_eq!(place.list("out"), ["a.yaml", "c.yaml"]);
    assert_eq!(place.read("out/a.yaml"), place.run("convert a").out);

    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["a"]["facts"]["name"], "a.v1.2.3");
    assert_eq!(report["b"]["findings"][0]["level"], "error");
    assert!(
        report["f"]["error"]
            .as_str()
            .unwrap()
            .contains("neither a tar")
    );

    place.fail("convert a c --output-dir out");
    place.ok("convert a d --output-dir out --force -o json");
    assert_eq!(place.list("out"), ["a.json", "a.yaml", "c.yaml", "d.json"]);
}

#[test]
fn files_are_written_even_when_nobody_reads_the_lines() {
    let place = place();
    let mut child = place
        .command(&crate::bundle::binary())
        .args(["convert", "a", "c", "--output-dir", "out"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(place.list("out"), ["a.yaml", "c.yaml"]);
}

#[test]
fn bundles_of_one_name_are_told_apart_by_their_folders() {
    let place = Place::new();
    place.good("x/1.0.0");
    place.good("y/1.0.0");
    let run = place.run("convert x/1.0.0 y/1.0.0 --output-dir out");
    assert_eq!(
        place.list("out"),
        ["x-1.0.0.yaml", "y-1.0.0.yaml"],
        "{run:?}"
    );
    let run = place.run("convert x/1.0.0 x/1.0.0/").exits(2);
    run.err_has("cannot be told apart");
}
