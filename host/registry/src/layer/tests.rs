use std::io::Write as _;

use super::*;

const LIMITS: ScanLimits = ScanLimits {
    unpacked_bytes: 4 << 20,
    file_bytes: 1 << 10,
};
const YAML: &[u8] = b"version: 2\n";

/// One entry: path, kind, content or link target.
pub(super) type Entry<'a> = (&'a str, tar::EntryType, &'a [u8]);
const FILE: tar::EntryType = tar::EntryType::Regular;
const HARD: tar::EntryType = tar::EntryType::Link;
const SOFT: tar::EntryType = tar::EntryType::Symlink;

/// Writes names unchanged, including `..` and leading slashes, which the builder refuses.
pub(super) fn layer(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        let is_link = matches!(kind, tar::EntryType::Link | tar::EntryType::Symlink);
        if is_link {
            header.as_mut_bytes()[157..157 + content.len()].copy_from_slice(content);
        }
        let body: &[u8] = if is_link { b"" } else { content };
        header.set_size(body.len() as u64);
        header.set_cksum();
        builder.append(&header, body).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn find(bytes: &[u8], path: &str) -> Result<Found, Error> {
    scan(
        bytes,
        &FileQuery::Path(LayerPath::parse(path).unwrap()),
        LIMITS,
    )
}

fn content(bytes: &[u8], path: &str) -> Option<Vec<u8>> {
    match find(bytes, path).unwrap() {
        Found::File { content, .. } => Some(content),
        _ => None,
    }
}

#[test]
fn the_file_is_found_in_every_compression_and_spelling() {
    for spelling in [
        "app/run.yaml",
        "/app/run.yaml",
        "./app/run.yaml",
        "app//./run.yaml",
    ] {
        let plain = layer(&[
            ("other", FILE, b"x"),
            (spelling, FILE, YAML),
            ("app", FILE, b"y"),
        ]);
        for bytes in [plain.clone(), gzip(&plain), zstd(&plain)] {
            for path in ["/app/run.yaml", "app/run.yaml", "./app/run.yaml"] {
                assert_eq!(
                    content(&bytes, path).as_deref(),
                    Some(YAML),
                    "{spelling} {path}"
                );
            }
        }
    }
}

#[test]
fn layers_of_several_members_or_frames_with_metadata_between_them_are_read() {
    let plain = layer(&[("a", FILE, b"x"), ("run.yaml", FILE, YAML)]);
    let (head, tail) = plain.split_at(700);
    assert_eq!(
        content(&[gzip(head), gzip(tail)].concat(), "run.yaml").as_deref(),
        Some(YAML)
    );
    let metadata = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"toc"].concat();
    let frames = [
        metadata.clone(),
        zstd(head),
        metadata.clone(),
        zstd(tail),
        metadata,
    ]
    .concat();
    assert_eq!(content(&frames, "run.yaml").as_deref(), Some(YAML));
}

#[test]
fn a_hard_link_gives_the_content_of_its_target() {
    let bytes = layer(&[
        ("opt/a.yaml", FILE, YAML),
        ("etc/run.yaml", HARD, b"/opt/a.yaml"),
    ]);
    assert_eq!(content(&bytes, "etc/run.yaml").as_deref(), Some(YAML));
    // A target that does not precede the link needs a second pass.
    let later = layer(&[("etc/run.yaml", HARD, b"opt/b.yaml")]);
    let target = LayerPath::parse("opt/b.yaml").unwrap();
    assert_eq!(
        find(&later, "etc/run.yaml").unwrap(),
        Found::HardLink(target)
    );
}

#[test]
fn the_last_entry_for_a_path_counts() {
    let bytes = layer(&[("run.yaml", FILE, b"old"), ("./run.yaml", FILE, YAML)]);
    assert_eq!(content(&bytes, "run.yaml").as_deref(), Some(YAML));
    let replaced = layer(&[("run.yaml", SOFT, b"/etc/passwd"), ("run.yaml", FILE, YAML)]);
    assert_eq!(content(&replaced, "run.yaml").as_deref(), Some(YAML));
}

#[test]
fn names_with_parent_components_match_nothing_and_links_are_not_followed() {
    let bytes = layer(&[
        ("app/../run.yaml", FILE, b"evil"),
        ("../run.yaml", FILE, b"evil"),
    ]);
    assert_eq!(find(&bytes, "run.yaml").unwrap(), Found::Nothing);
    assert_eq!(LayerPath::parse("../run.yaml"), None);
    assert_eq!(LayerPath::parse("/"), None);
    assert_eq!(LayerPath::parse("a\0b"), None);
    let link = layer(&[("run.yaml", SOFT, b"../../etc/shadow")]);
    assert_eq!(
        find(&link, "run.yaml").unwrap_err().to_string(),
        "\"run.yaml\" in the layer is a symbolic link to \"../../etc/shadow\"; use the path of a regular file"
    );
    let climbing = layer(&[("run.yaml", HARD, b"../../etc/shadow")]);
    assert!(matches!(
        find(&climbing, "run.yaml"),
        Err(Error::Damaged(_))
    ));
}

#[test]
fn long_names_are_read_up_to_a_limit() {
    let long = format!("{}/run.yaml", "deep/".repeat(40).trim_end_matches('/'));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(YAML.len() as u64);
    header.set_entry_type(FILE);
    builder.append_data(&mut header, &long, YAML).unwrap();
    builder
        .append_pax_extensions([("path", "pax/run.yaml".as_bytes())])
        .unwrap();
    header.set_cksum();
    builder.append(&header, YAML).unwrap();
    let bytes = builder.into_inner().unwrap();
    assert_eq!(content(&bytes, &long).as_deref(), Some(YAML));
    assert_eq!(content(&bytes, "pax/run.yaml").as_deref(), Some(YAML));

    for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
        let name = vec![b'a'; 1 << 20];
        let error = find(&layer(&[("x", kind, &name)]), "x").unwrap_err();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
    }
}

#[test]
fn a_second_size_for_one_entry_is_refused() {
    let mut builder = tar::Builder::new(Vec::new());
    builder
        .append_pax_extensions([("size", "1024".as_bytes())])
        .unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(FILE);
    header.set_path("run.yaml").unwrap();
    header.set_size(YAML.len() as u64);
    header.set_cksum();
    builder.append(&header, YAML).unwrap();
    let error = find(&builder.into_inner().unwrap(), "run.yaml").unwrap_err();
    assert!(error.to_string().contains("two sizes"), "{error}");
}

#[test]
fn bombs_stop_at_the_limit_in_both_compressions() {
    let zeros = vec![0u8; 8 << 20];
    let bomb = layer(&[("big", FILE, &zeros), ("run.yaml", FILE, YAML)]);
    for bytes in [gzip(&bomb), zstd(&bomb), bomb.clone()] {
        let error = find(&bytes, "run.yaml").unwrap_err();
        assert_eq!(error, Error::UnpacksTooLarge(LIMITS.unpacked_bytes));
    }
    // Zeros after the end marker of the archive count too.
    let trailing = [layer(&[("run.yaml", FILE, YAML)]), zeros].concat();
    let error = find(&gzip(&trailing), "run.yaml").unwrap_err();
    assert_eq!(error, Error::UnpacksTooLarge(LIMITS.unpacked_bytes));
}

#[test]
fn a_file_over_its_limit_is_an_error_and_other_large_files_are_not() {
    let big = vec![b'x'; 2 << 10];
    let bytes = layer(&[("run.yaml", FILE, &big)]);
    let expected = Error::FileTooLarge {
        path: "run.yaml".into(),
        limit: 1 << 10,
    };
    assert_eq!(find(&bytes, "run.yaml").unwrap_err(), expected);
    let beside = layer(&[("lib.so", FILE, &big), ("run.yaml", FILE, YAML)]);
    assert_eq!(content(&beside, "run.yaml").as_deref(), Some(YAML));
}

#[test]
fn truncated_and_corrupt_layers_are_damaged_even_after_the_file_was_found() {
    let noise: Vec<u8> = (0..200_000).map(|_| fastrand::u8(..)).collect();
    let plain = layer(&[("run.yaml", FILE, YAML), ("noise", FILE, &noise)]);
    for bytes in [gzip(&plain), zstd(&plain), plain.clone()] {
        let cut = &bytes[..bytes.len() / 2];
        assert!(matches!(find(cut, "run.yaml"), Err(Error::Damaged(_))));
    }
    for garbage in [
        &b""[..],
        b"not a tar at all",
        &[0x1f, 0x8b, 0, 1, 2],
        &[0x28, 0xb5, 0x2f, 0xfd],
    ] {
        assert!(
            matches!(find(garbage, "run.yaml"), Err(Error::Damaged(_))),
            "{garbage:?}"
        );
    }
}

#[test]
fn a_file_is_found_by_its_content() {
    let bytes = layer(&[("a", FILE, b"x"), ("etc/run.yaml", FILE, YAML)]);
    let found = scan(&bytes[..], &FileQuery::Content(Digest::of(YAML)), LIMITS).unwrap();
    let path = LayerPath::parse("etc/run.yaml").unwrap();
    assert_eq!(
        found,
        Found::File {
            path,
            content: YAML.to_vec(),
            server_package: None,
        }
    );
}

#[test]
fn a_zstd_frame_with_a_large_window_is_refused_before_it_is_allocated() {
    // A frame with a window of 64 MiB (exponent 16), and one of a single segment of 64 MiB.
    let windowed = [0x28, 0xb5, 0x2f, 0xfd, 0, 16 << 3];
    let single = [0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000, 0, 0, 0, 4];
    for header in [&windowed[..], &single] {
        let error = find(&[header, &[0; 64]].concat(), "run.yaml").unwrap_err();
        assert!(error.to_string().contains("window of 67108864"), "{error}");
    }
}

#[test]
fn a_path_that_cannot_be_unpacked_is_damage() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    let path = "d/".repeat(3000);
    builder.append_data(&mut header, &path, &b""[..]).unwrap();
    let error = find(&builder.into_inner().unwrap(), "run.yaml").unwrap_err();
    assert!(
        error.to_string().contains("more than 4096 bytes"),
        "{error}"
    );
}

#[test]
fn endless_pax_headers_stop_at_their_budget() {
    let mut builder = tar::Builder::new(Vec::new());
    let record = "x".repeat(200 << 10);
    for _ in 0..400 {
        let pax = [("comment", record.as_bytes())];
        builder.append_pax_extensions(pax).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
    }
    let bytes = gzip(&builder.into_inner().unwrap());
    let limits = ScanLimits {
        unpacked_bytes: 1 << 30,
        ..LIMITS
    };
    let query = FileQuery::Path(LayerPath::parse("run.yaml").unwrap());
    let error = scan(&bytes[..], &query, limits).unwrap_err();
    assert!(error.to_string().contains("pax headers"), "{error}");
}
