//! Takes a connection string apart.
//!
//! In: what a Secret holds. Out: one part of it, or what is wrong with it in words that do not
//! repeat it.

use std::borrow::Cow;

use llsd_adapter_sdk::documents::Part;
use percent_encoding::percent_decode_str;
use url::Url;

/// The port of a PostgreSQL server that names none.
const DEFAULT_PORT: u16 = 5432;

/// What is wrong with a connection string. Never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("is no connection string; write postgresql://user:password@host:port/database")]
    Malformed,
    #[error("names no host; write postgresql://user:password@host:port/database")]
    WithoutHost,
    #[error("names no user; write postgresql://user:password@host:port/database")]
    WithoutUser,
    #[error("has a percent-encoded part that is no text; encode it as UTF-8")]
    NotText,
}

/// One part of a connection string.
pub(crate) fn part(text: &str, part: Part) -> Result<String, Unreadable> {
    let address = Url::parse(text.trim()).map_err(|_| Unreadable::Malformed)?;
    if !address.scheme().starts_with("postgres") {
        return Err(Unreadable::Malformed);
    }
    let user = || match address.username() {
        "" => Err(Unreadable::WithoutUser),
        user => Ok(user),
    };
    let password = address.password().unwrap_or_default();
    match part {
        Part::Host => match address.host_str() {
            None | Some("") => Err(Unreadable::WithoutHost),
            Some(host) => decoded(host.trim_matches(['[', ']'])),
        },
        Part::Port => Ok(address.port().unwrap_or(DEFAULT_PORT).to_string()),
        // A server that is told no database opens the one named like the user.
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

fn decoded(text: &str) -> Result<String, Unreadable> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| Unreadable::NotText)
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

    fn parts(text: &str) -> Vec<Result<String, Unreadable>> {
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
    fn what_is_left_out_has_the_defaults_of_postgres() {
        let expected = ["::1", "5432", "me", "me", "", "me", ""];
        assert_eq!(
            parts("postgres://me@[::1]"),
            expected.map(|one| Ok(one.to_owned()))
        );
    }

    #[test]
    fn what_is_no_connection_string_is_refused_without_being_repeated() {
        for (text, problem) in [
            ("canary", Unreadable::Malformed),
            ("host=canary user=me", Unreadable::Malformed),
            ("redis://canary", Unreadable::Malformed),
            ("postgresql:///canary", Unreadable::WithoutHost),
        ] {
            let refused = part(text, Part::Host).unwrap_err();
            assert_eq!(refused, problem);
            assert!(!refused.to_string().contains("canary"));
        }
        assert_eq!(
            part("postgresql://h/db", Part::User),
            Err(Unreadable::WithoutUser)
        );
        assert_eq!(
            part("postgresql://%ff@h/db", Part::User),
            Err(Unreadable::NotText)
        );
    }
}
