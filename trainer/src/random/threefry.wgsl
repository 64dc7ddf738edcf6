fn threefry_rounds(word: vec2<u32>, rotations: vec4<u32>) -> vec2<u32> {
    var x = word.x;
    var y = word.y;
    x += y;
    y = ((y << rotations.x) | (y >> (32u - rotations.x))) ^ x;
    x += y;
    y = ((y << rotations.y) | (y >> (32u - rotations.y))) ^ x;
    x += y;
    y = ((y << rotations.z) | (y >> (32u - rotations.z))) ^ x;
    x += y;
    y = ((y << rotations.w) | (y >> (32u - rotations.w))) ^ x;
    return vec2<u32>(x, y);
}

// Two words for a key and a counter, those of `threefry2x32` on the host.
fn threefry2x32(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
    let third = key.x ^ key.y ^ 0x1bd11bdau;
    let even = vec4<u32>(13u, 15u, 26u, 6u);
    let odd = vec4<u32>(17u, 29u, 16u, 24u);
    var word = counter + key;
    word = threefry_rounds(word, even) + vec2<u32>(key.y, third + 1u);
    word = threefry_rounds(word, odd) + vec2<u32>(third, key.x + 2u);
    word = threefry_rounds(word, even) + vec2<u32>(key.x, key.y + 3u);
    word = threefry_rounds(word, odd) + vec2<u32>(key.y, third + 4u);
    return threefry_rounds(word, even) + vec2<u32>(third, key.x + 5u);
}

// Does dropout at this rate keep element `index` of the mask drawn at `site`?
fn keeps(key: vec2<u32>, site: u32, index: u32, rate: f32) -> bool {
    let word = threefry2x32(key, vec2<u32>(site, index)).x;
    // A product, since a power of two makes it exact; quotients need not be.
    return f32(word >> 8u) * 0x1p-24f >= rate;
}
