//! One case of the suite, as a value.

use serde_json::Value;

use crate::Image;

/// A hostile input.
pub struct Case {
    /// What holds when the case passes.
    pub name: &'static str,
    /// The budget that it attacks, as `docs/security.md` names it.
    pub budget: &'static str,
    /// What the hostile tenant does.
    pub attack: Attack,
    /// What must happen to it.
    pub outcome: Outcome,
}

/// What the hostile tenant does.
pub enum Attack {
    /// Creates resources, after the ConfigMaps that they refer to.
    Apply {
        /// `(name, key, text)`.
        config_maps: Vec<(String, String, String)>,
        /// Whole resources, without their namespace.
        resources: Vec<Value>,
    },
    /// Creates resources whose images a registry serves in this way. `{registry}` in the reference of an
    /// image stands for its address.
    Serve {
        /// By repository.
        images: Vec<(String, Image)>,
        /// Whole resources, without their namespace.
        resources: Vec<Value>,
    },
    /// Has the installer trust a plugin, whose component is hostile.
    Plugin {
        /// The component.
        component: Vec<u8>,
    },
    /// Changes one resource as fast as the API server allows, until the case ends.
    Churn {
        /// The resource.
        resource: Value,
        /// How many writers.
        writers: usize,
    },
    /// Creates ConfigMaps that nothing refers to, with an annotation of this size.
    Clutter {
        /// How many.
        count: usize,
        /// The size of the annotation.
        bytes: usize,
    },
    /// Opens connections to the webhook, finishes the TLS handshake and sends nothing.
    Idle {
        /// How many.
        connections: usize,
    },
}

/// What must happen to the hostile input.
pub enum Outcome {
    /// The API server rejects the first resource, with a message that contains these.
    Denied(&'static [&'static str]),
    /// A condition of the first resource is not `True`, with a message that contains these: the field,
    /// the limit, and what to do.
    Condition(&'static str, &'static [&'static str]),
    /// The `SchemaPlugin` is not ready, and a condition has a message that contains these.
    PluginRejected(&'static [&'static str]),
    /// Nothing is wrong with it: only its amount is hostile.
    Served,
}
