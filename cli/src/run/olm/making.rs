//! `rukpak run bundle`: a catalog with the bundle, and a Subscription to it.

use anyhow::{Context, bail};
use catalog::inject::{self, CHANNEL, Form, Index, Place, history::History};
use manifests::object::{at, text};
use serde_json::Value;

use super::{
    api::{Kind, Olm},
    check, cut,
    group::{self, Decision},
    installing, namespace, objects, owner,
    progress::Earlier,
    serving, tell_meaningless,
};
use crate::{
    Exit,
    args::{RunBundleArgs, SecurityContext},
    message, output,
    run::{
        Task, command,
        install_mode::{self, InstallMode},
        pulling::Pulled,
    },
};

pub(in crate::run) async fn bundle(
    task: &Task<'_>,
    args: &RunBundleArgs,
    pulled: Pulled,
    index: Option<Index<'_>>,
) -> anyhow::Result<Exit> {
    let (olm, deadline, flags) = (Olm(task.cluster), task.deadline, &args.registry);
    tell_meaningless(flags);
    let namespace = namespace(task.cluster, flags.namespace.as_deref());
    let (package, name) = (pulled.bundle.package.clone(), pulled.bundle.name.clone());
    let (image, modes) = (pulled.named.clone(), pulled.facts.install_modes.clone());
    let pinned = pulled.pinned.clone();
    let mut history = History {
        index: index.as_ref().map(|it| it.name.to_owned()),
        injected: Vec::new(),
    };
    history.push(&pulled.pinned, flags.mode)?;
    let wanted = Wanted {
        package: &package,
        csv: &name,
        history: &history,
    };
    let looking = async {
        let is_openshift = check(task.cluster, &pulled).await?;
        Ok((is_openshift, look(olm, namespace, wanted, args).await?))
    };
    let (is_openshift, before) = deadline.keep("looking at the cluster", looking).await?;
    let wanted = group::Wanted {
        csv: &name,
        namespace,
        supported: &modes,
        mode: args.install_mode.as_ref(),
    };
    let decision = deadline
        .keep("looking at the cluster", decide(olm, wanted))
        .await?;
    if let Some(text) = doubtful(args.install_mode.as_ref()) {
        message::warning(text);
    }

    message::note(&format!(
        "Creating a File-Based Catalog of the bundle {image:?}"
    ));
    let place = Place {
        package: &package,
        channel: CHANNEL,
    };
    let limits = catalog::Limits::default();
    let composed = inject::compose(index, place, Form::Run, vec![pulled.bundle], &limits);
    let parts = cut(&composed.context("error creating the File-Based Catalog")?)?;
    let security = flags
        .security_context_config
        .unwrap_or(SecurityContext::Legacy);
    let secret = flags.pull_secret_name.as_deref();
    task.leaves(format!(
        "what was made of package {package:?} stays: run the same command again to go on, or {}",
        command(&format!("cleanup {package} --namespace {namespace}"))
    ));
    let source = if let Some(source) = before.source {
        source
    } else {
        let source = objects::source(namespace, &package, secret, security);
        let created = olm.create(Kind::CatalogSource, source);
        let created = deadline.keep("creating the CatalogSource", created);
        created.await.context("create catalog")?
    };
    let owner = owner(&source)?;
    let wanted = super::wanted(flags, is_openshift, namespace, &owner, &image);
    let served = serving::serve(task, &wanted, &parts)
        .await
        .context("create catalog")?;
    serving::point(task, namespace, &source, &served, &history, secret).await?;
    message::note(&format!("Created CatalogSource: {}", owner.name));
    let pod = text(
        &source,
        &["metadata", "annotations", inject::history::REGISTRY_POD],
    );
    serving::forget(task, namespace, &owner, pod, &served).await;
    installing::connected(task, namespace, &owner.name, &served.address).await?;

    if let Decision::Create(targets) = decision {
        let object = objects::operator_group(namespace, &targets);
        let created = olm.create(Kind::OperatorGroup, object);
        deadline.keep("creating the OperatorGroup", created).await?;
        message::note(&format!("OperatorGroup {:?} created", group::NAME));
    }
    let subscription = if let Some(name) = before.subscription {
        name
    } else {
        let made = subscribe(olm, namespace, &package, &name);
        deadline.keep("creating the Subscription", made).await?
    };
    let wanted = installing::Wanted {
        namespace,
        subscription: &subscription,
        csv: &name,
        image: &pinned,
        source_namespace: namespace,
        before: &Earlier::default(),
    };
    installing::follow(task, wanted).await?;
    output::print(&format!("OLM has successfully installed {name:?}\n"))?;
    Ok(Exit::Done)
}

/// What is to be said of an install mode; in operator-sdk's words.
fn doubtful(mode: Option<&InstallMode>) -> Option<&'static str> {
    mode.is_some_and(|it| it.kind == install_mode::Kind::Multi).then_some(
        "The selected install mode MultiNamespace may cause tenancy issues and is not recommended",
    )
}

/// Makes the Subscription, and tells its name.
async fn subscribe(
    olm: Olm<'_>,
    namespace: &str,
    package: &str,
    csv: &str,
) -> anyhow::Result<String> {
    let object = objects::subscription(namespace, package, CHANNEL, csv);
    let created = olm.create(Kind::Subscription, object).await;
    created.context("error creating subscription")?;
    let name = objects::subscription_name(csv);
    message::note(&format!("Created Subscription: {name}"));
    Ok(name)
}

/// Decides what the operator watches, given what is in the namespace.
async fn decide(olm: Olm<'_>, wanted: group::Wanted<'_>) -> anyhow::Result<Decision> {
    let groups = olm.list(Kind::OperatorGroup, wanted.namespace).await?;
    let groups: Vec<group::Group> = groups.iter().map(objects::group).collect();
    Ok(group::decide(wanted, &groups)?)
}

/// What is to be made.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    package: &'a str,
    csv: &'a str,
    history: &'a History,
}

/// What an earlier run of the same command has left.
struct Before {
    source: Option<Value>,
    subscription: Option<String>,
}

/// Refuses what is in the way.
async fn look(
    olm: Olm<'_>,
    namespace: &str,
    wanted: Wanted<'_>,
    args: &RunBundleArgs,
) -> anyhow::Result<Before> {
    let package = wanted.package;
    let subscriptions = olm.list(Kind::Subscription, namespace).await?;
    let is_own = |it: &&Value| text(it, &["spec", "name"]) == Some(package);
    let subscription = subscriptions.iter().find(is_own);
    let name = objects::source_name(package);
    let source = olm.find(Kind::CatalogSource, namespace, &name).await?;
    if let Some(source) = &source {
        if !objects::is_made_for(source, package) {
            bail!(
                "CatalogSource {name} exists already in namespace {namespace}, and \"run bundle\" has not made it; name another \
                 --namespace"
            );
        }
        if at(source, &["metadata", "deletionTimestamp"]).is_some() {
            bail!("CatalogSource {name} is being deleted; try again when it is gone");
        }
    }
    if let Some(what) = in_the_way(wanted, subscription, source.as_ref())? {
        bail!(
            "package {package:?} has {what} in namespace {namespace} already; upgrade it with {}, or remove it with {}",
            command(&format!("run bundle-upgrade {}", args.image)),
            command(&format!("cleanup {package}"))
        );
    }
    let subscription = subscription.and_then(|it| text(it, &["metadata", "name"]));
    if let Some(name) = subscription {
        message::note(&format!(
            "Subscription {name} is there already, of this bundle"
        ));
    }
    if source.is_some() {
        message::note(&format!("CatalogSource {name} is there already, and used"));
    }
    Ok(Before {
        subscription: subscription.map(str::to_owned),
        source,
    })
}

/// What an earlier run of the same command has not left: a Subscription to something else, or to what has been upgraded since, or
/// a CatalogSource with other bundles.
fn in_the_way(
    wanted: Wanted<'_>,
    subscription: Option<&Value>,
    source: Option<&Value>,
) -> anyhow::Result<Option<String>> {
    let Wanted { package, csv, .. } = wanted;
    if let Some(subscription) = subscription {
        let said = |path: &[&str]| text(subscription, path).unwrap_or_default();
        let name = said(&["metadata", "name"]);
        let is_same = name == objects::subscription_name(csv)
            && said(&["spec", "startingCSV"]) == csv
            && said(&["spec", "source"]) == objects::source_name(package);
        if !is_same {
            return Ok(Some(format!("the Subscription {name}")));
        }
        let installed = said(&["status", "installedCSV"]);
        if !installed.is_empty() && installed != csv {
            return Ok(Some(format!(
                "the Subscription {name}, which has installed {installed},"
            )));
        }
    }
    if let Some(source) = source {
        let known = History::read(&objects::annotations(source))?;
        if known != History::default() && known != *wanted.history {
            let name = objects::source_name(package);
            return Ok(Some(format!("the CatalogSource {name} of other bundles")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sdk-4
    #[test]
    fn operators_of_several_namespaces_are_warned_of() {
        for (mode, expected) in [
            (None, false),
            (Some("AllNamespaces"), false),
            (Some("SingleNamespace=a"), false),
            (Some("MultiNamespace=a,b"), true),
        ] {
            let read: Option<InstallMode> = mode.map(|it| it.parse().unwrap());
            assert_eq!(doubtful(read.as_ref()).is_some(), expected, "{mode:?}");
        }
    }

    // parity: sdk-30
    #[test]
    fn only_what_the_same_command_has_left_is_gone_on_with() {
        let history = |images: &[&str]| {
            let mut history = History::default();
            for it in images {
                history.push(it, None).unwrap();
            }
            history
        };
        let (first, both) = (
            history(&["a.io/tide:1"]),
            history(&["a.io/tide:1", "a.io/tide:2"]),
        );
        let wanted = Wanted {
            package: "tide",
            csv: "tide.v1",
            history: &first,
        };
        let subscription = |csv: &str, installed: &str| {
            Some(json!({
                "metadata": {"name": objects::subscription_name(csv)},
                "spec": {"name": "tide", "startingCSV": csv, "source": "tide-catalog"},
                "status": {"installedCSV": installed},
            }))
        };
        let source =
            |history: &History| Some(json!({"metadata": {"annotations": history.annotations()}}));
        let bare = Some(json!({"metadata": {"name": "tide-catalog"}}));
        let index = History {
            index: Some("a.io/index:1".to_owned()),
            ..first.clone()
        };
        for (subscription, source, expected) in ::tests::rows![
            None, None => None;
            None, bare.clone() => None;
            None, source(&first) => None;
            subscription("tide.v1", ""), source(&first) => None;
            subscription("tide.v1", "tide.v1"), source(&first) => None;
            // Somebody has deleted the CatalogSource.
            subscription("tide.v1", "tide.v1"), None => None;
            subscription("tide.v1", "tide.v1"), bare.clone() => None;
            subscription("tide.v2", ""), None => Some("the Subscription tide-v2-sub");
            // It has been upgraded since, or is being.
            subscription("tide.v1", "tide.v2"), source(&both)
                => Some("the Subscription tide-v1-sub, which has installed tide.v2,");
            subscription("tide.v1", "tide.v2"), None => Some("the Subscription tide-v1-sub, which has installed tide.v2,");
            subscription("tide.v1", "tide.v1"), source(&both) => Some("the CatalogSource tide-catalog of other bundles");
            None, source(&index) => Some("the CatalogSource tide-catalog of other bundles");
        ] {
            let found = in_the_way(wanted, subscription.as_ref(), source.as_ref()).unwrap();
            assert_eq!(found.as_deref(), expected, "{subscription:?} {source:?}");
        }
        let damaged =
            json!({"metadata": {"annotations": {inject::history::INJECTED_BUNDLES: "[{"}}});
        assert!(in_the_way(wanted, None, Some(&damaged)).is_err());
    }
}
