//! How a registry says what it wants to see: the `WWW-Authenticate` header.

use std::collections::BTreeMap;

/// What the registry wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password with every request.
    Basic,
    /// A token from somewhere else.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

/// Picks the challenge to answer: a token when offered, else basic. `None` when neither is.
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

/// Reads up to the closing quote; a backslash takes the next character as it is.
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
    fn a_token_challenge_is_taken_apart_commas_in_quotes_included() {
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
    fn a_token_is_preferred_and_unknown_schemes_are_passed_over() {
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
