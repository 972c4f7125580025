//! The spec of a `LlamaStackDistribution` as that of an `OGXServer`.

use serde_json::{Value, json};

use super::providers::{self, plain_reference};
use super::{
    DEFAULT_PORT, Fields, Notes, OGX_IMAGES, OGX_MOUNT_PATH, OGX_NAMES, OGX_RELEASE, snake_case,
};
use crate::field_path::FieldPath;

/// Our names of the images that its names stand for.
const PREFIX: &str = "ogx-";
/// Where our pods mount the volume by default.
const OUR_MOUNT_PATH: &str = "/.llama";
/// The APIs that it can disable, as it spells them.
const DISABLED: [&str; 7] = [
    "batches",
    "file_processors",
    "inference",
    "responses",
    "tool_runtime",
    "vector_io",
    "files",
];

pub(super) fn spec(ours: &mut Fields, notes: &mut Notes) -> Value {
    let mut theirs = Fields::default();
    distribution(ours, &mut theirs, notes);
    if let Some(mut given) = ours.object("overrideConfig") {
        theirs.set(
            "overrideConfig",
            json!({ "name": given.take("configMapName"), "key": "config.yaml" }),
        );
        notes.leftovers(given, &FieldPath::spec().field("overrideConfig"));
    }
    let given = ours.object("providers").unwrap_or_default();
    let found = providers::to_ogx(given, notes);
    theirs.set_unless_empty("providers", found);
    resources(ours, &mut theirs, notes);
    storage(ours, &mut theirs, notes);
    disabled(ours, &mut theirs, notes);
    networking(ours, &mut theirs, notes);
    workload(ours, &mut theirs, notes);
    Value::Object(theirs.0)
}

fn distribution(ours: &mut Fields, theirs: &mut Fields, notes: &mut Notes) {
    let path = FieldPath::spec().field("distribution");
    let mut given = ours.object("distribution").unwrap_or_default();
    let mut distribution = Fields::default();
    let name = given.text("name");
    let image = given.text("image");
    let published = |image: &str| {
        let name = image
            .strip_prefix(OGX_IMAGES)?
            .strip_suffix(OGX_RELEASE)?
            .strip_suffix(':')?;
        OGX_NAMES.contains(&name).then(|| name.to_owned())
    };
    match (name, image) {
        (Some(name), _)
            if name
                .strip_prefix(PREFIX)
                .is_some_and(|name| OGX_NAMES.contains(&name)) =>
        {
            distribution.set("name", name.trim_start_matches(PREFIX).into());
        }
        (Some(name), _) => {
            notes.differs(
                path.field("name"),
                "is a distribution of llama-stack; ogx-k8s-operator runs ogx, and its names stand for other images",
                "move the resource to ogx first (llsd upgrade plan --to ogx/1.0), or set an image",
            );
            distribution.set("name", name.into());
        }
        (None, Some(image)) => match published(&image) {
            Some(name) => distribution.set("name", name.into()),
            None => distribution.set("image", image.into()),
        },
        (None, None) => {}
    }
    if let Some(schema) = given.text("schema")
        && !schema.starts_with("ogx/")
    {
        notes.differs(
            path.field("schema"),
            "ogx-k8s-operator writes the dialect of ogx only",
            "move the resource to ogx first: llsd upgrade plan --to ogx/1.0",
        );
    }
    if let Some(mut base) = given.object("baseConfig") {
        let key = base.take("key").unwrap_or_else(|| "config.yaml".into());
        theirs.set(
            "baseConfig",
            json!({ "name": base.take("configMapName"), "key": key }),
        );
        notes.leftovers(base, &path.field("baseConfig"));
    }
    notes.leftovers(given, &path);
    theirs.set("distribution", Value::Object(distribution.0));
}

fn resources(ours: &mut Fields, theirs: &mut Fields, notes: &mut Notes) {
    let Some(mut given) = ours.object("resources") else {
        return;
    };
    let path = FieldPath::spec().field("resources");
    let mut models = Vec::new();
    for (place, model) in given.list("models").into_iter().enumerate() {
        let mut model = match model {
            Value::String(name) => Fields::of(json!({ "name": name })),
            other => Fields::of(other),
        };
        let mut own = Fields::default();
        model.copy_to(
            &mut own,
            &[
                "name",
                "provider",
                "contextLength",
                "modelType",
                "quantization",
            ],
        );
        notes.leftovers(model, &path.field("models").index(place));
        models.push(Value::Object(own.0));
    }
    if !models.is_empty() {
        notes.differs(
            path.field("models"),
            "is added to the models of the distribution here, and replaces them in ogx-k8s-operator",
            "also list the models of the distribution that you use",
        );
        theirs.set("resources", json!({ "models": models }));
    }
    notes.leftovers(given, &path);
}

fn storage(ours: &mut Fields, theirs: &mut Fields, notes: &mut Notes) {
    let Some(mut given) = ours.object("storage") else {
        return;
    };
    let path = FieldPath::spec().field("storage");
    let mut storage = Fields::default();
    for (kind, types, secret) in [
        ("kv", ["sqlite", "redis"], "password"),
        ("sql", ["sqlite", "postgres"], "connectionString"),
    ] {
        let Some(mut half) = given.object(kind) else {
            continue;
        };
        let path = path.field(kind);
        let mut own = Fields::default();
        let stated = half.text("type").unwrap_or_else(|| "sqlite".to_owned());
        if !types.contains(&stated.as_str())
            || (stated == "postgres" && !half.0.contains_key(secret))
        {
            notes.lost(
                path,
                "put the storage into a base configuration of your own (spec.baseConfig)",
            );
            continue;
        }
        own.set("type", stated.into());
        half.copy_to(&mut own, &["endpoint"]);
        own.set_some(secret, half.take(secret).map(plain_reference));
        notes.leftovers(half, &path);
        storage.set(kind, Value::Object(own.0));
    }
    notes.leftovers(given, &path);
    // A half that is missing is SQLite there.
    let default = json!({ "type": "sqlite" });
    if storage.0.values().any(|half| *half != default) {
        storage.0.retain(|_, half| *half != default);
    }
    theirs.set_some("storage", storage.into_value());
}

fn disabled(ours: &mut Fields, theirs: &mut Fields, notes: &mut Notes) {
    let mut names = Vec::new();
    for (place, name) in ours.list("disabled").into_iter().enumerate() {
        let name = snake_case(name.as_str().unwrap_or_default());
        if DISABLED.contains(&name.as_str()) {
            names.push(Value::String(name));
        } else {
            notes.lost(
                FieldPath::spec().field("disabled").index(place),
                "remove it from a base configuration of your own (spec.baseConfig)",
            );
        }
    }
    if !names.is_empty() {
        theirs.set("disabledAPIs", Value::Array(names));
    }
}

fn networking(ours: &mut Fields, theirs: &mut Fields, notes: &mut Notes) {
    let path = FieldPath::spec().field("networking");
    let mut given = ours.object("networking").unwrap_or_default();
    let mut network = Fields::default();
    given.copy_to(&mut network, &["port"]);
    let port = network
        .0
        .get("port")
        .and_then(Value::as_u64)
        .unwrap_or(DEFAULT_PORT);
    if let Some(mut tls) = given.object("tls") {
        if let Some(name) = tls.take("secretName") {
            notes.differs(
                path.at(&["tls", "secretName"]),
                "has no effect in ogx-k8s-operator up to 0.14: the server stays with HTTP",
                "put TLS in front of the server",
            );
            network.set("tls", json!({ "secretName": name }));
        }
        if let Some(mut bundle) = tls.object("caBundle") {
            let name = bundle.take("configMapName");
            let keys = match bundle.list("configMapKeys") {
                keys if keys.is_empty() => vec![json!("ca-bundle.crt")],
                keys => keys,
            };
            let certificates: Vec<Value> = keys
                .iter()
                .map(|key| json!({ "name": name, "key": key }))
                .collect();
            theirs.set(
                "tls",
                json!({ "trust": { "caCertificates": certificates } }),
            );
            notes.leftovers(bundle, &path.at(&["tls", "caBundle"]));
        }
        notes.leftovers(tls, &path.field("tls"));
    }
    match given.take("expose") {
        Some(Value::Bool(true)) => network.set("externalAccess", json!({ "enabled": true })),
        Some(Value::Object(expose)) => {
            let mut expose = Fields(expose);
            let is_enabled = expose.take("enabled").unwrap_or(Value::Bool(true));
            let mut access = Fields::default();
            access.set("enabled", is_enabled);
            expose.copy_to(&mut access, &["hostname"]);
            if let Some(name) = expose.take("tlsSecretName") {
                access.set("tls", json!({ "secretName": name }));
            }
            network.set("externalAccess", Value::Object(access.0));
            notes.leftovers(expose, &path.field("expose"));
        }
        _ => {}
    }
    let egress = given.take("egress");
    match given.object("allowedFrom") {
        None => network.set("policy", json!({ "enabled": false })),
        Some(allowed) => {
            let peers = peers(allowed, &path, notes);
            let mut policy = Fields::default();
            if !peers.is_empty() {
                let rule = json!({ "from": peers, "ports": [{ "protocol": "TCP", "port": port }] });
                policy.set("ingress", json!([rule]));
            }
            policy.set_some("egress", egress);
            network.set_some("policy", policy.into_value());
        }
    }
    notes.leftovers(given, &path);
    theirs.set_some("network", network.into_value());
}

/// The clients that may connect, as rules of a NetworkPolicy. Rules replace the own namespace there.
fn peers(mut allowed: Fields, path: &FieldPath, notes: &mut Notes) -> Vec<Value> {
    let stated = allowed.list("peers");
    let mut peers = stated;
    for name in allowed.list("namespaces") {
        peers.push(if name == "*" {
            json!({ "namespaceSelector": {} })
        } else {
            json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } })
        });
    }
    for key in allowed.list("labels") {
        peers.push(json!({ "namespaceSelector": { "matchExpressions": [{ "key": key, "operator": "Exists" }] } }));
    }
    notes.leftovers(allowed, &path.field("allowedFrom"));
    let own = json!({ "podSelector": {} });
    if !peers.is_empty() && !peers.contains(&own) {
        peers.insert(0, own);
    }
    peers
}

fn workload(ours: &mut Fields, theirs: &mut Fields, notes: &mut Notes) {
    let path = FieldPath::spec().field("workload");
    let mut given = ours.object("workload").unwrap_or_default();
    let mut workload = Fields::default();
    given.copy_to(
        &mut workload,
        &[
            "replicas",
            "workers",
            "resources",
            "podDisruptionBudget",
            "topologySpreadConstraints",
        ],
    );
    if let Some(mut autoscaling) = given.object("autoscaling") {
        let mut own = Fields::default();
        autoscaling.copy_to(
            &mut own,
            &[
                "minReplicas",
                "maxReplicas",
                "targetCPUUtilizationPercentage",
                "targetMemoryUtilizationPercentage",
            ],
        );
        own.set_some(
            "targetCPUUtilizationPercentage",
            autoscaling.take("targetCPUUtilization"),
        );
        notes.leftovers(autoscaling, &path.field("autoscaling"));
        workload.set("autoscaling", Value::Object(own.0));
    }
    if let Some(mut volume) = given.object("storage") {
        let mut own = Fields::default();
        volume.copy_to(&mut own, &["size"]);
        let mount = volume
            .text("mountPath")
            .unwrap_or_else(|| OUR_MOUNT_PATH.to_owned());
        if mount != OGX_MOUNT_PATH {
            own.set("mountPath", mount.into());
        }
        notes.leftovers(volume, &path.field("storage"));
        workload.set("storage", Value::Object(own.0));
    }
    let mut overrides = Fields::default();
    let mut stated = given.object("overrides").unwrap_or_default();
    stated.copy_to(
        &mut overrides,
        &[
            "serviceAccountName",
            "command",
            "args",
            "volumes",
            "volumeMounts",
        ],
    );
    let variables = variables(stated.list("env"), theirs);
    if !variables.is_empty() {
        overrides.set("env", Value::Array(variables));
    }
    notes.leftovers(stated, &path.field("overrides"));
    workload.set_some("overrides", overrides.into_value());
    if let Some(mut template) = given.object("podTemplate") {
        let mut spec = template.object("spec").unwrap_or_default();
        spec.copy_to(&mut workload, &["resourceClaims"]);
        notes.leftovers(spec, &path.at(&["podTemplate", "spec"]));
        notes.leftovers(template, &path.field("podTemplate"));
    }
    notes.leftovers(given, &path);
    theirs.set_some("workload", workload.into_value());
}

/// The variables without those that are fields there.
fn variables(all: Vec<Value>, theirs: &mut Fields) -> Vec<Value> {
    let mut kept = Vec::new();
    let mut metrics = false;
    let mut port = None;
    for variable in all {
        let value = variable["value"].as_str();
        let number = value.and_then(|value| value.parse::<u64>().ok());
        match (variable["name"].as_str().unwrap_or_default(), number) {
            ("OGX_METRICS_ENDPOINT_ENABLED", Some(1)) => metrics = true,
            ("OGX_METRICS_PORT", Some(number)) => port = Some(number),
            ("OGX_METRICS_HOST", _) if value == Some("0.0.0.0") => {}
            ("OGX_REGISTRY_REFRESH_INTERVAL_SECONDS", Some(number)) => {
                theirs.set("registryRefreshIntervalSeconds", number.into())
            }
            // Its operator sets them.
            ("OGX_WORKERS" | "OGX_PORT", Some(_)) | ("OGX_CONFIG", _) => {}
            _ => kept.push(variable),
        }
    }
    match (metrics, port) {
        (true, Some(port)) => theirs.set("monitoring", json!({ "metricsPort": port })),
        (true, None) => {}
        (false, _) => theirs.set("monitoring", json!({ "enabled": false })),
    }
    kept
}
