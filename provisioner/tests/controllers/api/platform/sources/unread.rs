//! Fields that nothing reads.

use super::*;

/// Every field beside every source: what would not be read is refused. In OLM's form, what OLM has always let pass is taken,
/// and told ([`super::warned`]).
// parity: source-3
#[tokio::test]
async fn nothing_is_taken_that_nobody_reads() {
    let sources = [
        image(),
        service(),
        map(),
        by_image(),
        by_address(),
        by_map(),
    ];
    let (yes, no) = (true, false);
    for (field, value, taken) in tests::rows![
        "sourceType", json!("grpc") => [no, no, no, yes, yes, no];
        "image", json!("r/c:v1") => [no, no, no, yes, no, no];
        "address", json!("a:50051") => [no, no, no, no, yes, no];
        "configMap", json!("m") => [no, no, no, no, no, yes];
        "grpcPodConfig", json!({}) => [no, no, no, yes, no, no];
        "catalogImageSource", image()["catalogImageSource"].clone() => [yes, no, no, no, no, no];
        "catalogServiceSource", service()["catalogServiceSource"].clone() => [no, yes, no, no, no, no];
        "configMapSource", map()["configMapSource"].clone() => [no, no, yes, no, no, no];
        "updateStrategy", polled()["updateStrategy"].clone() => [yes, no, no, yes, yes, yes];
        "secrets", json!(["s"]) => [yes, no, no, yes, yes, yes];
        "secrets", json!([]) => [yes; 6];
        "priority", json!(-1) => [yes; 6];
        "displayName", json!("Mine") => [yes; 6];
        "description", json!("Mine") => [yes; 6];
        "publisher", json!("Me") => [yes; 6];
        "icon", json!({"base64data": "AAAA", "mediatype": "image/png"}) => [yes; 6];
    ] {
        for (spec, taken) in sources.iter().zip(taken) {
            let mut beside = json!({});
            beside[field] = value.clone();
            let object = source("beside", &and(spec, &beside));
            let answer = put(&object, true).await;
            assert_eq!(answer.is_ok(), taken, "{object}: {answer:?}");
            if let Err(said) = answer {
                assert!(said.contains("spec"), "{said}");
                assert!(
                    said.contains("remove") || said.contains("unknown"),
                    "{said}"
                );
            }
        }
    }
}
