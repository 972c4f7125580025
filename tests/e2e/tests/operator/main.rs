//! The operator on a real control plane: the objects that it writes, those that it leaves alone, and the
//! status that it reports.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod adoption;
mod adoption_cases;
mod children;
mod config_maps;
mod external;
mod faults;
mod gateway;
mod hostile;
mod idle;
mod lifecycle;
mod moving;
mod ogx_adoption;
mod openshift;
mod operator_settings;
mod outages;
mod pods;
mod process;
mod pull_secrets;
mod readiness;
mod regressions;
mod rollouts;
mod scaling;
mod secret_leaks;
mod secret_rotation;
mod server_status;
mod spec_errors;
mod storage;
mod trust;
mod updates;
mod upstream;
