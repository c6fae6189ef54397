//! One module per subcommand, with the name of the subcommand.

pub(crate) mod adopt;
pub(crate) mod catalog;
pub(crate) mod catalogsource;
pub(crate) mod content;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod history;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod pause;
pub(crate) mod platform_render;
pub(crate) mod push;
pub(crate) mod rollback;
pub(crate) mod run_bundle;
pub(crate) mod status;
pub(crate) mod uninstall;
pub(crate) mod unpack;
pub(crate) mod upgrade_check;
pub(crate) mod validate;
pub(crate) mod version;
