//! How messages become bytes and bytes messages.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::{Buf, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// What `tonic_prost::ProstCodec` is, byte for byte and error for error, with
/// less to do for small messages: they are read as the slice that they are, and
/// no message is measured before it is written, as the buffer grows.
#[derive(Debug)]
pub struct MessageCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for MessageCodec<T, U> {
    fn default() -> Self {
        MessageCodec(PhantomData)
    }
}

impl<T, U> Codec for MessageCodec<T, U>
where
    T: Message + 'static,
    U: Message + Default + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = MessageEncoder<T>;
    type Decoder = MessageDecoder<U>;

    fn encoder(&mut self) -> MessageEncoder<T> {
        MessageEncoder(PhantomData)
    }

    fn decoder(&mut self) -> MessageDecoder<U> {
        MessageDecoder(PhantomData)
    }
}

/// Longer messages are read out of the buffer that they came in, whose bytes
/// fields then need no copy.
const SHORT: usize = 64 << 10;

/// Writes messages.
#[derive(Debug)]
pub struct MessageEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for MessageEncoder<T> {
    type Item = T;
    type Error = Status;

    #[inline]
    fn encode(&mut self, item: T, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode_raw(buf);
        Ok(())
    }
}

/// Reads messages.
#[derive(Debug)]
pub struct MessageDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for MessageDecoder<U> {
    type Item = U;
    type Error = Status;

    #[inline]
    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let whole = buf.chunk();
        let read = if whole.len() == buf.remaining() && whole.len() <= SHORT {
            let read = U::decode(Short(whole));
            buf.advance(buf.remaining());
            read
        } else {
            U::decode(buf)
        };
        // The code is that of gRPC's `statuscodes.md` for what can't be parsed.
        read.map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

/// A short message: a slice, of which bytes fields get a copy of their own at
/// once, and not through a buffer that could grow.
pub(super) struct Short<'a>(pub(super) &'a [u8]);

impl Buf for Short<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        self.0
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.0.advance(count);
    }

    /// Panics where there are fewer bytes, as every buffer does: callers look
    /// before they ask.
    #[inline]
    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        let copy = self.0.get(..len).map(Bytes::copy_from_slice);
        self.0.advance(len);
        copy.unwrap_or_default()
    }
}
