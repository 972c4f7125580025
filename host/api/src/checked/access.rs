//! Checks `spec.access`: one way to authenticate clients, and the rules about what they may do.
//!
//! The settings stay as written: which of them a release has is known to the adapters. Secrets are taken
//! out of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value};

use super::secrets::{self, Reference};
use super::untyped;
use crate::diagnostic::Collector;
use crate::field_path::FieldPath;
use crate::names::{self, NameError};
use crate::rules;
use crate::v1alpha2::{
    Access, AccessRule, AccessScope, CustomAccess, GitHubAccess, Introspection, Jwks,
    KubernetesAccess, OAuth2Access, RouteRule, RouteScope, SecretReference, UpstreamHeaderAccess,
};

/// Authentication and authorisation.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedAccess {
    /// The field of the way to authenticate: `kubernetes`, `oauth2`, `github`, `apiKeys`,
    /// `upstreamHeader` or `custom`.
    pub method: &'static str,
    /// Its fields, as written, without secrets.
    pub settings: Map<String, Value>,
    /// Its secrets, by the field below the method: `jwks.token`, or `[0]` for the first key.
    pub references: BTreeMap<String, Reference>,
    /// Rules about resources, as written.
    pub policy: Vec<Value>,
    /// Rules about paths, as written.
    pub route_policy: Vec<Value>,
}

impl CheckedAccess {
    /// Whether clients send tokens of the cluster in which the pods run.
    pub fn uses_own_cluster(&self) -> bool {
        self.method == "kubernetes" && !self.settings.contains_key("apiServerUrl")
    }
}

/// Owner of the environment variables of secrets.
const OWNER: &str = "access";
const URL_FIX: &str = "use an http or https URL, for example https://login.example.com";
const HEADER_FIX: &str = "use the name of a header, for example x-auth-user";

pub(super) fn check(access: &Access, diagnostics: &mut Collector) -> Option<CheckedAccess> {
    let Access {
        kubernetes,
        oauth2,
        github,
        api_keys,
        upstream_header,
        custom,
        policy,
        route_policy,
    } = access;
    let path = FieldPath::spec().field("access");
    let mut methods = Vec::new();
    if let Some(one) = kubernetes {
        check_kubernetes(one, &path.field("kubernetes"), diagnostics);
        methods.push(("kubernetes", untyped::fields(one), BTreeMap::new()));
    }
    if let Some(one) = oauth2 {
        let references = check_oauth2(one, &path.field("oauth2"), diagnostics);
        let mut settings = untyped::fields(one);
        for (section, secret) in [("jwks", "token"), ("introspection", "clientSecret")] {
            if let Some(section) = settings.get_mut(section).and_then(Value::as_object_mut) {
                section.remove(secret);
            }
        }
        methods.push(("oauth2", settings, references));
    }
    if let Some(one) = github {
        let GitHubAccess {
            github_api_base_url,
            claims_mapping: _,
        } = one;
        let path = path.at(&["github", "githubApiBaseUrl"]);
        check_url(github_api_base_url.as_deref(), &path, diagnostics);
        methods.push(("github", untyped::fields(one), BTreeMap::new()));
    }
    if let Some(keys) = api_keys {
        let references = check_keys(keys, &path.field("apiKeys"), diagnostics);
        methods.push(("apiKeys", Map::new(), references));
    }
    if let Some(one) = upstream_header {
        check_headers(one, &path.field("upstreamHeader"), diagnostics);
        methods.push(("upstreamHeader", untyped::fields(one), BTreeMap::new()));
    }
    if let Some(one) = custom {
        let CustomAccess { endpoint } = one;
        let path = path.at(&["custom", "endpoint"]);
        check_url(Some(endpoint), &path, diagnostics);
        methods.push(("custom", untyped::fields(one), BTreeMap::new()));
    }
    let policy = policy.as_deref().unwrap_or_default();
    for (position, rule) in policy.iter().enumerate() {
        check_rule(rule, &path.field("policy").index(position), diagnostics);
    }
    let route_policy = route_policy.as_deref().unwrap_or_default();
    for (position, rule) in route_policy.iter().enumerate() {
        let path = path.field("routePolicy").index(position);
        check_route_rule(rule, &path, diagnostics);
    }
    let count = methods.len();
    let method = methods.pop().filter(|_| count == 1);
    let Some((method, settings, references)) = method else {
        diagnostics.violation(&rules::ONE_AUTHENTICATION, &path);
        return None;
    };
    Some(CheckedAccess {
        method,
        settings,
        references,
        policy: policy
            .iter()
            .map(|rule| untyped::fields(rule).into())
            .collect(),
        route_policy: route_policy
            .iter()
            .map(|rule| untyped::fields(rule).into())
            .collect(),
    })
}

fn check_url(url: Option<&str>, path: &FieldPath, diagnostics: &mut Collector) {
    if let Some(url) = url {
        untyped::check_string(url, path, names::http_url(url), URL_FIX, diagnostics);
    }
}

fn check_kubernetes(one: &KubernetesAccess, path: &FieldPath, diagnostics: &mut Collector) {
    let KubernetesAccess {
        api_server_url,
        claims_mapping: _,
    } = one;
    check_url(
        api_server_url.as_deref(),
        &path.field("apiServerUrl"),
        diagnostics,
    );
}

fn check_oauth2(
    one: &OAuth2Access,
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> BTreeMap<String, Reference> {
    let OAuth2Access {
        issuer: _,
        audience: _,
        jwks,
        introspection,
        claims_mapping: _,
    } = one;
    if jwks.is_some() == introspection.is_some() {
        diagnostics.violation(&rules::ONE_TOKEN_CHECK, path);
    }
    let mut references = BTreeMap::new();
    let mut refer = |field: &str, reference: &SecretReference, diagnostics: &mut Collector| {
        let path = field
            .split('.')
            .fold(path.clone(), |path, one| path.field(one));
        let variable = secrets::variable(OWNER, field);
        if let Some(reference) = secrets::read_typed(reference, &path, variable, diagnostics) {
            references.insert(field.to_owned(), reference);
        }
    };
    if let Some(jwks) = jwks {
        let Jwks {
            uri,
            token,
            key_recheck_period: _,
        } = jwks;
        check_url(Some(uri), &path.at(&["jwks", "uri"]), diagnostics);
        if let Some(token) = token {
            refer("jwks.token", token, diagnostics);
        }
    }
    if let Some(introspection) = introspection {
        let Introspection {
            url,
            client_id: _,
            client_secret,
            send_secret_in_body: _,
        } = introspection;
        check_url(Some(url), &path.at(&["introspection", "url"]), diagnostics);
        refer("introspection.clientSecret", client_secret, diagnostics);
    }
    references
}

fn check_keys(
    keys: &[SecretReference],
    path: &FieldPath,
    diagnostics: &mut Collector,
) -> BTreeMap<String, Reference> {
    let mut references = BTreeMap::new();
    for (position, key) in keys.iter().enumerate() {
        let variable = secrets::variable(OWNER, &format!("apiKey{position}"));
        let path = path.index(position);
        if let Some(reference) = secrets::read_typed(key, &path, variable, diagnostics) {
            references.insert(format!("[{position}]"), reference);
        }
    }
    references
}

fn check_headers(one: &UpstreamHeaderAccess, path: &FieldPath, diagnostics: &mut Collector) {
    let UpstreamHeaderAccess {
        principal_header,
        attributes_header,
        attribute_headers,
        trusted_proxy_cidrs,
    } = one;
    let own = [
        ("principalHeader", Some(principal_header)),
        ("attributesHeader", attributes_header.as_ref()),
    ];
    let own = own
        .into_iter()
        .filter_map(|(field, header)| Some((path.field(field), header?)));
    let attributes = path.field("attributeHeaders");
    let of_attributes = attribute_headers
        .iter()
        .flatten()
        .map(|(attribute, header)| (attributes.field(attribute), header));
    for (path, header) in own.chain(of_attributes) {
        untyped::check_string(header, &path, header_name(header), HEADER_FIX, diagnostics);
    }
    for (position, range) in trusted_proxy_cidrs.iter().flatten().enumerate() {
        let path = path.field("trustedProxyCidrs").index(position);
        let fix = "use a range of addresses, for example 10.0.0.0/8";
        untyped::check_string(range, &path, address_range(range), fix, diagnostics);
    }
}

/// The name of an HTTP header: a token of RFC 9110.
fn header_name(name: &str) -> Result<(), NameError> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match name {
        "" => Err(NameError::Empty),
        name if name.chars().all(is_token) => Ok(()),
        _ => Err(NameError::Invalid("name of a header")),
    }
}

/// An address and the length of its prefix.
fn address_range(range: &str) -> Result<(), NameError> {
    let parse = |range: &str| {
        let (address, length) = range.split_once('/')?;
        let length: u8 = length.parse().ok()?;
        let bits = match address.parse().ok()? {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        (length <= bits).then_some(())
    };
    parse(range).ok_or(NameError::Invalid("range of addresses"))
}

fn check_rule(rule: &AccessRule, path: &FieldPath, diagnostics: &mut Collector) {
    let AccessRule {
        permit,
        forbid,
        when,
        unless,
        description: _,
    } = rule;
    for (field, scope) in [("permit", permit), ("forbid", forbid)] {
        let Some(AccessScope {
            principal: _,
            actions: _,
            resource: Some(resource),
        }) = scope
        else {
            continue;
        };
        let is_valid = resource.starts_with("regex:") || resource.contains("::");
        if !is_valid {
            diagnostics.error(
                &path.at(&[field, "resource"]),
                format!("{resource:?} has no kind of resource, so the rule never applies"),
                "use kind::name, for example model::vllm/llama, or model::* for all of a kind",
            );
        }
    }
    let effects = (permit.is_some(), forbid.is_some());
    check_conditions(effects, (when, unless), CONDITIONS, path, diagnostics);
}

fn check_route_rule(rule: &RouteRule, path: &FieldPath, diagnostics: &mut Collector) {
    let RouteRule {
        permit,
        forbid,
        when,
        unless,
        description: _,
    } = rule;
    for (field, scope) in [("permit", permit), ("forbid", forbid)] {
        let paths = scope.iter().flat_map(|RouteScope { paths }| paths);
        for (position, one) in paths.enumerate() {
            let is_valid = one == "*" || one.starts_with('/') || one.starts_with("regex:");
            if !is_valid {
                diagnostics.error(
                    &path.at(&[field, "paths"]).index(position),
                    format!("{one:?} is not a path, so the rule never applies"),
                    "use a path such as /v1/models, a prefix such as /v1/files*, or *",
                );
            }
        }
    }
    let effects = (permit.is_some(), forbid.is_some());
    // A path has no owner.
    let conditions = CONDITIONS.get(..2).unwrap_or_default();
    check_conditions(effects, (when, unless), conditions, path, diagnostics);
}

/// The forms of conditions; `…` stands for one word. Those without `owner` come first.
const CONDITIONS: &[&str] = &[
    "user with … in …",
    "user with … not in …",
    "user is owner",
    "user is not owner",
    "user in owners …",
    "user not in owners …",
];

type Conditions = Option<Vec<String>>;

fn check_conditions(
    (permits, forbids): (bool, bool),
    (when, unless): (&Conditions, &Conditions),
    known: &[&str],
    path: &FieldPath,
    diagnostics: &mut Collector,
) {
    if permits == forbids {
        let problem = match permits {
            true => "has both permit and forbid",
            false => "has neither permit nor forbid",
        };
        diagnostics.error(path, problem, "set one of the two");
    }
    if when.is_some() && unless.is_some() {
        diagnostics.error(
            &path.field("unless"),
            "cannot be combined with when",
            "write two rules",
        );
        return;
    }
    for (field, conditions) in [("when", when), ("unless", unless)] {
        for (position, condition) in conditions.iter().flatten().enumerate() {
            if !known.iter().any(|form| has_form(condition, form)) {
                diagnostics.error(
                    &path.field(field).index(position),
                    format!("{condition:?} is not a condition that the server knows here"),
                    format!("use one of: {}", known.join(", ")),
                );
            }
        }
    }
}

fn has_form(condition: &str, form: &str) -> bool {
    let words = condition.split_whitespace();
    let form = form.split(' ');
    words.clone().count() == form.clone().count()
        && words
            .zip(form)
            .all(|(word, form)| form == "…" || form == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_the_forms_that_the_server_parses() {
        let is_known = |text: &str| CONDITIONS.iter().any(|form| has_form(text, form));
        for text in [
            "user with admin in roles",
            "user with admin not in roles",
            "user is owner",
            "user is not  owner",
            "user in owners teams",
            "user not in owners teams",
        ] {
            assert!(is_known(text), "{text}");
        }
        for text in [
            "",
            "user",
            "user is admin",
            "user with a b in roles",
            "user in owner teams",
        ] {
            assert!(!is_known(text), "{text}");
        }
    }

    #[test]
    fn ranges_and_headers_have_a_syntax() {
        for range in ["10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1/128"] {
            assert_eq!(address_range(range), Ok(()), "{range}");
        }
        for range in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0/8",
            "fd00::/129",
            "/8",
            "a/8",
        ] {
            assert!(address_range(range).is_err(), "{range}");
        }
        assert_eq!(header_name("X-Auth-User"), Ok(()));
        assert!(header_name("x user").is_err() && header_name("").is_err());
    }
}
