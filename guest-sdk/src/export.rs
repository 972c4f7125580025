//! The macro that exports a plugin.

/// Exports a type that implements the trait of a world from the component.
///
/// `export!(MyAdapter as schema-adapter)` needs [`SchemaAdapter`](crate::SchemaAdapter),
/// `export!(MyPack as provider-pack)` needs [`ProviderPack`](crate::ProviderPack). On other targets
/// than WebAssembly it only checks that the type implements it.
#[macro_export]
macro_rules! export {
    ($adapter:ident as schema-adapter) => {
        const _: fn() = || {
            fn implements<T: $crate::SchemaAdapter>() {}
            implements::<$adapter>();
        };

        #[cfg(target_family = "wasm")]
        mod component {
            use $crate::bindings::schema_adapter as world;
            use world::exports::llamastack::config_adapter::{assembly, detection, expansion, identity, types};

            struct Component;
            $crate::export!(@pack Component, super::$adapter);

            impl detection::Guest for Component {
                fn detect(base: types::Document, hints: types::Document) -> detection::Answer {
                    match $crate::exchange::detect::<super::$adapter>(&base.into(), &hints.into()) {
                        $crate::Detection::One(id) => detection::Answer::One(id),
                        $crate::Detection::OneOf(ids) => detection::Answer::OneOf(ids),
                        $crate::Detection::None => detection::Answer::None,
                    }
                }
            }

            impl assembly::Guest for Component {
                fn assemble(request: types::Document) -> Result<types::Outcome, Vec<types::Diagnostic>> {
                    world::to_wire($crate::exchange::assemble::<super::$adapter>(&request.into()))
                }
            }

            world::export_schema_adapter!(Component);
        }
    };
    ($pack:ident as provider-pack) => {
        const _: fn() = || {
            fn implements<T: $crate::ProviderPack>() {}
            implements::<$pack>();
        };

        #[cfg(target_family = "wasm")]
        mod component {
            use $crate::bindings::provider_pack as world;
            use world::exports::llamastack::config_adapter::{expansion, identity, types};

            struct Component;
            $crate::export!(@pack Component, super::$pack);

            world::export_provider_pack!(Component);
        }
    };
    (@pack $component:ident, $pack:path) => {
        impl identity::Guest for $component {
            fn describe() -> types::Document {
                $crate::exchange::describe::<$pack>().into()
            }
        }

        impl expansion::Guest for $component {
            fn expand(request: types::Document) -> Result<types::Outcome, Vec<types::Diagnostic>> {
                world::to_wire($crate::exchange::expand::<$pack>(&request.into()))
            }
        }
    };
}
