//! Decompresses a layer. The format is detected by the first bytes, because media types are unreliable.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Error, at_end, damaged};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The largest window of a zstd frame, which the decoder holds in memory. RFC 8878 recommends to support
/// 8 MiB, and every tool stays below it by default.
const MAX_WINDOW_BYTES: u64 = 8 << 20;

/// The uncompressed tar stream of a layer.
pub(super) fn decompress<'a>(mut reader: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>, Error> {
    let start = reader.fill_buf().map_err(damaged)?;
    if start.is_empty() {
        return Err(Error::Damaged("the layer is empty".to_owned()));
    }
    // Seekable layers (eStargz, zstd:chunked) consist of several members or frames.
    Ok(if start.starts_with(GZIP) {
        Box::new(flate2::bufread::MultiGzDecoder::new(reader))
    } else if start.starts_with(ZSTD) || is_skippable(start) {
        Box::new(Frames {
            reader,
            decoder: FrameDecoder::new(),
            in_frame: false,
        })
    } else {
        Box::new(reader)
    })
}

/// Whether a zstd skippable frame starts here: `0x184D2A50` to `0x184D2A5F`, little endian.
fn is_skippable(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Reads consecutive zstd frames. The library decodes one frame.
struct Frames<R> {
    reader: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if self.in_frame {
                let count = self.read_frame(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
                self.in_frame = false;
            } else if at_end(&mut self.reader)? {
                break;
            } else {
                self.start_frame()?;
            }
        }
        Ok(0)
    }
}

impl<R: BufRead> Frames<R> {
    /// Decodes only enough blocks to fill the buffer, so that memory stays at one window and one block.
    fn read_frame(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() < buffer.len() && !self.decoder.is_finished() {
            let missing = buffer.len() - self.decoder.can_collect();
            let strategy = BlockDecodingStrategy::UptoBytes(missing);
            self.decoder
                .decode_blocks(&mut self.reader, strategy)
                .map_err(io::Error::other)?;
        }
        self.decoder.read(buffer)
    }

    /// Starts the next frame, or skips a skippable frame.
    fn start_frame(&mut self) -> io::Result<()> {
        let mut magic = [0; 4];
        self.reader.read_exact(&mut magic)?;
        if is_skippable(&magic) {
            let mut length = [0; 4];
            self.reader.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length);
            let mut metadata = (&mut self.reader).take(length.into());
            if io::copy(&mut metadata, &mut io::sink())? < u64::from(length) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            return Ok(());
        }
        let header = FrameHeader::read(magic, &mut self.reader)?;
        if header.window_bytes > MAX_WINDOW_BYTES {
            return Err(io::Error::other(format!(
                "a zstd frame needs a window of {} bytes, more than the limit of {MAX_WINDOW_BYTES}; \
                 compress the layer with a smaller window, or with gzip",
                header.window_bytes
            )));
        }
        self.decoder
            .reset(header.bytes.as_slice())
            .map_err(io::Error::other)?;
        self.in_frame = true;
        Ok(())
    }
}

/// The header of a zstd frame (RFC 8878, section 3.1.1.1). It is read here and not by the library, which
/// allocates whatever window the header asks for.
struct FrameHeader {
    bytes: Vec<u8>,
    window_bytes: u64,
}

impl FrameHeader {
    fn read(magic: [u8; 4], reader: &mut impl Read) -> io::Result<Self> {
        let mut descriptor = [0; 1];
        reader.read_exact(&mut descriptor)?;
        let [descriptor] = descriptor;
        let is_single_segment = descriptor & 0b10_0000 != 0;
        let dictionary_length = [0, 1, 2, 4][usize::from(descriptor & 0b11)];
        let size_length = match (descriptor >> 6, is_single_segment) {
            (0, false) => 0,
            (0, true) => 1,
            (flag, _) => 1 << flag,
        };
        let window_length = usize::from(!is_single_segment);
        let mut rest = vec![0; window_length + dictionary_length + size_length];
        reader.read_exact(&mut rest)?;
        let window_bytes = match rest.first() {
            Some(window) if !is_single_segment => {
                let base = 1u64 << (10 + (window >> 3));
                base + base / 8 * u64::from(window & 0b111)
            }
            // The window of a single segment is the whole content.
            _ => content_size(&rest[window_length + dictionary_length..]),
        };
        Ok(Self {
            bytes: [&magic[..], &[descriptor], &rest].concat(),
            window_bytes,
        })
    }
}

fn content_size(field: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..field.len()].copy_from_slice(field);
    let offset = if field.len() == 2 { 256 } else { 0 };
    u64::from_le_bytes(bytes).saturating_add(offset)
}
