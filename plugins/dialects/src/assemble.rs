//! `assemble`: builds the complete file from the base, the expanded providers and the resource.
//!
//! The base is parsed once ([`base::Stack`]). Each part of the resource is applied to it, then the
//! whole is checked for dangling defaults and missing APIs. A problem that the resource causes is an
//! error at its path. A problem of the base itself is a warning with an empty path. Unknown keys are
//! kept.

mod access;
mod base;
mod config_patch;
mod defaults;
mod disabled;
mod entry;
mod external;
mod models;
mod needs;
mod provider_list;
mod providers;
mod registrations;
mod server;
mod shields;
mod state;
mod storage;
mod telemetry;
mod tools;

use llsd_adapter_sdk::Answer;
use llsd_adapter_sdk::documents::{Assembly, AssemblyRequest, Object, Resources};
use llsd_adapter_sdk::serde_json::Value;

use crate::layout::Dialect;
use llsd_adapter_sdk::Release;

/// Assembles the file. Its largest steps are not inlined: the operator compiles adapters when it starts, and
/// one function of all steps takes 15 MiB more memory to compile than the steps one by one.
pub(crate) fn assemble(dialect: &'static Dialect, request: AssemblyRequest) -> Answer<Assembly> {
    let AssemblyRequest {
        schema: _,
        server_version,
        base,
        providers,
        resources:
            Resources {
                models,
                tools,
                shields,
                registrations,
                defaults,
            },
        storage,
        disabled,
        server,
        external,
        access,
        telemetry,
        config_patch,
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
    registrations::register(&mut stack, registrations, &model_ids);
    registrations::set_defaults(&mut stack, defaults, &model_ids);
    telemetry::apply(&mut stack, telemetry, server.workers);

    storage::apply(&mut stack, storage, &data_dir);
    providers::complete(&mut stack, &data_dir);
    let startup = server::apply(&mut stack, server);
    access::apply(&mut stack, access);

    defaults::settle(&mut stack);
    needs::check(&mut stack);
    config_patch::check(&mut stack, &config_patch);
    stack.finish(startup, model_ids)
}

/// Removes a string from an object.
fn take_text(object: &mut Object, key: &str) -> Option<String> {
    match object.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
