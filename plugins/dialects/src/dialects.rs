//! The dialects, oldest first, and what differs between them.
//!
//! [`dialects!`] is the one list: ids, order and first releases are derived from it. An adapter that
//! names two dialects carries only their slices of the catalogue.

use llsd_adapter_sdk::Release;

use crate::catalog::slice::{self, Line, Merged, Slice};
use crate::env::Syntax;
use crate::layout::{Dialect, Kind, State, Store, Telemetry};

/// The merged catalogue of the releases that one adapter serves.
macro_rules! catalog {
    ($name:ident: $($file:literal),+ $(,)?) => {
        const $name: (&str, &Merged) = {
            const MERGED: Merged =
                Merged::of(&[$(include_str!(concat!("../catalog/", $file, ".txt"))),+]);
            const BYTES: [u8; MERGED.length()] = MERGED.text();
            match std::str::from_utf8(&BYTES) {
                Ok(text) => (text, &MERGED),
                Err(_) => panic!("lines of text are text"),
            }
        };
    };
}

/// The catalogue of each release, as part of a merged one.
macro_rules! slices {
    ($catalog:ident: $($from:expr => $file:literal),+ $(,)?) => {
        &[$({
            const TEXT: &str = include_str!(concat!("../catalog/", $file, ".txt"));
            const LINES: [Line; slice::count_lines(TEXT)] = $catalog.1.index(TEXT);
            Slice { from: $from, text: $catalog.0, lines: &LINES }
        }),+]
    };
}

/// The keys that the releases of a dialect read in each section, from the first to the last release.
macro_rules! layout {
    ($first:literal, $last:literal) => {{
        const ALL: &str = include_str!("../catalog/layouts.txt");
        const RANGE: (usize, usize) = slice::range_of(ALL, $first, $last);
        const BYTES: [u8; RANGE.1 - RANGE.0] = slice::copy(ALL, RANGE.0);
        const TEXT: &str = match std::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("lines of text are text"),
        };
        TEXT
    }};
}

/// Defines each dialect as a static, and [`DIALECTS`] in the same order.
macro_rules! dialects {
    ($($(#[$doc:meta])* $name:ident: $id:literal from $from:expr $(, reads $previous:ident)? => $layout:expr;)+) => {
        /// Every dialect, oldest first.
        ///
        /// A dialect ends where the next one starts: the releases of the two products do not overlap.
        pub(crate) const DIALECTS: &[Entry] = &[$(Entry {
            id: $id,
            first: $from,
            reads_previous: dialects!(@reads $($previous)?),
        }),+];

        /// Every dialect, oldest first. An adapter that uses it carries the whole catalogue.
        pub const ALL: &[&Dialect] = &[$(&$name),+];

        $($(#[$doc])*
        pub static $name: Dialect = Dialect { id: $id, from: $from, ..$layout };)+
    };
    (@reads previous) => { true };
    (@reads) => { false };
}

/// What is known of a dialect without its catalogue.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `<product>/<first release>`.
    pub(crate) id: &'static str,
    /// First release.
    pub(crate) first: Release,
    /// Whether its releases read a file of the previous dialect as that dialect does.
    pub(crate) reads_previous: bool,
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

catalog!(CATALOG_0_2: "llama-stack-0.1.9", "llama-stack-0.2.12", "llama-stack-0.2.14", "llama-stack-0.2.24");
catalog!(CATALOG_0_4: "llama-stack-0.3.5", "llama-stack-0.4.7");
catalog!(CATALOG_0_7: "llama-stack-0.5.4", "llama-stack-0.6.1", "llama-stack-0.7.3");
catalog!(CATALOG_OGX: "ogx-0.8.0", "ogx-1.0.0", "ogx-1.5.0");

dialects! {
    /// llama-stack 0.1.3 to 0.2.12: `${env.X:default}`, `version` is a string.
    LLAMA_STACK_0_1_3: "llama-stack/0.1.3" from Release::first(0, 1, 3) => Dialect {
        env: Syntax::Plain,
        text_version: true,
        command: &[
            "python3",
            "-m",
            "llama_stack.distribution.server.server",
            "--config",
        ],
        layout: layout!("llama-stack-0.1.9", "llama-stack-0.2.12"),
        slices: slices![CATALOG_0_2: Release::first(0, 1, 3) => "llama-stack-0.1.9",
            Release::first(0, 2, 0) => "llama-stack-0.2.12",
        ],
        ..BLOCKS
    };

    /// llama-stack 0.2.13 to 0.3.0rc3: `${env.X:=default}`, `version` is an integer.
    LLAMA_STACK_0_2_13: "llama-stack/0.2.13" from Release::first(0, 2, 13) => Dialect {
        layout: layout!("llama-stack-0.2.24", "llama-stack-0.2.24"),
        slices: slices![CATALOG_0_2: Release::first(0, 2, 13) => "llama-stack-0.2.14",
            Release::first(0, 2, 16) => "llama-stack-0.2.24",
        ],
        ..BLOCKS
    };

    /// llama-stack 0.3: `storage` and `registered_resources`, which came between two candidates.
    LLAMA_STACK_0_3: "llama-stack/0.3" from Release::candidate(0, 3, 0, 4) => Dialect {
        state: State::Backends(&[METADATA, INFERENCE, CONVERSATIONS]),
        resources: Some("registered_resources"),
        telemetry: Telemetry::Switch,
        command: &[],
        workers_from: Some(Release::first(0, 3, 1)),
        layout: layout!("llama-stack-0.3.5", "llama-stack-0.3.5"),
        slices: slices![CATALOG_0_4: Release::first(0, 3, 0) => "llama-stack-0.3.5"],
        ..BLOCKS
    };

    /// llama-stack 0.4: `base_url`, a store of prompts, no telemetry.
    LLAMA_STACK_0_4: "llama-stack/0.4" from Release::first(0, 4, 0) => Dialect {
        layout: layout!("llama-stack-0.4.7", "llama-stack-0.4.7"),
        slices: slices![CATALOG_0_4: Release::first(0, 4, 0) => "llama-stack-0.4.7"],
        ..PROMPTS
    };

    /// llama-stack 0.5 and 0.6: `distro_name`, connectors. What 0.4 reads, they read alike.
    LLAMA_STACK_0_5: "llama-stack/0.5" from Release::first(0, 5, 0), reads previous => Dialect {
        layout: layout!("llama-stack-0.5.4", "llama-stack-0.6.1"),
        slices: slices![CATALOG_0_7: Release::first(0, 5, 0) => "llama-stack-0.5.4",
            Release::first(0, 6, 0) => "llama-stack-0.6.1",
        ],
        ..CONNECTORS
    };

    /// llama-stack 0.7: responses instead of agents; tool groups follow from the providers.
    LLAMA_STACK_0_7: "llama-stack/0.7" from Release::first(0, 7, 0) => Dialect {
        tool_groups: false,
        layout: layout!("llama-stack-0.7.3", "llama-stack-0.7.3"),
        slices: slices![CATALOG_0_7: Release::first(0, 7, 0) => "llama-stack-0.7.3"],
        ..CONNECTORS
    };

    /// ogx 0.8: the renamed product.
    OGX_0_8: "ogx/0.8" from Release::first(0, 8, 0) => Dialect {
        layout: layout!("ogx-0.8.0", "ogx-0.8.0"),
        slices: slices![CATALOG_OGX: Release::first(0, 8, 0) => "ogx-0.8.0"],
        ..OGX
    };

    /// ogx 1.x: no safety API, prompts and connectors in tables, TLS unless `insecure` is set.
    OGX_1_0: "ogx/1.0" from Release::first(1, 0, 0) => Dialect {
        state: State::Backends(&[
            METADATA,
            INFERENCE,
            CONVERSATIONS,
            sql("prompts", "prompts"),
            sql("connectors", "connectors"),
        ]),
        insecure_from: Some(Release::first(1, 2, 0)),
        metrics_from: Some(Release::first(1, 2, 0)),
        connection_string_from: Some(Release::first(1, 4, 1)),
        layout: layout!("ogx-1.5.0", "ogx-1.5.0"),
        slices: slices![CATALOG_OGX: Release::first(1, 0, 0) => "ogx-1.0.0",
            Release::first(1, 1, 0) => "ogx-1.5.0",
        ],
        ..OGX
    };
}

/// The oldest layout: state in blocks, resources at the top level.
const BLOCKS: Dialect = Dialect {
    id: "",
    product: "llama-stack",
    from: Release::first(0, 0, 0),
    env: Syntax::Colon,
    text_version: false,
    state: State::Blocks,
    resources: None,
    tool_groups: true,
    connectors: false,
    telemetry: Telemetry::Provider,
    homes: &["~/.llama"],
    home_variable: "LLAMA_STACK_CONFIG_DIR",
    config_variable: "LLAMA_STACK_CONFIG",
    port_variable: "LLAMA_STACK_PORT",
    command: &["llama", "stack", "run"],
    workers_from: None,
    insecure_from: None,
    metrics_from: None,
    connection_string_from: None,
    pastes_password: true,
    model_types: &["llm", "embedding"],
    layout: "",
    slices: &[],
};

/// With a store of prompts.
const PROMPTS: Dialect = Dialect {
    state: State::Backends(&[METADATA, INFERENCE, CONVERSATIONS, kv("prompts", "prompts")]),
    resources: Some("registered_resources"),
    telemetry: Telemetry::Variables,
    command: &[],
    workers_from: Some(Release::first(0, 3, 1)),
    model_types: &["llm", "embedding", "rerank"],
    ..BLOCKS
};

/// With a store of connectors as well.
const CONNECTORS: Dialect = Dialect {
    state: State::Backends(&[
        METADATA,
        INFERENCE,
        CONVERSATIONS,
        kv("prompts", "prompts"),
        kv("connectors", "connectors"),
    ]),
    connectors: true,
    ..PROMPTS
};

/// What both dialects of ogx share. Its bases may still name the old home folder.
const OGX: Dialect = Dialect {
    product: "ogx",
    tool_groups: false,
    homes: &["~/.ogx", "~/.llama"],
    home_variable: "OGX_CONFIG_DIR",
    config_variable: "OGX_CONFIG",
    port_variable: "OGX_PORT",
    pastes_password: false,
    ..CONNECTORS
};
