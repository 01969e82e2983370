//! What an image's bytes say without decoding a pixel: its type, its size, whether it is whole.
//!
//! "Whole" means that the container can be walked from its first byte to its end mark and holds
//! image data; of PNG also that every chunk's checksum fits. The compressed pixels themselves are
//! not looked at: that would need a decoder of each format, which is a large surface to feed with
//! foreign bytes. A damaged picture inside a sound container is found by whoever decodes it.

/// The media types that may be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum MediaType {
    /// `image/png`
    #[serde(rename = "image/png")]
    Png,
    /// `image/jpeg`
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// `image/webp`
    #[serde(rename = "image/webp")]
    Webp,
    /// `image/gif`
    #[serde(rename = "image/gif")]
    Gif,
}

impl MediaType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Webp, Self::Gif];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
        }
    }

    /// The type of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// The type that the first bytes show.
    pub fn sniff(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some(Self::Png),
            [0xFF, 0xD8, 0xFF, ..] => Some(Self::Jpeg),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Self::Webp),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            _ => None,
        }
    }
}

/// Width and height in pixels, from the header; `None` where there is none to read.
pub(crate) fn dimensions(bytes: &[u8]) -> Option<(u64, u64)> {
    let size = imagesize::blob_size(bytes).ok()?;
    let (width, height) = (size.width as u64, size.height as u64);
    (width > 0 && height > 0).then_some((width, height))
}

/// Whether the container is whole and holds an image.
pub(crate) fn is_whole(bytes: &[u8], media_type: MediaType) -> bool {
    let walked = match media_type {
        MediaType::Png => png(bytes),
        MediaType::Jpeg => jpeg(bytes),
        MediaType::Webp => webp(bytes),
        MediaType::Gif => gif(bytes),
    };
    walked == Some(true)
}

/// Reads forward; `None` where the bytes run out.
struct Walk<'a>(&'a [u8]);

impl<'a> Walk<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

fn png(bytes: &[u8]) -> Option<bool> {
    let mut walk = Walk(bytes);
    walk.take(8)?;
    let (mut first, mut data) = (true, false);
    loop {
        let length = usize::try_from(u32::from_be_bytes(walk.array()?)).ok()?;
        let checked = walk.0.get(..length.checked_add(4)?)?;
        let kind: [u8; 4] = walk.array()?;
        walk.take(length)?;
        if crc32fast::hash(checked) != u32::from_be_bytes(walk.array()?) {
            return Some(false);
        }
        if first && (&kind != b"IHDR" || length != 13) {
            return Some(false);
        }
        first = false;
        data |= &kind == b"IDAT" && length > 0;
        if &kind == b"IEND" {
            return Some(data);
        }
    }
}

fn jpeg(bytes: &[u8]) -> Option<bool> {
    let mut walk = Walk(bytes);
    walk.take(2)?;
    let mut framed = false;
    loop {
        if walk.byte()? != 0xFF {
            return Some(false);
        }
        let mut marker = walk.byte()?;
        while marker == 0xFF {
            marker = walk.byte()?;
        }
        match marker {
            // An end before any scan holds no image.
            0xD9 => return Some(false),
            // Marks without a length.
            0x01 | 0xD0..=0xD7 => continue,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(walk.array()?));
        walk.take(length.checked_sub(2)?)?;
        // A frame header: all of the row but the tables that share it.
        framed |= matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC);
        if marker == 0xDA {
            // Entropy-coded data escapes its 0xFF, so the end mark is unambiguous.
            let end = walk.0.windows(2).position(|pair| pair == [0xFF, 0xD9]);
            return Some(framed && end.is_some_and(|at| at > 0));
        }
    }
}

fn webp(bytes: &[u8]) -> Option<bool> {
    let mut walk = Walk(bytes);
    walk.take(4)?;
    let size = usize::try_from(u32::from_le_bytes(walk.array()?)).ok()?;
    let mut body = Walk(walk.take(size)?);
    body.take(4)?;
    let mut image = false;
    while !body.0.is_empty() {
        let kind: [u8; 4] = body.array()?;
        let length = usize::try_from(u32::from_le_bytes(body.array()?)).ok()?;
        body.take(length)?;
        if length % 2 == 1 && !body.0.is_empty() {
            body.take(1)?;
        }
        image |= matches!(&kind, b"VP8 " | b"VP8L" | b"ANMF") && length > 0;
    }
    Some(image)
}

fn gif(bytes: &[u8]) -> Option<bool> {
    fn colours(walk: &mut Walk<'_>, flags: u8) -> Option<()> {
        if flags & 0x80 != 0 {
            walk.take(3 << ((flags & 7) + 1))?;
        }
        Some(())
    }
    fn blocks(walk: &mut Walk<'_>) -> Option<usize> {
        let mut total = 0;
        loop {
            let length = usize::from(walk.byte()?);
            if length == 0 {
                return Some(total);
            }
            walk.take(length)?;
            total += length;
        }
    }
    let mut walk = Walk(bytes);
    walk.take(10)?;
    let flags = walk.byte()?;
    walk.take(2)?;
    colours(&mut walk, flags)?;
    let mut image = false;
    loop {
        match walk.byte()? {
            0x3B => return Some(image),
            0x21 => {
                walk.byte()?;
                blocks(&mut walk)?;
            }
            0x2C => {
                walk.take(8)?;
                let flags = walk.byte()?;
                colours(&mut walk, flags)?;
                walk.byte()?;
                image |= blocks(&mut walk)? > 0;
            }
            _ => return Some(false),
        }
    }
}
