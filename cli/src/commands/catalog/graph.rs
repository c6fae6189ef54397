//! `rukpak catalog graph`.

use anyhow::bail;
use catalog::draw;

use crate::{
    ExitStatus,
    args::{CatalogGraphArgs, GraphFormat},
    output,
};

pub(crate) fn run(args: &CatalogGraphArgs) -> anyhow::Result<ExitStatus> {
    let catalog = super::one(&args.catalog, &args.reading)?;
    let package = super::list::find(&catalog, &args.package)?;
    if let Some(name) = &args.channel
        && !package.channels.contains_key(name)
    {
        let names = package.channels.keys().take(20);
        let names: Vec<&str> = names.map(String::as_str).collect();
        bail!(
            "package {:?} has no channel {name:?}; it has {}",
            package.name,
            names.join(", ")
        );
    }
    let language = match args.output {
        GraphFormat::Mermaid => draw::GraphFormat::Mermaid,
        GraphFormat::Dot => draw::GraphFormat::Dot,
    };
    output::print(&draw::draw(package, args.channel.as_deref(), language))?;
    Ok(ExitStatus::Done)
}
