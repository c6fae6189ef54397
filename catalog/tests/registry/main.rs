//! The registry API: a real server over TCP, our client, one that is made from the protocol, and hostile servers.
//!
//! This is the acceptance list E.4:
//!
//! | row | test |
//! | --- | --- |
//! | every rpc, and what is not found | `rpcs`, and the same questions to `opm serve`: `opm::opm_answers_the_same` |
//! | the same of bundles that people have published | `real` |
//! | bundles without edges | `rpcs::a_bundle_comes_with_manifests_and_without_edges`, `…the_bundle_of_a_channel_is_its_head` |
//! | ListBundles: number, order, manifests | `rpcs::lists_of_bundles_have_edges_and_manifests_only_without_an_image` |
//! | who replaces or skips | `rpcs::who_replaces_or_skips_is_found` |
//! | who provides; the default one | `rpcs::who_provides_an_api_is_found` |
//! | deprecations | `rpcs::a_package_has_sorted_channels_with_their_heads`, `opm::opm_answers_the_same` |
//! | metadata instead of manifests, icon and description of the package | `rpcs::a_bundle_comes_with_manifests_and_without_edges` |
//! | metadata twice | `stores::a_bad_package_takes_no_other_down`: opm refuses the catalog, here the package is left out |
//! | health, reflection | `service::health_is_told_of_whatever_is_asked_for`, `…reflection_tells_the_protocol` |
//! | custom schemas | `rpcs::custom_schemas_are_for_those_who_know_what_they_ask_for` |
//! | a cache: the same digest, modes | `stores::a_store_is_built_once_for_the_same_content` |
//! | its integrity: missing, of another catalog, changed | `stores::only_the_store_of_this_very_catalog_is_loaded`, `…torn_and_foreign_files_are_refused_and_built_again`, `…no_changed_byte_is_served` |
//! | its folder holds something else | `stores::a_folder_of_something_else_is_left_alone` |
//! | names of custom schemas that are none | `stores::a_bad_package_takes_no_other_down`: opm refuses the catalog, here the blob is left out |
//! | flags, signals, the termination log | `cli: serve` |
//! | more than 50 MB within limits | `cli: serve::a_catalog_larger_than_its_memory_is_served` |

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod calls;
mod dynamic;
mod fixture;
mod large;
mod opm;
mod protocol;
mod reading;
mod real;
mod rpcs;
mod service;
mod stores;
mod suspicion;
