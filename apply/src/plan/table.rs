//! A plan as a table for people, and as data.

use std::fmt;

use manifests::object::Identity;
use serde::{
    Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};

use super::{Absent, Plan, Step, Wave};

impl fmt::Display for Wave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Namespaces => "Namespaces",
            Self::Definitions => "Definitions",
            Self::Configuration => "Configuration",
            Self::Workloads => "Workloads",
            Self::Resources => "Resources",
        })
    }
}

impl fmt::Display for Plan {
    /// One line for each object: what is done, when, with what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(
                f,
                "{:<8}{:<15}{} ({})",
                "apply",
                step.wave,
                step.object.identity(),
                step.object.api_version()
            )?;
        }
        for leaving in &self.leaving {
            writeln!(f, "{:<8}{:<15}{}", "delete", "", leaving.identity)?;
        }
        let absent = [("waits", &self.waiting), ("missing", &self.missing)];
        for (action, absent) in absent {
            for Absent {
                api_version,
                needed_by,
                ..
            } in absent
            {
                for identity in needed_by {
                    writeln!(
                        f,
                        "{action:<8}{:<15}{identity} ({api_version} is not served)",
                        ""
                    )?;
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut plan = serializer.serialize_struct("Plan", 4)?;
        plan.serialize_field("apply", &Steps(&self.steps))?;
        plan.serialize_field("delete", &self.leaving)?;
        plan.serialize_field("waiting", &self.waiting)?;
        plan.serialize_field("missing", &self.missing)?;
        plan.end()
    }
}

/// Without what the objects hold: that may be secret, and is said elsewhere.
struct Steps<'a>(&'a [Step]);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    wave: Wave,
    api_version: &'a str,
    #[serde(flatten)]
    identity: Identity,
}

impl Serialize for Steps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines = serializer.serialize_seq(Some(self.0.len()))?;
        for step in self.0 {
            lines.serialize_element(&Line {
                wave: step.wave,
                api_version: step.object.api_version(),
                identity: step.object.identity(),
            })?;
        }
        lines.end()
    }
}
