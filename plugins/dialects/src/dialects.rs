//! The eight dialects.
//!
//! Each is built from the one before with what changed. A plugin that names two of them carries
//! only their slices of the catalogue.

use crate::catalog::slice::{self, Line, Slice};
use crate::env::Syntax;
use crate::layout::{Dialect, Kind, State, Store, Telemetry};
use crate::release::Release;

macro_rules! slices {
    ($($from:expr => $file:literal),+ $(,)?) => {
        &[$({
            const TEXT: &str = include_str!(concat!("../catalog/", $file, ".txt"));
            const LINES: [Line; slice::count_lines(TEXT)] = slice::index(TEXT);
            Slice { from: $from, text: TEXT, lines: &LINES }
        }),+]
    };
}

const fn kv(name: &'static str, place: &'static str) -> Store {
    Store {
        name,
        kind: Kind::Kv,
        place,
    }
}

const fn sql(name: &'static str, place: &'static str) -> Store {
    Store {
        name,
        kind: Kind::Sql,
        place,
    }
}

const METADATA: Store = kv("metadata", "registry");
const INFERENCE: Store = sql("inference", "inference_store");
const CONVERSATIONS: Store = sql("conversations", "openai_conversations");

/// llama-stack 0.1.3 to 0.2.12: `${env.X:default}`, a text version.
pub static LLAMA_STACK_0_1_3: Dialect = Dialect {
    id: "llama-stack/0.1.3",
    from: Release(0, 1, 3),
    before: Some(Release(0, 2, 13)),
    env: Syntax::Plain,
    text_version: true,
    command: &[
        "python3",
        "-m",
        "llama_stack.distribution.server.server",
        "--config",
    ],
    slices: slices![Release(0, 1, 3) => "llama-stack-0.1.9", Release(0, 2, 0) => "llama-stack-0.2.12"],
    ..FLAT
};

/// llama-stack 0.2.13 to 0.2.24: `${env.X:=default}`, a number as version.
pub static LLAMA_STACK_0_2_13: Dialect = Dialect {
    id: "llama-stack/0.2.13",
    from: Release(0, 2, 13),
    before: Some(Release(0, 3, 0)),
    slices: slices![Release(0, 2, 13) => "llama-stack-0.2.14", Release(0, 2, 16) => "llama-stack-0.2.24"],
    ..FLAT
};

const FLAT: Dialect = Dialect {
    id: "",
    product: "llama-stack",
    from: Release(0, 0, 0),
    before: None,
    env: Syntax::Colon,
    text_version: false,
    state: State::Blocks,
    resources: None,
    tool_groups: true,
    telemetry: Telemetry::Provider,
    home: "~/.llama",
    home_variable: "LLAMA_STACK_CONFIG_DIR",
    config_variable: "LLAMA_STACK_CONFIG",
    port_variable: "LLAMA_STACK_PORT",
    command: &["llama", "stack", "run"],
    workers_from: None,
    insecure_from: None,
    connection_string_from: None,
    pastes_password: true,
    model_types: &["llm", "embedding"],
    slices: &[],
};

/// llama-stack 0.3: `storage` and `registered_resources`.
pub static LLAMA_STACK_0_3: Dialect = Dialect {
    id: "llama-stack/0.3",
    from: Release(0, 3, 0),
    before: Some(Release(0, 4, 0)),
    state: State::Backends(&[METADATA, INFERENCE, CONVERSATIONS]),
    resources: Some("registered_resources"),
    telemetry: Telemetry::Switch,
    command: &[],
    workers_from: Some(Release(0, 3, 1)),
    slices: slices![Release(0, 3, 0) => "llama-stack-0.3.5"],
    ..FLAT
};

/// llama-stack 0.4: `base_url`, a store of prompts, no telemetry.
pub static LLAMA_STACK_0_4: Dialect = Dialect {
    id: "llama-stack/0.4",
    from: Release(0, 4, 0),
    before: Some(Release(0, 5, 0)),
    slices: slices![Release(0, 4, 0) => "llama-stack-0.4.7"],
    ..PROMPTS
};

const PROMPTS: Dialect = Dialect {
    state: State::Backends(&[METADATA, INFERENCE, CONVERSATIONS, kv("prompts", "prompts")]),
    resources: Some("registered_resources"),
    telemetry: Telemetry::Variables,
    command: &[],
    workers_from: Some(Release(0, 3, 1)),
    model_types: &["llm", "embedding", "rerank"],
    ..FLAT
};

/// llama-stack 0.5 and 0.6: `distro_name`, connectors.
pub static LLAMA_STACK_0_5: Dialect = Dialect {
    id: "llama-stack/0.5",
    from: Release(0, 5, 0),
    before: Some(Release(0, 7, 0)),
    slices: slices![Release(0, 5, 0) => "llama-stack-0.5.4", Release(0, 6, 0) => "llama-stack-0.6.1"],
    ..CONNECTORS
};

const CONNECTORS: Dialect = Dialect {
    state: State::Backends(&[
        METADATA,
        INFERENCE,
        CONVERSATIONS,
        kv("prompts", "prompts"),
        kv("connectors", "connectors"),
    ]),
    ..PROMPTS
};

/// llama-stack 0.7: responses instead of agents; tool groups follow from the providers.
pub static LLAMA_STACK_0_7: Dialect = Dialect {
    id: "llama-stack/0.7",
    from: Release(0, 7, 0),
    before: Some(Release(0, 8, 0)),
    tool_groups: false,
    slices: slices![Release(0, 7, 0) => "llama-stack-0.7.3"],
    ..CONNECTORS
};

/// ogx 0.8: the renamed product.
pub static OGX_0_8: Dialect = Dialect {
    id: "ogx/0.8",
    from: Release(0, 8, 0),
    before: Some(Release(1, 0, 0)),
    slices: slices![Release(0, 8, 0) => "ogx-0.8.0"],
    ..OGX
};

const OGX: Dialect = Dialect {
    product: "ogx",
    tool_groups: false,
    home: "~/.ogx",
    home_variable: "OGX_CONFIG_DIR",
    config_variable: "OGX_CONFIG",
    port_variable: "OGX_PORT",
    pastes_password: false,
    ..CONNECTORS
};

/// ogx 1.x: no safety, prompts and connectors in tables, TLS or nothing.
pub static OGX_1_0: Dialect = Dialect {
    id: "ogx/1.0",
    from: Release(1, 0, 0),
    before: None,
    state: State::Backends(&[
        METADATA,
        INFERENCE,
        CONVERSATIONS,
        sql("prompts", "prompts"),
        sql("connectors", "connectors"),
    ]),
    insecure_from: Some(Release(1, 2, 0)),
    connection_string_from: Some(Release(1, 4, 1)),
    slices: slices![Release(1, 0, 0) => "ogx-1.0.0", Release(1, 1, 0) => "ogx-1.5.0"],
    ..OGX
};
