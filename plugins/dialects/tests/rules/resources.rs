//! Models, tools and shields.

use super::*;

fn model(entry: Value) -> Value {
    let mut entry = entry;
    entry["path"] = json!("m");
    json!([entry])
}

fn with_vllm(schema: &str, resources: Value) -> Report {
    assemble(request(
        schema,
        json!({"providers": {"inference": [vllm(schema)]}, "resources": resources}),
    ))
}

fn resources<'t>(schema: &str, report: &'t Report) -> &'t Value {
    if [V0_1_3, V0_2_13].contains(&schema) {
        report.config()
    } else {
        &report.config()["registered_resources"]
    }
}

#[test]
fn a_model_always_names_its_provider_and_clients_learn_its_id() {
    for schema in SCHEMAS {
        let report = with_vllm(
            schema,
            json!({"models": model(json!({"name": "llama", "contextLength": 8192, "quantization": "fp8"}))}),
        );
        let expected = json!({
            "model_id": "llama", "provider_id": "vllm", "model_type": "llm",
            "metadata": {"context_length": 8192, "quantization": "fp8"},
        });
        assert_eq!(
            resources(schema, &report)["models"],
            json!([expected]),
            "{schema}"
        );
        let id = if schema == V0_1_3 {
            "llama"
        } else {
            "vllm/llama"
        };
        assert_eq!(
            report.output["models"],
            json!([{"name": "llama", "id": id}]),
            "{schema}"
        );
    }
    let old = json!({"providers": {"inference": [vllm(V0_2_13)]}, "resources": {"models": model(json!({"name": "llama"}))}, "serverVersion": "0.2.15"});
    assert_eq!(
        assemble(request(V0_2_13, old)).output["models"][0]["id"],
        "llama"
    );
}

#[test]
fn a_model_that_names_an_unknown_provider_is_refused_with_the_ids() {
    let report = with_vllm(
        V0_7,
        json!({"models": model(json!({"name": "a", "provider": "vllm-primary"}))}),
    );
    assert_eq!(report.errors(), ["unknown-provider-id m.provider"]);
    assert_eq!(
        report.diagnostics[0].fix,
        "did you mean vllm? all: vllm, sentence-transformers"
    );
}

#[test]
fn a_model_of_a_conditional_provider_shares_its_condition() {
    let report = with_vllm(
        V0_7,
        json!({"models": model(json!({"name": "a", "provider": "ollama"}))}),
    );
    assert_eq!(report.codes(), ["conditional-provider m.provider"]);
    assert_eq!(
        resources(V0_7, &report)["models"][0]["provider_id"],
        "${env.OLLAMA_URL:+ollama}"
    );
}

#[test]
fn without_a_provider_of_its_own_a_resource_must_choose_among_several() {
    let mut several = request(
        V0_7,
        json!({"resources": {"models": model(json!({"name": "a"}))}}),
    );
    let fireworks =
        json!({"provider_id": "fireworks", "provider_type": "remote::fireworks", "config": {}});
    several["base"]["providers"]["inference"]
        .as_array_mut()
        .unwrap()
        .push(fireworks.clone());
    let report = assemble(several.clone());
    assert_eq!(
        report.output["models"][0]["id"], "fireworks/a",
        "the only one that is always there"
    );
    let mut second = fireworks;
    second["provider_id"] = json!("other");
    several["base"]["providers"]["inference"]
        .as_array_mut()
        .unwrap()
        .push(second);
    assert_eq!(assemble(several).errors(), ["no-provider m.provider"]);
}

#[test]
fn an_embedding_model_has_a_dimension() {
    let report = with_vllm(
        V0_7,
        json!({"models": model(json!({"name": "e", "embeddingDimension": 384}))}),
    );
    assert_eq!(
        resources(V0_7, &report)["models"][0]["model_type"],
        "embedding"
    );
    assert_eq!(
        resources(V0_7, &report)["models"][0]["metadata"]["embedding_dimension"],
        384
    );
    let report = with_vllm(
        V0_7,
        json!({"models": model(json!({"name": "e", "modelType": "embedding"}))}),
    );
    assert_eq!(
        report.errors(),
        ["no-embedding-dimension m.embeddingDimension"]
    );
    let report = with_vllm(
        V0_7,
        json!({"models": model(json!({"name": "e", "modelType": "embedding", "metadata": {"embedding_dimension": 3}}))}),
    );
    assert!(report.errors().is_empty());
    assert_eq!(
        with_vllm(
            V0_3,
            json!({"models": model(json!({"name": "e", "modelType": "rerank"}))})
        )
        .errors(),
        ["unknown-model-type m.modelType"]
    );
    assert!(
        with_vllm(
            V0_4,
            json!({"models": model(json!({"name": "e", "modelType": "rerank"}))})
        )
        .errors()
        .is_empty()
    );
}

#[test]
fn a_model_of_the_base_with_the_same_id_is_replaced() {
    let mut request = request(
        V0_7,
        json!({"providers": {"inference": [vllm(V0_7)]}, "resources": {"models": model(json!({"name": "a"}))}}),
    );
    request["base"]["registered_resources"]["models"] = json!([{"model_id": "a", "provider_id": "vllm", "x": 1}, {"model_id": "a", "provider_id": "sentence-transformers"}]);
    let report = assemble(request);
    let models = resources(V0_7, &report)["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    assert_eq!(models[0].get("x"), None);
}

fn tools(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({"path": "t", "name": name}))
        .collect()
}

#[test]
fn tools_become_groups_up_to_0_6_and_providers_alone_from_0_7() {
    for schema in [V0_1_3, V0_2_13, V0_3, V0_4, V0_5] {
        let report = with_vllm(schema, json!({"tools": tools(&["websearch", "rag"])}));
        let expected = json!([
            {"toolgroup_id": "builtin::websearch", "provider_id": "tavily-search"},
            {"toolgroup_id": "builtin::rag", "provider_id": "rag-runtime"},
        ]);
        assert_eq!(
            resources(schema, &report)["tool_groups"],
            expected,
            "{schema}"
        );
    }
    for schema in [V0_7, OGX_0_8, OGX_1_0] {
        let report = with_vllm(schema, json!({"tools": tools(&["websearch", "rag"])}));
        assert_eq!(
            resources(schema, &report).get("tool_groups"),
            None,
            "{schema}"
        );
        assert_eq!(report.ids("tool_runtime"), ["tavily-search", "file-search"]);
    }
}

#[test]
fn a_tool_brings_its_provider_and_the_files_it_needs() {
    for (schema, rag, needs_files) in [
        (V0_1_3, "rag-runtime", false),
        (V0_2_13, "rag-runtime", true),
        (V0_7, "file-search", true),
        (OGX_1_0, "file-search", true),
    ] {
        let mut request = request(
            schema,
            json!({"resources": {"tools": tools(&["websearch", "rag"])}}),
        );
        for api in ["tool_runtime", "files"] {
            request["base"]["providers"]
                .as_object_mut()
                .unwrap()
                .remove(api);
            request["base"]["apis"]
                .as_array_mut()
                .unwrap()
                .retain(|served| served != api);
        }
        let report = assemble(request);
        assert_eq!(
            report.ids("tool_runtime"),
            ["tavily-search", rag],
            "{schema}"
        );
        let apis = report.config()["apis"].as_array().unwrap();
        assert_eq!(apis.contains(&json!("files")), needs_files, "{schema}");
        if needs_files {
            assert!(report.provider("files", "localfs")["config"]["storage_dir"].is_string());
        }
        assert!(report.codes().contains(&"no-credential t".to_owned()));
    }
}

#[test]
fn a_tool_prefers_the_providers_of_the_resource() {
    let brave = placed(
        "mine",
        "remote::brave-search",
        json!({"api_key": "${env.K}"}),
    );
    let change = json!({"providers": {"tool_runtime": [brave]}, "resources": {"tools": tools(&["websearch"])}});
    let report = assemble(request(V0_5, change));
    assert_eq!(
        resources(V0_5, &report)["tool_groups"][0]["provider_id"],
        "mine"
    );
    assert_eq!(report.codes(), [""; 0]);
}

#[test]
fn a_tool_that_cannot_be_served_is_refused_with_the_fix() {
    for (tool, error) in [
        (
            json!({"path": "t", "name": "websaerch"}),
            "unknown-tool t.name",
        ),
        (
            json!({"path": "t", "name": "mcp::files"}),
            "unknown-tool t.name",
        ),
        (
            json!({"path": "t", "name": "websearch", "provider": "nobody"}),
            "unknown-provider-id t.provider",
        ),
        (
            json!({"path": "t", "name": "code_interpreter"}),
            "unknown-tool t.name",
        ),
    ] {
        assert_eq!(
            with_vllm(V0_7, json!({"tools": [tool]})).errors(),
            [error],
            "{tool}"
        );
    }
    let mut no_store = request(V0_7, json!({"resources": {"tools": tools(&["rag"])}}));
    for api in ["vector_io", "responses", "tool_runtime"] {
        no_store["base"]["providers"]
            .as_object_mut()
            .unwrap()
            .remove(api);
        no_store["base"]["apis"]
            .as_array_mut()
            .unwrap()
            .retain(|served| served != api);
    }
    no_store["base"]["vector_stores"] = json!({});
    let report = assemble(no_store);
    assert_eq!(report.errors(), ["missing-api t"]);
    assert_eq!(
        report.diagnostics[0].fix,
        "add a provider under spec.providers.vectorIo"
    );
    let off = json!({"resources": {"tools": tools(&["rag"])}, "disabled": [{"path": "d", "name": "toolRuntime"}, {"path": "d", "name": "responses"}]});
    assert_eq!(assemble(request(V0_7, off)).errors(), ["disabled-api t"]);
}

#[test]
fn a_shield_names_its_provider_and_its_model_as_clients_do() {
    for schema in [V0_1_3, V0_2_13, V0_3, V0_4, V0_5, V0_7, OGX_0_8] {
        let shield = json!({"path": "s", "name": "guard", "model": "meta-llama/Llama-Guard-3-8B"});
        let report = with_vllm(schema, json!({"shields": [shield]}));
        let model = if schema == V0_1_3 {
            "meta-llama/Llama-Guard-3-8B"
        } else {
            "vllm/meta-llama/Llama-Guard-3-8B"
        };
        let expected = json!({"shield_id": "guard", "provider_id": "llama-guard", "provider_shield_id": model});
        assert_eq!(
            resources(schema, &report)["shields"],
            json!([expected]),
            "{schema}"
        );
    }
    let report = with_vllm(
        V0_7,
        json!({"shields": [{"path": "s", "name": "llama-guard"}]}),
    );
    assert_eq!(report.codes(), ["no-shield-model s.model"]);
    assert_eq!(
        with_vllm(
            OGX_1_0,
            json!({"shields": [{"path": "s", "name": "llama-guard"}]})
        )
        .errors(),
        ["no-such-api s"]
    );
    assert_eq!(
        with_vllm(
            V0_7,
            json!({"shields": [{"path": "s", "name": "a", "provider": "b"}]})
        )
        .errors(),
        ["unknown-provider-id s.provider"]
    );
}

#[test]
fn a_shield_brings_the_provider_of_its_name() {
    let report = with_vllm(
        V0_7,
        json!({"shields": [{"path": "s", "name": "code-scanner"}]}),
    );
    assert_eq!(report.ids("safety"), ["llama-guard", "code-scanner"]);
    assert_eq!(
        resources(V0_7, &report)["shields"][0]["provider_id"],
        "code-scanner"
    );
    assert_eq!(
        report.config().get("safety"),
        None,
        "the default would name a shield that is not there"
    );
    assert_eq!(report.codes(), ["dropped-default s"]);
}

#[test]
fn an_mcp_server_is_a_tool_group_a_connector_or_both() {
    for schema in SCHEMAS {
        let tool = json!({"path": "spec.resources.tools[0]", "name": "files", "endpoint": "http://mcp:8000/mcp"});
        let report = assemble(request(schema, json!({"resources": {"tools": [tool]}})));
        let config = report.config();
        let has_groups = [V0_1_3, V0_2_13, V0_3, V0_4, V0_5].contains(&schema);
        let home = match schema {
            V0_1_3 | V0_2_13 => config,
            _ => &config["registered_resources"],
        };
        let groups = home["tool_groups"].as_array().cloned().unwrap_or_default();
        let group = groups
            .iter()
            .find(|one| one["toolgroup_id"] == "mcp::files");
        assert_eq!(group.is_some(), has_groups, "{schema}");
        if let Some(group) = group {
            assert_eq!(group["mcp_endpoint"], json!({"uri": "http://mcp:8000/mcp"}));
            let provider = group["provider_id"].as_str().unwrap();
            let provider = report.provider("tool_runtime", provider);
            assert_eq!(provider["provider_type"], "remote::model-context-protocol");
        }
        let has_connectors = [V0_5, V0_7, OGX_0_8, OGX_1_0].contains(&schema);
        let expected = json!([{"connector_id": "files", "connector_type": "mcp", "url": "http://mcp:8000/mcp"}]);
        match has_connectors {
            true => assert_eq!(config["connectors"], expected, "{schema}"),
            false => assert!(config.get("connectors").is_none(), "{schema}"),
        }
    }
}
