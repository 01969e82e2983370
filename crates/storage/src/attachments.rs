//! Attachments: images of messages, stored once under the digest of their bytes
//! (`controller.md` 4.3).
//!
//! Owns admission (limits, types, wholeness), `<folder>/objects/<2 hex>/<sha256>`, durable writes,
//! checked reads and the removal of what nobody refers to. Leaves to others: which events refer to
//! what, resizing for a request, decoding. An object that a write returned is on disk.

mod error;
mod image;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::disk::Disk;
use crate::log_file::make_folders;

pub use error::AttachmentError;
pub use image::MediaType;

const SCHEME: &str = "sha256:";
const TEMPORARY: &str = ".tmp";

/// The name of an attachment: `sha256:` and 64 lower-case hex digits. Opaque to callers.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct AttachmentId(String);

impl AttachmentId {
    /// Reads an id.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, AttachmentError> {
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        match text.strip_prefix(SCHEME) {
            Some(hex) if hex.len() == 64 && hex.bytes().all(lower_hex) => Ok(Self(text.to_owned())),
            _ => Err(AttachmentError::InvalidRef(text.to_owned())),
        }
    }

    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("{SCHEME}{:x}", Sha256::digest(bytes)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn hex(&self) -> &str {
        self.0.strip_prefix(SCHEME).unwrap_or_default()
    }
}

impl std::fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for AttachmentId {
    type Error = AttachmentError;
    fn try_from(text: String) -> Result<Self, AttachmentError> {
        Self::parse(&text)
    }
}

impl From<AttachmentId> for String {
    fn from(id: AttachmentId) -> Self {
        id.0
    }
}

/// What may be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachmentLimits {
    /// Images of one message.
    pub images: usize,
    /// Bytes of all images of one message.
    pub total_bytes: u64,
    /// Bytes of one image.
    pub image_bytes: u64,
    /// Pixels of one image.
    pub pixels: u64,
    /// Pixels of the longer side of one image.
    pub side: u64,
}

impl Default for AttachmentLimits {
    fn default() -> Self {
        Self {
            images: 20,
            total_bytes: 200 * 1024 * 1024,
            image_bytes: 20 * 1024 * 1024,
            pixels: 64_000_000,
            side: 8192,
        }
    }
}

/// An image as it is sent.
#[derive(Debug, Clone, Copy)]
pub struct NewImage<'a> {
    /// What the sender says it is.
    pub media_type: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The name of its file.
    pub name: Option<&'a str>,
}

/// A stored image, as messages refer to it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRef {
    /// Its id.
    pub attachment_id: AttachmentId,
    /// What it is.
    pub media_type: MediaType,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its width in pixels.
    pub width: u64,
    /// Its height in pixels.
    pub height: u64,
    /// The name of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a collection of garbage did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that went.
    pub removed: usize,
    /// Objects that stayed.
    pub kept: usize,
}

/// Decodes an image that came as base64; `index` is its place in the message.
///
/// # Errors
/// When it is empty or not spelled as encoding its bytes would spell it.
pub fn decode_base64(index: usize, text: &str) -> Result<Vec<u8>, AttachmentError> {
    // The engine refuses missing padding, stray bits and foreign characters: what is left is
    // canonical.
    match STANDARD.decode(text) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(AttachmentError::InvalidBase64 { index }),
    }
}

/// All attachments of a home.
#[derive(Debug)]
pub struct AttachmentStore {
    disk: Arc<dyn Disk>,
    objects: PathBuf,
    limits: AttachmentLimits,
    /// A collection must not take what is just being stored.
    changing: Mutex<()>,
}

impl AttachmentStore {
    /// The store in a folder, which is made with the first object.
    pub fn new(disk: Arc<dyn Disk>, folder: &Path, limits: AttachmentLimits) -> Self {
        Self {
            disk,
            objects: folder.join("objects"),
            limits,
            changing: Mutex::new(()),
        }
    }

    /// Looks at all images of a message without storing anything.
    ///
    /// # Errors
    /// The first thing that is wrong: with the message as a whole, with a declared type, with one
    /// image, in this order.
    pub fn admit(&self, images: &[NewImage<'_>]) -> Result<Vec<ImageRef>, AttachmentError> {
        let limits = &self.limits;
        if images.len() > limits.images {
            return Err(AttachmentError::TooManyImages {
                count: images.len(),
                limit: limits.images,
            });
        }
        let bytes = images.iter().map(|image| image.bytes.len() as u64).sum();
        if bytes > limits.total_bytes {
            return Err(AttachmentError::ImagesTooLarge {
                bytes,
                limit: limits.total_bytes,
            });
        }
        let declared: Vec<MediaType> = images
            .iter()
            .enumerate()
            .map(|(index, image)| {
                MediaType::from_name(image.media_type).ok_or_else(|| {
                    AttachmentError::UnsupportedType {
                        index,
                        media_type: image.media_type.to_owned(),
                    }
                })
            })
            .collect::<Result<_, _>>()?;
        let members = images.iter().zip(declared).enumerate();
        members
            .map(|(index, (image, declared))| self.admit_one(index, image, declared))
            .collect()
    }

    fn admit_one(
        &self,
        index: usize,
        image: &NewImage<'_>,
        declared: MediaType,
    ) -> Result<ImageRef, AttachmentError> {
        let limits = &self.limits;
        let bytes = image.bytes.len() as u64;
        if bytes > limits.image_bytes {
            return Err(AttachmentError::ImageTooLarge {
                index,
                bytes,
                limit: limits.image_bytes,
            });
        }
        let invalid = AttachmentError::InvalidImage { index };
        let found = MediaType::sniff(image.bytes).ok_or_else(|| invalid.clone())?;
        if found != declared {
            return Err(AttachmentError::TypeMismatch {
                index,
                declared: declared.as_str(),
                found: found.as_str(),
            });
        }
        let (width, height) = image::dimensions(image.bytes).ok_or_else(|| invalid.clone())?;
        let pixels = width.saturating_mul(height);
        if pixels > limits.pixels {
            return Err(AttachmentError::TooManyPixels {
                index,
                pixels,
                limit: limits.pixels,
            });
        }
        let side = width.max(height);
        if side > limits.side {
            return Err(AttachmentError::SideTooLong {
                index,
                side,
                limit: limits.side,
            });
        }
        if !image::is_whole(image.bytes, found) {
            return Err(invalid);
        }
        Ok(ImageRef {
            attachment_id: AttachmentId::of(image.bytes),
            media_type: found,
            bytes,
            width,
            height,
            name: image.name.map(str::to_owned),
        })
    }

    /// Stores all images of a message, or says why none is referred to.
    ///
    /// All are looked at before the first is written; they are written in their order. After a
    /// failed write some objects may lie on disk: storing the same images again is the way on, and
    /// otherwise [`AttachmentStore::collect_garbage`] takes them.
    ///
    /// # Errors
    /// As [`AttachmentStore::admit`], or when the disk refuses.
    pub fn store(&self, images: &[NewImage<'_>]) -> Result<Vec<ImageRef>, AttachmentError> {
        let refs = self.admit(images)?;
        let _changing = self.lock();
        for (image, reference) in images.iter().zip(&refs) {
            self.write(&reference.attachment_id, image.bytes)
                .map_err(|e| AttachmentError::WriteFailed(e.to_string()))?;
        }
        Ok(refs)
    }

    /// Reads an attachment and checks it against its id.
    ///
    /// # Errors
    /// When it is not there, not readable, or not what was stored.
    pub fn read(&self, id: &AttachmentId) -> Result<Vec<u8>, AttachmentError> {
        let bytes = self.content(&self.path(id)).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => AttachmentError::NotFound(id.clone()),
            _ => AttachmentError::ReadFailed(e.to_string()),
        })?;
        if AttachmentId::of(&bytes) != *id {
            return Err(AttachmentError::Corrupt(id.clone()));
        }
        Ok(bytes)
    }

    /// Removes every object that is not in `referenced`, and what interrupted writes left.
    ///
    /// The set must hold what is referred to by all logs, and what was stored for a message that is
    /// not logged yet.
    ///
    /// # Errors
    /// When a folder or object cannot be listed or removed; what went before is gone.
    pub fn collect_garbage(
        &self,
        referenced: &HashSet<AttachmentId>,
    ) -> Result<Collected, AttachmentError> {
        let _changing = self.lock();
        let mut collected = Collected::default();
        let failed = |e: io::Error| AttachmentError::WriteFailed(e.to_string());
        let prefixes = match self.disk.list(&self.objects) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(collected),
            listed => listed.map_err(failed)?,
        };
        for prefix in prefixes.iter().filter(|entry| entry.is_folder) {
            let folder = self.objects.join(&prefix.name);
            for entry in self.disk.list(&folder).map_err(failed)? {
                let id = AttachmentId::parse(&format!("{SCHEME}{}", entry.name));
                match id {
                    Ok(id) if referenced.contains(&id) => collected.kept += 1,
                    Ok(_) => {
                        let path = folder.join(&entry.name);
                        self.disk.remove_file(&path).map_err(failed)?;
                        collected.removed += 1;
                    }
                    Err(_) if entry.name.ends_with(TEMPORARY) => {
                        let path = folder.join(&entry.name);
                        self.disk.remove_file(&path).map_err(failed)?;
                    }
                    // Not ours.
                    Err(_) => {}
                }
            }
        }
        Ok(collected)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &AttachmentId) -> PathBuf {
        let hex = id.hex();
        let prefix = hex.get(..2).unwrap_or_default();
        self.objects.join(prefix).join(hex)
    }

    fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        let reader = self.disk.open_reader(path)?;
        let size = usize::try_from(reader.stat()?.size).map_err(io::Error::other)?;
        reader.read_at(0, size)
    }

    fn write(&self, id: &AttachmentId, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(id);
        let folder = path.parent().unwrap_or(&self.objects);
        make_folders(self.disk.as_ref(), folder).map_err(io::Error::other)?;
        match self.content(&path) {
            Ok(there) if there == bytes => {
                // Whoever wrote it may have died before it was durable.
                self.disk.open_file(&path)?.sync()?;
                return self.disk.sync_folder(folder);
            }
            // Damaged: what is in hand is better.
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let nonce = nonce.get(..12).unwrap_or("0");
        let temporary = folder.join(format!("{}.{nonce}{TEMPORARY}", id.hex()));
        let written = (|| {
            let mut file = self.disk.create_file(&temporary)?;
            file.write_at(0, bytes)?;
            file.sync()?;
            self.disk.rename(&temporary, &path)
        })();
        if written.is_err() {
            // A left-over goes with the next collection.
            drop(self.disk.remove_file(&temporary));
        }
        written?;
        self.disk.sync_folder(folder)
    }
}
