//! Rules for `spec.networking`.

use super::{rule, whole};
use crate::rules::{Rule, example};

pub(crate) const RULES: &[Rule] = &[rule(
    "expose",
    whole(
        concat!(
            "!has(object.spec.networking) || !has(object.spec.networking.expose) || type(object.spec.networking.expose) == bool || ",
            "(type(object.spec.networking.expose) == map && ",
            "object.spec.networking.expose.all(f, f in ['enabled', 'hostname', 'ingressClassName', 'tlsSecretName', 'annotations', 'gateway']) && ",
            "(!has(object.spec.networking.expose.enabled) || type(object.spec.networking.expose.enabled) == bool) && ",
            "['hostname', 'ingressClassName', 'tlsSecretName'].all(f, !(f in object.spec.networking.expose) || ",
            "(type(object.spec.networking.expose[f]) == string && object.spec.networking.expose[f] != '')))"
        ),
        "spec.networking.expose",
    ),
    (
        "must be a boolean or an object with valid fields",
        "write true, or {hostname: llama.example.com}",
    ),
    &[
        example(
            "{distribution: {name: starter}, networking: {expose: 'true'}}",
            "spec.networking.expose",
        ),
        example(
            "{distribution: {name: starter}, networking: {expose: {hostname: 5}}}",
            "spec.networking.expose.hostname",
        ),
        example(
            "{distribution: {name: starter}, networking: {expose: {host: a.example.com}}}",
            "spec.networking.expose.host",
        ),
        example(
            "{distribution: {name: starter}, networking: {expose: {enabled: 'no'}}}",
            "spec.networking.expose.enabled",
        ),
    ],
)];
