//! HTTP/2 by hand (RFC 9113), for peers that no library would write.

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_HEADERS: u8 = 4;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The preface and empty settings.
pub fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A setting, in a frame of its own.
pub fn setting(name: u16, value: u32) -> Vec<u8> {
    let payload = [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

/// HPACK: literal fields without indexing and with new names (RFC 7541, 6.2.2).
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        block.push(u8::try_from(name.len()).unwrap());
        block.extend(name.bytes());
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value.bytes());
    }
    block
}

/// The fields that begin a call.
pub fn call_fields(authority: &str, path: &str) -> Vec<u8> {
    fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ])
}

/// The frame that begins a call.
pub fn call(stream: u32, authority: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &call_fields(authority, path))
}
