//! `rukpak catalog list`.

use anyhow::bail;
use catalog::{
    Catalog,
    model::{Channel, Entry, Package},
};
use serde::Serialize;

use crate::{
    ExitStatus,
    args::{self, CatalogListArgs, ListKind},
    output,
    output::table,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageRow<'a> {
    name: &'a str,
    default_channel: &'a str,
    head: &'a str,
    channels: usize,
    bundles: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelRow<'a> {
    package: &'a str,
    channel: &'a str,
    is_default: bool,
    head: &'a str,
    bundles: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleRow<'a> {
    package: &'a str,
    channel: &'a str,
    bundle: &'a str,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    skips: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_range: Option<&'a str>,
    media_type: &'a str,
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecated: Option<&'a str>,
}

pub(crate) fn run(args: &CatalogListArgs) -> anyhow::Result<ExitStatus> {
    let catalog = super::one(&args.catalog, &args.reading)?;
    let requested = args.package();
    if let Some(name) = requested {
        find(&catalog, name)?;
    } else {
        super::warn(&catalog, &args.catalog);
    }
    let is_requested = |package: &&Package| requested.is_none_or(|name| name == package.name);
    let packages: Vec<&Package> = catalog.packages.values().filter(is_requested).collect();
    match args.kind {
        ListKind::Packages => {
            let rows: Vec<_> = packages.into_iter().map(package).collect();
            print(
                &rows,
                args,
                ["NAME", "DEFAULT CHANNEL", "HEAD", "CHANNELS", "BUNDLES"],
                |row| {
                    [
                        row.name.to_owned(),
                        row.default_channel.to_owned(),
                        row.head.to_owned(),
                        row.channels.to_string(),
                        row.bundles.to_string(),
                    ]
                },
            )
        }
        ListKind::Channels => {
            let channels = packages.into_iter().flat_map(|package| {
                package
                    .channels
                    .values()
                    .map(move |entry| channel(package, entry))
            });
            let rows: Vec<_> = channels.collect();
            print(
                &rows,
                args,
                ["PACKAGE", "CHANNEL", "HEAD", "BUNDLES"],
                |row| {
                    [
                        row.package.to_owned(),
                        row.channel.to_owned(),
                        row.head.to_owned(),
                        row.bundles.to_string(),
                    ]
                },
            )
        }
        ListKind::Bundles => {
            let bundles = packages.into_iter().flat_map(|package| {
                let rows = move |channel| {
                    let entries: &[Entry] = entries(channel);
                    entries
                        .iter()
                        .map(move |entry| bundle(package, channel, entry))
                };
                package.channels.values().flat_map(rows)
            });
            let rows: Vec<_> = bundles.collect();
            let header = [
                "PACKAGE",
                "CHANNEL",
                "BUNDLE",
                "VERSION",
                "REPLACES",
                "SKIPS",
                "SKIP RANGE",
                "IMAGE",
            ];
            print(&rows, args, header, |row| {
                [
                    row.package.to_owned(),
                    row.channel.to_owned(),
                    row.bundle.to_owned(),
                    row.version.clone(),
                    row.replaces.unwrap_or_default().to_owned(),
                    row.skips.join(","),
                    row.skip_range.unwrap_or_default().to_owned(),
                    row.image.to_owned(),
                ]
            })
        }
    }?;
    Ok(ExitStatus::Done)
}

/// Returns a valid package; an error explains why the package cannot be used.
pub(super) fn find<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<&'a Package> {
    if let Some(package) = catalog.packages.get(name) {
        return Ok(package);
    }
    match catalog.why_broken(name) {
        Some(reason) => bail!("package {name:?} cannot be used: {reason}"),
        None => bail!(
            "package {name:?} not found in the catalog; run \"{} catalog list packages\" to see all packages",
            args::name()
        ),
    }
}

fn print<T: Serialize, const N: usize>(
    rows: &[T],
    args: &CatalogListArgs,
    header: [&str; N],
    cells: impl Fn(&T) -> [String; N],
) -> anyhow::Result<()> {
    let text = output::described(&rows, args.output)?.unwrap_or_else(|| {
        let rows: Vec<_> = rows.iter().map(cells).collect();
        table::render(Some(header), &rows, 0)
    });
    output::print(&text)
}

fn entries(channel: &Channel) -> &[Entry] {
    &channel.entries
}

fn head(channel: Option<&Channel>) -> &str {
    let head = channel.and_then(Channel::head);
    head.map(|entry| entry.name.as_str()).unwrap_or_default()
}

fn package(package: &Package) -> PackageRow<'_> {
    PackageRow {
        name: &package.name,
        default_channel: &package.default_channel,
        head: head(package.channels.get(&package.default_channel)),
        channels: package.channels.len(),
        bundles: package.bundles.len(),
        deprecated: package.deprecation.as_deref(),
    }
}

fn channel<'a>(package: &'a Package, channel: &'a Channel) -> ChannelRow<'a> {
    ChannelRow {
        package: &package.name,
        channel: &channel.name,
        is_default: channel.name == package.default_channel,
        head: head(Some(channel)),
        bundles: channel.entries.len(),
        deprecated: channel.deprecation.as_deref(),
    }
}

fn bundle<'a>(package: &'a Package, channel: &'a Channel, entry: &'a Entry) -> BundleRow<'a> {
    let bundle = package.bundle(&entry.name);
    BundleRow {
        package: &package.name,
        channel: &channel.name,
        bundle: &entry.name,
        version: bundle
            .map(|bundle| bundle.version.to_string())
            .unwrap_or_default(),
        replaces: entry.replaces.as_deref(),
        skips: &entry.skips,
        skip_range: entry.skip_range.as_deref(),
        media_type: bundle
            .map(catalog::model::Bundle::media_type)
            .unwrap_or_default(),
        image: bundle
            .map(|bundle| bundle.image.as_str())
            .unwrap_or_default(),
        deprecated: bundle.and_then(|bundle| bundle.deprecation.as_deref()),
    }
}
