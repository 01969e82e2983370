//! The zstd container: a row of independent frames (`session.md` 2.5).
//!
//! The scan walks frame and block headers without decompressing anything, so that a torn last frame
//! is told apart from damage. Wrong magic and reserved bits are damage, also at the end.

use std::cell::Cell;
use std::ops::Range;

use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, get_error_name, get_frame_content_size};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const LEVEL: i32 = 3;
/// A frame that claims to hold more than this is refused: no writer of ours comes near it.
const MAX_FRAME_BYTES: usize = 1 << 30;
/// By how much a content of unknown size grows at least.
const GROWTH: usize = 64 * 1024;

/// What is wrong with the container, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frame at byte {offset}: {why}")]
pub(crate) struct FrameError {
    pub(crate) offset: usize,
    pub(crate) why: String,
}

/// The end of the frame that starts at `start`; `None` when the bytes run out before it.
pub(crate) fn frame_end(bytes: &[u8], start: usize) -> Result<Option<usize>, FrameError> {
    let fail = |why: &str| {
        Err(FrameError {
            offset: start,
            why: why.to_owned(),
        })
    };
    let rest = &bytes[start..];
    let magic = &rest[..rest.len().min(4)];
    if magic != &MAGIC[..magic.len()] {
        return fail("not a zstd frame");
    }
    let Some(&descriptor) = rest.get(4) else {
        return Ok(None);
    };
    if descriptor & 0x18 != 0 {
        return fail("reserved bits are set");
    }
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let checksum = if descriptor & 4 != 0 { 4 } else { 0 };
    let mut at = 5 + window + dictionary + content_size;
    loop {
        let Some(header) = rest.get(at..at + 3) else {
            return Ok(None);
        };
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let size = (header >> 3) as usize;
        at += 3 + match (header >> 1) & 3 {
            0 | 2 => size,
            1 => 1,
            _ => return fail("reserved block type"),
        };
        if at > rest.len() {
            return Ok(None);
        }
        if header & 1 == 1 {
            break;
        }
    }
    let end = at + checksum;
    Ok((end <= rest.len()).then_some(start + end))
}

/// Where a whole frame with whole lines lies within the bytes of what looks like a torn one.
///
/// A torn frame is the last thing in a file. One that seems to swallow whole frames is damaged: its
/// block sizes are wrong, and taking it for torn would hide what was committed behind it.
pub(crate) fn swallowed_frame(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        let rest = bytes.get(at..)?;
        at += rest.windows(MAGIC.len()).position(|four| four == MAGIC)?;
        if let Ok(Some(end)) = frame_end(bytes, at)
            && decode(bytes, &(at..end)).is_ok_and(|content| content.ends_with(b"\n"))
        {
            return Some(at);
        }
        at += 1;
    }
}

/// Compresses one frame, with its checksum.
pub(crate) fn encode(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(content)
}

/// A context that takes more memory than this is not kept: streamed frames with large windows.
const SPARE_BYTES: usize = 512 * 1024;

thread_local! {
    /// The context of the last decoder of this thread, for the next one.
    static SPARE: Cell<Option<DCtx<'static>>> = const { Cell::new(None) };
}

/// Decompresses one frame after the other. The context behind it is dear to make: a log of many tiny
/// frames shares one, and so do logs that are read one after the other.
pub(crate) struct Decoder {
    context: Option<DCtx<'static>>,
}

impl Drop for Decoder {
    fn drop(&mut self) {
        let spare = self.context.take();
        if let Some(context) = spare.filter(|context| context.sizeof() <= SPARE_BYTES) {
            // A thread that ends keeps nothing.
            let _kept: Result<(), _> = SPARE.try_with(|spare| spare.set(Some(context)));
        }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// A decoder that takes no memory before its first frame.
    pub(crate) const fn new() -> Self {
        Self { context: None }
    }

    fn context(&mut self) -> Result<&mut DCtx<'static>, String> {
        if self.context.is_none() {
            let spare = SPARE.try_with(Cell::take).ok().flatten();
            self.context = spare.or_else(DCtx::try_create);
        }
        self.context.as_mut().ok_or("no memory for it".to_owned())
    }

    /// Decompresses a structurally complete frame. What is wrong with it is said of byte 0.
    pub(crate) fn decode(&mut self, frame: &[u8]) -> Result<Vec<u8>, FrameError> {
        let fail = |why: String| FrameError { offset: 0, why };
        let wrong = |why: String| fail(format!("does not decompress: {why}"));
        let said = get_frame_content_size(frame).ok().flatten();
        let (content, complete) = match said {
            // Straight into a buffer of that size: it is as large as the content and not larger.
            Some(size) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                if size > MAX_FRAME_BYTES {
                    return Err(wrong("larger than any legal frame".to_owned()));
                }
                let mut content = Vec::with_capacity(size);
                self.context()
                    .and_then(|context| {
                        let result = context.decompress(&mut content, frame);
                        result.map_err(|code| get_error_name(code).to_owned())
                    })
                    .map_err(wrong)?;
                let complete = content.len() == size;
                (content, complete)
            }
            None => self.run(frame).map_err(wrong)?,
        };
        if complete {
            Ok(content)
        } else {
            Err(fail("ends before its content does".to_owned()))
        }
    }

    /// Decompresses until the frame or the input ends; says whether the frame did.
    fn run(&mut self, input: &[u8]) -> Result<(Vec<u8>, bool), String> {
        let context = self.context()?;
        let named = |code| get_error_name(code).to_owned();
        // An input that ended within a frame before must not be carried on.
        context
            .reset(zstd::zstd_safe::ResetDirective::SessionOnly)
            .map_err(named)?;
        let mut content = Vec::new();
        let mut source = InBuffer::around(input);
        loop {
            let before = content.len();
            if before == content.capacity() {
                content.reserve(GROWTH.max(before / 2));
            }
            let mut sink = OutBuffer::around_pos(&mut content, before);
            let hint = context
                .decompress_stream(&mut sink, &mut source)
                .map_err(named)?;
            if hint == 0 {
                return Ok((content, true));
            }
            if content.len() > MAX_FRAME_BYTES {
                return Err("larger than any legal frame".to_owned());
            }
            let stuck = content.len() == before && content.capacity() > before;
            if stuck && source.pos() == input.len() {
                return Ok((content, false));
            }
        }
    }
}

/// Decompresses a structurally complete frame.
pub(crate) fn decode(bytes: &[u8], frame: &Range<usize>) -> Result<Vec<u8>, FrameError> {
    let content = Decoder::new().decode(bytes.get(frame.clone()).unwrap_or_default());
    content.map_err(|mut error| {
        error.offset = frame.start;
        error
    })
}

/// Decompresses what there is of a torn frame; nothing when the decoder refuses it.
pub(crate) fn decode_torn(bytes: &[u8]) -> Vec<u8> {
    let content = Decoder::new().run(bytes);
    content.map(|(content, _)| content).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct FrameScan {
        frames: Vec<Range<usize>>,
        torn_start: Option<usize>,
    }

    fn scan(bytes: &[u8], limit: usize) -> Result<FrameScan, FrameError> {
        let mut found = FrameScan::default();
        let mut at = 0;
        while at < bytes.len() && found.frames.len() < limit {
            match frame_end(bytes, at)? {
                Some(end) => {
                    found.frames.push(at..end);
                    at = end;
                }
                None => {
                    found.torn_start = Some(at);
                    break;
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn every_cut_of_two_frames_is_one_complete_and_one_torn_frame() {
        let first = encode(b"hello\n").unwrap();
        let second = encode("world\n".repeat(1000).as_bytes()).unwrap();
        let both = [first.as_slice(), &second].concat();
        for cut in 0..=both.len() {
            let found = scan(&both[..cut], usize::MAX).unwrap();
            let complete = usize::from(cut >= first.len()) + usize::from(cut == both.len());
            assert_eq!(found.frames.len(), complete, "cut at {cut}");
            let torn = cut != 0 && cut != first.len() && cut != both.len();
            assert_eq!(found.torn_start.is_some(), torn, "cut at {cut}");
        }
        assert_eq!(decode(&both, &(0..first.len())).unwrap(), b"hello\n");
        assert_eq!(&both[..6], &[0x28, 0xB5, 0x2F, 0xFD, both[4], both[5]]);
        assert_ne!(both[4] & 4, 0);
    }

    #[test]
    fn a_frame_torn_in_its_checksum_gives_back_all_its_content() {
        let frame = encode("line\n".repeat(50).as_bytes()).unwrap();
        assert_eq!(
            decode_torn(&frame[..frame.len() - 1]),
            "line\n".repeat(50).as_bytes()
        );
    }

    #[test]
    fn foreign_magic_is_damage_also_at_the_end() {
        let mut bytes = encode(b"hello\n").unwrap();
        let end = bytes.len();
        bytes.extend_from_slice(b"xx");
        assert_eq!(scan(&bytes, usize::MAX).unwrap_err().offset, end);
        assert!(scan(&bytes, 1).is_ok());
    }

    #[test]
    fn a_flipped_byte_in_a_complete_frame_is_damage() {
        let mut bytes = encode("abc\n".repeat(100).as_bytes()).unwrap();
        let end = bytes.len();
        bytes[end - 1] ^= 1;
        assert!(decode(&bytes, &(0..end)).is_err());
    }
}
