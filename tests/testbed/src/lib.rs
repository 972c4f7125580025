//! Runs a Kubernetes control plane and an OCI registry on loopback, for tests.
//!
//! A test calls [`Testbed::shared`] and creates a namespace of its own. The first call starts etcd,
//! kube-apiserver, kube-controller-manager, kube-scheduler and kwok, or connects to the ones that
//! `cargo xtask control-plane up` started. The control plane is real. The node is simulated: pods
//! become ready, but no container runs.
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
//! Everything listens on and connects to 127.0.0.1 only. Processes are killed by process id, also
//! when the test process is killed.
//!
//! | variable | meaning |
//! |---|---|
//! | `LLSD_CACHE` | the folder for built binaries; otherwise `$XDG_CACHE_HOME/llsd` or `~/.cache/llsd` |
//! | `KUBEBUILDER_ASSETS` | a folder with binaries to use instead of building them |
//! | `LLSD_TESTBED`, `LLSD_TESTBED_OLDEST` | the state file of a running control plane to connect to |
//! | `LLSD_TESTBED_KEEP` | when set, namespaces, logs and data are not deleted after the test |

mod audit;
mod certificates;
mod components;
mod control_plane;
mod invocation;
mod namespace;
pub mod node;
mod process;
mod registry;
mod sigstore;
mod testbed;
mod token_service;
mod users;
mod wait;

pub use audit::{AuditLog, AuditedRequest, Mark};
pub use certificates::{CertificateAuthority, Identity};
pub use control_plane::{ControlPlane, Controllers, State, SuspendedProcess};
pub use invocation::{Finished, Invocation};
pub use llsd_toolchain::{self as toolchain, Release};
pub use namespace::Namespace;
pub use node::Node;
pub use registry::{Access, Registry, RegistryOptions, RegistryRequest};
pub use sigstore::{BUNDLE, KeylessSignature, Sigstore};
pub use testbed::Testbed;
pub use wait::{eventually, until};
