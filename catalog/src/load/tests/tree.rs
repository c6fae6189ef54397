//! The tree of findings. Its messages are in `tests/opm/validation`.

use super::*;

// parity: validate-10
#[test]
fn findings_are_formatted_like_opm() {
    let mut documents = sound();
    documents[0]["defaultChannel"] = "".into();
    documents[1]["entries"][1]["replaces"] = "x".into();
    documents[4]["image"] = "".into();
    documents.push(channel("foo", "beta", &json!([{"name": "foo.v0.3.0"}])));
    documents.push(package("bar", "x"));
    assert_rows!(catalog_of(&documents).as_opm().unwrap() => "\
invalid index:
├── invalid package \"bar\":
│   └── invalid channel \"x\":
│       └── channel must contain at least one bundle
└── invalid package \"foo\":
    ├── default channel must be set
    ├── invalid channel \"alpha\":
    │   ├── invalid bundle \"foo.v0.3.0\":
    │   │   └── bundle image must be set
    │   └── multiple channel heads found in graph: foo.v0.1.0, foo.v0.3.0
    └── invalid channel \"beta\":
        └── invalid bundle \"foo.v0.3.0\":
            └── bundle image must be set
");
    // An error that ends opm's checks is reported alone.
    documents.push(package("bar", "x"));
    assert_rows!(catalog_of(&documents).as_opm().unwrap() => "duplicate package \"bar\"");
}
