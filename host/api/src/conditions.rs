//! Condition types, their reasons, and the names of events: each written once.

/// Types of the conditions of a `LlamaStackDistribution`.
pub mod condition {
    /// A configuration was generated for the current spec.
    pub const CONFIG_GENERATED: &str = "ConfigGenerated";
    /// Every secret reference leads to a key.
    pub const SECRETS_RESOLVED: &str = "SecretsResolved";
    /// The Deployment holds what the current spec asks for.
    pub const DEPLOYMENT_UPDATED: &str = "DeploymentUpdated";
    /// Enough pods serve.
    pub const AVAILABLE: &str = "Available";
    /// The Deployment is ready, as v1alpha1 reports it.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// The server answers for its health.
    pub const HEALTH_CHECK: &str = "HealthCheck";
    /// The server tells the operator what it is.
    pub const SERVER_ANSWERS: &str = "ServerAnswers";
    /// The volume is bound.
    pub const STORAGE_READY: &str = "StorageReady";
    /// The Service exists.
    pub const SERVICE_READY: &str = "ServiceReady";
}

/// Types of the conditions of a `SchemaPlugin`: one per stage, and `READY`.
pub mod plugin_condition {
    /// A version is in use.
    pub const READY: &str = "Ready";
    /// The reference leads to a digest.
    pub const RESOLVED: &str = "Resolved";
    /// The installer's terms allow it.
    pub const ADMITTED: &str = "Admitted";
    /// The registry lets us in.
    pub const AUTHENTICATED: &str = "Authenticated";
    /// The bytes are here and are what the digest says.
    pub const FETCHED: &str = "Fetched";
    /// The signatures are the wanted ones.
    pub const VERIFIED: &str = "Verified";
    /// It is a component of a known world that asks for nothing.
    pub const INSPECTED: &str = "Inspected";
    /// It is compiled.
    pub const COMPILED: &str = "Compiled";
    /// A first instance described itself.
    pub const INSTANTIATED: &str = "Instantiated";
    /// It was compared with the version in use.
    pub const SHADOWED: &str = "Shadowed";
    /// It took over.
    pub const PROMOTED: &str = "Promoted";
}

/// Reasons of conditions.
pub mod reason {
    /// The configuration is generated.
    pub const CONFIG_GENERATION_SUCCEEDED: &str = "ConfigGenerationSucceeded";
    /// The configuration could not be generated; the message says why.
    pub const CONFIG_GENERATION_FAILED: &str = "ConfigGenerationFailed";
    /// No installed plugin serves the schema.
    pub const UNSUPPORTED_CONFIG_VERSION: &str = "UnsupportedConfigVersion";
    /// Every reference leads to a key.
    pub const ALL_SECRETS_FOUND: &str = "AllSecretsFound";
    /// A Secret does not exist.
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// A Secret lacks a key.
    pub const SECRET_KEY_MISSING: &str = "SecretKeyMissing";
    /// A Secret holds a value that the server cannot use.
    pub const SECRET_VALUE_UNUSABLE: &str = "SecretValueUnusable";
    /// The Deployment was written.
    pub const DEPLOYMENT_UPDATE_SUCCEEDED: &str = "DeploymentUpdateSucceeded";
    /// The Deployment could not be written.
    pub const DEPLOYMENT_UPDATE_FAILED: &str = "DeploymentUpdateFailed";
    /// The Deployment was left as it is, because something before failed.
    pub const DEPLOYMENT_UPDATE_SKIPPED: &str = "DeploymentUpdateSkipped";
    /// Enough pods serve.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Too few pods serve.
    pub const REPLICAS_UNAVAILABLE: &str = "ReplicasUnavailable";
    /// Pods are being replaced.
    pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
    /// Something keeps pods from running; the message says what.
    pub const PODS_FAILING: &str = "PodsFailing";
    /// Another operator, which made the resource's objects, still runs.
    pub const OTHER_OPERATOR_RUNNING: &str = "OtherOperatorRunning";
    /// As v1alpha1 reports it.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// As v1alpha1 reports it, also while the Deployment is only pending.
    pub const DEPLOYMENT_FAILED: &str = "DeploymentFailed";
    /// The server is healthy.
    pub const HEALTH_CHECK_PASSED: &str = "HealthCheckPassed";
    /// The server is not healthy, or not there.
    pub const HEALTH_CHECK_FAILED: &str = "HealthCheckFailed";
    /// The volume is bound.
    pub const STORAGE_READY: &str = "StorageReady";
    /// The volume is not bound.
    pub const STORAGE_FAILED: &str = "StorageFailed";
    /// The Service exists.
    pub const SERVICE_READY: &str = "ServiceReady";
    /// The Service does not exist.
    pub const SERVICE_FAILED: &str = "ServiceFailed";
    /// The server told its release and its providers.
    pub const SERVER_ANSWERED: &str = "ServerAnswered";
    /// The server was asked and told nothing that can be used; the message says why.
    pub const SERVER_SILENT: &str = "ServerSilent";
    /// The operator's own ConfigMap cannot be used.
    pub const OPERATOR_CONFIG_INVALID: &str = "OperatorConfigInvalid";
    /// The override's or the base's ConfigMap does not exist.
    pub const CONFIG_MAP_NOT_FOUND: &str = "ConfigMapNotFound";
}
