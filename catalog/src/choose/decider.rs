//! Whose word counts for what is installed.

use super::{Answer, Installed, Offer};
use crate::model::{Channel, Package};

/// What a catalog has of the package, and its name.
pub(super) fn asked<'a>(offer: &Offer<'a>) -> Option<(&'a str, &'a Package)> {
    match offer.answer {
        Answer::Package(package) => Some((offer.catalog, package)),
        Answer::Absent | Answer::Unknown(_) | Answer::Pending => None,
    }
}

/// Where the catalog stands that decides, and whether that is a matter of the one that it was chosen from alone: as long as
/// that has the package, nobody else is asked, for what has the same name there may be something else.
pub(super) fn decider<'p>(
    installed: &Installed,
    offers: &[Offer<'p>],
    channel: impl Fn(&'p Package) -> Option<&'p Channel>,
) -> (Option<usize>, bool) {
    let knows = |package: &Package| {
        let bundle = package.bundle(&installed.name);
        bundle.is_some_and(|it| installed.is(it))
    };
    let leads_on = |package| {
        let channel = channel(package);
        channel.is_some_and(|it| it.entries.iter().any(|entry| installed.is_before(entry)))
    };
    let mut all = offers.iter().map(asked);
    let own = installed.catalog.as_deref();
    let of_own = all.clone().enumerate().find_map(|(at, asked)| {
        let (catalog, package) = asked?;
        (own == Some(catalog)).then_some((at, package))
    });
    if let Some((at, package)) = of_own {
        let decides = knows(package) || leads_on(package);
        return (decides.then_some(at), true);
    }
    let first = all
        .clone()
        .position(|it| it.is_some_and(|(_, package)| knows(package)));
    let at = first.or_else(|| all.position(|it| it.is_some_and(|(_, package)| leads_on(package))));
    (at, false)
}
