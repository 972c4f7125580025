//! Real parts for tests, on loopback: a Kubernetes control plane and an OCI registry.
//!
//! A test asks for [`Testbed::shared`] and takes a namespace of its own; the first caller starts
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok, or connects to the ones
//! that `cargo xtask control-plane up` left running. Nodes are simulated, containers do not run;
//! everything that the control plane does is real.
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! let testbed = llsd_testbed::Testbed::shared().await?;
//! let namespace = testbed.namespace("quickstart").await?;
//! let kubectl = testbed.kubectl("admin")?.namespace(namespace.name());
//! kubectl.args(["apply", "-f", "-"]).input("...").run().await?.success()?;
//! # Ok(()) }
//! ```
//!
//! Nothing here listens on or talks to anything but 127.0.0.1. Processes are ended by their own id,
//! also when the test process dies.
//!
//! | variable | meaning |
//! |---|---|
//! | `LLSD_CACHE` | where binaries are kept; otherwise `$XDG_CACHE_HOME/llsd` or `~/.cache/llsd` |
//! | `KUBEBUILDER_ASSETS` | a folder whose binaries are used instead of building them |
//! | `LLSD_TESTBED`, `LLSD_TESTBED_OLDEST` | the state file of a running control plane to connect to |
//! | `LLSD_TESTBED_KEEP` | when set, namespaces, logs and data outlive the test |

mod audit;
mod certificates;
mod components;
mod control_plane;
mod invocation;
mod namespace;
mod process;
mod registry;
mod testbed;
mod token_service;
pub mod toolchain;
mod users;
mod wait;

pub use audit::{AuditLog, AuditedRequest, Mark};
pub use certificates::{Authority, Identity};
pub use control_plane::{ControlPlane, Held, State};
pub use invocation::{Finished, Invocation};
pub use namespace::Namespace;
pub use registry::{Access, Registry, RegistryOptions, RegistryRequest};
pub use testbed::Testbed;
pub use toolchain::Release;
pub use wait::{eventually, until};
