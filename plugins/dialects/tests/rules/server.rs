//! How the server listens and starts.

use super::*;

fn served(schema: &str, server: Value) -> Report {
    let mut all = json!({"configFile": "/etc/llama-stack/config.yaml", "dataDir": "/data"});
    for (key, value) in server.as_object().unwrap() {
        all[key.as_str()] = value.clone();
    }
    assemble(request(schema, json!({"server": all})))
}

#[test]
fn the_port_is_in_the_file_and_in_the_start() {
    for schema in SCHEMAS {
        let report = served(schema, json!({"port": 9000}));
        assert_eq!(report.config()["server"]["port"], 9000);
        let variable = if schema.starts_with("ogx") {
            "OGX_PORT"
        } else {
            "LLAMA_STACK_PORT"
        };
        assert_eq!(report.output["startup"]["env"][variable], "9000");
        assert_eq!(served(schema, json!({})).config()["server"]["port"], 8321);
    }
    assert_eq!(
        served(V0_7, json!({"port": 443})).errors(),
        ["bad-port spec.networking.port"]
    );
}

#[test]
fn the_file_is_named_to_the_start_and_only_old_images_need_a_command() {
    for (schema, variable, command) in [
        (
            V0_1_3,
            "LLAMA_STACK_CONFIG",
            json!([
                "python3",
                "-m",
                "llama_stack.distribution.server.server",
                "--config",
                "/etc/llama-stack/config.yaml",
                "--port",
                "8321"
            ]),
        ),
        (
            V0_2_13,
            "LLAMA_STACK_CONFIG",
            json!([
                "llama",
                "stack",
                "run",
                "/etc/llama-stack/config.yaml",
                "--port",
                "8321"
            ]),
        ),
        (V0_3, "LLAMA_STACK_CONFIG", json!([])),
        (V0_7, "LLAMA_STACK_CONFIG", json!([])),
        (OGX_1_0, "OGX_CONFIG", json!([])),
    ] {
        let startup = &served(schema, json!({})).output["startup"];
        assert_eq!(startup["env"][variable], "/etc/llama-stack/config.yaml");
        assert_eq!(
            startup["env"]["RUN_CONFIG_PATH"],
            "/etc/llama-stack/config.yaml"
        );
        assert_eq!(startup["command"], command, "{schema}");
    }
}

#[test]
fn folders_of_the_base_move_to_the_same_place_on_the_volume() {
    for schema in SCHEMAS {
        let env = served(schema, json!({})).output["startup"]["env"].clone();
        assert_eq!(
            env["SQLITE_STORE_DIR"], "/data/distributions/acme",
            "{schema}"
        );
        let home = if schema.starts_with("ogx") {
            "OGX_CONFIG_DIR"
        } else {
            "LLAMA_STACK_CONFIG_DIR"
        };
        assert_eq!(env[home], "/data");
        assert_eq!(env.get("VLLM_URL"), None);
    }
}

#[test]
fn tls_is_two_files_and_ogx_is_told_when_there_is_none() {
    let tls = json!({"tls": {"certFile": "/c", "keyFile": "/k"}});
    for schema in SCHEMAS {
        let report = served(schema, tls.clone());
        let server = &report.config()["server"];
        assert_eq!(
            (&server["tls_certfile"], &server["tls_keyfile"]),
            (&json!("/c"), &json!("/k"))
        );
        assert_eq!(server.get("insecure"), None);
    }
    assert_eq!(
        served(OGX_1_0, json!({})).config()["server"]["insecure"],
        true
    );
    assert_eq!(
        served(OGX_0_8, json!({})).config()["server"].get("insecure"),
        None
    );
    let old = request(OGX_1_0, json!({"serverVersion": "1.1.0"}));
    assert_eq!(assemble(old).config()["server"].get("insecure"), None);
}

#[test]
fn workers_are_a_setting_from_0_3_1() {
    for schema in [V0_1_3, V0_2_13] {
        let report = served(schema, json!({"workers": 2}));
        assert_eq!(report.codes(), ["no-workers spec.workload.workers"]);
        assert_eq!(report.config()["server"].get("workers"), None);
    }
    for schema in [V0_3, V0_4, V0_5, V0_7, OGX_0_8, OGX_1_0] {
        assert_eq!(
            served(schema, json!({"workers": 2})).config()["server"]["workers"],
            2,
            "{schema}"
        );
    }
    let mut first = request(V0_3, json!({"serverVersion": "0.3.0"}));
    first["server"]["workers"] = json!(2);
    assert_eq!(
        assemble(first).codes(),
        ["no-workers spec.workload.workers"]
    );
}

#[test]
fn counts_say_what_the_file_holds() {
    let counts = &assemble(golden(V0_5, "full")).output["counts"];
    assert_eq!(
        counts,
        &json!({"providers": 10, "models": 2, "tools": 2, "shields": 1})
    );
}

/// Defect D9: vendors keep the folder of llama-stack in their bases for ogx.
#[test]
fn folders_below_the_old_home_of_ogx_move_to_the_volume() {
    for schema in [OGX_0_8, OGX_1_0] {
        let mut request = request(schema, json!({}));
        request["server"]["dataDir"] = json!("/data");
        request["base"]["x-vendor"] = json!({
            "old": "${env.OLD_DIR:=~/.llama/distributions/rh}",
            "new": "${env.NEW_DIR:=~/.ogx/distributions/rh}",
            "other": "${env.OTHER_DIR:=~/.llamas/x}",
        });
        let env = assemble(request).output["startup"]["env"].clone();
        assert_eq!(env["OLD_DIR"], "/data/distributions/rh", "{schema}");
        assert_eq!(env["NEW_DIR"], "/data/distributions/rh", "{schema}");
        assert_eq!(env.get("OTHER_DIR"), None, "{schema}");
    }
}

#[test]
fn a_key_of_the_patch_that_no_release_reads_is_a_warning() {
    let patch = json!({
        "loging": {}, "version": null, "server": {"auth": {}, "colour": 1},
        "storage": {"stores": {"metadta": {}}},
    });
    for schema in [V0_3, V0_4, V0_5, V0_7, OGX_0_8, OGX_1_0] {
        let report = assemble(request(schema, json!({"configPatch": patch})));
        let codes = report.codes();
        for field in ["loging", "server.colour", "storage.stores.metadta"] {
            let expected = format!("unknown-key spec.configPatch.{field}");
            assert!(codes.contains(&expected), "{schema}: {codes:?}");
        }
        assert!(
            !codes
                .iter()
                .any(|code| code.contains("auth") || code.contains("version"))
        );
        assert!(
            report.config().get("loging").is_none(),
            "the host merges the patch"
        );
    }
    for schema in [V0_1_3, V0_2_13] {
        let report = assemble(request(
            schema,
            json!({"configPatch": {"loging": {}, "logging": {}}}),
        ));
        let codes = report.codes();
        assert!(
            codes.contains(&"unknown-key spec.configPatch.loging".to_owned()),
            "{schema}"
        );
        assert!(
            !codes.iter().any(|code| code.ends_with("logging")),
            "{schema}"
        );
    }
}
