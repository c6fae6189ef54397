//! Bundles of strangers: changed at random, each gets an answer, the same one twice.

use std::time::{Duration, Instant};

use convert::{Level, Options};
use manifests::{
    content::{Builder, Limits},
    yaml,
};
use serde_json::{Value, json};

use super::fixture::{ANNOTATIONS, Bundle, CRD, CSV};

/// Marsaglia's xorshift: the same bundles on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Values that have hurt somebody.
fn odd(random: &mut Random) -> Value {
    let text = [
        "",
        "..",
        "a/b",
        "A",
        "-",
        "\u{0}",
        "é",
        "4.10",
        "{{ .X }}",
        "plural.group",
        "v1",
        "*",
    ];
    match random.below(12) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(-1),
        3 => json!(1e300),
        4 => json!([]),
        5 => json!({}),
        6 => json!([null, {}, "x"]),
        7 => json!({"name": {"name": []}}),
        8 => "x".repeat(300).into(),
        9 => json!({"kind": "List", "items": [{"kind": "List", "items": [7]}]}),
        _ => (*random.pick(&text)).into(),
    }
}

/// Replaces, removes, copies or renames something somewhere below.
fn mutate(value: &mut Value, random: &mut Random) {
    let size = match value {
        Value::Object(map) => map.len(),
        Value::Array(list) => list.len(),
        _ => 0,
    };
    if size == 0 || random.below(6) == 0 {
        *value = odd(random);
        return;
    }
    let at = random.below(size);
    match value {
        Value::Object(map) => {
            let key = map.keys().nth(at).unwrap().clone();
            match random.below(8) {
                0 => drop(map.remove(&key)),
                1 => {
                    let moved = map.remove(&key).unwrap();
                    map.insert(key.to_uppercase(), moved);
                }
                _ => mutate(map.get_mut(&key).unwrap(), random),
            }
        }
        Value::Array(list) => match random.below(8) {
            0 => drop(list.remove(at)),
            1 => {
                let copy = list[at].clone();
                list.push(copy);
            }
            _ => mutate(&mut list[at], random),
        },
        _ => {}
    }
}

fn extra(random: &mut Random) -> Value {
    let apis = [
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("v1", "List"),
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("policy/v1beta1", "PodSecurityPolicy"),
        ("extensions/v1beta1", "Ingress"),
        ("apps/v1beta1", "Deployment"),
        ("autoscaling/v2beta1", "HorizontalPodAutoscaler"),
        ("rbac.authorization.k8s.io/v1alpha1", "ClusterRoleBinding"),
        (
            "admissionregistration.k8s.io/v1beta1",
            "ValidatingWebhookConfiguration",
        ),
        ("sea.example.com/v1", "Tide"),
    ];
    let (api, kind) = *random.pick(&apis);
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"selector": {}, "rules": [{"http": {"paths": [{"backend": {"serviceName": "s", "servicePort": 1}}]}}],
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 1}}]},
        "subjects": [{"kind": "User", "name": "*"}], "webhooks": [{"name": "w"}], "items": [{}]});
    mutate(&mut object, random);
    object
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut good = Bundle::good();
    if random.below(2) == 0 {
        let spec = good.crd["spec"].clone();
        good.crd["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
        good.crd["spec"]["validation"] = spec["versions"][0]["schema"].clone();
        good.crd["spec"]["version"] = "v1".into();
    }
    for _ in 0..=random.below(4) {
        match random.below(4) {
            0 => mutate(&mut good.crd, &mut random),
            _ => mutate(&mut good.csv, &mut random),
        }
    }
    let mut texts = vec![
        (CSV.to_owned(), good.csv.to_string().into_bytes()),
        (CRD.to_owned(), good.crd.to_string().into_bytes()),
        (
            ANNOTATIONS.to_owned(),
            good.files[ANNOTATIONS].clone().into_bytes(),
        ),
        (
            "manifests/x.yaml".to_owned(),
            extra(&mut random).to_string().into_bytes(),
        ),
        (
            "metadata/properties.yaml".to_owned(),
            b"properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.10\n".to_vec(),
        ),
    ];
    // Now and then bytes change, too, so that files are cut, broken or no text at all.
    if random.below(3) == 0 {
        let file = random.below(texts.len());
        let bytes = &mut texts[file].1;
        for _ in 0..=random.below(8) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(
                    at.min(bytes.len()),
                    *random.pick(b":-{}[]&*!|>'\"%@`#\n\t \0\xff"),
                ),
                _ if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                _ => {}
            }
        }
    }
    let mut files = Builder::new(Limits::default());
    for (path, bytes) in &texts {
        files.add(path, 0o644, &mut bytes.as_slice()).unwrap();
    }
    let content = files.finish();
    let conversion = convert::plain(&content, &Options::default());
    assert_eq!(
        conversion.objects.is_none(),
        conversion.report.refusals().next().is_some(),
        "seed {seed}"
    );
    assert_eq!(
        conversion,
        convert::plain(&content, &Options::default()),
        "seed {seed}"
    );
    let mut report = convert::validate(&content, &Options::default());
    // An invalid max OpenShift version is an error of the validation alone.
    let is_error = |f: &&convert::Finding| {
        f.level == Level::Error && f.code != convert::Code::MaxOpenShiftVersion
    };
    let errors = |findings: &[convert::Finding]| findings.iter().filter(is_error).count();
    assert_eq!(
        errors(&report.findings),
        errors(&conversion.report.findings),
        "seed {seed}"
    );
    report.locate(&content);
    serde_json::to_string(&report).unwrap();
    let mut identities: Vec<_> = conversion
        .objects
        .iter()
        .flatten()
        .map(manifests::object::Object::identity)
        .collect();
    let count = identities.len();
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), count, "seed {seed}: an identity twice");
    for object in conversion.objects.iter().flatten() {
        let text = yaml::to_string(object).unwrap();
        let read = yaml::documents(text.as_bytes()).next().unwrap().unwrap();
        assert_eq!(&read, object.value(), "seed {seed}");
    }
}

#[test]
fn fuzz_bundles_get_an_answer_whatever_they_hold() {
    let seconds = std::env::var("RUKPAK_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else {
        (0..3000).for_each(run);
        return;
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = 0;
    while Instant::now() < end {
        run(seed);
        seed += 1;
    }
    eprintln!("{seed} bundles");
}
