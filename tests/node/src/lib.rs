//! Support code of the node tests: an operator on a real node, servers, and clients that talk to them.
//!
//! All tests of a program share one node and one operator, which is installed from the manifests. Each
//! test has a namespace of its own with a model server in it.

mod client;
mod cluster;
mod footprint;
mod lab;
mod load;
mod postgres;
mod provider_image;

use anyhow::{Context as _, Result};
use llsd_render::yaml;
use llsd_servers::RELEASES;
use llsd_testbed::node::STARTER_RELEASE;

pub use client::{Server, answers_always, chat};
pub use cluster::Cluster;
pub use footprint::Footprint;
pub use lab::Lab;
pub use load::Load;

/// A configuration of the release of `starter` that needs no packages other than those in the images: its
/// own one with vLLM as the only provider.
pub fn starter_config() -> Result<String> {
    let release = RELEASES.iter().find(|one| one.name == STARTER_RELEASE);
    let release = release.context("the release of starter is not installed")?;
    let shipped = yaml::read(&std::fs::read_to_string(release.starter()?)?)?;
    let mut config = yaml::read(&release.inference_base()?)?;
    let providers = shipped["providers"]["inference"].as_array();
    let vllm = providers
        .into_iter()
        .flatten()
        .filter(|one| one["provider_type"] == "remote::vllm");
    config["providers"]["inference"] = vllm.cloned().collect();
    Ok(yaml::write(&config))
}

/// The model that the model server of every namespace serves.
pub const MODEL: &str = "llama3.2-8b";
