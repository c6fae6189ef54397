//! Reports of finished calls.

use tonic::Request;

use crate::fixture::{Served, big};
use crate::*;

/// Number of calls by rpc and status code.
#[derive(Default)]
struct Heard(Mutex<BTreeMap<(&'static str, &'static str), usize>>);

impl ObserveCalls for Heard {
    fn ended(&self, rpc: &'static str, code: &'static str, took: Duration) {
        assert!(took < Duration::from_secs(3600));
        *self.0.lock().unwrap().entry((rpc, code)).or_default() += 1;
    }
}

#[tokio::test]
async fn each_call_is_reported_once_with_its_code() {
    let heard = Arc::new(Heard::default());
    let observer = Arc::clone(&heard) as Arc<dyn ObserveCalls>;
    let served = Served::with_calls(big(40, 1_000_000).path(), observer).await;
    let client = served.client().await;
    for _ in 0..3 {
        client.list_packages().await.unwrap();
    }
    client.get_package("big").await.unwrap();
    let error = client.get_package("no").await.unwrap_err().to_string();
    let end = "returned Unknown for GetPackage: package \"no\" not found";
    assert!(error.ends_with(end), "{error}");
    // A request that cannot be decoded.
    let error = client.get_package(&"x".repeat(1 << 20)).await.unwrap_err();
    let is_refused = matches!(&error, Error::Refused { code, .. } if *code == Code::OutOfRange);
    let is_too_large = matches!(error, Error::TooLarge { .. });
    assert!(is_refused || is_too_large, "{error:?}");
    // A call whose client does not read all answers.
    let mut list = Box::pin(client.list_bundles());
    list.try_next().await.unwrap().unwrap();
    drop(list);
    let channel = Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
    let mut grpc = tonic::client::Grpc::new(channel.connect().await.unwrap());
    let paths =
        "/api.Registry/Made-up-1 /api.ExperimentalRegistry/ListBundles /api.Other/ListBundles";
    for path in paths.split(' ') {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let answer = grpc.unary(Request::new(()), path.parse().unwrap(), codec);
        assert_rows!(answer.await.unwrap_err().code() => Code::Unimplemented, "{path}");
    }
    // The set of names is fixed, regardless of the requests.
    let expected = BTreeMap::from([
        (("ListPackages", "OK"), 3),
        (("GetPackage", "OK"), 1),
        (("GetPackage", "Unknown"), 1),
        (("GetPackage", "OutOfRange"), 1),
        (("ListBundles", "Canceled"), 1),
        (("other", "Unimplemented"), 2),
    ]);
    let reported = async {
        while *heard.0.lock().unwrap() != expected {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let reported = timeout(Duration::from_secs(60), reported).await;
    assert!(reported.is_ok(), "{:?}", heard.0.lock().unwrap());
}
