//! The zstd container: a row of independent frames (`session.md` 2.5).
//!
//! The scan walks frame and block headers without decompressing anything, so that a torn last frame
//! is told apart from damage. Wrong magic and reserved bits are damage, also at the end.

use std::ops::Range;

use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const LEVEL: i32 = 3;
/// A frame that claims to hold more than this is refused: no writer of ours comes near it.
const MAX_FRAME_BYTES: usize = 1 << 30;

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

/// Decompresses a structurally complete frame.
pub(crate) fn decode(bytes: &[u8], frame: &Range<usize>) -> Result<Vec<u8>, FrameError> {
    let fail = |why: String| FrameError {
        offset: frame.start,
        why,
    };
    let (content, complete) =
        run(&bytes[frame.clone()]).map_err(|e| fail(format!("does not decompress: {e}")))?;
    if complete {
        Ok(content)
    } else {
        Err(fail("ends before its content does".to_owned()))
    }
}

/// Decompresses what there is of a torn frame; nothing when the decoder refuses it.
pub(crate) fn decode_torn(bytes: &[u8]) -> Vec<u8> {
    run(bytes).map(|(content, _)| content).unwrap_or_default()
}

/// Decompresses until the frame or the input ends; says whether the frame did.
fn run(input: &[u8]) -> std::io::Result<(Vec<u8>, bool)> {
    let mut decoder = Decoder::new()?;
    let mut content = Vec::new();
    let mut buffer = vec![0; 128 * 1024];
    let mut source = InBuffer::around(input);
    loop {
        let mut sink = OutBuffer::around(buffer.as_mut_slice());
        let hint = decoder.run(&mut source, &mut sink)?;
        let produced = sink.as_slice();
        content.extend_from_slice(produced);
        if hint == 0 {
            return Ok((content, true));
        }
        if content.len() > MAX_FRAME_BYTES {
            return Err(std::io::Error::other("larger than any legal frame"));
        }
        if produced.is_empty() && source.pos() == input.len() {
            return Ok((content, false));
        }
    }
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
