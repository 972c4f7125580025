//! Read access to images for other parts of the process, such as the webhook.

use std::sync::{Arc, OnceLock};

use llsd_adapter_sdk::documents::Hints;
use llsd_api::checked::Checked;
use llsd_registry::BaseConfig;

use super::{Fetcher, Puller, hints};

/// Reads images as an operator does, and shares its limits. All clones use the same operator.
#[derive(Clone, Default)]
pub struct ImageLookup(Arc<OnceLock<Fetcher>>);

impl ImageLookup {
    /// The base configuration that the labels of an image contain or point to, with the hints about
    /// it, read for a resource of a namespace. Fails with the reason. Waits for the registry.
    pub async fn base(
        &self,
        image: &str,
        checked: &Checked,
        namespace: &str,
    ) -> Result<(Arc<BaseConfig>, Hints), String> {
        let Some(fetcher) = self.0.get() else {
            return Err("the operator is starting; try again later".to_owned());
        };
        let puller = Puller::of(checked, namespace);
        let read = fetcher.wait_for_base(image, &puller).await;
        let read = read.map_err(|error| error.to_string())?;
        let hints = hints(&read);
        Ok((read, hints))
    }

    /// Connects the lookup to an operator.
    pub(crate) fn connect(&self, fetcher: &Fetcher) {
        // `run` consumes its options, so a lookup is connected at most once.
        let _ = self.0.set(fetcher.clone());
    }
}
