//! Authentication and authorisation: the section `server.auth`.
//!
//! All releases from 0.3 on have the same section. Only the ways to authenticate and a few keys are newer.
//! Releases before 0.3 ask for a token at `/v1/health`, too, so that their pods would never become ready.

use llsd_adapter_sdk::Release;
use llsd_adapter_sdk::documents::{Object, ReadAs, Variable};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::{Stack, object_mut};
use crate::env;

/// What the field of the resource is called in the file.
const TYPES: [(&str, &str); 6] = [
    ("kubernetes", "kubernetes"),
    ("oauth2", "oauth2_token"),
    ("github", "github_token"),
    ("custom", "custom"),
    ("upstreamHeader", "upstream_header"),
    ("apiKeys", "local_api_key"),
];

/// Fields that not all releases have, with the first release that has them.
const NEWER: [(&str, Release); 5] = [
    ("routePolicy", Release::first(0, 5, 0)),
    ("upstreamHeader", Release::first(0, 8, 0)),
    ("upstreamHeader.attributeHeaders", Release::first(1, 0, 0)),
    ("apiKeys", Release::first(1, 4, 0)),
    ("upstreamHeader.trustedProxyCidrs", Release::first(1, 4, 0)),
];

/// First release that reads expressions in rules. Others would never apply such a rule.
const EXPRESSIONS: Release = Release::first(0, 6, 0);

/// Writes the section, which replaces that of the base.
pub(super) fn apply(stack: &mut Stack, mut access: Object) {
    let Some(Value::String(method)) = access.remove("method") else {
        return;
    };
    if stack.dialect.resources.is_none() {
        let problem = "a server of this release asks for a token at its health check, too, so its pods never become ready";
        refuse(
            stack,
            String::new(),
            problem.to_owned(),
            "llama-stack 0.3 or newer".to_owned(),
        );
        return;
    }
    let settings = object(&mut access, "settings");
    for (field, first) in NEWER {
        let is_used = match field.split_once('.') {
            Some((_, key)) => settings.contains_key(key),
            None => field == method || access.contains_key(field),
        };
        if is_used {
            require(stack, field, first);
        }
    }
    let mut provider = snake_case(settings);
    let known = TYPES.iter().find(|(field, _)| *field == method);
    let name = known.map_or(method.as_str(), |(_, name)| *name);
    provider.insert("type".to_owned(), json!(name));
    for (field, variable) in object(&mut access, "references") {
        let Value::String(variable) = variable else {
            continue;
        };
        let text = Value::String(env::reference(&variable));
        match field.split_once('.') {
            Some((section, key)) => {
                if let Some(section) = object_mut(&mut provider, section) {
                    section.insert(snake(key), text);
                }
            }
            None => {
                let keys = provider.entry("api_keys").or_insert_with(|| json!([]));
                if let Value::Array(keys) = keys {
                    keys.push(text);
                }
            }
        }
        stack.variables.push(Variable {
            reference: Some(variable.clone()),
            env: variable,
            part: None,
            value: None,
            read_as: ReadAs::ConvertedText,
        });
    }
    let mut auth = Object::new();
    auth.insert("provider_config".to_owned(), Value::Object(provider));
    for (field, key) in [("policy", "access_policy"), ("routePolicy", "route_policy")] {
        let Some(Value::Array(rules)) = access.remove(field) else {
            continue;
        };
        for (position, rule) in rules.iter().enumerate() {
            if has_expression(rule) {
                // The host adds a rule of its own before those of the resource.
                let position = position - usize::from(field != "policy" && position > 0);
                require(stack, &format!("{field}[{position}]"), EXPRESSIONS);
            }
        }
        auth.insert(key.to_owned(), Value::Array(rules));
    }
    if let Some(server) = stack.section_mut("server") {
        server.insert("auth".to_owned(), Value::Object(auth));
    }
}

/// Whether a resource or a path of a rule is an expression.
fn has_expression(rule: &Value) -> bool {
    let is_expression = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("regex:"));
    ["permit", "forbid"].iter().any(|effect| {
        let scope = &rule[*effect];
        is_expression(&scope["resource"])
            || scope["paths"]
                .as_array()
                .is_some_and(|paths| paths.iter().any(is_expression))
    })
}

/// Refuses a field if the release is older than the first that has it.
fn require(stack: &mut Stack, field: &str, first: Release) {
    if stack.has(first) {
        return;
    }
    let product = match first < Release::first(0, 8, 0) {
        true => "llama-stack",
        false => "ogx",
    };
    let problem = format!("{} does not support this", stack.dialect.id);
    refuse(
        stack,
        format!(".{field}"),
        problem,
        format!("{product} {first} or newer"),
    );
}

fn refuse(stack: &mut Stack, field: String, problem: String, by: String) {
    stack.diagnostics.error(
        "unsupported-option",
        format!("spec.access{field}"),
        problem,
        format!("remove it, or use {by}"),
    );
}

fn object(home: &mut Object, key: &str) -> Object {
    match home.remove(key) {
        Some(Value::Object(object)) => object,
        _ => Object::new(),
    }
}

/// The settings with the keys of the file. Below them, only two sections have keys of the server.
fn snake_case(settings: Object) -> Object {
    let mut written = Object::new();
    for (key, value) in settings {
        let value = match value {
            Value::Object(section) if key == "jwks" || key == "introspection" => {
                Value::Object(snake_case(section))
            }
            value => value,
        };
        written.insert(snake(&key), value);
    }
    written
}

fn snake(key: &str) -> String {
    let mut written = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            written.push('_');
        }
        written.push(c.to_ascii_lowercase());
    }
    written
}
