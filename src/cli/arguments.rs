//! Where the options of `loyd serve` come from: the command line, then the
//! environment, then a file.
//!
//! Each option is defined once, as a flag. A variable or a key of the file is
//! the flag by another way: it is read and checked by the same code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::config::{self, Entry};
use super::exit::Exit;
use crate::server::file;

/// What the names of variables begin with.
///
/// Kubernetes sets `LOYD_PORT...` and `LOYD_SERVICE_...` where a service is
/// called `loyd`, so variables that name no option can't be errors, and no
/// option may be called so.
const PREFIX: &str = "LOYD_";

/// The command with options from elsewhere.
const COMMAND: &str = "serve";

/// The option that names the file.
const FILE: &str = "config";

/// Flags that are questions, not configuration.
const QUESTIONS: [&str; 3] = ["help", "version", "print-config"];

/// Why the arguments can't be used.
#[derive(Debug)]
pub(super) enum ArgumentsError {
    /// The command line itself; help and version come here too.
    CommandLine(clap::Error),
    /// What came from elsewhere, in words.
    Elsewhere(String),
}

impl ArgumentsError {
    /// Says what is wrong.
    pub(super) fn exit(&self) -> Exit {
        match self {
            ArgumentsError::CommandLine(error) => {
                // Nothing is left to do where even the message can't be printed.
                let _ = error.print();
                Exit::from_clap(error)
            }
            ArgumentsError::Elsewhere(message) => Exit::Usage.because(message),
        }
    }
}

/// Reads the arguments, and what they leave open from the environment and the
/// file of `--config`. The matches are those of the command line as if all had
/// been given there.
pub(super) fn parse<C>(mut arguments: Vec<OsString>) -> Result<(C, ArgMatches), ArgumentsError>
where
    C: CommandFactory + FromArgMatches,
{
    // Without the environment: what is wrong with the command line itself.
    let by_flags = C::command().try_get_matches_from(&arguments);
    let given = with_environment::<C>(by_flags.as_ref().ok())
        .try_get_matches_from(&arguments)
        .map_err(|error| match by_flags {
            Ok(_) => ArgumentsError::Elsewhere(of_variable(&error)),
            Err(error) if error.use_stderr() => ArgumentsError::CommandLine(error),
            Err(_) => ArgumentsError::CommandLine(error),
        })?;
    if let Some((COMMAND, serve)) = given.subcommand()
        && let Some(path) = serve.get_one::<PathBuf>(FILE)
    {
        let in_file =
            |message| ArgumentsError::Elsewhere(format!("in {}: {message}", path.display()));
        let entries = read(path).map_err(in_file)?;
        let mut command = C::command();
        command.build();
        let command = command.find_subcommand(COMMAND);
        let options = as_options(command, entries).map_err(in_file)?;
        // All of them, by themselves: what is wrong is told even of what is
        // given elsewhere too.
        let alone = [OsString::from("loyd"), OsString::from(COMMAND)]
            .into_iter()
            .chain(options.iter().map(|(_, option)| option.clone()));
        C::command()
            .try_get_matches_from(alone)
            .map_err(|error| in_file(in_words(&error)))?;
        let left_open = options.into_iter().filter(|(id, _)| {
            !matches!(
                serve.value_source(id),
                Some(ValueSource::CommandLine | ValueSource::EnvVariable)
            )
        });
        // After the name of the program and of the command.
        let place = arguments.len().min(2);
        arguments.splice(place..place, left_open.map(|(_, option)| option));
    }
    let by_flags = C::command()
        .try_get_matches_from(&arguments)
        .map_err(ArgumentsError::CommandLine)?;
    let matches = with_environment::<C>(Some(&by_flags))
        .try_get_matches_from(arguments)
        .map_err(ArgumentsError::CommandLine)?;
    let parsed = C::from_arg_matches(&matches).map_err(ArgumentsError::CommandLine)?;
    Ok((parsed, matches))
}

/// The configuration that these matches amount to, as a file.
pub(super) fn effective<C: CommandFactory>(matches: &ArgMatches) -> Result<String, String> {
    let mut text = String::new();
    let Some((_, serve)) = matches.subcommand() else {
        return Ok(text);
    };
    let command = C::command();
    let options = command
        .find_subcommand(COMMAND)
        .into_iter()
        .flat_map(Command::get_arguments)
        // What this build can't do has no value either.
        .filter(|arg| !arg.is_hide_set());
    for (arg, name) in options.filter_map(|arg| Some((arg, key(arg)?))) {
        let Ok(Some(values)) = serve.try_get_raw(arg.get_id().as_str()) else {
            text.push_str(&format!("# {name} is not set\n"));
            continue;
        };
        let values: Vec<String> = values
            .map(|value| value.to_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("the value of --{name} is not UTF-8, as a file has to be"))?;
        config::write(&mut text, name, &values, is_list(arg));
    }
    Ok(text)
}

/// The name of an option in a file, if it may stand there.
fn key(arg: &Arg) -> Option<&str> {
    arg.get_long()
        .filter(|name| *name != FILE && !QUESTIONS.contains(name))
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// The command, whose options are also read from variables. `by_flags` are its
/// matches without them.
fn with_environment<C: CommandFactory>(by_flags: Option<&ArgMatches>) -> Command {
    let flags = by_flags
        .and_then(ArgMatches::subcommand)
        .filter(|(name, _)| *name == COMMAND)
        .map(|(_, matches)| matches);
    C::command().mut_subcommand(COMMAND, |command| {
        command.mut_args(|arg| with_variable(arg, flags))
    })
}

fn with_variable(arg: Arg, flags: Option<&ArgMatches>) -> Arg {
    let Some(name) = arg.get_long().filter(|name| !QUESTIONS.contains(name)) else {
        return arg;
    };
    let variable = variable(name);
    // A variable can't be repeated, so commas part what is in a list. A flag
    // and a key of the file can, and keep their commas: names of clients and of
    // files may have some.
    let is_flag = flags.is_some_and(|flags| {
        flags.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    });
    let arg = if is_list(&arg) && !is_flag {
        arg.value_delimiter(',')
    } else {
        arg
    };
    arg.env(variable)
}

fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let bytes = file::read(path).map_err(|error| format!("cannot read it: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    config::parse(&text).map_err(|error| error.to_string())
}

/// Entries of a file as options of the command line, with their ids.
fn as_options(
    command: Option<&Command>,
    entries: Vec<Entry>,
) -> Result<Vec<(String, OsString)>, String> {
    let mut options = Vec::new();
    for (name, values) in entries {
        let known = |wanted: &str| {
            command
                .into_iter()
                .flat_map(Command::get_arguments)
                .find(|arg| key(arg) == Some(wanted))
        };
        let Some(arg) = known(&name) else {
            let meant = name.replace('_', "-");
            return Err(match known(&meant) {
                Some(_) => format!("unknown key `{name}`: write `{meant}`"),
                None => format!("unknown key `{name}`: `loyd serve --help` lists the options"),
            });
        };
        if values.len() > 1 && !is_list(arg) {
            return Err(format!("`{name}` takes one value, not a list"));
        }
        for value in values {
            options.push((arg.get_id().to_string(), format!("--{name}={value}").into()));
        }
    }
    Ok(options)
}

/// What is wrong with a variable: clap names the flag alone.
fn of_variable(error: &clap::Error) -> String {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => shown
            .trim_start_matches('-')
            .split([' ', '[', '='])
            .next()
            .filter(|name| !name.is_empty()),
        _ => None,
    };
    let place = option.map_or_else(|| "the environment".to_owned(), variable);
    format!("in {place}: {}", in_words(error))
}

/// Clap's message without its head and its advice.
fn in_words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n")
        .next()
        .unwrap_or(text)
        .trim_end()
        .to_owned()
}
