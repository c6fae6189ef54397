//! Parsers for flag values, some of them with the semantics of Go programs.

use std::{any::TypeId, ffi::OsStr, path::PathBuf, str::FromStr};

use clap::{
    Arg, ArgAction, Command,
    builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser},
};

use super::cluster;

/// Value of a flag that an empty text leaves unset, because scripts pass on variables that may be unset.
///
/// An alias, because clap treats a field of type `Option` as an optional flag and parses the inner type.
pub(crate) type NonEmpty<T> = Option<T>;

/// Parses a value; an empty text means unset.
pub(super) fn non_empty<T: FromStr>(text: &str) -> Result<NonEmpty<T>, T::Err> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some),
    }
}

/// Parses the name of a namespace; an empty text means unset.
pub(super) fn namespace(text: &str) -> Result<NonEmpty<String>, &'static str> {
    match text {
        "" => Ok(None),
        text => cluster::namespace(text).map(Some),
    }
}

/// Returns a parser for one of these values; an empty text means unset.
pub(super) fn one_of(values: &[&'static str]) -> impl TypedValueParser<Value = NonEmpty<String>> {
    let empty = PossibleValue::new("").hide(true);
    let values = values.iter().map(PossibleValue::new);
    PossibleValuesParser::new(values.chain([empty]))
        .map(|value| Some(value).filter(|value| !value.is_empty()))
}

/// Returns a parser for a file that cannot be standard input.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path: PathBuf| {
        if path.as_os_str() == "-" {
            Err("use /dev/stdin for standard input, or ./- for a file of this name")
        } else {
            Ok(path)
        }
    })
}

/// A parser with names for help and completion. Unlike in [`PossibleValuesParser`], errors are those of the parser.
#[derive(Clone)]
pub(super) struct ListedValues<P> {
    parser: P,
    names: &'static [&'static str],
}

pub(super) fn with_names<P>(parser: P, names: &'static [&'static str]) -> ListedValues<P> {
    ListedValues { parser, names }
}

impl<P: TypedValueParser> TypedValueParser for ListedValues<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// Makes all boolean flags of a command and its subcommands accept a value: `--flag`, `--flag=true`, `--flag=F`.
pub(crate) fn with_boolean_values(command: Command) -> Command {
    let accept = |arg: Arg| {
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let arg = if is_switch {
            arg.action(ArgAction::Set)
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_value("false")
                .default_missing_value("true")
        } else {
            arg
        };
        if arg.get_value_parser().type_id() == TypeId::of::<bool>() {
            arg.value_parser(boolean())
        } else {
            arg
        }
    };
    command
        .mut_args(accept)
        .mut_subcommands(with_boolean_values)
}

/// Returns a parser for booleans in all spellings of Go.
fn boolean() -> impl TypedValueParser<Value = bool> {
    const TRUE: [&str; 6] = ["true", "1", "t", "T", "TRUE", "True"];
    const FALSE: [&str; 6] = ["false", "0", "f", "F", "FALSE", "False"];
    let values = [TRUE, FALSE].map(|[word, others @ ..]| PossibleValue::new(word).aliases(others));
    PossibleValuesParser::new(values).map(|word| TRUE.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _, builder::PossibleValue};

    use crate::{
        args::{CleanupArgs, Cli, RunBundleArgs, install_mode::Kind},
        testing::parse,
    };

    fn run(flags: &[&str]) -> RunBundleArgs {
        parse(&[&["a.io/b:1"], flags].concat()).unwrap()
    }

    fn cleanup(flags: &[&str]) -> CleanupArgs {
        parse(&[&["tide"], flags].concat()).unwrap()
    }

    #[test]
    fn empty_flags_count_as_absent() {
        let names = "--mode --install-mode --namespace --pull-secret-name --ca-secret-name --service-account \
             --image-pull-policy --registry-image --decompression-image";
        let empty: Vec<&str> = names.split(' ').flat_map(|name| [name, ""]).collect();
        for flags in [&[][..], &empty, &["-n="]] {
            let args = run(flags);
            let registry = args.registry;
            assert_eq!((args.install_mode, registry.mode), (None, None));
            let texts = [
                registry.namespace,
                registry.pull_secret_name,
                registry.ca_secret_name,
                registry.service_account,
                registry.image_pull_policy,
                registry.registry_image,
                registry.decompression_image,
            ];
            assert!(texts.iter().all(Option::is_none), "{texts:?}");
        }
        let args = cleanup(&["--namespace", "", "--service-account="]);
        assert_eq!((args.namespace, args.service_account), (None, None));
    }

    #[test]
    fn nonempty_flags_are_read() {
        let flags = "--mode=semver --install-mode=OwnNamespace -n=tides --image-pull-policy=Never --pull-secret-name=s";
        let args = run(&flags.split(' ').collect::<Vec<_>>());
        assert_eq!(args.install_mode.unwrap().kind, Kind::Own);
        let registry = args.registry;
        assert_eq!(registry.mode.unwrap().to_string(), "semver");
        assert_eq!(registry.namespace.unwrap(), "tides");
        assert_eq!(registry.image_pull_policy.unwrap(), "Never");
        assert_eq!(registry.pull_secret_name.unwrap(), "s");
    }

    // parity: run-5, sdk-1, sdk-38
    #[test]
    fn wrong_command_lines_exit_with_2_and_the_reason() {
        for (line, problem) in ::tests::rows![
            "run bundle" => "BUNDLE-IMAGE";
            "run bundle a.io/b:1 --mode=semver-skippatch"
                => "bundle add mode \"semver-skippatch\" does not exist, must be one of: [\"semver\" \"replaces\"]";
            "run bundle a.io/b:1 --install-mode=Every" => "unknown install mode type";
            "run bundle a.io/b:1 --namespace=A" => "lower";
            "run bundle a.io/b:1 --image-pull-policy=never" => "[possible values: Always, IfNotPresent, Never]";
            "run bundle a.io/b:1 --security-context-config=open" => "must be one of \"legacy\", or \"restricted\"";
            "run bundle-upgrade a.io/b:1 --index-image=a.io/c:1" => "--index-image";
            "run packagemanifests" => "packagemanifests";
            "convert tide --config -" => "use /dev/stdin for standard input, or ./- for a file of this name";
            "catalog init tide -d -" => "use /dev/stdin";
            "catalog init tide --icon=-" => "use /dev/stdin";
        ] {
            let line = ["rukpak"].into_iter().chain(line.split(' '));
            let error = Cli::try_parse_from(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn named_values_are_completed() {
        for (words, arg, expected) in ::tests::rows![
            &["catalog", "migrate"][..], "migrate_level" => "none bundle-object-to-csv-metadata all";
            &["catalog", "render"], "migrate_level" => "none bundle-object-to-csv-metadata all";
            &["catalog", "render-template"], "template" => "basic semver substitutes";
            &["run", "bundle"], "security_context_config" => "legacy restricted";
        ] {
            let root = Cli::command();
            let command = words.iter().fold(&root, |command, word| {
                command.find_subcommand(word).unwrap()
            });
            let arg = command.get_arguments().find(|found| found.get_id() == arg);
            let values = arg.unwrap().get_possible_values();
            let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            assert_eq!(names.join(" "), expected);
        }
    }

    #[test]
    fn booleans_accept_all_go_spellings() {
        let yes = ["", "=1", "=t", "=T", "=true", "=TRUE", "=True"];
        let no = ["=0", "=f", "=F", "=false", "=FALSE", "=False"];
        let all = yes.map(|value| (value, true)).into_iter();
        for (value, expected) in all.chain(no.map(|value| (value, false))) {
            for name in ["skip-tls", "skip-tls-verify", "use-http"] {
                ::tests::assert_rows!(!run(&[&format!("--{name}{value}")]).registry.verify_tls() => expected, "{name}{value}");
            }
            ::tests::assert_rows!(run(&[&format!("--verbose{value}")]).registry.sdk.verbose => expected, "{value}");
            ::tests::assert_rows!(cleanup(&[&format!("--delete-all{value}")]).delete_all => expected, "{value}");
        }
        for value in ["yes", "tRUE", "", "2"] {
            let flag = format!("--use-http={value}");
            let error = parse::<RunBundleArgs>(&["a.io/b:1", &flag]).unwrap_err();
            assert!(error.to_string().contains("true, false"), "{error}");
        }
    }

    // parity: sdk-1
    #[test]
    fn single_delete_flags_take_precedence_over_delete_all() {
        for (flags, expected) in ::tests::rows![
            &[][..] => (true, true);
            &["--delete-crds=false"] => (false, true);
            &["--delete-operator-groups=false"] => (true, false);
            &["--delete-all", "--delete-crds=false"] => (false, true);
            &["--delete-all=false"] => (false, false);
            &["--delete-all=false", "--delete-crds"] => (true, false);
            &["--delete-all=false", "--delete-operator-groups=true"] => (false, true);
        ] {
            let args = cleanup(flags);
            ::tests::assert_rows!((args.deletes_crds(), args.deletes_operator_groups()) => expected, "{flags:?}");
        }
    }
}
