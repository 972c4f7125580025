use serde_json::json;

use super::workload::DEFAULT_VOLUME_SIZE;
use super::*;

/// A resource with this spec, in YAML.
fn document(spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    json!({
        "apiVersion": crate::API_VERSION_V1ALPHA2,
        "kind": crate::KIND,
        "metadata": { "name": "my-stack" },
        "spec": spec,
    })
}

fn checked(spec: &str) -> Checked {
    check_document(document(spec)).result.unwrap()
}

fn errors(spec: &str) -> Vec<String> {
    check_document(document(spec))
        .result
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn all_errors_of_a_resource_are_reported() {
    let errors = errors(
        r#"
        distribution: {name: starter, image: a/b}
        providers:
          inference:
            - {id: a, provider: vllm, apikey: {name: s, key: k}}
            - {provider: ollama}
        storage: {kv: {type: redis}}
        networking: {port: 70000}
        workload: {replicas: "2"}
        "#,
    );
    assert_eq!(
        errors,
        [
            "spec.distribution: has both name and image; keep one of them",
            "spec.networking.port: 70000 is out of range; use a number from 1 to 65535",
            "spec.providers.inference[0].apikey: unknown field; did you mean \"apiKey\"?",
            "spec.providers.inference[1].id: is missing, but 2 providers are listed here; add an id, for example id: ollama",
            "spec.storage.kv.endpoint: is missing, but required for type redis; add endpoint: redis://<host>:6379",
            "spec.workload.replicas: must be an integer, not a string; write an integer",
        ]
    );
}

#[test]
fn a_resource_without_settings_keeps_the_configuration_of_the_distribution() {
    let checked = checked(
        "{distribution: {name: starter}, providers: {}, resources: {models: []}, disabled: []}",
    );
    assert_eq!(checked.config_source, ConfigSource::DistributionDefault);
    assert_eq!(checked.server, ServerSource::Named("starter".into()));
    assert_eq!(
        (checked.networking.port(), checked.networking.requested_port),
        (8321, None)
    );
    assert_eq!(
        (
            checked.workload.replicas(),
            checked.workload.requested_replicas
        ),
        (1, None)
    );
    assert!(checked.references().is_empty());
}

/// The complete example of the specification, with the provider id that it refers to but does not
/// define.
const FULL: &str = r#"
distribution: {name: starter}
providers:
  inference:
    id: vllm-primary
    provider: vllm
    endpoint: "http://vllm:8000"
    apiKey: {secretKeyRef: {name: vllm-creds, key: token}}
    settings: {max_tokens: 8192}
  safety: {provider: llama-guard}
  vectorIo:
    provider: pgvector
    host: {secretKeyRef: {name: pg-creds, key: host}}
resources:
  models:
    - "llama3.2-8b"
    - {name: "llama3.2-70b", provider: vllm-primary, contextLength: 128000}
  tools: [websearch, rag]
  shields: [llama-guard]
storage:
  kv: {type: sqlite}
  sql: {type: postgres, connectionString: {secretKeyRef: {name: pg-creds, key: url}}}
disabled: [postTraining, eval]
networking:
  port: 8321
  tls: {enabled: true, secretName: llama-tls, caBundle: {configMapName: custom-ca}}
  expose: true
  allowedFrom: {namespaces: ["app-ns"], labels: ["llama-access"]}
workload:
  replicas: 1
  workers: 2
  resources: {requests: {cpu: "500m", memory: "1Gi"}, limits: {cpu: "2", memory: "4Gi"}}
  autoscaling: {minReplicas: 1, maxReplicas: 5, targetCPUUtilization: 80}
  storage: {size: "10Gi", mountPath: "/.llama"}
  podDisruptionBudget: {minAvailable: 1}
  topologySpreadConstraints: []
  overrides: {serviceAccountName: "custom-sa", env: [], command: [], args: [], volumes: [], volumeMounts: []}
externalProviders:
  inference:
    - {providerId: custom-inference, image: "registry.example.com/custom:v1"}
"#;

#[test]
fn the_complete_example_of_the_specification_is_valid() {
    let checked = checked(FULL);
    // Its autoscaler may start several pods, which share one volume.
    let warned: Vec<_> = checked
        .warnings
        .iter()
        .map(|one| one.field.as_str())
        .collect();
    assert_eq!(warned, ["spec.workload.storage"]);
    assert_eq!(
        checked.config_source,
        ConfigSource::Generated { base: None }
    );
    let providers: Vec<_> = checked
        .providers
        .iter()
        .map(|p| {
            (
                p.api_field,
                p.api,
                p.path.as_str(),
                p.id.as_str(),
                p.provider.as_str(),
            )
        })
        .collect();
    assert_eq!(
        providers,
        [
            (
                "inference",
                "inference",
                "spec.providers.inference",
                "vllm-primary",
                "vllm"
            ),
            (
                "safety",
                "safety",
                "spec.providers.safety",
                "llama-guard",
                "llama-guard"
            ),
            (
                "vectorIo",
                "vector_io",
                "spec.providers.vectorIo",
                "pgvector",
                "pgvector"
            ),
        ]
    );
    assert_eq!(checked.providers[0].settings["max_tokens"], 8192);
    let references: Vec<_> = checked
        .references()
        .into_iter()
        .map(|r| {
            (
                r.path.as_str(),
                r.secret.as_str(),
                r.key.as_str(),
                r.env.as_str(),
            )
        })
        .collect();
    assert_eq!(
        references,
        [
            (
                "spec.providers.inference.apiKey",
                "vllm-creds",
                "token",
                "LLSD_VLLM_PRIMARY_API_KEY"
            ),
            (
                "spec.providers.vectorIo.host",
                "pg-creds",
                "host",
                "LLSD_PGVECTOR_HOST"
            ),
            (
                "spec.storage.sql.connectionString",
                "pg-creds",
                "url",
                "LLSD_SQL_CONNECTION_STRING"
            ),
        ]
    );
    assert_eq!(checked.models[1].provider.as_deref(), Some("vllm-primary"));
    assert_eq!(checked.models[1].context_length, Some(128_000));
    assert_eq!(checked.tools[1].path.as_str(), "spec.resources.tools[1]");
    assert_eq!(checked.shields[0].name, "llama-guard");
    assert_eq!(checked.storage.kv, Some(CheckedKv::Sqlite));
    assert_eq!(checked.disabled[0].name, "postTraining");
    assert_eq!(checked.networking.tls_secret.as_deref(), Some("llama-tls"));
    assert_eq!(checked.networking.expose, Some(Expose::default()));
    assert!(checked.networking.mentions_access);
    assert_eq!(checked.workload.autoscaling.unwrap().cpu_percent, Some(80));
    assert_eq!(checked.workload.workers, Some(2));
    assert_eq!(checked.workload.volume.unwrap().size.0, "10Gi");
    assert!(matches!(
        checked.workload.disruption_budget,
        Some(CheckedBudget::MinAvailable(_))
    ));
    assert_eq!(checked.external[0].id.as_str(), "custom-inference");
    assert_eq!(
        checked.external[0].image_pull_policy,
        crate::v1alpha2::PullPolicy::IfNotPresent
    );
    assert_eq!(checked.external[0].api, "inference");
}

#[test]
fn a_resource_of_the_cluster_is_checked_like_a_file() {
    let distribution = Distribution::from_value(document(FULL)).unwrap();
    assert_eq!(check(&distribution).unwrap(), checked(FULL));
    let mut wrong = distribution;
    wrong.spec.networking.as_mut().unwrap().port = Some(70_000);
    wrong.spec.distribution.image = Some("a/b".to_owned());
    let fields: Vec<_> = check(&wrong)
        .unwrap_err()
        .into_iter()
        .map(|error| String::from(error.field))
        .collect();
    assert_eq!(fields, ["spec.distribution", "spec.networking.port"]);
}

#[test]
fn both_forms_of_a_reference_and_all_fields_are_read() {
    let checked = checked(
        r#"
        distribution: {image: "quay.io/a/b@sha256:0f", schema: llama-stack/0.7, baseConfig: {configMapName: base}}
        providers:
          vectorIo:
            - id: pg.one
              provider: "remote::pgvector"
              host: db.example.com
              apiKey: {name: s, key: k}
              secretRefs:
                password: {name: s, key: p}
                userName: {secretKeyRef: {name: s, key: u}}
          datasetIo: {provider: localfs}
        storage:
          kv: {type: redis, endpoint: "redis:6379", password: {name: r, key: p}}
          sql: {type: postgres, host: {name: db, key: host}, port: 5433, user: {secretKeyRef: {name: db, key: user}}, database: d, password: {name: db, key: p}}
        resources:
          models: [{name: e, modelType: embedding, embeddingDimension: 384, quantization: fp8, metadata: {a: [1]}}]
          tools: [{name: rag, provider: r}]
          shields: [{name: s, provider: p, model: m}]
        networking: {expose: {hostname: "*.example.com", ingressClassName: nginx, tlsSecretName: t, annotations: {example.com/a: b}}}
        workload: {storage: {}, podDisruptionBudget: {maxUnavailable: "50%"}}
        "#,
    );
    let provider = &checked.providers[0];
    assert_eq!(provider.id.to_string(), "pg.one");
    assert_eq!(provider.host.as_deref(), Some("db.example.com"));
    let variables: Vec<_> = provider.variables().into_iter().collect();
    let expected = [
        ("apiKey", "LLSD_PG_ONE_API_KEY"),
        ("secretRefs.password", "LLSD_PG_ONE_PASSWORD"),
        ("secretRefs.userName", "LLSD_PG_ONE_USER_NAME"),
    ];
    assert_eq!(
        variables,
        expected.map(|(field, env)| (field.to_owned(), env.to_owned()))
    );
    assert_eq!(checked.providers[1].api, "datasetio");
    let base = BaseConfigMap {
        name: "base".into(),
        key: DEFAULT_CONFIG_KEY.into(),
    };
    assert_eq!(
        checked.config_source,
        ConfigSource::Generated { base: Some(base) }
    );
    assert_eq!(checked.schema.as_deref(), Some("llama-stack/0.7"));
    let Some(CheckedSql::Postgres {
        host, port, user, ..
    }) = &checked.storage.sql
    else {
        panic!("{:?}", checked.storage)
    };
    assert_eq!(port, &Some(StringOrReference::String("5433".into())));
    assert_eq!(host.reference().unwrap().env, "LLSD_SQL_HOST");
    assert_eq!(user.reference().unwrap().key, "user");
    assert_eq!(checked.references().len(), 7);
    let expose = checked.networking.expose.unwrap();
    assert_eq!(
        (
            expose.hostname.as_deref(),
            expose.annotations["example.com/a"].as_str()
        ),
        (Some("*.example.com"), "b")
    );
    let volume = checked.workload.volume.unwrap();
    assert_eq!(
        (volume.size.0.as_str(), volume.mount_path.as_str()),
        (DEFAULT_VOLUME_SIZE, DEFAULT_MOUNT_PATH)
    );
}

#[test]
fn disabled_has_precedence_over_providers_with_a_warning() {
    let report = check_document(document(
        "{distribution: {name: s}, providers: {inference: [{id: a, provider: vllm}, {id: b, provider: vllm}], postTraining: {provider: torchtune}}, disabled: [inference/b, post_training]}",
    ));
    let warnings: Vec<_> = report.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "spec.providers.inference[1]: is ignored: spec.disabled[0] disables \"inference/b\"; remove one of the two",
            "spec.providers.postTraining: is ignored: spec.disabled[1] disables \"post_training\"; remove one of the two",
        ]
    );
    let checked = report.result.unwrap();
    assert_eq!(checked.warnings, report.warnings);
    assert_eq!(
        checked
            .providers
            .iter()
            .map(|p| p.id.as_str())
            .collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn a_volume_that_several_pods_would_share_gets_a_warning() {
    let fields = |workload: &str| {
        let report = check_document(document(&format!(
            "{{distribution: {{name: s}}, workload: {workload}}}"
        )));
        let fields = report.warnings.iter().map(|one| one.field.to_string());
        fields.collect::<Vec<_>>()
    };
    let shared = ["spec.workload.storage"];
    assert_eq!(fields("{storage: {}, replicas: 2}"), shared);
    assert_eq!(
        fields("{storage: {}, autoscaling: {maxReplicas: 3}}"),
        shared
    );
    assert_eq!(fields("{storage: {}, replicas: 1}"), [""; 0]);
    assert_eq!(fields("{storage: {}}"), [""; 0]);
    assert_eq!(fields("{replicas: 2}"), [""; 0]);
}

#[test]
fn a_field_without_effect_gets_a_warning() {
    let report = check_document(document(
        r#"
        distribution: {name: s}
        providers: {inference: {provider: vllm, endpoint: "http://user:hunter2@vllm:8000"}}
        storage: {kv: {type: sqlite, endpoint: "r:1"}, sql: {type: sqlite, host: h}}
        networking: {tls: {enabled: false, secretName: t}, expose: {enabled: false, hostname: h}}
        externalProviders: {inference: [{providerId: vllm, image: a}]}
        "#,
    ));
    let fields: Vec<_> = report
        .warnings
        .iter()
        .map(|warning| warning.field.as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.externalProviders.inference[0].providerId",
            "spec.networking.expose",
            "spec.networking.tls.secretName",
            "spec.providers.inference.endpoint",
            "spec.storage.kv.endpoint",
            "spec.storage.sql.host",
        ]
    );
    let warnings: Vec<_> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(!warnings.join("").contains("hunter2"));
    assert!(report.result.unwrap().networking.expose.is_none());
}

#[test]
fn expose_accepts_booleans_and_objects() {
    for (expose, exposed) in [
        ("true", true),
        ("{}", true),
        ("{enabled: true}", true),
        ("false", false),
        ("{enabled: false}", false),
    ] {
        let checked = checked(&format!(
            "{{distribution: {{name: s}}, networking: {{expose: {expose}}}}}"
        ));
        assert_eq!(checked.networking.expose.is_some(), exposed, "{expose}");
        assert!(checked.networking.mentions_access);
        assert_eq!(checked.config_source, ConfigSource::DistributionDefault);
    }
}

#[test]
fn the_config_source_depends_on_override_storage_and_tls() {
    let source = |spec: &str| checked(spec).config_source;
    assert_eq!(
        source(
            "{distribution: {name: s}, overrideConfig: {configMapName: c, configMapNamespace: ''}}"
        ),
        ConfigSource::Override {
            config_map: "c".into(),
            namespace: None
        }
    );
    assert_eq!(
        source("{distribution: {name: s}, storage: {kv: {}}}"),
        ConfigSource::Generated { base: None }
    );
    assert_eq!(
        source("{distribution: {name: s}, storage: {}}"),
        ConfigSource::DistributionDefault
    );
    let tls = "{distribution: {name: s}, networking: {tls: {secretName: t}}}";
    assert_eq!(source(tls), ConfigSource::Generated { base: None });
}

#[test]
fn a_list_of_providers_is_limited() {
    let many: Vec<_> = (0..257)
        .map(|i| format!("{{id: p{i}, provider: vllm}}"))
        .collect();
    let errors = errors(&format!(
        "{{distribution: {{name: s}}, providers: {{inference: [{}]}}}}",
        many.join(", ")
    ));
    assert_eq!(
        errors,
        ["spec.providers.inference: has 257 items; use at most 256 items"]
    );
}

#[test]
fn all_errors_of_one_provider_are_reported() {
    let errors = errors(
        "{distribution: {name: s}, providers: {inference: {id: '', provider: 'a b', endpoint: '', apiKey: [], host: {}, settings: 1, secretRefs: {a.b: {name: s, key: k}, c: 1}}}, resources: {models: [{name: '', modelType: 1, metadata: []}], shields: [{name: s, model: ''}]}}",
    );
    assert_eq!(
        errors,
        [
            "spec.providers.inference.apiKey: must be a secret reference, not a list; store the value in a Secret and write {name: <secret>, key: <key in it>}",
            "spec.providers.inference.endpoint: is empty; use an address such as http://vllm:8000",
            "spec.providers.inference.host.key: is missing; set a key of the Secret",
            "spec.providers.inference.host.name: is missing; set the name of a Secret in the same namespace",
            "spec.providers.inference.id: is empty; use up to 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit first and last",
            "spec.providers.inference.provider: \"a b\" is not a valid provider type; set the provider type, for example vllm or remote::vllm",
            "spec.providers.inference.secretRefs.c: must be a secret reference, not a number; store the value in a Secret and write {name: <secret>, key: <key in it>}",
            "spec.providers.inference.secretRefs[\"a.b\"]: \"a.b\" is not a valid setting name; use letters, digits, \"_\" and \"-\"",
            "spec.providers.inference.settings: must be an object, not a number; use name: value pairs",
            "spec.resources.models[0].metadata: must be an object, not a list; use name: value pairs",
            "spec.resources.models[0].modelType: must be a string, not a number; put it in quotes: \"1\"",
            "spec.resources.models[0].name: is empty; set a name",
            "spec.resources.shields[0].model: is empty; set the name of a model",
        ]
    );
}
