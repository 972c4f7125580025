//! Rules for `spec.resources`: models, tools and shields.

use super::{rule, whole};
use crate::rules::{Rule, example};

pub(crate) const RULES: &[Rule] = &[
    rule(
        "models",
        whole(
            named!(
                "models",
                "'name', 'provider', 'modelType', 'contextLength', 'quantization', 'embeddingDimension', 'metadata'"
            ),
            "spec.resources.models",
        ),
        (
            "contains an invalid model",
            "use a name, or an object with name and any of provider, modelType, contextLength, quantization, embeddingDimension, metadata",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {models: [7]}}",
                "spec.resources.models[0]",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: [a, {provider: vllm}]}}",
                "spec.resources.models[1].name",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: ['']}}",
                "spec.resources.models[0]",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: [{name: m, context_length: 4096}]}}",
                "spec.resources.models[0].context_length",
            ),
        ],
    ),
    rule(
        "model-numbers",
        whole(
            "variables.models.all(m, type(m) != map || ['contextLength', 'embeddingDimension'].all(f, !(f in m) || (type(m[f]) == int && m[f] >= 1 && m[f] <= 100000000)))",
            "spec.resources.models",
        ),
        (
            "contextLength and embeddingDimension must be integers from 1 to 100000000",
            "use an integer, without quotes",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {models: [{name: m, contextLength: '4096'}]}}",
                "spec.resources.models[0].contextLength",
            ),
            example(
                "{distribution: {name: starter}, resources: {models: [{name: m, embeddingDimension: 0}]}}",
                "spec.resources.models[0].embeddingDimension",
            ),
        ],
    ),
    rule(
        "tools",
        whole(
            named!("tools", "'name', 'provider', 'endpoint', 'apiKey'"),
            "spec.resources.tools",
        ),
        (
            "contains an invalid tool",
            "use a name, or an object with name, provider and endpoint",
        ),
        &[
            example(
                "{distribution: {name: starter}, resources: {tools: [[rag]]}}",
                "spec.resources.tools[0]",
            ),
            example(
                "{distribution: {name: starter}, resources: {tools: [{name: rag, providr: a}]}}",
                "spec.resources.tools[0].providr",
            ),
        ],
    ),
    rule(
        "shields",
        whole(
            named!("shields", "'name', 'provider', 'model'"),
            "spec.resources.shields",
        ),
        (
            "contains an invalid shield",
            "use a name, or an object with name, provider and model",
        ),
        &[example(
            "{distribution: {name: starter}, resources: {shields: [{model: m}]}}",
            "spec.resources.shields[0].name",
        )],
    ),
];
