//! Selection of the catalog that is authoritative for the installed bundle.

use super::{CatalogAnswer, Installed, Offer};
use crate::model::{Channel, Package};

/// Returns the package that the catalog offers, with the name of the catalog.
pub(super) fn offered_package<'a>(offer: &Offer<'a>) -> Option<(&'a str, &'a Package)> {
    match offer.answer {
        CatalogAnswer::Package(package) => Some((offer.catalog, package)),
        CatalogAnswer::NotFound | CatalogAnswer::Unavailable(_) | CatalogAnswer::Pending => None,
    }
}

/// Returns the position of the authoritative catalog, and whether the installed bundle came from it. As long as that
/// catalog contains the package, no other one is considered, because equal names may denote different content there.
pub(super) fn authoritative_catalog<'p>(
    installed: &Installed,
    offers: &[Offer<'p>],
    channel: impl Fn(&'p Package) -> Option<&'p Channel>,
) -> (Option<usize>, bool) {
    let contains_installed = |package: &Package| {
        let bundle = package.bundle(&installed.name);
        bundle.is_some_and(|bundle| installed.is_bundle(bundle))
    };
    let continues = |package| {
        let channel = channel(package);
        channel.is_some_and(|channel| {
            channel
                .entries
                .iter()
                .any(|entry| installed.precedes(entry))
        })
    };
    let mut all = offers.iter().map(offered_package);
    let own = installed.catalog.as_deref();
    let source = all.clone().enumerate().find_map(|(at, offer)| {
        let (catalog, package) = offer?;
        (own == Some(catalog)).then_some((at, package))
    });
    if let Some((at, package)) = source {
        let decides = contains_installed(package) || continues(package);
        return (decides.then_some(at), true);
    }
    let first = all
        .clone()
        .position(|offer| offer.is_some_and(|(_, package)| contains_installed(package)));
    let at = first
        .or_else(|| all.position(|offer| offer.is_some_and(|(_, package)| continues(package))));
    (at, false)
}
