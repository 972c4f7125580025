//! Parses the `WWW-Authenticate` header: the challenge of a registry.

use std::collections::BTreeMap;

/// The authentication that a registry requires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user name and password in every request.
    Basic,
    /// A token from the token service at `realm`.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

/// Selects a challenge: Bearer if offered, otherwise Basic. `None` if the registry offers neither.
pub(crate) fn parse<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = None;
    for header in headers {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        } else if scheme.eq_ignore_ascii_case("bearer") {
            let mut parameters = parameters(rest);
            if let Some(realm) = parameters.remove("realm") {
                return Some(Challenge::Bearer {
                    realm,
                    service: parameters.remove("service"),
                    scope: parameters.remove("scope"),
                });
            }
        }
    }
    basic
}

/// `key=value` or `key="value, with commas"`, separated by commas.
fn parameters(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, rest) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
                (value.trim().to_owned(), rest)
            }
        };
        found.insert(key, value);
        text = rest;
    }
    found
}

/// Reads up to the closing quote. A backslash escapes the next character.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_challenge_is_parsed_with_commas_in_quotes() {
        let header = r#"Bearer realm="https://auth.example/token",service=reg,scope="repository:a/b:pull,push""#;
        assert_eq!(
            parse([header].into_iter()),
            Some(Challenge::Bearer {
                realm: "https://auth.example/token".into(),
                service: Some("reg".into()),
                scope: Some("repository:a/b:pull,push".into()),
            })
        );
    }

    #[test]
    fn bearer_is_preferred_and_unknown_schemes_are_skipped() {
        let both = ["Basic realm=\"x\"", "bearer realm=\"https://a/\""];
        assert!(matches!(
            parse(both.into_iter()),
            Some(Challenge::Bearer { .. })
        ));
        assert_eq!(
            parse(["Negotiate", "BASIC"].into_iter()),
            Some(Challenge::Basic)
        );
        assert_eq!(parse(["Negotiate abc"].into_iter()), None);
        assert_eq!(parse(["Bearer service=\"no realm\""].into_iter()), None);
        assert_eq!(
            parse(["Bearer realm=\"unclosed \\"].into_iter()),
            Some(Challenge::Bearer {
                realm: "unclosed ".into(),
                service: None,
                scope: None
            })
        );
    }
}
