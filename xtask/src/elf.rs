//! Reads the headers of a Linux binary: is it static, and for which machine?

use anyhow::{Context, bail, ensure};

/// `e_machine` of x86_64 and aarch64.
const MACHINES: [(&str, u16); 2] = [("x86_64", 62), ("aarch64", 183)];
/// The program header that names the dynamic linker.
const INTERPRETER: u32 = 3;
/// The size of a program header in a 64-bit file.
const PROGRAM_HEADER: usize = 56;

/// Fails unless `content` is a static binary for the Rust target `target`.
pub fn check(content: &[u8], target: &str) -> anyhow::Result<()> {
    ensure!(
        content.starts_with(b"\x7fELF\x02\x01"),
        "it is not a 64-bit little-endian ELF file"
    );
    let architecture = target.split('-').next().unwrap_or_default();
    let machine = u16::from_le_bytes(bytes(content, 18)?);
    let expected = MACHINES.iter().find(|(name, _)| *name == architecture);
    let (_, expected) =
        expected.with_context(|| format!("the architecture {architecture} is not supported"))?;
    ensure!(
        machine == *expected,
        "it is for machine {machine} instead of {expected} ({architecture})"
    );
    let start = usize::try_from(u64::from_le_bytes(bytes(content, 32)?))?;
    let count = u16::from_le_bytes(bytes(content, 56)?);
    for index in 0..usize::from(count) {
        let kind = u32::from_le_bytes(bytes(content, start + index * PROGRAM_HEADER)?);
        if kind == INTERPRETER {
            bail!("it is not static: it names a dynamic linker");
        }
    }
    Ok(())
}

fn bytes<const N: usize>(content: &[u8], at: usize) -> anyhow::Result<[u8; N]> {
    let slice = content.get(at..at.saturating_add(N));
    let slice = slice.context("its headers end early")?;
    Ok(slice.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header.
    fn file(machine: u16, header: u32) -> Vec<u8> {
        let mut content = vec![0; 64 + PROGRAM_HEADER];
        content[..6].copy_from_slice(b"\x7fELF\x02\x01");
        content[18..20].copy_from_slice(&machine.to_le_bytes());
        content[32..40].copy_from_slice(&64_u64.to_le_bytes());
        content[56..58].copy_from_slice(&1_u16.to_le_bytes());
        content[64..68].copy_from_slice(&header.to_le_bytes());
        content
    }

    fn problem(content: &[u8]) -> Option<String> {
        let result = check(content, "aarch64-unknown-linux-musl");
        result.err().map(|error| error.to_string())
    }

    #[test]
    fn a_static_binary_of_the_target_is_accepted() {
        assert_eq!(problem(&file(183, 1)), None);
    }

    #[test]
    fn another_machine_a_dynamic_linker_and_other_files_are_rejected() {
        assert_eq!(
            problem(&file(62, 1)).unwrap(),
            "it is for machine 62 instead of 183 (aarch64)"
        );
        assert_eq!(
            problem(&file(183, INTERPRETER)).unwrap(),
            "it is not static: it names a dynamic linker"
        );
        assert_eq!(
            problem(&file(183, 1)[..66]).unwrap(),
            "its headers end early"
        );
        assert_eq!(
            problem(b"#!/bin/sh").unwrap(),
            "it is not a 64-bit little-endian ELF file"
        );
    }

    #[test]
    fn the_running_program_is_dynamic() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
            assert!(check(&own, &target).is_err());
        }
    }
}
