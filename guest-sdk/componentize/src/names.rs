//! Shortens function names.
//!
//! In: a core module. Out: the same module with demangled function names, without generic arguments.
//! The stack trace of a trap shows these names. Mangled names are up to a fifth of a component. A name
//! without a path that several functions have, such as `fmt`, identifies none of them, and is left out.

use std::borrow::Cow;
use std::collections::BTreeMap;

use wasm_encoder::{Module, NameMap, NameSection, RawSection};
use wasmparser::{BinaryReaderError, KnownCustom, Name, Parser, Payload};

/// Shortens the function names of a module, and removes the names of locals and types.
pub(crate) fn shorten(module: &[u8]) -> Result<Vec<u8>, BinaryReaderError> {
    let mut out = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if let Payload::CustomSection(section) = &payload
            && let KnownCustom::Name(names) = section.as_known()
        {
            let mut shortened = Vec::new();
            for part in names {
                let Name::Function(map) = part? else { continue };
                for naming in map {
                    let naming = naming?;
                    shortened.push((naming.index, short(naming.name)));
                }
            }
            let functions = identifying(&shortened);
            let mut section = NameSection::new();
            section.functions(&functions);
            out.section(&section);
        } else if let Some((id, range)) = payload.as_section() {
            let data = module.get(range).unwrap_or_default();
            out.section(&RawSection { id, data });
        }
    }
    Ok(out.finish())
}

/// The names that have a path, or that only one function has.
fn identifying(names: &[(u32, Cow<'_, str>)]) -> NameMap {
    let mut functions = BTreeMap::new();
    for (_, name) in names {
        *functions.entry(&**name).or_insert(0_usize) += 1;
    }
    let mut kept = NameMap::new();
    for (index, name) in names {
        if name.contains("::") || functions.get(&**name) == Some(&1) {
            kept.append(*index, name);
        }
    }
    kept
}

/// The short name of a function: with its path for functions of the plugin, without for libraries.
fn short(name: &str) -> Cow<'_, str> {
    let Ok(symbol) = rustc_demangle::try_demangle(name) else {
        return Cow::Borrowed(name);
    };
    let full = format!("{symbol:#}");
    // `<type as trait>::function`, or `<type>::function`.
    let subject = full.strip_prefix('<').and_then(|rest| {
        let end = closing(rest)?;
        let (inside, after) = (rest.get(..end)?, rest.get(end + 1..)?);
        Some(format!(
            "{}{after}",
            inside.rsplit_once(" as ").map_or(inside, |(_, of)| of)
        ))
    });
    let plain = without_generics(subject.as_deref().unwrap_or(&full));
    if plain.starts_with("llsd_") || plain.starts_with("adapter_") {
        return Cow::Owned(plain);
    }
    Cow::Owned(plain.rsplit("::").next().unwrap_or(&plain).to_owned())
}

/// The index of the `>` that closes a bracket opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

fn without_generics(path: &str) -> String {
    let mut depth = 0_usize;
    let outside = path.chars().filter(|c| match c {
        '<' => {
            depth += 1;
            false
        }
        '>' => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    outside.collect::<String>().replace("::::", "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_functions_have_a_path_and_library_functions_have_none() {
        for (mangled, name) in [
            (
                "_ZN13llsd_dialects8assemble8assemble17h72766dd10e507aaeE",
                "llsd_dialects::assemble::assemble",
            ),
            (
                "_ZN98_$LT$$RF$mut$u20$serde_json..de..Deserializer$LT$R$GT$$u20$as$u20$serde_core..de..Deserializer$GT$15deserialize_any17h334e9c1fa5c76820E",
                "deserialize_any",
            ),
            (
                "_ZN5alloc11collections5btree3map25BTreeMap$LT$K$C$V$C$A$GT$6insert17hbc6dd7930ddecbddE",
                "insert",
            ),
            ("cabi_realloc", "cabi_realloc"),
        ] {
            assert_eq!(short(mangled), name);
        }
    }

    #[test]
    fn a_name_of_several_functions_is_left_out_unless_it_has_a_path() {
        let names = ["fmt", "a::b", "insert", "fmt", "a::b"];
        let names: Vec<(u32, Cow<'_, str>)> = (0..).zip(names.map(Cow::Borrowed)).collect();
        let mut expected = NameMap::new();
        for (index, name) in [(1, "a::b"), (2, "insert"), (4, "a::b")] {
            expected.append(index, name);
        }
        let bytes = |names: &NameMap| {
            let mut section = NameSection::new();
            section.functions(names);
            let mut module = Module::new();
            module.section(&section);
            module.finish()
        };
        assert_eq!(bytes(&identifying(&names)), bytes(&expected));
    }

    #[test]
    fn invalid_modules_are_rejected() {
        assert!(shorten(b"not a module").is_err());
    }
}
