use super::*;

#[test]
fn address_has_host_and_port() {
    for valid in "localhost:50051|catalog.olm.svc:50051|10.0.0.1:1|[::1]:50051".split('|') {
        assert_eq!(uri(valid).unwrap().to_string(), format!("http://{valid}/"));
    }
    let bad = "|localhost|:50051|host:|host:0|host:99999|http://host:1|host:1/path|me@host:1|ho st:1|dns:///host:1";
    for bad in bad.split('|') {
        assert!(matches!(uri(bad), Err(Error::Address { .. })), "{bad:?}");
    }
}
