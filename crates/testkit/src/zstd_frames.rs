//! Zstd frames of every legal shape, made by hand or with the library: what other writers may leave
//! in a log.
//!
//! Hand-made frames carry no checksum and store their blocks raw or run-length encoded, so that each
//! byte of the result is known.

use std::io::{self, Write as _};

/// The shape of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Compressed at once, with a checksum, without a content size.
    Streamed,
    /// Compressed at once, with content size and no checksum.
    Unchecked,
    /// Compressed, a block ended every so many bytes.
    Blocks(usize),
    /// By hand: raw blocks of so many bytes at most, with a window byte.
    Raw(usize),
    /// By hand: one segment, its content size in the header, raw blocks of so many bytes at most.
    SingleSegment(usize),
    /// By hand: raw blocks, but every run of at least eight equal bytes is a run-length block.
    RunLength,
}

impl Framing {
    /// Every shape, with small blocks.
    pub const ALL: [Self; 7] = [
        Self::Streamed,
        Self::Unchecked,
        Self::Blocks(64),
        Self::Raw(1 << 16),
        Self::Raw(100),
        Self::SingleSegment(90),
        Self::RunLength,
    ];

    /// One frame with this content.
    pub fn frame(self, content: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Streamed => streamed(content, content.len().max(1)),
            Self::Blocks(size) => streamed(content, size),
            Self::Unchecked => {
                let mut compressor = zstd::bulk::Compressor::new(1)?;
                compressor.include_checksum(false)?;
                compressor.compress(content)
            }
            Self::Raw(size) => {
                let mut out = header(0x00);
                // Window of 1 KiB times 2^11: 2 MiB.
                out.push(11 << 3);
                blocks(&mut out, content.chunks(size).map(Block::Raw).collect());
                Ok(out)
            }
            Self::SingleSegment(size) => {
                // Single segment, content size in four bytes.
                let mut out = header(0xA0);
                let length = u32::try_from(content.len()).map_err(io::Error::other)?;
                out.extend(length.to_le_bytes());
                blocks(&mut out, content.chunks(size).map(Block::Raw).collect());
                Ok(out)
            }
            Self::RunLength => {
                let mut out = header(0x00);
                out.push(11 << 3);
                blocks(&mut out, runs(content));
                Ok(out)
            }
        }
    }
}

fn streamed(content: &[u8], block: usize) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3)?;
    encoder.include_checksum(true)?;
    encoder.include_contentsize(false)?;
    for piece in content.chunks(block) {
        encoder.write_all(piece)?;
        encoder.flush()?;
    }
    encoder.finish()
}

fn header(descriptor: u8) -> Vec<u8> {
    vec![0x28, 0xB5, 0x2F, 0xFD, descriptor]
}

enum Block<'a> {
    Raw(&'a [u8]),
    Run(u8, usize),
}

fn blocks(out: &mut Vec<u8>, blocks: Vec<Block<'_>>) {
    let blocks = if blocks.is_empty() {
        vec![Block::Raw(&[])]
    } else {
        blocks
    };
    let last = blocks.len() - 1;
    for (number, block) in blocks.into_iter().enumerate() {
        let (kind, size) = match &block {
            Block::Raw(bytes) => (0, bytes.len()),
            Block::Run(_, count) => (1, *count),
        };
        let head = (size << 3) | (kind << 1) | usize::from(number == last);
        out.extend(head.to_le_bytes().iter().take(3));
        match block {
            Block::Raw(bytes) => out.extend(bytes),
            Block::Run(byte, _) => out.push(byte),
        }
    }
}

fn runs(content: &[u8]) -> Vec<Block<'_>> {
    const SHORTEST: usize = 8;
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(&byte) = content.get(at) {
        let length = content[at..].iter().take_while(|&&b| b == byte).count();
        if length >= SHORTEST {
            if start < at {
                found.push(Block::Raw(&content[start..at]));
            }
            found.push(Block::Run(byte, length));
            start = at + length;
        }
        at += length;
    }
    if start < content.len() {
        found.push(Block::Raw(&content[start..]));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Framing;

    #[test]
    fn the_library_decompresses_every_shape() {
        let content = format!("{}{}\n", "abc".repeat(200), "x".repeat(5000));
        for framing in Framing::ALL {
            for content in [content.as_bytes(), b"", b"\n"] {
                let frame = framing.frame(content).unwrap();
                let size = zstd::zstd_safe::find_frame_compressed_size(&frame).unwrap();
                assert_eq!(size, frame.len(), "{framing:?}");
                assert_eq!(
                    zstd::decode_all(frame.as_slice()).unwrap(),
                    content,
                    "{framing:?}"
                );
            }
        }
        let run = Framing::RunLength.frame(content.as_bytes()).unwrap();
        assert!(run.len() < 700, "the run is stored as one block");
    }
}
