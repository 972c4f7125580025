//! Decompresses a layer. The format is detected by the first bytes, because media types are unreliable.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Error, at_end, damaged};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

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
        match self.decoder.reset(&mut self.reader) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let mut metadata = (&mut self.reader).take(length.into());
                if io::copy(&mut metadata, &mut io::sink())? < u64::from(length) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }
}
