//! Attachments: what is admitted, what is stored, and what no fault can do to it.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use orrery_storage::attachments::{
    AttachmentError, AttachmentId, AttachmentLimits, AttachmentStore, Collected, MediaType,
    NewImage, decode_base64,
};
use orrery_storage::disk::RealDisk;
use orrery_testkit::{Fault, FaultyDisk, Loss, Op, Plan};

fn png(width: u32, height: u32) -> Vec<u8> {
    fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
        let mut checked = kind.to_vec();
        checked.extend(data);
        out.extend((data.len() as u32).to_be_bytes());
        out.extend(&checked);
        out.extend(crc32fast::hash(&checked).to_be_bytes());
    }
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 0, 0, 0, 0]);
    chunk(&mut out, b"IHDR", &header);
    chunk(
        &mut out,
        b"IDAT",
        b"\x78\x9c\x63\x60\x00\x00\x00\x02\x00\x01",
    );
    chunk(&mut out, b"IEND", b"");
    out
}

fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut out = b"\xFF\xD8\xFF\xE0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
    out.extend(b"\xFF\xC0\x00\x0B\x08");
    out.extend(height.to_be_bytes());
    out.extend(width.to_be_bytes());
    out.extend(b"\x01\x01\x11\x00");
    out.extend(b"\xFF\xDA\x00\x08\x01\x01\x00\x00\x3F\x00\x12\x34\xFF\x00\xFF\xD9");
    out
}

fn gif(width: u16, height: u16) -> Vec<u8> {
    let mut out = b"GIF89a".to_vec();
    out.extend(width.to_le_bytes());
    out.extend(height.to_le_bytes());
    out.extend(b"\x80\0\0\0\0\0\xFF\xFF\xFF");
    out.extend(b"\x21\xF9\x04\0\0\0\0\0");
    out.extend(b"\x2C\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3B");
    out
}

fn webp(width: u16, height: u16) -> Vec<u8> {
    let mut frame = b"\x30\x01\x00\x9d\x01\x2a".to_vec();
    frame.extend(width.to_le_bytes());
    frame.extend(height.to_le_bytes());
    frame.extend([0; 8]);
    let mut out = b"RIFF".to_vec();
    out.extend((frame.len() as u32 + 12).to_le_bytes());
    out.extend(b"WEBPVP8 ");
    out.extend((frame.len() as u32).to_le_bytes());
    out.extend(frame);
    out
}

fn store(home: &Path, limits: AttachmentLimits) -> AttachmentStore {
    AttachmentStore::new(Arc::new(RealDisk), &home.join("attachments"), limits)
}

fn image<'a>(media_type: &'a str, bytes: &'a [u8]) -> NewImage<'a> {
    NewImage {
        media_type,
        bytes,
        name: None,
    }
}

fn refused(limits: AttachmentLimits, images: &[NewImage<'_>]) -> AttachmentError {
    let home = tempfile::tempdir().unwrap();
    let error = store(home.path(), limits).store(images).unwrap_err();
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        0,
        "something was written"
    );
    assert!(error.is_correctable());
    error
}

#[test]
fn all_four_types_are_stored_under_their_digest_and_read_back() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), AttachmentLimits::default());
    let all = [
        ("image/png", png(3, 4)),
        ("image/jpeg", jpeg(3, 4)),
        ("image/webp", webp(3, 4)),
        ("image/gif", gif(3, 4)),
    ];
    let images: Vec<_> = all.iter().map(|(name, bytes)| image(name, bytes)).collect();
    let refs = store.store(&images).unwrap();
    for ((name, bytes), stored) in all.iter().zip(&refs) {
        assert_eq!(stored.media_type.as_str(), *name);
        assert_eq!((stored.width, stored.height), (3, 4), "{name}");
        assert_eq!(stored.bytes, bytes.len() as u64);
        assert_eq!(store.read(&stored.attachment_id).unwrap(), *bytes);
        let hex = stored
            .attachment_id
            .as_str()
            .strip_prefix("sha256:")
            .unwrap();
        let path = home
            .path()
            .join("attachments/objects")
            .join(&hex[..2])
            .join(hex);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
    let again = store.store(&images).unwrap();
    assert_eq!(again, refs);
    let json = serde_json::to_value(&refs[0]).unwrap();
    assert_eq!(json["mediaType"], "image/png");
    assert!(
        json["attachmentId"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert!(json.get("name").is_none());
}

#[test]
fn limits_hold_at_the_border_and_one_beyond() {
    let small = png(10, 6);
    let size = small.len() as u64;
    let limits = AttachmentLimits {
        images: 2,
        total_bytes: 2 * size,
        image_bytes: size,
        pixels: 60,
        side: 10,
    };
    let home = tempfile::tempdir().unwrap();
    let two = [image("image/png", &small), image("image/png", &small)];
    assert_eq!(store(home.path(), limits).store(&two).unwrap().len(), 2);
    let code = |limits, images: &[NewImage<'_>]| refused(limits, images).code();
    let three = [two[0]; 3];
    assert_eq!(code(limits, &three), "TOO_MANY_IMAGES");
    let total = AttachmentLimits {
        total_bytes: 2 * size - 1,
        ..limits
    };
    assert_eq!(code(total, &two), "IMAGES_TOO_LARGE");
    let one = AttachmentLimits {
        image_bytes: size - 1,
        ..limits
    };
    assert_eq!(code(one, &two), "IMAGE_TOO_LARGE");
    let pixels = AttachmentLimits {
        pixels: 59,
        ..limits
    };
    assert_eq!(code(pixels, &two), "IMAGE_TOO_MANY_PIXELS");
    let side = AttachmentLimits { side: 9, ..limits };
    assert_eq!(code(side, &two), "IMAGE_DIMENSION_TOO_LARGE");
    let defaults = AttachmentLimits::default();
    assert_eq!(
        code(defaults, &[image("image/png", &png(8193, 1))]),
        "IMAGE_DIMENSION_TOO_LARGE"
    );
    assert_eq!(
        code(defaults, &[image("image/png", &png(8001, 8000))]),
        "IMAGE_TOO_MANY_PIXELS"
    );
    let largest = png(8000, 8000);
    assert!(
        store(home.path(), defaults)
            .admit(&[image("image/png", &largest)])
            .is_ok()
    );
}

#[test]
fn types_are_checked_before_bytes_and_must_fit_them() {
    let defaults = AttachmentLimits::default();
    let code = |images: &[NewImage<'_>]| refused(defaults, images).code();
    let (good, other) = (png(1, 1), gif(1, 1));
    assert_eq!(code(&[image("image/jpeg", &good)]), "IMAGE_TYPE_MISMATCH");
    assert_eq!(code(&[image("image/png", b"hello")]), "INVALID_IMAGE");
    assert_eq!(code(&[image("image/png", b"")]), "INVALID_IMAGE");
    // A bad member in front does not hide a declared type that is never taken.
    assert_eq!(
        code(&[image("image/png", b"hello"), image("image/bmp", &good)]),
        "UNSUPPORTED_IMAGE_TYPE"
    );
    assert!(matches!(
        refused(
            defaults,
            &[image("image/gif", &other), image("image/png", b"x")]
        ),
        AttachmentError::InvalidImage { index: 1 }
    ));
}

#[test]
fn an_image_that_is_cut_anywhere_is_not_whole() {
    let defaults = AttachmentLimits::default();
    for (name, bytes) in [
        ("image/png", png(2, 2)),
        ("image/jpeg", jpeg(2, 2)),
        ("image/webp", webp(2, 2)),
        ("image/gif", gif(2, 2)),
    ] {
        for cut in 0..bytes.len() {
            let error = refused(defaults, &[image(name, &bytes[..cut])]);
            assert_eq!(error.code(), "INVALID_IMAGE", "{name} cut at {cut}");
        }
        assert_eq!(MediaType::sniff(&bytes).map(MediaType::as_str), Some(name));
    }
    let mut changed = png(2, 2);
    changed[45] ^= 1;
    assert_eq!(
        refused(defaults, &[image("image/png", &changed)]).code(),
        "INVALID_IMAGE"
    );
}

#[test]
fn base64_is_canonical_or_refused() {
    assert_eq!(decode_base64(0, "aGk=").unwrap(), b"hi");
    for bad in ["", "aGk", "aGl=", "aGk=\n", "aG k=", "_-==", "aGk=="] {
        let error = decode_base64(3, bad).unwrap_err();
        assert_eq!(
            error,
            AttachmentError::InvalidBase64 { index: 3 },
            "{bad:?}"
        );
        assert_eq!(error.code(), "INVALID_IMAGE_BASE64");
    }
}

#[test]
fn a_read_tells_missing_from_damaged_and_a_write_mends() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), AttachmentLimits::default());
    let bytes = png(5, 5);
    let images = [image("image/png", &bytes)];
    let id = AttachmentId::of(&bytes);
    assert_eq!(store.read(&id).unwrap_err().code(), "ATTACHMENT_NOT_FOUND");
    store.store(&images).unwrap();
    let hex = id.as_str().strip_prefix("sha256:").unwrap();
    let path = home
        .path()
        .join("attachments/objects")
        .join(&hex[..2])
        .join(hex);
    std::fs::write(&path, b"damaged").unwrap();
    let error = store.read(&id).unwrap_err();
    assert!(error.code() == "ATTACHMENT_CORRUPT" && !error.is_correctable());
    store.store(&images).unwrap();
    assert_eq!(store.read(&id).unwrap(), bytes);
    for bad in [
        "",
        "sha256:",
        "sha256:../../x",
        &id.as_str().to_uppercase(),
        &id.as_str()[..70],
    ] {
        let error = AttachmentId::parse(bad).unwrap_err();
        assert_eq!(error.code(), "INVALID_ATTACHMENT_REF");
        assert!(serde_json::from_value::<AttachmentId>(bad.into()).is_err());
    }
}

#[test]
fn garbage_is_what_nobody_refers_to() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), AttachmentLimits::default());
    let nothing = store.collect_garbage(&HashSet::new()).unwrap();
    assert_eq!(nothing, Collected::default());
    let (keep, drop) = (png(1, 2), png(2, 1));
    let refs = store
        .store(&[image("image/png", &keep), image("image/png", &drop)])
        .unwrap();
    let objects = home.path().join("attachments/objects");
    let hex = refs[0]
        .attachment_id
        .as_str()
        .strip_prefix("sha256:")
        .unwrap();
    let folder = objects.join(&hex[..2]);
    std::fs::write(folder.join(format!("{hex}.0123456789ab.tmp")), b"half").unwrap();
    std::fs::write(folder.join("README"), b"not ours").unwrap();
    let referenced = HashSet::from([refs[0].attachment_id.clone()]);
    let collected = store.collect_garbage(&referenced).unwrap();
    assert_eq!(
        collected,
        Collected {
            removed: 1,
            kept: 1
        }
    );
    assert_eq!(store.read(&refs[0].attachment_id).unwrap(), keep);
    let gone = store.read(&refs[1].attachment_id).unwrap_err();
    assert!(matches!(gone, AttachmentError::NotFound(_)));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
}

#[test]
fn a_fault_or_power_cut_at_any_call_leaves_whole_objects_or_none() {
    let (one, two) = (png(1, 1), jpeg(2, 2));
    let images = [image("image/png", &one), image("image/jpeg", &two)];
    for fault in [
        Fault::Full,
        Fault::Broken,
        Fault::Short(100),
        Fault::PowerCut,
    ] {
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Torn(1), Loss::Torn(2)] {
            for first in 0.. {
                let what = format!("{fault:?} {loss:?} at {first}");
                let home = tempfile::tempdir_in(crate::scratch()).unwrap();
                let disk = FaultyDisk::new(home.path()).unwrap();
                let folder = home.path().join("attachments");
                let limits = AttachmentLimits::default();
                let store = AttachmentStore::new(Arc::new(disk.clone()), &folder, limits);
                disk.arm(Plan {
                    first,
                    count: 1,
                    fault,
                });
                let mut stored = store.store(&images);
                let hit = disk.heal() > 0;
                if let Err(error) = &stored {
                    assert_eq!(error.code(), "ATTACHMENT_WRITE_FAILED", "{what}");
                    if !disk.is_dead() {
                        stored = store.store(&images);
                        assert!(stored.is_ok(), "{what}: {stored:?}");
                    }
                }
                disk.cut_power();
                disk.power_on(loss).unwrap();
                for bytes in [&one, &two] {
                    match store.read(&AttachmentId::of(bytes)) {
                        Ok(read) => assert_eq!(read, *bytes, "{what}"),
                        Err(AttachmentError::NotFound(_)) => {
                            assert!(stored.is_err(), "{what}: lost");
                        }
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
                assert!(store.store(&images).is_ok(), "{what}");
                if !hit {
                    break;
                }
            }
        }
    }
}

#[test]
fn writes_are_in_the_order_of_the_images() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let disk = FaultyDisk::new(home.path()).unwrap();
    let folder = home.path().join("attachments");
    let store = AttachmentStore::new(Arc::new(disk.clone()), &folder, AttachmentLimits::default());
    let all = [png(1, 1), gif(2, 2), png(3, 3), gif(4, 4)];
    let types = ["image/png", "image/gif", "image/png", "image/gif"];
    let images: Vec<_> = types.iter().zip(&all).map(|(t, b)| image(t, b)).collect();
    let refs = store.store(&images).unwrap();
    let trace = disk.trace();
    let renamed = trace.iter().filter(|(op, _)| *op == Op::Rename);
    let names: Vec<String> = renamed
        .map(|(_, path)| path.file_name().unwrap().to_str().unwrap()[..64].to_owned())
        .collect();
    let expected: Vec<&str> = refs
        .iter()
        .map(|r| &r.attachment_id.as_str()[7..])
        .collect();
    assert_eq!(names, expected);
}
