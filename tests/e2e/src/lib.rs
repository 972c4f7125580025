//! Support code of the end-to-end tests: an operator for each test, on a real control plane.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod fleet;
mod health;
mod objects;
mod operator;
mod operator_process;
mod optional_apis;
mod permissions;
mod recorded;
mod resource;
mod rollout;
mod tcp_proxy;
mod test_env;
mod test_registry;
mod webhooks;

pub use fleet::Fleet;
pub use health::{argocd_health, kstatus};
pub use operator::{Operator, host, plugins, registries};
pub use operator_process::OperatorProcess;
pub use optional_apis::{install_gateway_api, install_pod_monitors, objects_of, wait_for_object};
pub use permissions::{Permission, granted};
pub use recorded::{gunzip, gzip};
pub use resource::{
    STARTER, acme_base, condition, config_map, has_condition, minimal, named, ogx_base, on_image,
    phase,
};
pub use rollout::RolloutState;
pub use tcp_proxy::TcpProxy;
pub use test_env::{DEADLINE, SERVED_BY, TestEnv};
pub use test_registry::TestRegistry;
pub use webhooks::serve_webhooks;
