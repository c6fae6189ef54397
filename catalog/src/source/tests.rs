use manifests::content::{Builder, Limits as ContentLimits};

use super::*;

fn content(files: &[(&str, &str)]) -> Content {
    let mut builder = Builder::new(ContentLimits::default());
    for (path, text) in files {
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    builder.finish()
}

fn names(files: &[(&str, &str)]) -> Vec<String> {
    let content = content(files);
    let entries = Source::Content(&content)
        .entries(&Limits::default())
        .unwrap();
    entries.into_iter().map(|it| it.path).collect()
}

#[test]
fn files_are_taken_whatever_their_names_but_those_that_are_ignored() {
    let files = [
        "README.md",
        "a.yaml",
        "b.json",
        "dir/c.yaml",
        "dir/d.txt",
        "dir/sub/e.json",
        "keep/x",
    ];
    for (root, nested, left) in ::tests::rows![
        "", "" => &files[..];
        "*\n!*.yaml\n!*.json\n", "" => &["a.yaml", "b.json", "dir/c.yaml", "dir/sub/e.json"];
        "# *\n\n*.yaml", "" => &["README.md", "b.json", "dir/d.txt", "dir/sub/e.json", "keep/x"];
        "dir/\n", "" => &["README.md", "a.yaml", "b.json", "keep/x"];
        // Only files are asked about, and the last line that matches counts.
        "dir/\n!*.yaml", "" => &["README.md", "a.yaml", "b.json", "dir/c.yaml", "keep/x"];
        "!*.yaml\ndir/", "" => &["README.md", "a.yaml", "b.json", "keep/x"];
        "", "*.json" => &["README.md", "a.yaml", "b.json", "dir/c.yaml", "dir/d.txt", "keep/x"];
        "*.txt\n*.json", "!*" => &["README.md", "a.yaml", "dir/c.yaml", "dir/d.txt", "dir/sub/e.json", "keep/x"];
        "/a.yaml\nc.yaml", "/c.yaml" => &["README.md", "b.json", "dir/d.txt", "dir/sub/e.json", "keep/x"];
    ] {
        let mut all: Vec<(&str, &str)> = files.iter().map(|path| (*path, "")).collect();
        all.push((".indexignore", root));
        all.push(("dir/.indexignore", nested));
        assert_eq!(names(&all), left, "{root:?} {nested:?}");
    }
}

// parity: load-3
#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = Source::Folder(Path::new("/nonexistent/catalog"))
        .entries(&Limits::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("/nonexistent/catalog"),
        "{error}"
    );
}

#[test]
fn a_folder_on_disk_holds_the_same_files_and_no_more_than_allowed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("b/c")).unwrap();
    for path in ["z.yaml", "b/c/1", "b/2", "b.json"] {
        fs::write(folder.path().join(path), "{}").unwrap();
    }
    std::os::unix::fs::symlink(folder.path().join("z.yaml"), folder.path().join("link")).unwrap();
    let source = Source::Folder(folder.path());
    let names: Vec<_> = source
        .entries(&Limits::default())
        .unwrap()
        .into_iter()
        .map(|it| it.path)
        .collect();
    assert_eq!(names, ["b.json", "b/2", "b/c/1", "link", "z.yaml"]);
    let few = Limits {
        files: 3,
        ..Limits::default()
    };
    assert!(
        source
            .entries(&few)
            .unwrap_err()
            .to_string()
            .contains("more than 3 files")
    );
    let small = Limits {
        total: 5,
        ..Limits::default()
    };
    assert!(
        source
            .entries(&small)
            .unwrap_err()
            .to_string()
            .contains("more than 5 bytes")
    );
}

// parity: load-4
#[test]
fn a_line_that_is_no_pattern_is_told() {
    let content = content(&[("x/.indexignore", "[z-a]")]);
    let error = Source::Content(&content)
        .entries(&Limits::default())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("x/.indexignore: the line \"[z-a]\""),
        "{error}"
    );
}
