//! How attachments are refused, and how keeping them fails.

use super::AttachmentId;

/// Why an attachment was refused or could not be kept or read (`controller.md` 4.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// More images than a message may have.
    #[error("{count} images; a message may have {limit}")]
    TooManyImages {
        /// How many came.
        count: usize,
        /// How many may.
        limit: usize,
    },
    /// All images together are too large.
    #[error("{bytes} bytes of images; a message may have {limit}")]
    ImagesTooLarge {
        /// Their bytes.
        bytes: u64,
        /// How many may be.
        limit: u64,
    },
    /// One image is too large.
    #[error("image {index}: {bytes} bytes; an image may have {limit}")]
    ImageTooLarge {
        /// Which, from zero.
        index: usize,
        /// Its bytes.
        bytes: u64,
        /// How many may be.
        limit: u64,
    },
    /// Too many pixels.
    #[error("image {index}: {pixels} pixels; an image may have {limit}")]
    TooManyPixels {
        /// Which, from zero.
        index: usize,
        /// Its pixels.
        pixels: u64,
        /// How many may be.
        limit: u64,
    },
    /// Too wide or too high.
    #[error("image {index}: {side} pixels long; a side may have {limit}")]
    SideTooLong {
        /// Which, from zero.
        index: usize,
        /// Its longer side.
        side: u64,
        /// How long it may be.
        limit: u64,
    },
    /// A media type that is not taken.
    #[error("image {index}: media type {media_type:?} is not one of png, jpeg, webp, gif")]
    UnsupportedType {
        /// Which, from zero.
        index: usize,
        /// What it was declared as.
        media_type: String,
    },
    /// The bytes are an image of another type.
    #[error("image {index}: declared as {declared}, but it is {found}")]
    TypeMismatch {
        /// Which, from zero.
        index: usize,
        /// What it was declared as.
        declared: &'static str,
        /// What its bytes are.
        found: &'static str,
    },
    /// The bytes are no whole image.
    #[error("image {index}: not a whole image")]
    InvalidImage {
        /// Which, from zero.
        index: usize,
    },
    /// The text is not canonical base64, or empty.
    #[error("image {index}: not canonical base64, or empty")]
    InvalidBase64 {
        /// Which, from zero.
        index: usize,
    },
    /// The text is no attachment id.
    #[error("not an attachment id: {0:?}")]
    InvalidRef(String),
    /// No attachment of that id.
    #[error("no attachment {0}")]
    NotFound(AttachmentId),
    /// Its bytes are not those it was stored with.
    #[error("attachment {0} is damaged on disk")]
    Corrupt(AttachmentId),
    /// It could not be stored.
    #[error("attachment could not be stored: {0}")]
    WriteFailed(String),
    /// It could not be read.
    #[error("attachment could not be read: {0}")]
    ReadFailed(String),
}

impl AttachmentError {
    /// The code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooManyImages { .. } => "TOO_MANY_IMAGES",
            Self::ImagesTooLarge { .. } => "IMAGES_TOO_LARGE",
            Self::ImageTooLarge { .. } => "IMAGE_TOO_LARGE",
            Self::TooManyPixels { .. } => "IMAGE_TOO_MANY_PIXELS",
            Self::SideTooLong { .. } => "IMAGE_DIMENSION_TOO_LARGE",
            Self::UnsupportedType { .. } => "UNSUPPORTED_IMAGE_TYPE",
            Self::TypeMismatch { .. } => "IMAGE_TYPE_MISMATCH",
            Self::InvalidImage { .. } => "INVALID_IMAGE",
            Self::InvalidBase64 { .. } => "INVALID_IMAGE_BASE64",
            Self::InvalidRef(_) => "INVALID_ATTACHMENT_REF",
            Self::NotFound(_) => "ATTACHMENT_NOT_FOUND",
            Self::Corrupt(_) => "ATTACHMENT_CORRUPT",
            Self::WriteFailed(_) => "ATTACHMENT_WRITE_FAILED",
            Self::ReadFailed(_) => "ATTACHMENT_READ_FAILED",
        }
    }

    /// Whether whoever sent the image can do something about it.
    pub const fn is_correctable(&self) -> bool {
        !matches!(
            self,
            Self::InvalidRef(_)
                | Self::NotFound(_)
                | Self::Corrupt(_)
                | Self::WriteFailed(_)
                | Self::ReadFailed(_)
        )
    }
}
