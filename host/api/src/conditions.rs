//! Condition types and reasons. Reasons are also the reasons of events.

/// Types of the conditions of a `LlamaStackDistribution`.
pub mod condition {
    /// The current spec is applied and its pods are available. With `RECONCILING` and `STALLED` the
    /// conventions of kstatus, which Helm, Flux and Argo CD wait for.
    pub const READY: &str = "Ready";
    /// The operator still works on the current spec. Absent otherwise.
    pub const RECONCILING: &str = "Reconciling";
    /// Someone must act before the current spec can be applied or its pods run. Absent otherwise.
    pub const STALLED: &str = "Stalled";
    /// The author paused the resource with `spec.paused`. Absent otherwise.
    pub const PAUSED: &str = "Paused";
    /// A configuration was generated for the current spec.
    pub const CONFIG_GENERATED: &str = "ConfigGenerated";
    /// Every secret reference resolves to a key.
    pub const SECRETS_RESOLVED: &str = "SecretsResolved";
    /// The Deployment matches the current spec.
    pub const DEPLOYMENT_UPDATED: &str = "DeploymentUpdated";
    /// Enough pods are available.
    pub const AVAILABLE: &str = "Available";
    /// The Deployment is ready. The same condition as in v1alpha1.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// The server answers now.
    pub const HEALTH_CHECK: &str = "HealthCheck";
    /// The server responds to the operator's queries.
    pub const SERVER_ANSWERS: &str = "ServerAnswers";
    /// No provider of the server reports an error.
    pub const PROVIDERS_HEALTHY: &str = "ProvidersHealthy";
    /// The release that the server reports reads the dialect of its configuration.
    pub const RELEASE_MATCHES: &str = "ReleaseMatches";
    /// Something newer is available, which the resource does not use yet.
    pub const UPDATE_AVAILABLE: &str = "UpdateAvailable";
    /// The volume is bound.
    pub const STORAGE_READY: &str = "StorageReady";
    /// The Service exists.
    pub const SERVICE_READY: &str = "ServiceReady";
    /// Every Gateway accepts the route to the server. Absent without a route of the Gateway API.
    pub const ROUTE_ACCEPTED: &str = "RouteAccepted";
}

/// Types of the conditions of a `SchemaPlugin`: one for each stage, and `READY`.
pub mod plugin_condition {
    /// A version is in use.
    pub const READY: &str = "Ready";
    /// The reference resolves to a digest.
    pub const RESOLVED: &str = "Resolved";
    /// The spec allows it.
    pub const ADMITTED: &str = "Admitted";
    /// The registry accepts the credentials.
    pub const AUTHENTICATED: &str = "Authenticated";
    /// The component is downloaded and matches its digest.
    pub const FETCHED: &str = "Fetched";
    /// The required signatures are valid.
    pub const VERIFIED: &str = "Verified";
    /// It is a component of a supported world without other imports.
    pub const INSPECTED: &str = "Inspected";
    /// It is compiled.
    pub const COMPILED: &str = "Compiled";
    /// An instance runs and returned its description.
    pub const INSTANTIATED: &str = "Instantiated";
    /// It was compared with the version in use (shadow comparison).
    pub const SHADOWED: &str = "Shadowed";
    /// It replaced the version in use.
    pub const PROMOTED: &str = "Promoted";
}

/// Reasons of conditions.
pub mod reason {
    /// The current spec is applied and its pods are available.
    pub const READY: &str = "Ready";
    /// The resource is paused by `spec.paused`.
    pub const PAUSED: &str = "Paused";
    /// A step failed for a reason that may pass; the operator tries again.
    pub const RETRYING: &str = "Retrying";
    /// The rollout made no progress within its deadline.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The API server rejects the pods, for example because of a quota; the message is its own.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Every provider that reports its health is healthy.
    pub const PROVIDERS_HEALTHY: &str = "ProvidersHealthy";
    /// A provider reports an error; the message names it.
    pub const PROVIDER_UNHEALTHY: &str = "ProviderUnhealthy";
    /// The configuration is generated.
    pub const CONFIG_GENERATION_SUCCEEDED: &str = "ConfigGenerationSucceeded";
    /// Generating the configuration failed; the message has the reason.
    pub const CONFIG_GENERATION_FAILED: &str = "ConfigGenerationFailed";
    /// No installed plugin supports the schema.
    pub const UNSUPPORTED_CONFIG_VERSION: &str = "UnsupportedConfigVersion";
    /// The image of the resource is being read from its registry.
    pub const WAITING_FOR_IMAGE: &str = "WaitingForImage";
    /// Every reference resolves to a key.
    pub const ALL_SECRETS_FOUND: &str = "AllSecretsFound";
    /// A Secret does not exist.
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// A Secret does not have the key.
    pub const SECRET_KEY_MISSING: &str = "SecretKeyMissing";
    /// A Secret has a value that the server cannot use.
    pub const SECRET_VALUE_UNUSABLE: &str = "SecretValueUnusable";
    /// The Deployment was updated.
    pub const DEPLOYMENT_UPDATE_SUCCEEDED: &str = "DeploymentUpdateSucceeded";
    /// Writing the Deployment failed.
    pub const DEPLOYMENT_UPDATE_FAILED: &str = "DeploymentUpdateFailed";
    /// The Deployment was not changed, because an earlier step failed.
    pub const DEPLOYMENT_UPDATE_SKIPPED: &str = "DeploymentUpdateSkipped";
    /// Enough pods are available.
    pub const MINIMUM_REPLICAS_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Too few pods are available.
    pub const REPLICAS_UNAVAILABLE: &str = "ReplicasUnavailable";
    /// Pods are being replaced.
    pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
    /// Pods fail to start or run; the message has the reason.
    pub const PODS_FAILING: &str = "PodsFailing";
    /// Another operator, which created the objects of the resource, still runs.
    pub const OTHER_OPERATOR_RUNNING: &str = "OtherOperatorRunning";
    /// The same as in v1alpha1.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// The same as in v1alpha1, where it also means that the Deployment is pending.
    pub const DEPLOYMENT_FAILED: &str = "DeploymentFailed";
    /// The server is healthy.
    pub const HEALTH_CHECK_PASSED: &str = "HealthCheckPassed";
    /// The server is unhealthy or unreachable.
    pub const HEALTH_CHECK_FAILED: &str = "HealthCheckFailed";
    /// The volume is bound.
    pub const STORAGE_READY: &str = "StorageReady";
    /// The volume is not bound.
    pub const STORAGE_FAILED: &str = "StorageFailed";
    /// The volume has another size than the resource asks for.
    pub const STORAGE_RESIZE_FAILED: &str = "StorageResizeFailed";
    /// The Service exists.
    pub const SERVICE_READY: &str = "ServiceReady";
    /// The Service does not exist.
    pub const SERVICE_FAILED: &str = "ServiceFailed";
    /// Every Gateway accepts the route; the message has the addresses.
    pub const ROUTE_ACCEPTED: &str = "RouteAccepted";
    /// A Gateway does not accept the route; the message is that of its controller.
    pub const ROUTE_REJECTED: &str = "RouteRejected";
    /// No Gateway has accepted the route yet.
    pub const ROUTE_PENDING: &str = "RoutePending";
    /// The server returned its release and its providers.
    pub const SERVER_ANSWERED: &str = "ServerAnswered";
    /// The server did not return a usable response; the message has the reason.
    pub const SERVER_SILENT: &str = "ServerSilent";
    /// The server's release reads the dialect of its configuration.
    pub const RELEASE_MATCHED: &str = "ReleaseMatched";
    /// The server's release reads another dialect; the message has the fix.
    pub const RELEASE_MISMATCH: &str = "ReleaseMismatch";
    /// The operator's settings have another image for the distribution.
    pub const DISTRIBUTION_IMAGE_CHANGED: &str = "DistributionImageChanged";
    /// The tag of the image points to another image.
    pub const IMAGE_TAG_MOVED: &str = "ImageTagMoved";
    /// The platform has other CA certificates.
    pub const CA_BUNDLE_CHANGED: &str = "CaBundleChanged";
    /// A SchemaPlugin has another version.
    pub const PLUGIN_CHANGED: &str = "PluginChanged";
    /// This release of the operator would build other objects.
    pub const OPERATOR_CHANGED: &str = "OperatorChanged";
    /// Several updates are available.
    pub const SEVERAL_UPDATES: &str = "SeveralUpdates";
    /// A rollout failed for the resource and is halted.
    pub const ROLLOUT_HALTED: &str = "RolloutHalted";
    /// The resource went back to its previous revision.
    pub const UNDONE: &str = "Undone";
    /// There is no previous revision to go back to.
    pub const NOTHING_TO_UNDO: &str = "NothingToUndo";
    /// The operator's own ConfigMap is invalid.
    pub const OPERATOR_CONFIG_INVALID: &str = "OperatorConfigInvalid";
    /// The ConfigMap of the override or base configuration does not exist.
    pub const CONFIG_MAP_NOT_FOUND: &str = "ConfigMapNotFound";
}
