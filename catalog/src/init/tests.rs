use super::*;
use crate::render::Format;

#[test]
fn icon_type_is_detected_from_its_first_bytes() {
    assert_each!(|bytes, expected| media_type(bytes) => expected;
        &b"\x89PNG\r\n\x1a\n"[..] => Some("image/png");
        b"\xff\xd8\xff\xe0" => Some("image/jpeg");
        b"GIF89a" => Some("image/gif");
        b"RIFF\0\0\0\0WEBPVP8 " => Some("image/webp");
        b"RIFF\0\0\0\0WAVE" => None;
        b"<svg/>" => Some("image/svg+xml");
        b"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- tide -->\n<svg/>" => Some("image/svg+xml");
        b"<!DOCTYPE svg [ <!ENTITY a \"b\"> <!ENTITY c \"d\"> ]>\n<svg/>" => Some("image/svg+xml");
        b"<html><svg/></html>" => None;
        b"<!DOCTYPE html><html><svg/></html>" => None;
        b"<!-- " => None;
        b"tide" => None;
        b"" => None;
    );
}

#[test]
fn package_is_rendered_as_a_blob() {
    let rendered = package(with!(PackageTemplate, name: "tide", icon: Some(b"<svg/>")));
    let mut out = Vec::new();
    rendered.unwrap().write(Format::Yaml, &mut out).unwrap();
    let expected = "---\ndefaultChannel: \"\"\nicon:\n  base64data: PHN2Zy8+\n  mediatype: image/svg+xml\nname: tide\n\
                    schema: olm.package\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    for name in ["", "Tide", "a.b", "a b", &"a".repeat(64)] {
        let none = package(with!(PackageTemplate, name));
        assert!(matches!(none, Err(Error::Name { .. })), "{name}");
    }
}

#[test]
fn texts_do_not_inject_dockerfile_instructions() {
    let labels = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let none = BTreeMap::new();
    let good = Dockerfile {
        dir: "catalog",
        base: SCRATCH,
        builder: OPM,
        labels: &labels("a", "b c 'd'"),
    };
    let text = good.text().unwrap();
    assert_rows!(text.ends_with("=/configs\nLABEL \"a\"=\"b c 'd'\"\n") => true, "{text}");
    assert!(!text.contains("ENTRYPOINT"), "{text}");
    for dir in ["", "a b", "a\nRUN x", "a*", "$HOME", "-f", "a\"b"] {
        let bad = with!(Dockerfile, dir; ..good.clone());
        assert!(matches!(bad.text(), Err(Error::Directory(_))), "{dir:?}");
    }
    for image in ["", "a b", "x as y", "a\nRUN x", "--platform=x y", "$X"] {
        for (base, builder) in [(image, OPM), (OPM, image)] {
            let bad = with!(Dockerfile, base, builder, labels: &none; ..good.clone());
            assert!(matches!(bad.text(), Err(Error::Image { .. })), "{image:?}");
        }
    }
    for (key, value) in [("", "a"), ("a\"", "b"), ("a", "b\nRUN x"), ("a", "b\\")] {
        let bad = with!(Dockerfile, labels: &labels(key, value); ..good.clone());
        assert_rows!(matches!(bad.text(), Err(Error::Label(_))) => true, "{key:?} {value:?}");
    }
}
