//! `llsd crd`: the custom resource definitions, as the cluster wants them.

use crate::{Verdict, talk};

/// Which definition.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// One of them; by default all
    #[arg(value_enum)]
    name: Option<Name>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    Llamastackdistributions,
    Schemaplugins,
}

/// Prints YAML.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Verdict> {
    let names = arguments.name.map_or_else(|| vec![Name::Llamastackdistributions, Name::Schemaplugins], |one| vec![one]);
    let texts = names.into_iter().map(|name| match name {
        Name::Llamastackdistributions => llsd_api::crd::distributions_yaml(),
        Name::Schemaplugins => llsd_api::crd::plugins_yaml(),
    });
    talk::data(&texts.collect::<Vec<_>>().join("---\n"));
    Ok(Verdict::Done)
}
