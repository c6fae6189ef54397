//! Untrusted bundles: each random change gets an answer, and twice the same one.

use super::*;

/// Known harmful values.
fn odd(random: &mut Random) -> Value {
    let texts = "|..|a/b|A|-|\0|é|4.10|{{ .X }}|plural.group|v1|*".split('|');
    let texts: Vec<&str> = texts.collect();
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
        _ => (*random.pick(&texts)).into(),
    }
}

fn strange(random: &mut Random) -> Value {
    let kinds = "v1 Service, v1 ServiceAccount, v1 List, policy/v1beta1 PodDisruptionBudget, policy/v1beta1 PodSecurityPolicy, \
                 extensions/v1beta1 Ingress, apps/v1beta1 Deployment, autoscaling/v2beta1 HorizontalPodAutoscaler, \
                 rbac.authorization.k8s.io/v1alpha1 ClusterRoleBinding, \
                 admissionregistration.k8s.io/v1beta1 ValidatingWebhookConfiguration, sea.example.com/v1 Tide";
    let (api, kind) = *random.pick(&tests::pairs(kinds).collect::<Vec<_>>());
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"selector": {}, "rules": [{"http": {"paths": [{"backend": {"serviceName": "s", "servicePort": 1}}]}}],
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 1}}]},
        "subjects": [{"kind": "User", "name": "*"}], "webhooks": [{"name": "w"}], "items": [{}]});
    random.mutate(&mut object, &mut odd);
    object
}

fn run(random: &mut Random) -> usize {
    let good = Bundle::good();
    let [mut csv, mut crd] = [CSV, CRD].map(|path| good.json(path));
    if random.below(2) == 0 {
        crd["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
        crd["spec"]["validation"] = crd["spec"]["versions"][0]["schema"].clone();
        crd["spec"]["version"] = "v1".into();
    }
    for _ in 0..=random.below(4) {
        match random.below(4) {
            0 => random.mutate(&mut crd, &mut odd),
            _ => random.mutate(&mut csv, &mut odd),
        }
    }
    let properties = "properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.10\n";
    let mut texts = [
        (CSV, csv.to_string()),
        (CRD, crd.to_string()),
        (ANNOTATIONS, good.0[ANNOTATIONS].clone()),
        ("manifests/x.yaml", strange(random).to_string()),
        ("metadata/properties.yaml", properties.to_owned()),
    ]
    .map(|(path, text)| (path, text.into_bytes()));
    // Some cases change bytes, too, so that files are truncated, malformed or not text.
    if random.below(3) == 0 {
        let file = random.below(texts.len());
        let bytes = &mut texts[file].1;
        for _ in 0..=random.below(8) {
            random.change(bytes, b":-{}[]&*!|>'\"%@`#\n\t \0\xff");
        }
    }
    let mut files = Builder::new(Limits::default());
    for (path, bytes) in &texts {
        files.add(path, 0o644, &mut bytes.as_slice()).unwrap();
    }
    let content = files.finish();
    let conversion = convert::plain(&content, &Options::default());
    assert_rows!(conversion.objects.is_none() => conversion.report.refusals().next().is_some());
    assert_eq!(conversion, convert::plain(&content, &Options::default()));
    let mut report = convert::validate(&content, &Options::default());
    // An invalid max OpenShift version is an error of the validation only.
    let is_error = |f: &&Finding| f.level == Level::Error && f.code != Code::MaxOpenShiftVersion;
    let errors = |findings: &[Finding]| findings.iter().filter(is_error).count();
    assert_rows!(errors(&report.findings) => errors(&conversion.report.findings));
    report.locate(&content);
    serde_json::to_string(&report).unwrap();
    let objects = || conversion.objects.iter().flatten();
    let mut identities: Vec<_> = objects().map(Object::identity).collect();
    let count = identities.len();
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), count, "an identity twice");
    for object in objects() {
        assert_rows!(&yaml::documents(yaml::to_string(object).unwrap().as_bytes()).next().unwrap().unwrap() => object.value());
    }
    conversion.objects.is_some().into()
}

#[test]
fn fuzz_bundles_always_get_an_answer() {
    fuzz(3000, 3, run);
}
