//! The spec of an `OGXServer` as that of a `LlamaStackDistribution`.

use serde_json::{Map, Value, json};

use super::providers;
use super::{
    DEFAULT_PORT, Fields, Notes, OGX_IMAGES, OGX_MOUNT_PATH, OGX_NAMES, OGX_RELEASE, OGX_SCHEMA,
    camel_case,
};
use crate::field_path::FieldPath;

/// The label of a namespace that holds its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// The volume of our pods.
const OUR_VOLUME: &str = "lls-storage";
/// Where our pods have the file of `overrideConfig`.
const OUR_FILE: &str = "/etc/llama-stack/config.yaml";

pub(super) fn spec(theirs: &mut Fields, notes: &mut Notes) -> Value {
    let mut ours = Fields::default();
    let mut env = Vec::new();
    let has_override = theirs.0.get("overrideConfig").is_some_and(Value::is_object);
    let generates = !has_override
        && ["providers", "resources", "storage", "disabledAPIs"]
            .iter()
            .any(|key| theirs.0.get(*key).is_some_and(|value| !value.is_null()));

    distribution(theirs, &mut ours, generates, notes);
    override_config(theirs, &mut ours, &mut env, notes);
    let given = theirs.object("providers").unwrap_or_default();
    let (found, inference) = providers::from_ogx(given, notes);
    ours.set_unless_empty("providers", found);
    resources(theirs, &mut ours, inference.first(), notes);
    storage(theirs, &mut ours, notes);
    let disabled = theirs.list("disabledAPIs");
    if !disabled.is_empty() {
        notes.differs(
            FieldPath::spec().field("disabledAPIs"),
            "only removes the API from the list in ogx-k8s-operator; here its providers and what refers to them go, too",
            "check the resource with llsd check",
        );
        let names = disabled.iter().filter_map(Value::as_str).map(camel_case);
        ours.set("disabled", names.collect());
    }
    let interval = theirs.take("registryRefreshIntervalSeconds");
    env.extend(
        interval.map(|seconds| ("OGX_REGISTRY_REFRESH_INTERVAL_SECONDS", seconds.to_string())),
    );
    networking(theirs, &mut ours, generates, &mut env, notes);
    monitoring(theirs, &mut env, notes);
    workload(theirs, &mut ours, generates, env, notes);
    Value::Object(ours.0)
}

fn distribution(theirs: &mut Fields, ours: &mut Fields, generates: bool, notes: &mut Notes) {
    let path = FieldPath::spec().field("distribution");
    let mut given = theirs.object("distribution").unwrap_or_default();
    let mut distribution = Fields::default();
    match given.text("name") {
        Some(name) if OGX_NAMES.contains(&name.as_str()) => {
            let image = format!("{OGX_IMAGES}{name}:{OGX_RELEASE}");
            notes.differs(
                path.field("name"),
                &format!("stands for the image of the installed operator; the one of ogx-k8s-operator 0.14 is written ({image})"),
                "set spec.distribution.image to the image that the Deployment runs, if it differs",
            );
            distribution.set("image", image.into());
        }
        Some(name) => {
            notes.differs(
                path.field("name"),
                &format!("{name:?} is a name that only your installation knows"),
                "set spec.distribution.image to the image that the Deployment runs, or define the name in the operator's ConfigMap",
            );
            distribution.set("name", name.into());
        }
        None => distribution.set_some("image", given.take("image")),
    }
    notes.leftovers(given, &path);
    if let Some(mut base) = theirs.object("baseConfig") {
        let mut reference = Fields::default();
        reference.set_some("configMapName", base.take("name"));
        reference.set_some("key", base.take("key"));
        distribution.set_some("baseConfig", reference.into_value());
        if !generates {
            notes.differs(
                FieldPath::spec().field("baseConfig"),
                "is ignored by ogx-k8s-operator while nothing else is set, and is used here",
                "remove it to keep the configuration of the image",
            );
        }
    }
    if generates {
        distribution.set("schema", OGX_SCHEMA.into());
    }
    ours.set("distribution", Value::Object(distribution.0));
}

fn override_config(
    theirs: &mut Fields,
    ours: &mut Fields,
    env: &mut Vec<(&'static str, String)>,
    notes: &mut Notes,
) {
    let Some(mut given) = theirs.object("overrideConfig") else {
        return;
    };
    let path = FieldPath::spec().field("overrideConfig");
    let mut name = given.text("name").unwrap_or_default();
    let key = given.text("key").unwrap_or_default();
    if key != "config.yaml" {
        let copy = format!("{name}-copy");
        notes.differs(
            path.field("key"),
            &format!("the server reads the key config.yaml here, not {key:?}"),
            &format!(
                "create the ConfigMap {copy:?} with the key config.yaml, from {key:?} of {name:?}"
            ),
        );
        name = copy;
    }
    notes.leftovers(given, &path);
    ours.set("overrideConfig", json!({ "configMapName": name }));
    env.push(("OGX_CONFIG", OUR_FILE.to_owned()));
}

fn resources(theirs: &mut Fields, ours: &mut Fields, provider: Option<&String>, notes: &mut Notes) {
    let Some(mut given) = theirs.object("resources") else {
        return;
    };
    let path = FieldPath::spec().field("resources");
    let mut resources = Fields::default();
    let mut models = Vec::new();
    for (place, model) in given.list("models").into_iter().enumerate() {
        let path = path.field("models").index(place);
        let mut model = Fields::of(model);
        let mut own = Fields::default();
        own.set_some("name", model.take("name"));
        match (model.take("provider"), provider) {
            (Some(stated), _) => own.set("provider", stated),
            (None, Some(first)) => own.set("provider", first.as_str().into()),
            (None, None) => notes.differs(
                path.field("provider"),
                "is the first provider of the distribution by the alphabet in ogx-k8s-operator",
                "set it to the provider that serves the model",
            ),
        }
        let kind = model.text("modelType").unwrap_or_else(|| "llm".to_owned());
        if kind == "embedding" {
            notes.differs(
                path.field("modelType"),
                "an embedding model needs its dimension here, which the resource does not have",
                "set embeddingDimension of the model",
            );
        }
        own.set("modelType", kind.into());
        model.copy_to(&mut own, &["contextLength", "quantization"]);
        notes.leftovers(model, &path);
        models.push(Value::Object(own.0));
    }
    if !models.is_empty() {
        notes.differs(
            path.field("models"),
            "replaces the models of the distribution in ogx-k8s-operator, and is added to them here",
            "use spec.configPatch to remove models of the distribution",
        );
        resources.set("models", Value::Array(models));
    }
    for list in ["tools", "shields"] {
        let names = given.list(list);
        if !names.is_empty() {
            notes.differs(
                path.field(list),
                "has no effect in ogx-k8s-operator, and takes effect here",
                "remove it if you do not need it",
            );
            resources.set(list, Value::Array(names));
        }
    }
    notes.leftovers(given, &path);
    ours.set_some("resources", resources.into_value());
}

fn storage(theirs: &mut Fields, ours: &mut Fields, notes: &mut Notes) {
    let Some(mut given) = theirs.object("storage") else {
        return;
    };
    let path = FieldPath::spec().field("storage");
    let mut storage = Fields::default();
    let mut half = |kind: &str, fields: &[&str]| {
        let mut half = given.object(kind).unwrap_or_default();
        let mut own = Fields::default();
        own.set("type", half.take("type").unwrap_or_else(|| "sqlite".into()));
        half.copy_to(&mut own, fields);
        notes.leftovers(half, &path.field(kind));
        // Each half that is missing becomes SQLite there, and would stay that of the base here.
        storage.set(kind, Value::Object(own.0));
    };
    half("kv", &["endpoint", "password"]);
    half("sql", &["connectionString"]);
    notes.leftovers(given, &path);
    ours.set("storage", Value::Object(storage.0));
}

fn networking(
    theirs: &mut Fields,
    ours: &mut Fields,
    generates: bool,
    env: &mut Vec<(&'static str, String)>,
    notes: &mut Notes,
) {
    let path = FieldPath::spec().field("network");
    let mut given = theirs.object("network").unwrap_or_default();
    let mut networking = Fields::default();
    let port = given.take("port");
    let number = port
        .as_ref()
        .and_then(Value::as_u64)
        .unwrap_or(DEFAULT_PORT);
    if number != DEFAULT_PORT && !generates {
        env.push(("OGX_PORT", number.to_string()));
    }
    networking.set_some("port", port);

    let mut tls = Fields::default();
    if let Some(mut serving) = given.object("tls") {
        if let Some(name) = serving.take("secretName") {
            notes.differs(
                path.at(&["tls", "secretName"]),
                "has no effect in ogx-k8s-operator up to 0.14; here the server, its Service and its probes use HTTPS",
                "remove it to stay with HTTP",
            );
            tls.set("secretName", name);
        }
        notes.leftovers(serving, &path.field("tls"));
    }
    if let Some(bundle) = trust(theirs, notes) {
        tls.set("caBundle", bundle);
    }
    networking.set_some("tls", tls.into_value());

    if let Some(mut access) = given.object("externalAccess") {
        let is_enabled = access.take("enabled") == Some(Value::Bool(true));
        let mut expose = Fields::default();
        expose.set_some("hostname", access.take("hostname"));
        if let Some(mut serving) = access.object("tls") {
            expose.set_some("tlsSecretName", serving.take("secretName"));
            notes.leftovers(serving, &path.at(&["externalAccess", "tls"]));
        }
        match (is_enabled, expose.into_value()) {
            (true, None) => networking.set("expose", true.into()),
            (true, Some(expose)) => networking.set("expose", expose),
            (false, Some(mut expose)) => {
                expose["enabled"] = false.into();
                networking.set("expose", expose);
            }
            (false, None) => {}
        }
        notes.leftovers(access, &path.field("externalAccess"));
    }
    policy(
        given.object("policy").unwrap_or_default(),
        number,
        &mut networking,
        notes,
    );
    notes.leftovers(given, &path);
    ours.set_some("networking", networking.into_value());
}

/// The CA bundle, and a warning for what one ConfigMap cannot hold.
fn trust(theirs: &mut Fields, notes: &mut Notes) -> Option<Value> {
    let mut given = theirs.object("tls")?;
    let path = FieldPath::spec().field("tls");
    if let Some(identity) = given.take("identity")
        && identity != json!({})
    {
        notes.differs(
            path.field("identity"),
            "has no effect in ogx-k8s-operator up to 0.14, and is left out",
            "set a client certificate in the settings of the provider that needs it",
        );
    }
    let mut trust = given.object("trust").unwrap_or_default();
    let certificates = trust.list("caCertificates");
    notes.leftovers(trust, &path.field("trust"));
    notes.leftovers(given, &path);
    let name = certificates.first()?["name"].clone();
    let (own, others): (Vec<_>, Vec<_>) = certificates
        .iter()
        .enumerate()
        .partition(|(_, one)| one["name"] == name);
    for (place, _) in others {
        notes.lost(
            path.at(&["trust", "caCertificates"]).index(place),
            "copy the certificates into the ConfigMap of the first entry",
        );
    }
    let keys: Vec<Value> = own.into_iter().map(|(_, one)| one["key"].clone()).collect();
    Some(json!({ "configMapName": name, "configMapKeys": keys }))
}

fn policy(mut given: Fields, port: u64, networking: &mut Fields, notes: &mut Notes) {
    let path = FieldPath::spec().at(&["network", "policy"]);
    let is_enabled = given.take("enabled") != Some(Value::Bool(false));
    let rules = given.list("ingress");
    let egress = given.take("egress");
    if let Some(types) = given.take("policyTypes") {
        let _ = types;
        notes.differs(
            path.field("policyTypes"),
            "has no effect in ogx-k8s-operator, and is left out",
            "nothing to do",
        );
    }
    notes.leftovers(given, &path);
    if !is_enabled {
        return;
    }
    let mut peers = Vec::new();
    for (place, rule) in rules.iter().enumerate() {
        let path = path.field("ingress").index(place);
        let mut rule = Fields::of(rule.clone());
        let ports = rule.list("ports");
        let is_server = |one: &Value| one["port"].as_u64() == Some(port);
        if !ports.is_empty() && !ports.iter().all(is_server) {
            notes.differs(
                path.field("ports"),
                "the policy here allows the port of the server only",
                "write a NetworkPolicy of your own for other ports",
            );
        }
        peers.extend(rule.list("from"));
        notes.leftovers(rule, &path);
    }
    networking.set("allowedFrom", allowed_from(peers));
    if let Some(egress) = egress {
        notes.differs(
            path.field("egress"),
            "counts only beside ingress rules in ogx-k8s-operator; here it always counts, and DNS is always allowed",
            "check that the server reaches what it needs",
        );
        networking.set("egress", egress);
    }
}

/// The clients that may connect: by the short forms where they say the same, else as they are.
fn allowed_from(peers: Vec<Value>) -> Value {
    let (mut namespaces, mut labels) = (Vec::new(), Vec::new());
    for peer in &peers {
        let Some(map) = peer.as_object() else {
            continue;
        };
        let selector = &peer["namespaceSelector"];
        if map.len() == 1 && peer["podSelector"] == json!({}) {
            // Pods of the own namespace may always connect.
        } else if map.len() == 1 && *selector == json!({}) {
            namespaces.push(json!("*"));
        } else if let (1, Some(name)) = (map.len(), only_name(selector)) {
            namespaces.push(name);
        } else if let (1, Some(key)) = (map.len(), only_key(selector)) {
            labels.push(key);
        } else {
            return json!({ "peers": peers });
        }
    }
    let mut allowed = Map::new();
    if !namespaces.is_empty() {
        allowed.insert("namespaces".to_owned(), Value::Array(namespaces));
    }
    if !labels.is_empty() {
        allowed.insert("labels".to_owned(), Value::Array(labels));
    }
    Value::Object(allowed)
}

/// The namespace that a selector names, and nothing else.
fn only_name(selector: &Value) -> Option<Value> {
    let name = selector["matchLabels"].get(NAMESPACE_NAME)?;
    (*selector == json!({"matchLabels": {NAMESPACE_NAME: name}})).then(|| name.clone())
}

/// The label that a selector asks for, and nothing else.
fn only_key(selector: &Value) -> Option<Value> {
    let key = selector["matchExpressions"].get(0)?.get("key")?;
    (*selector == json!({"matchExpressions": [{"key": key, "operator": "Exists"}]}))
        .then(|| key.clone())
}

fn monitoring(theirs: &mut Fields, env: &mut Vec<(&'static str, String)>, notes: &mut Notes) {
    let path = FieldPath::spec().field("monitoring");
    let is_stated = theirs.0.contains_key("monitoring");
    let mut given = theirs.object("monitoring").unwrap_or_default();
    let is_enabled = given.take("enabled") != Some(Value::Bool(false));
    let port = given.take("metricsPort");
    notes.leftovers(given, &path);
    if !is_enabled {
        return;
    }
    env.push(("OGX_METRICS_ENDPOINT_ENABLED", "1".to_owned()));
    env.push(("OGX_METRICS_HOST", "0.0.0.0".to_owned()));
    env.extend(port.map(|port| ("OGX_METRICS_PORT", port.to_string())));
    if is_stated {
        notes.differs(
            path,
            "the server still serves metrics, but there is no ServiceMonitor, no PrometheusRule and no port in the Service here",
            "create a PodMonitor for the pods",
        );
    }
}

fn workload(
    theirs: &mut Fields,
    ours: &mut Fields,
    generates: bool,
    mut env: Vec<(&'static str, String)>,
    notes: &mut Notes,
) {
    let path = FieldPath::spec().field("workload");
    let mut given = theirs.object("workload").unwrap_or_default();
    let mut workload = Fields::default();
    given.copy_to(&mut workload, &["replicas"]);
    let workers = given.take("workers");
    if let (Some(workers), false) = (&workers, generates) {
        env.insert(0, ("OGX_WORKERS", workers.to_string()));
    }
    workload.set_some("workers", workers);
    given.copy_to(
        &mut workload,
        &[
            "resources",
            "autoscaling",
            "podDisruptionBudget",
            "topologySpreadConstraints",
        ],
    );
    if let Some(mut volume) = given.object("storage") {
        let mut own = Fields::default();
        volume.copy_to(&mut own, &["size"]);
        own.set(
            "mountPath",
            volume
                .take("mountPath")
                .unwrap_or_else(|| OGX_MOUNT_PATH.into()),
        );
        notes.leftovers(volume, &path.field("storage"));
        workload.set("storage", Value::Object(own.0));
    }
    let mut overrides = Fields::default();
    let mut stated = given.object("overrides").unwrap_or_default();
    stated.copy_to(&mut overrides, &["serviceAccountName", "command", "args"]);
    let mut variables = stated.list("env");
    for (name, value) in env {
        if !variables.iter().any(|one| one["name"] == name) {
            variables.push(json!({ "name": name, "value": value }));
        }
    }
    if !variables.is_empty() {
        overrides.set("env", Value::Array(variables));
    }
    for list in ["volumes", "volumeMounts"] {
        let mut all = stated.list(list);
        for one in all.iter_mut().filter(|one| one["name"] == OUR_VOLUME) {
            // The name is that of our own volume.
            one["name"] = format!("user-{OUR_VOLUME}").into();
        }
        if !all.is_empty() {
            overrides.set(list, Value::Array(all));
        }
    }
    notes.leftovers(stated, &path.field("overrides"));
    workload.set_some("overrides", overrides.into_value());
    if let Some(claims) = given.take("resourceClaims") {
        workload.set(
            "podTemplate",
            json!({ "spec": { "resourceClaims": claims } }),
        );
    }
    notes.leftovers(given, &path);
    ours.set_some("workload", workload.into_value());
}
