//! State storage.

use super::*;

fn stored(schema: &str, storage: Value) -> Report {
    assemble(request(schema, json!({"storage": storage})))
}

const REDIS: &str = "redis://redis.default.svc:6380";

#[test]
fn nothing_asked_nothing_touched() {
    for schema in SCHEMAS {
        let report = assemble(request(
            schema,
            json!({"providers": {"inference": [vllm(schema)]}}),
        ));
        let base = golden(schema, "minimal")["base"].clone();
        for key in ["storage", "metadata_store", "inference_store"] {
            assert_eq!(report.config().get(key), base.get(key), "{schema} {key}");
        }
    }
}

#[test]
fn redis_is_a_host_and_a_port_and_its_password_stands_in_front() {
    for schema in SCHEMAS {
        let report = stored(
            schema,
            json!({"kv": {"type": "redis", "endpoint": REDIS, "password": "PW"}}),
        );
        let (kind, backend) = if [V0_1_3, V0_2_13].contains(&schema) {
            ("redis", &report.config()["metadata_store"])
        } else {
            (
                "kv_redis",
                &report.config()["storage"]["backends"]["kv_default"],
            )
        };
        assert_eq!(backend["type"], kind, "{schema}");
        assert_eq!(
            (&backend["host"], &backend["port"]),
            (&json!(":${env.PW}@redis.default.svc"), &json!(6380))
        );
        assert_eq!(
            report.output["variables"],
            json!([{"env": "PW", "reference": "PW", "readAs": "text"}])
        );
        assert_eq!(report.codes(), ["logged-password spec.storage.kv.password"]);
    }
}

#[test]
fn up_to_0_2_every_provider_has_its_own_store() {
    for schema in [V0_1_3, V0_2_13] {
        let report = stored(
            schema,
            json!({
                "kv": {"type": "redis", "endpoint": "redis:6379"},
                "sql": {"type": "postgres", "host": {"text": "pg"}, "user": {"text": "u"}},
            }),
        );
        let agents = &report.provider("agents", "meta-reference")["config"];
        assert_eq!(
            agents["persistence_store"]["namespace"],
            "agents::meta-reference::persistence_store"
        );
        assert_eq!(agents["responses_store"]["type"], "postgres");
        assert_eq!(
            report.provider("vector_io", "faiss")["config"]["kvstore"]["type"],
            "redis"
        );
        let port = if schema == V0_1_3 {
            json!("5432")
        } else {
            json!(5432)
        };
        assert_eq!(
            report.config()["inference_store"],
            json!({"type": "postgres", "host": "pg", "port": port, "user": "u"})
        );
    }
}

#[test]
fn an_address_that_redis_cannot_have_is_refused() {
    for endpoint in [
        "rediss://redis",
        "redis://:secret@redis",
        "http://redis",
        "redis://",
    ] {
        let report = stored(V0_7, json!({"kv": {"type": "redis", "endpoint": endpoint}}));
        assert_eq!(
            report.errors(),
            ["bad-endpoint spec.storage.kv.endpoint"],
            "{endpoint}"
        );
        assert!(
            report
                .diagnostics
                .iter()
                .all(|diagnostic| !diagnostic.problem.contains("secret"))
        );
    }
    let report = stored(
        V0_7,
        json!({"kv": {"type": "redis", "endpoint": "redis://redis/1"}}),
    );
    assert_eq!(report.codes(), ["endpoint-path spec.storage.kv.endpoint"]);
}

#[test]
fn mongodb_is_for_releases_that_start_it_where_they_use_it() {
    let server = json!({"kvMongodb": {
        "host": {"text": "mongo"}, "database": {"text": "d"}, "user": {"text": "u"},
        "password": {"reference": "P"},
    }});
    for schema in SCHEMAS {
        let report = stored(schema, server.clone());
        if schema != OGX_1_0 {
            let expected = ["unsupported-option spec.storage.kv.type"];
            assert_eq!(report.errors(), expected, "{schema}");
            continue;
        }
        assert_eq!(report.errors(), Vec::<String>::new());
        assert_eq!(
            report.config()["storage"]["backends"]["kv_default"],
            json!({
                "type": "kv_mongodb", "host": "mongo", "port": 27017, "db": "d", "user": "u",
                "password": "${env.P}",
            })
        );
        let mut old = request(schema, json!({"storage": server}));
        old["serverVersion"] = json!("1.1.2");
        let expected = ["unsupported-option spec.storage.kv.type"];
        assert_eq!(assemble(old).errors(), expected);
    }
}

#[test]
fn postgres_by_its_parts() {
    let parts = json!({"sql": {
        "type": "postgres", "host": {"reference": "H"}, "port": {"text": "5433"}, "database": {"text": "d"},
        "user": {"text": "u"}, "password": {"reference": "P"},
    }});
    let report = stored(V0_7, parts.clone());
    let expected = json!({
        "type": "sql_postgres", "host": "${env.H}", "port": 5433, "db": "d", "user": "u", "password": "${env.P}",
    });
    assert_eq!(
        report.config()["storage"]["backends"]["sql_default"],
        expected
    );
    assert_eq!(report.output["variables"].as_array().unwrap().len(), 2);
    assert_eq!(
        report.codes(),
        ["pasted-password spec.storage.sql.password"]
    );
    assert_eq!(
        stored(OGX_1_0, parts).codes(),
        [""; 0],
        "this product escapes the password"
    );
}

#[test]
fn a_connection_string_is_taken_apart_where_the_release_has_none() {
    let dsn = json!({"sql": {"type": "postgres-connection-string", "connectionString": "DSN"}});
    let report = stored(V0_7, dsn.clone());
    let parts: Vec<_> = report.output["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["env"].as_str().unwrap(), v["part"].as_str().unwrap()))
        .collect();
    assert_eq!(
        parts,
        [
            ("LLSD_SQL_DB", "database"),
            ("LLSD_SQL_HOST", "host"),
            ("LLSD_SQL_PASSWORD", "encodedPassword"),
            ("LLSD_SQL_PORT", "port"),
            ("LLSD_SQL_USER", "encodedUser"),
        ],
        "this release pastes the password into an address"
    );
    let parts_of = |version: Value| {
        let mut request = request(OGX_1_0, json!({"storage": dsn}));
        request["serverVersion"] = version;
        assemble(request)
    };
    let report = parts_of(json!("1.5.0"));
    assert_eq!(
        report.config()["storage"]["backends"]["sql_default"],
        json!({"type": "sql_postgres", "connection_string": "${env.DSN}"})
    );
    for version in [json!("1.4.0"), Value::Null] {
        let report = parts_of(version);
        assert_eq!(
            report.config()["storage"]["backends"]["sql_default"]["password"],
            "${env.LLSD_SQL_PASSWORD}"
        );
        assert!(
            report.output["variables"]
                .to_string()
                .contains(r#""part":"password""#),
            "this product escapes it"
        );
    }
}

#[test]
fn sqlite_stays_where_it_is_and_otherwise_lies_on_the_volume() {
    let sqlite = json!({"kv": {"type": "sqlite"}, "sql": {"type": "sqlite"}});
    let report = stored(V0_7, sqlite.clone());
    assert_eq!(
        report.config()["storage"],
        golden(V0_7, "minimal")["base"]["storage"]
    );
    let mut request = request(V0_7, json!({"storage": sqlite}));
    request["base"]["storage"]["backends"]["kv_default"] =
        json!({"type": "kv_postgres", "user": "u"});
    let report = assemble(request);
    assert_eq!(
        report.config()["storage"]["backends"]["kv_default"],
        json!({"type": "kv_sqlite", "db_path": "/.llama/kvstore.db"})
    );
}

#[test]
fn a_backend_keeps_the_name_that_the_base_gave_it() {
    let mut request = request(
        V0_7,
        json!({"storage": {"kv": {"type": "redis", "endpoint": "r"}}}),
    );
    let storage = &mut request["base"]["storage"];
    storage["backends"] = json!({"mine": {"type": "kv_sqlite", "db_path": "x"}, "sql_default": {"type": "sql_sqlite", "db_path": "y"}});
    let report = assemble(request);
    let backends = report.config()["storage"]["backends"].as_object().unwrap();
    assert_eq!(backends.keys().collect::<Vec<_>>(), ["mine", "sql_default"]);
    assert_eq!(backends["mine"]["type"], "kv_redis");
}

#[test]
fn a_base_without_storage_gets_all_of_it() {
    for (schema, stores) in [(V0_3, 3), (V0_4, 4), (V0_5, 5), (V0_7, 5), (OGX_1_0, 5)] {
        let mut request = request(
            schema,
            json!({"storage": {"kv": {"type": "redis", "endpoint": "r"}}}),
        );
        request["base"].as_object_mut().unwrap().remove("storage");
        let report = assemble(request);
        let storage = &report.config()["storage"];
        assert_eq!(storage["backends"]["kv_default"]["type"], "kv_redis");
        assert_eq!(storage["backends"]["sql_default"]["type"], "sql_sqlite");
        assert_eq!(
            storage["stores"].as_object().unwrap().len(),
            stores,
            "{schema}"
        );
        let prompts = if schema == OGX_1_0 {
            "sql_default"
        } else {
            "kv_default"
        };
        assert!(
            schema == V0_3 || storage["stores"]["prompts"]["backend"] == prompts,
            "{schema}"
        );
    }
}

#[test]
fn a_release_without_sql_state_says_so() {
    let change = json!({"storage": {"sql": {"type": "postgres-connection-string", "connectionString": "D"}}, "serverVersion": "0.2.5"});
    assert_eq!(
        assemble(request(V0_1_3, change)).codes(),
        ["no-sql-storage spec.storage.sql"]
    );
}

fn kv_backend(report: &Report, schema: &str) -> Value {
    match schema {
        V0_1_3 | V0_2_13 => report.config()["metadata_store"].clone(),
        _ => report.config()["storage"]["backends"]["kv_default"].clone(),
    }
}

#[test]
fn key_value_storage_in_postgres_has_the_raw_password() {
    for schema in SCHEMAS {
        let server = json!({
            "type": "postgres", "host": {"text": "pg"}, "database": {"text": "state"},
            "user": {"text": "u"}, "password": {"reference": "LLSD_KV_PASSWORD"},
        });
        let report = assemble(request(schema, json!({"storage": {"kvPostgres": server}})));
        let backend = kv_backend(&report, schema);
        let kind = match schema {
            V0_1_3 | V0_2_13 => "postgres",
            _ => "kv_postgres",
        };
        assert_eq!(backend["type"], kind, "{schema}");
        assert_eq!(backend["host"], "pg", "{schema}");
        assert_eq!(backend["db"], "state", "{schema}");
        assert_eq!(backend["password"], "${env.LLSD_KV_PASSWORD}", "{schema}");
        assert!(
            !report
                .codes()
                .iter()
                .any(|code| code.starts_with("pasted-password")),
            "{schema}"
        );
    }
}

#[test]
fn a_connection_string_of_key_value_storage_is_taken_apart_without_encoding() {
    for schema in [V0_2_13, V0_7] {
        let server = json!({"type": "postgres-connection-string", "connectionString": "LLSD_KV_CONNECTION_STRING"});
        let report = assemble(request(schema, json!({"storage": {"kvPostgres": server}})));
        assert_eq!(
            kv_backend(&report, schema)["user"],
            "${env.LLSD_KV_USER}",
            "{schema}"
        );
        let variables = report.output["variables"].as_array().unwrap();
        let password = variables
            .iter()
            .find(|one| one["env"] == "LLSD_KV_PASSWORD")
            .unwrap();
        assert_eq!(password["part"], "password", "{schema}");
        assert_eq!(
            password["reference"], "LLSD_KV_CONNECTION_STRING",
            "{schema}"
        );
    }
}

#[test]
fn an_option_that_the_store_does_not_have_is_refused() {
    let server = json!({"type": "postgres", "host": {"text": "pg"}, "user": {"text": "u"}});
    let storage = json!({
        "kvPostgres": server, "sql": server,
        "kvOptions": {"tlsMode": "require"}, "sqlOptions": {"poolSize": 4},
    });
    let report = assemble(request(V0_7, json!({"storage": storage})));
    assert_eq!(kv_backend(&report, V0_7)["ssl_mode"], "require");
    assert_eq!(
        report.config()["storage"]["backends"]["sql_default"]["pool_size"],
        4
    );
    let report = assemble(request(V0_4, json!({"storage": storage})));
    assert_eq!(
        report.errors(),
        ["unsupported-option spec.storage.sql.poolSize"]
    );
    let storage = json!({"sql": server, "sqlOptions": {"tlsMode": "require"}});
    let report = assemble(request(V0_7, json!({"storage": storage})));
    assert_eq!(
        report.errors(),
        ["unsupported-option spec.storage.sql.tlsMode"]
    );
    let report = assemble(request(OGX_1_0, json!({"storage": storage})));
    assert_eq!(
        report.config()["storage"]["backends"]["sql_default"]["ssl_mode"],
        "require"
    );
}
