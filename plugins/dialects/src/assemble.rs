//! The base, the expanded providers and the rest of the resource to the complete file.
//!
//! The base is taken apart once ([`base::Stack`]), each part of the resource is put over it, and
//! what is left is checked as a whole: defaults that would dangle, APIs that something needs. A
//! problem that the resource causes is an error at its path; one that the base has by itself is a
//! warning with an empty path. What nobody here understands stays as it is.

mod base;
mod defaults;
mod disabled;
mod entry;
mod external;
mod models;
mod needs;
mod providers;
mod roster;
mod server;
mod shields;
mod state;
mod storage;
mod tools;

use llsd_adapter_sdk::Answer;
use llsd_adapter_sdk::documents::{Assembly, AssemblyRequest, Resources};

use crate::layout::Dialect;
use llsd_adapter_sdk::Release;

pub(crate) fn assemble(dialect: &'static Dialect, request: AssemblyRequest) -> Answer<Assembly> {
    let AssemblyRequest {
        schema: _,
        server_version,
        base,
        providers,
        resources: Resources {
            models,
            tools,
            shields,
        },
        storage,
        disabled,
        server,
        external,
        capabilities: _,
    } = request;
    let release = server_version.as_deref().and_then(Release::parse);
    let data_dir = match server.data_dir.trim_end_matches('/') {
        "" => dialect.home().to_owned(),
        folder => folder.to_owned(),
    };
    let mut stack = base::Stack::open(dialect, release, base).map_err(|problem| vec![problem])?;

    let off = disabled::read(&mut stack, disabled);
    providers::place(&mut stack, providers, &off);
    external::place(&mut stack, external, &off);
    disabled::remove(&mut stack, &off);

    let model_ids = models::register(&mut stack, models);
    shields::register(&mut stack, shields, &model_ids);
    tools::register(&mut stack, tools);

    storage::apply(&mut stack, storage, &data_dir);
    providers::complete(&mut stack, &data_dir);
    let startup = server::apply(&mut stack, server);

    defaults::settle(&mut stack);
    needs::check(&mut stack);
    stack.finish(startup, model_ids)
}
