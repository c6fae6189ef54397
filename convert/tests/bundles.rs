//! Whole bundles: the conversion of valid ones, and the rejection of invalid ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests fail by panicking
#![allow(clippy::indexing_slicing, clippy::wildcard_imports)]
#![allow(clippy::too_many_lines)] // tables are long

#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

#[path = "../src/testing.rs"]
mod testing;

mod bundles {
    mod conversion;
    mod facts;
    mod fixture;
    mod fuzz;
    mod irregular;
    mod memory;
    mod others;
    mod refusals;

    use std::{
        collections::BTreeSet,
        fmt::{Display, Write as _},
    };

    use convert::{
        Class, Code, Conversion, Finding, KEEP, Level, NamespaceObject, Options,
        deployment_config::DeploymentConfig,
    };
    use manifests::{
        content::{Builder, Content, Irregular, Kind, Limits},
        object::Object,
        yaml,
    };
    use serde_json::{Value, json};
    use tests::fuzz::{Random, fuzz};

    use crate::testing::{ANNOTATIONS, Bundle, CRD, CSV, content, pointers};
    use fixture::{DEPLOYMENTS, extra, findings, names, names_of, object, objects, template};
}
