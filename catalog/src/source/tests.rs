use super::*;
use crate::testing::{content, has, starts};

fn paths(source: Source<'_>) -> Vec<String> {
    let entries = source.entries(&Limits::default()).unwrap();
    entries.into_iter().map(|entry| entry.path).collect()
}

#[test]
fn every_file_that_is_not_ignored_is_read() {
    let files = "README.md a.yaml b.json dir/c.yaml dir/d.txt dir/sub/e.json keep/x";
    let files: Vec<_> = files.split(' ').collect();
    for (root, nested, left) in ::tests::rows![
        "", "" => &files[..];
        "*\n!*.yaml\n!*.json\n", "" => &["a.yaml", "b.json", "dir/c.yaml", "dir/sub/e.json"];
        "# *\n\n*.yaml", "" => &["README.md", "b.json", "dir/d.txt", "dir/sub/e.json", "keep/x"];
        "dir/\n", "" => &["README.md", "a.yaml", "b.json", "keep/x"];
        // Patterns match files only, and the last matching line is used.
        "dir/\n!*.yaml", "" => &["README.md", "a.yaml", "b.json", "dir/c.yaml", "keep/x"];
        "dir/*\n!dir/c.yaml", "" => &["README.md", "a.yaml", "b.json", "dir/c.yaml", "keep/x"];
        "  *\n\t!*.yaml\n  # !*.txt\n", "" => &["a.yaml", "dir/c.yaml"];
        "!*.yaml\ndir/", "" => &["README.md", "a.yaml", "b.json", "keep/x"];
        "", "*.json" => &["README.md", "a.yaml", "b.json", "dir/c.yaml", "dir/d.txt", "keep/x"];
        "*.txt\n*.json", "!*" => &["README.md", "a.yaml", "dir/c.yaml", "dir/d.txt", "dir/sub/e.json", "keep/x"];
        "/a.yaml\nc.yaml", "/c.yaml" => &["README.md", "b.json", "dir/d.txt", "dir/sub/e.json", "keep/x"];
    ] {
        let mut all: Vec<(&str, &str)> = files.iter().map(|path| (*path, "")).collect();
        all.extend([(".indexignore", root), ("dir/.indexignore", nested)]);
        assert_rows!(paths(Source::Content(&content(&all))) => left, "{root:?} {nested:?}");
    }
}

// parity: load-3, load-4
#[test]
fn unreadable_directories_and_patterns_are_named() {
    let limits = Limits::default();
    let absent = Source::Directory(Path::new("/nonexistent/catalog")).entries(&limits);
    has(absent.unwrap_err(), "/nonexistent/catalog");
    let content = content(&[("x/.indexignore", "[z-a]")]);
    let error = Source::Content(&content).entries(&limits).unwrap_err();
    starts(error, "x/.indexignore: the line \"[z-a]\"");
}

#[test]
fn directory_has_the_same_files_within_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("b/c")).unwrap();
    for path in ["z.yaml", "b/c/1", "b/2", "b.json"] {
        fs::write(dir.path().join(path), "{}").unwrap();
    }
    std::os::unix::fs::symlink(dir.path().join("z.yaml"), dir.path().join("link")).unwrap();
    let source = Source::Directory(dir.path());
    assert_eq!(paths(source), ["b.json", "b/2", "b/c/1", "link", "z.yaml"]);
    assert_each!(|limits, problem| source.entries(&limits).unwrap_err() => has problem;
        with!(Limits, files: 3) => "more than 3 files";
        with!(Limits, total: 5) => "more than 5 bytes";
    );
}
