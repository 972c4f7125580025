//! Splits a PostgreSQL connection string.
//!
//! In: the value of a Secret. Out: one part of it, or an error that does not repeat it.

use std::borrow::Cow;

use llsd_adapter_sdk::documents::Part;
use percent_encoding::percent_decode_str;
use url::Url;

/// The default port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;

/// Why a connection string is invalid. Messages never contain the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidConnectionString {
    #[error(
        "is not a valid connection string; write postgresql://user:password@host:port/database"
    )]
    Malformed,
    #[error("has no host; write postgresql://user:password@host:port/database")]
    MissingHost,
    #[error("has no user; write postgresql://user:password@host:port/database")]
    MissingUser,
    #[error("has a percent-encoded part that is not UTF-8; encode it as UTF-8")]
    NotUtf8,
}

/// Extracts one part of a connection string.
pub(super) fn part(text: &str, part: Part) -> Result<String, InvalidConnectionString> {
    let address = Url::parse(text.trim()).map_err(|_| InvalidConnectionString::Malformed)?;
    if !address.scheme().starts_with("postgres") {
        return Err(InvalidConnectionString::Malformed);
    }
    let user = || match address.username() {
        "" => Err(InvalidConnectionString::MissingUser),
        user => Ok(user),
    };
    let password = address.password().unwrap_or_default();
    match part {
        Part::Host => match address.host_str() {
            None | Some("") => Err(InvalidConnectionString::MissingHost),
            Some(host) => decoded(host.trim_matches(['[', ']'])),
        },
        Part::Port => Ok(address.port().unwrap_or(DEFAULT_PORT).to_string()),
        // The default database of PostgreSQL has the name of the user.
        Part::Database => match address.path().trim_start_matches('/') {
            "" => decoded(user()?),
            name => decoded(name),
        },
        Part::User => decoded(user()?),
        Part::Password => decoded(password),
        Part::EncodedUser => user().map(str::to_owned),
        Part::EncodedPassword => Ok(password.to_owned()),
    }
}

fn decoded(text: &str) -> Result<String, InvalidConnectionString> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| InvalidConnectionString::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Part; 7] = [
        Part::Host,
        Part::Port,
        Part::Database,
        Part::User,
        Part::Password,
        Part::EncodedUser,
        Part::EncodedPassword,
    ];

    fn parts(text: &str) -> Vec<Result<String, InvalidConnectionString>> {
        ALL.map(|one| part(text, one)).to_vec()
    }

    #[test]
    fn a_connection_string_has_seven_parts() {
        let text = "postgresql://us%40er:p%2Fw@db.example.com:6432/stack?sslmode=require\n";
        let expected = [
            "db.example.com",
            "6432",
            "stack",
            "us@er",
            "p/w",
            "us%40er",
            "p%2Fw",
        ];
        assert_eq!(parts(text), expected.map(|one| Ok(one.to_owned())));
    }

    #[test]
    fn missing_parts_have_the_defaults_of_postgresql() {
        let expected = ["::1", "5432", "me", "me", "", "me", ""];
        assert_eq!(
            parts("postgres://me@[::1]"),
            expected.map(|one| Ok(one.to_owned()))
        );
    }

    #[test]
    fn an_invalid_connection_string_is_rejected_without_repeating_it() {
        for (text, problem) in [
            ("canary", InvalidConnectionString::Malformed),
            ("host=canary user=me", InvalidConnectionString::Malformed),
            ("redis://canary", InvalidConnectionString::Malformed),
            ("postgresql:///canary", InvalidConnectionString::MissingHost),
        ] {
            let error = part(text, Part::Host).unwrap_err();
            assert_eq!(error, problem);
            assert!(!error.to_string().contains("canary"));
        }
        assert_eq!(
            part("postgresql://h/db", Part::User),
            Err(InvalidConnectionString::MissingUser)
        );
        assert_eq!(
            part("postgresql://%ff@h/db", Part::User),
            Err(InvalidConnectionString::NotUtf8)
        );
    }
}
