//! Tool groups: registers them if the dialect does so in the file, and adds their providers.

use llsd_adapter_sdk::documents::{Object, Tool};
use llsd_adapter_sdk::serde_json::{Value, json};

use super::base::Stack;
use super::entry::{Entry, Origin};
use super::providers;
use crate::env::{self, Id};
use crate::names;

const API: &str = "tool_runtime";

/// A tool with a short name.
struct Known {
    names: &'static [&'static str],
    /// The group's id in dialects that register groups in the file, and in those that do not.
    groups: [&'static str; 2],
    /// Short names of the providers that serve it, the preferred one first.
    providers: &'static [&'static str],
    /// The variables from which every shipped file reads the keys of search providers.
    key: Option<&'static str>,
}

const KNOWN: [Known; 4] = [
    Known {
        names: &[
            "websearch",
            "web-search",
            "web_search",
            "builtin::websearch",
        ],
        groups: ["builtin::websearch", "builtin::websearch"],
        providers: &[
            "tavily-search",
            "brave-search",
            "bing-search",
            "exa-search",
            "nimble-search",
            "serply-search",
        ],
        key: Some("TAVILY_SEARCH_API_KEY"),
    },
    Known {
        names: &[
            "rag",
            "builtin::rag",
            "file_search",
            "file-search",
            "builtin::file_search",
        ],
        groups: ["builtin::rag", "builtin::file_search"],
        providers: &["rag-runtime", "file-search"],
        key: None,
    },
    Known {
        names: &["wolfram_alpha", "wolfram-alpha", "builtin::wolfram_alpha"],
        groups: ["builtin::wolfram_alpha", "builtin::wolfram_alpha"],
        providers: &["wolfram-alpha"],
        key: Some("WOLFRAM_ALPHA_API_KEY"),
    },
    Known {
        names: &[
            "code_interpreter",
            "code-interpreter",
            "builtin::code_interpreter",
        ],
        groups: ["builtin::code_interpreter", "builtin::code_interpreter"],
        providers: &["code-interpreter"],
        key: None,
    },
];

/// Registers the tools.
#[inline(never)]
pub(super) fn register(stack: &mut Stack, tools: Vec<Tool>) {
    for tool in tools {
        if stack.disabled_at(API).is_some() {
            stack.diagnostics.error(
                "disabled-api",
                tool.path,
                "a tool needs the tool runtime API, which spec.disabled disables",
                "remove the tool, or remove toolRuntime from spec.disabled",
            );
            continue;
        }
        if let Some(endpoint) = tool.endpoint.clone() {
            register_mcp(stack, &tool, endpoint);
            continue;
        }
        let known = KNOWN
            .iter()
            .find(|known| known.names.contains(&tool.name.as_str()));
        let group = known.map_or(tool.name.as_str(), |known| {
            let [registered, implied] = known.groups;
            if stack.dialect.tool_groups {
                registered
            } else {
                implied
            }
        });
        let Some(provider) = choose_provider(stack, &tool, known, group) else {
            continue;
        };
        bring_needs(stack, &tool.path, &provider);
        warn_without_key(stack, &tool, &provider);
        if stack.dialect.tool_groups {
            register_group(stack, group, &provider);
        }
    }
}

/// The provider type of MCP servers, without its side.
const MCP: &str = "model-context-protocol";
/// The prefix of the ids of their tool groups.
const MCP_GROUP: &str = "mcp::";

/// Registers the tools of an MCP server: as a tool group, as a connector, or both, whatever the dialect has.
fn register_mcp(stack: &mut Stack, tool: &Tool, endpoint: String) {
    let name = tool.name.strip_prefix(MCP_GROUP).unwrap_or(&tool.name);
    if stack.dialect.tool_groups {
        let Some(provider) = mcp_provider(stack, tool) else {
            return;
        };
        let group = format!("{MCP_GROUP}{name}");
        register_group(stack, &group, &provider);
        let list = stack.resources_mut("tool_groups").into_iter().flatten();
        let mut same = list
            .filter(|one| one.get("toolgroup_id").and_then(Value::as_str) == Some(group.as_str()));
        if let Some(entry) = same.next().and_then(Value::as_object_mut) {
            entry.insert("mcp_endpoint".to_owned(), json!({"uri": endpoint}));
        }
    } else if let Some(provider) = &tool.provider {
        let problem = format!(
            "{} connects to MCP servers without a provider",
            stack.dialect.id
        );
        stack.diagnostics.warning(
            "no-provider-needed",
            format!("{}.provider", tool.path),
            problem,
            format!("remove provider: {provider}"),
        );
    }
    if stack.dialect.connectors {
        register_connector(stack, name, endpoint);
    }
}

/// The provider of an MCP tool group: named, existing, or added.
fn mcp_provider(stack: &mut Stack, tool: &Tool) -> Option<String> {
    if let Some(wanted) = &tool.provider {
        if stack.entry(API, wanted).is_some() {
            return Some(wanted.clone());
        }
        stack.no_such_id(&tool.path, API, wanted);
        return None;
    }
    let found = stack.entries(API).find_map(|entry| match entry.id() {
        Id::Always(id) if entry.short_type() == MCP => Some(id.to_owned()),
        _ => None,
    });
    if found.is_some() {
        return found;
    }
    let provider_type = "remote::model-context-protocol";
    if stack.catalog.find(API, provider_type).is_none() {
        let problem = format!("{} has no provider for MCP servers", stack.dialect.id);
        let field = format!("{}.endpoint", tool.path);
        stack.diagnostics.error(
            "unknown-tool",
            field,
            problem,
            "use llama-stack 0.2 or newer",
        );
        return None;
    }
    let value = providers::entry(stack, &tool.path, MCP, provider_type, Object::new(), None);
    stack.put(API, MCP, value, Origin::Brought(tool.path.clone()));
    Some(MCP.to_owned())
}

fn register_connector(stack: &mut Stack, id: &str, url: String) {
    let list = stack
        .top
        .entry("connectors")
        .or_insert_with(|| Value::Array(Vec::new()));
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    let Some(list) = list.as_array_mut() else {
        stack.malformed("connectors", "a list");
        return;
    };
    let connector = json!({"connector_id": id, "connector_type": "mcp", "url": url});
    let same = |old: &&mut Value| old.get("connector_id").and_then(Value::as_str) == Some(id);
    match list.iter_mut().find(same) {
        Some(old) => *old = connector,
        None => list.push(connector),
    }
}

/// The id of the provider that serves a tool: named, existing, or added.
fn choose_provider(
    stack: &mut Stack,
    tool: &Tool,
    known: Option<&Known>,
    group: &str,
) -> Option<String> {
    if let Some(wanted) = &tool.provider {
        if stack.entry(API, wanted).is_some() {
            return Some(wanted.clone());
        }
        stack.no_such_id(&tool.path, API, wanted);
        return None;
    }
    // The resource's providers take precedence over the base's registrations.
    if known.is_none() || stack.placed(API).next().is_none() {
        let registered = registered_provider(stack, group);
        if registered.is_some() {
            return registered;
        }
    }
    let Some(known) = known else {
        let (problem, fix) = if tool.name.starts_with("mcp::") {
            (
                format!(
                    "the tool group {:?} needs the address of its MCP server",
                    tool.name
                ),
                "add endpoint with the URL of the MCP server, for example http://mcp:8000/mcp"
                    .to_owned(),
            )
        } else {
            let names = KNOWN
                .iter()
                .filter_map(|known| known.names.first().copied());
            (
                format!("no tool is called {:?}", tool.name),
                names::choose(&tool.name, names),
            )
        };
        stack
            .diagnostics
            .error("unknown-tool", format!("{}.name", tool.path), problem, fix);
        return None;
    };
    let serves = |entry: &Entry| {
        known.providers.contains(&entry.short_type())
            || stack.known(API, entry).and_then(|known| known.toolgroup) == Some(group)
    };
    if let Some(placed) = stack
        .placed(API)
        .find(|id| stack.entry(API, id).is_some_and(serves))
    {
        return Some(placed.to_owned());
    }
    for preferred in known.providers {
        let found = stack.entries(API).find_map(|entry| match entry.id() {
            Id::Always(id) if entry.short_type() == *preferred => Some(id.to_owned()),
            _ => None,
        });
        if found.is_some() {
            return found;
        }
    }
    bring(stack, tool, known)
}

/// The provider with which the base already registers a group.
fn registered_provider(stack: &Stack, group: &str) -> Option<String> {
    if !stack.dialect.tool_groups {
        return None;
    }
    let groups = stack.resources()?.get("tool_groups")?.as_array()?;
    let registered = groups
        .iter()
        .find(|entry| entry.get("toolgroup_id").and_then(Value::as_str) == Some(group))?;
    let id = Id::of(registered.get("provider_id")).name()?;
    stack.entry(API, id).map(|_| id.to_owned())
}

fn bring(stack: &mut Stack, tool: &Tool, known: &Known) -> Option<String> {
    let found = known.providers.iter().find_map(|name| {
        ["remote", "inline"]
            .into_iter()
            .find_map(|side| Some((*name, stack.catalog.find(API, &format!("{side}::{name}"))?)))
    });
    let Some((id, provider)) = found else {
        stack.diagnostics.error(
            "unknown-tool",
            format!("{}.name", tool.path),
            format!(
                "{} has no provider for the tool {:?}",
                stack.dialect.id, tool.name
            ),
            "remove it",
        );
        return None;
    };
    let mut config = Object::new();
    if let (Some(variable), Some(key)) = (known.key, provider.credential) {
        config.insert(
            key.to_owned(),
            Value::String(env::with_default(stack.dialect.env, variable, "")),
        );
    }
    let value = providers::entry(stack, &tool.path, id, provider.provider_type, config, None);
    stack.put(API, id, value, Origin::Brought(tool.path.clone()));
    Some(id.to_owned())
}

/// Adds the files API if the provider needs it and it is missing. Other missing APIs have no useful
/// default; `needs` reports them.
fn bring_needs(stack: &mut Stack, path: &str, provider: &str) {
    let needs_files = stack
        .entry(API, provider)
        .and_then(|entry| stack.known(API, entry))
        .is_some_and(|known| known.needs().any(|api| api == "files"));
    if !needs_files || stack.serves("files") || stack.disabled_at("files").is_some() {
        return;
    }
    if stack.entries("files").next().is_some() {
        stack.list("files");
    } else if stack.catalog.find("files", "inline::localfs").is_some() {
        let value = providers::entry(
            stack,
            path,
            "localfs",
            "inline::localfs",
            Object::new(),
            None,
        );
        stack.put("files", "localfs", value, Origin::Brought(path.to_owned()));
    }
}

/// Warns about a search provider without a key: it starts, but every call fails.
fn warn_without_key(stack: &mut Stack, tool: &Tool, provider: &str) {
    let Some(entry) = stack.entry(API, provider) else {
        return;
    };
    let Some(key) = stack.known(API, entry).and_then(|known| known.credential) else {
        return;
    };
    let value = entry.config().and_then(|config| config.get(key));
    if !value.is_none_or(env::is_empty_by_default) {
        return;
    }
    let variable = value
        .and_then(Value::as_str)
        .and_then(env::whole)
        .map(|expression| expression.name);
    let or = variable.map_or(String::new(), |variable| {
        format!(", or set {variable} under spec.workload.overrides.env")
    });
    let name = entry.short_type().to_owned();
    stack.diagnostics.warning(
        "no-credential",
        tool.path.as_str(),
        format!("the provider {provider:?} has no API key, so every call of the tool will fail"),
        format!("add spec.providers.toolRuntime with provider {name} and apiKey{or}"),
    );
}

fn register_group(stack: &mut Stack, group: &str, provider: &str) {
    // The group of a conditional provider has the same condition.
    let condition = stack
        .entry(API, provider)
        .and_then(|entry| entry.value.get("provider_id").cloned());
    let provider_id = condition.unwrap_or_else(|| json!(provider));
    let Some(list) = stack.resources_mut("tool_groups") else {
        return;
    };
    let same = |old: &&mut Value| old.get("toolgroup_id").and_then(Value::as_str) == Some(group);
    match list.iter_mut().find(same).and_then(Value::as_object_mut) {
        Some(old) => {
            old.insert("provider_id".to_owned(), provider_id);
        }
        None => list.push(json!({"toolgroup_id": group, "provider_id": provider_id})),
    }
}
