// How elements that have no word of their own type are stored; those of 16 bits are float helpers.
fn f8_e4m3_from_bits(code: u32) -> f32 {
    let sign: u32 = (code & 0x80u) << 24u;
    let magnitude: u32 = code & 0x7fu;
    if (magnitude < 8u) { return bitcast<f32>(sign | bitcast<u32>(f32(magnitude) * 0.001953125)); }
    if (magnitude == 0x7fu) { return bitcast<f32>(sign | 0x7fc00000u); }
    return bitcast<f32>(sign | ((magnitude << 20u) + 0x3c000000u));
}
fn f8_e4m3_to_bits(x: f32) -> u32 {
    let b: u32 = bitcast<u32>(x);
    let sign: u32 = (b >> 24u) & 0x80u;
    let magnitude: u32 = b & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) { return sign | 0x7fu; }
    if (magnitude < 0x3c800000u) { return sign | u32(bitcast<f32>(magnitude) * 512.0); }
    return sign | ((magnitude - 0x3c000000u) >> 20u);
}
fn f8_e5m2_to_bits(x: f32) -> u32 {
    let b: u32 = bitcast<u32>(x);
    let sign: u32 = (b >> 24u) & 0x80u;
    let magnitude: u32 = b & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { return sign | 0x7fu; }
    if (magnitude == 0x7f800000u) { return sign | 0x7cu; }
    if (magnitude < 0x38800000u) { return sign | u32(bitcast<f32>(magnitude) * 65536.0); }
    return sign | ((magnitude - 0x38000000u) >> 21u);
}
fn i64_from_bits(w: vec2<u32>) -> i64 {
    return i64(u64(w.x) | (u64(w.y) << 32u));
}
fn u64_from_bits(w: vec2<u32>) -> u64 {
    return u64(w.x) | (u64(w.y) << 32u);
}
fn i64_to_bits(x: i64) -> vec2<u32> {
    return vec2<u32>(u32(u64(x) & 0xfffffffflu), u32(u64(x) >> 32u));
}
fn u64_to_bits(x: u64) -> vec2<u32> {
    return vec2<u32>(u32(x & 0xfffffffflu), u32(x >> 32u));
}
