//! A configuration as text: a TOML file of options' names and values.
//!
//! What the names and values mean, the options themselves say: see
//! `super::arguments`.

use std::fmt::Write;

use toml::{Table, Value};

/// An option and what it is set to: several values where it may be given
/// several times.
pub(super) type Entry = (String, Vec<String>);

/// What is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConfigError {
    #[error("{0}")]
    Syntax(String),
    #[error("`{key}` is {what}: write a string, a number, true or false, or a list of these")]
    Kind { key: String, what: &'static str },
    #[error("`{key}` is an empty list: leave it out for its default")]
    Empty { key: String },
}

/// Reads a configuration.
///
/// # Errors
/// Where it is not TOML, and where a value is of a kind that no option has.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, ConfigError> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| ConfigError::Syntax(error.to_string()))?;
    table
        .into_iter()
        .map(|(key, value)| {
            let values = match value {
                Value::Array(values) if values.is_empty() => {
                    return Err(ConfigError::Empty { key });
                }
                Value::Array(values) => values
                    .into_iter()
                    .map(|value| scalar(&key, value))
                    .collect::<Result<_, _>>()?,
                value => vec![scalar(&key, value)?],
            };
            Ok((key, values))
        })
        .collect()
}

fn scalar(key: &str, value: Value) -> Result<String, ConfigError> {
    let what = match value {
        Value::String(text) => return Ok(text),
        Value::Integer(number) => return Ok(number.to_string()),
        Value::Float(number) => return Ok(number.to_string()),
        Value::Boolean(on) => return Ok(on.to_string()),
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list of lists",
        Value::Table(_) => "a table",
    };
    Err(ConfigError::Kind {
        key: key.to_owned(),
        what,
    })
}

/// Writes a line that [`parse`] reads as the same entry.
pub(super) fn write(out: &mut String, key: &str, values: &[String], is_list: bool) {
    let value = match values {
        [value] if !is_list => to_toml(value),
        values => Value::Array(values.iter().map(|value| to_toml(value)).collect()),
    };
    // Writing to a string can't fail.
    let _ = writeln!(out, "{key} = {value}");
}

/// Numbers and switches as such where that is the same text, for readers.
fn to_toml(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => Value::Integer(number),
        _ => match text {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            text => Value::String(text.to_owned()),
        },
    }
}

/// A way in for the fuzz target: what is read is written, and read as the same.
#[cfg(fuzzing)]
#[allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "what panics here is a finding"
)]
pub(super) fn fuzz(text: &str) {
    let Ok(entries) = parse(text) else { return };
    let mut written = String::new();
    for (key, values) in &entries {
        let key = Value::String(key.clone()).to_string();
        write(&mut written, &key, values, values.len() != 1);
    }
    assert_eq!(parse(&written).unwrap(), entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, values: &[&str]) -> Entry {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        (key.to_owned(), values)
    }

    #[test]
    fn values_become_the_text_of_options() {
        let read = parse("a = 'x'\nb = 16_384\nc = true\nd = ['1', 2]\n");
        assert_eq!(
            read.unwrap(),
            [
                entry("a", &["x"]),
                entry("b", &["16384"]),
                entry("c", &["true"]),
                entry("d", &["1", "2"]),
            ]
        );
    }

    #[test]
    fn what_no_option_has_is_refused_by_its_key() {
        for (text, message) in [
            ("a = 1979-05-27", "`a` is a date"),
            ("[a]\nb = 1", "`a` is a table"),
            ("a.b = 1", "`a` is a table"),
            ("a = [[1]]", "`a` is a list of lists"),
            ("a = []", "`a` is an empty list"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
        assert!(matches!(parse("a = "), Err(ConfigError::Syntax(_))));
        assert!(matches!(parse("a = 1\na = 2"), Err(ConfigError::Syntax(_))));
    }

    #[test]
    fn what_is_written_reads_back() {
        let entries = [
            entry("int", &["65536"]),
            entry("like-int", &["0660"]),
            entry("quotes", &["a \"b\" 'c' \\ \n é"]),
            entry("switch", &["true"]),
            entry("time", &["1m 30s"]),
        ];
        let mut text = String::new();
        for (key, values) in &entries {
            write(&mut text, key, values, false);
        }
        assert_eq!(parse(&text).unwrap(), entries, "{text}");
        assert!(text.contains("int = 65536\n"), "{text}");
        assert!(text.contains("like-int = \"0660\"\n"), "{text}");
        let mut list = String::new();
        write(&mut list, "list", &["one".to_owned()], true);
        assert_eq!(list, "list = [\"one\"]\n");
        assert_eq!(parse(&list).unwrap(), [entry("list", &["one"])]);
    }
}
