//! The syntax of environment variables in a server configuration: `${env.NAME}` and its forms.
//!
//! In: a string of a configuration. Out: its expressions. The operator and the adapters in the sandbox
//! both read configurations, so they share this crate, which has no dependencies.
//!
//! It follows `replace_env_vars` of the server: names are upper case, the first `}` ends an expression,
//! and an expression inside the default of another one is text.
//!
//! | form | older form | value |
//! |---|---|---|
//! | `${env.X}` | | X, which must be set |
//! | `${env.X:=default}` | `${env.X:default}` | X, or the default |
//! | `${env.X:+value}` | `${env.X+value}` | the value if X is set, otherwise nothing |

use std::ops::Range;

/// The start of an expression.
const OPEN: &str = "${env.";

/// How a range of releases writes defaults and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// `${env.X:default}`, `${env.X+value}`; values stay strings.
    Plain,
    /// `${env.X:=default}`, `${env.X:+value}`; values that look like numbers or booleans are converted.
    Colon,
}

/// The form of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'t> {
    /// The value of the variable, which must be set.
    Bare,
    /// The value of the variable, or this default.
    Or(&'t str),
    /// This value if the variable is set, otherwise nothing.
    When(&'t str),
}

/// One expression of a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression<'t> {
    /// Name of the variable.
    pub name: &'t str,
    /// Its form.
    pub form: Form<'t>,
    /// The syntax; `None` if both syntaxes share the form.
    pub syntax: Option<Syntax>,
    /// The bytes of the string that it covers.
    pub range: Range<usize>,
}

/// Every expression of a string, in order.
pub fn expressions(text: &str) -> Expressions<'_> {
    Expressions { text, from: 0 }
}

/// The expression, if a string consists of exactly one.
pub fn whole(text: &str) -> Option<Expression<'_>> {
    let first = expressions(text).next()?;
    (first.range == (0..text.len())).then_some(first)
}

/// Whether a string contains an expression, even a malformed one.
pub fn is_in(text: &str) -> bool {
    dollars(text, 0).any(|start| after_open(text, start).is_some())
}

/// Whether the server substitutes this name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// The iterator of [`expressions`].
#[derive(Debug, Clone)]
pub struct Expressions<'t> {
    text: &'t str,
    from: usize,
}

impl<'t> Iterator for Expressions<'t> {
    type Item = Expression<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.text;
        for start in dollars(text, self.from) {
            let Some(rest) = after_open(text, start) else {
                continue;
            };
            let (inside, _) = rest.split_once('}')?;
            if let Some((name, form, syntax)) = parse(inside) {
                let end = start + OPEN.len() + inside.len() + 1;
                self.from = end;
                return Some(Expression {
                    name,
                    form,
                    syntax,
                    range: start..end,
                });
            }
        }
        self.from = text.len();
        None
    }
}

/// The places of `$`. A substring search has a set-up cost that does not pay off for the short strings
/// of a configuration.
fn dollars(text: &str, from: usize) -> impl Iterator<Item = usize> {
    let rest = text.get(from..).unwrap_or_default();
    rest.match_indices('$')
        .map(move |(offset, _)| from + offset)
}

fn after_open(text: &str, start: usize) -> Option<&str> {
    text.get(start..)?.strip_prefix(OPEN)
}

fn parse(inside: &str) -> Option<(&str, Form<'_>, Option<Syntax>)> {
    let end = inside.find([':', '+']).unwrap_or(inside.len());
    let (name, rest) = inside.split_at_checked(end)?;
    if !is_name(name) {
        return None;
    }
    let (form, syntax) = if rest.is_empty() {
        (Form::Bare, None)
    } else if let Some(default) = rest.strip_prefix(":=") {
        (Form::Or(default), Some(Syntax::Colon))
    } else if let Some(value) = rest.strip_prefix(":+") {
        (Form::When(value), Some(Syntax::Colon))
    } else if let Some(value) = rest.strip_prefix('+') {
        (Form::When(value), Some(Syntax::Plain))
    } else {
        (Form::Or(rest.strip_prefix(':')?), Some(Syntax::Plain))
    };
    Some((name, form, syntax))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Option<Syntax> = Some(Syntax::Plain);
    const COLON: Option<Syntax> = Some(Syntax::Colon);

    #[test]
    fn every_form_is_read_in_both_syntaxes() {
        for (text, name, form, syntax) in [
            ("${env.X}", "X", Form::Bare, None),
            ("${env.X:=d}", "X", Form::Or("d"), COLON),
            ("${env.X:=}", "X", Form::Or(""), COLON),
            ("${env.X:+v}", "X", Form::When("v"), COLON),
            ("${env.X:d}", "X", Form::Or("d"), PLAIN),
            ("${env.X:http://a:1}", "X", Form::Or("http://a:1"), PLAIN),
            ("${env.X+v}", "X", Form::When("v"), PLAIN),
        ] {
            let range = 0..text.len();
            let expected = Expression {
                name,
                form,
                syntax,
                range,
            };
            assert_eq!(whole(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn all_expressions_of_a_string_are_found_as_the_server_finds_them() {
        for (text, expected) in [
            ("", &[][..]),
            ("$X ${X} $", &[]),
            ("a${env.X}b${env.Y}", &["X", "Y"]),
            ("${env.A:=~/x}/f ${env.B} ${env.C", &["A", "B"]),
            ("${env.lower} ${env.} ${env.A-B}", &[]),
            // The first `}` ends the outer expression, and the inner one is part of its default.
            ("${env.A:=${env.B}}", &["A"]),
            ("$${env.A:=${env.B}} $5 ${env.C:=$}", &["A", "C"]),
            // The outer one is malformed, so that the inner one counts.
            ("${env.a:=${env.B}}", &["B"]),
        ] {
            let found: Vec<_> = expressions(text).map(|one| one.name).collect();
            assert_eq!(found, expected, "{text}");
            for one in expressions(text) {
                assert!(text[one.range.clone()].starts_with(OPEN), "{text}");
                assert!(text[one.range].ends_with('}'), "{text}");
            }
        }
        assert_eq!(
            expressions("${env.A:=${env.B}}").next().map(|one| one.form),
            Some(Form::Or("${env.B"))
        );
    }

    #[test]
    fn only_a_string_of_exactly_one_expression_is_whole() {
        for text in ["a ${env.X}", "${env.X}/${env.Y}", "${env.X} ", "X", ""] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert!(is_in("a ${env.x"));
        assert!(!is_in("${env"));
    }
}
