package memory

import "encoding/binary"

// PackedLen returns the size in bytes of n packed elements of 2, 4 or 6 bits: ⌈n·bits/8⌉.
func PackedLen(n, bits int) int { return n/8*bits + (n%8*bits+7)/8 }

// UnpackUint unpacks len(dst) elements of 2, 4 or 6 bits from src to one byte each, zero-extended.
// The elements form a stream of bits that begins at the lowest bit of the first byte; four elements
// of 6 bits take three bytes.
func UnpackUint(dst []uint8, src []byte, bits int) {
	src = src[:PackedLen(len(dst), bits)]
	done := 0
	switch bits {
	case 2:
		done = len(dst) &^ 3
		d := dst[:done]
		for i, b := range src[:done/4] {
			d[4*i], d[4*i+1], d[4*i+2], d[4*i+3] = b&3, b>>2&3, b>>4&3, b>>6
		}
	case 4:
		done = len(dst) &^ 1
		d := dst[:done]
		for i, b := range src[:done/2] {
			d[2*i], d[2*i+1] = b&15, b>>4
		}
	case 6:
		done = len(dst) &^ 3
		for d, s := dst[:done], src; len(d) >= 4; d, s = d[4:], s[3:] {
			d[0], d[1], d[2], d[3] = s[0]&63, s[0]>>6|s[1]&15<<2, s[1]>>4|s[2]&3<<4, s[2]>>2
		}
	}
	for i := done; i < len(dst); i++ {
		dst[i] = PackedAt(src, i, bits)
	}
}

// PackedAt returns element i of a packed stream.
func PackedAt(src []byte, i, bits int) uint8 {
	at, shift := i*bits/8, i*bits%8
	v := src[at] >> shift
	if shift+bits > 8 {
		v |= src[at+1] << (8 - shift)
	}
	return v & (1<<bits - 1)
}

// SetPacked sets element i of a packed stream to the low bits of v.
func SetPacked(dst []byte, i, bits int, v uint8) {
	at, shift, mask := i*bits/8, i*bits%8, uint8(1)<<bits-1
	v &= mask
	dst[at] = dst[at]&^(mask<<shift) | v<<shift
	if shift+bits > 8 {
		dst[at+1] = dst[at+1]&^(mask>>(8-shift)) | v>>(8-shift)
	}
}

// UnpackInt unpacks len(dst) elements of 2, 4 or 6 bits from src to one byte each, sign-extended.
func UnpackInt(dst []int8, src []byte, bits int) {
	UnpackUint(AsBytes(dst), src, bits)
	sign := int8(1) << (bits - 1)
	for i, v := range dst {
		dst[i] = (v ^ sign) - sign
	}
}

// PackUint packs the low 2, 4 or 6 bits of each byte of src into dst, in the layout of
// [UnpackUint], and pads the last byte with zeros. dst must hold [PackedLen](len(src), bits) bytes.
func PackUint(dst []byte, src []uint8, bits int) {
	dst = dst[:PackedLen(len(src), bits)]
	switch bits {
	case 2:
		for ; len(src) >= 8; dst, src = dst[2:], src[8:] {
			x := binary.LittleEndian.Uint64(src) & 0x0303030303030303
			x = (x | x>>6) & 0x000f000f000f000f
			x = (x | x>>12) & 0x000000ff000000ff
			binary.LittleEndian.PutUint16(dst, uint16(x|x>>24))
		}
	case 4:
		for ; len(src) >= 8; dst, src = dst[4:], src[8:] {
			x := binary.LittleEndian.Uint64(src) & 0x0f0f0f0f0f0f0f0f
			x = (x | x>>4) & 0x00ff00ff00ff00ff
			x = (x | x>>8) & 0x0000ffff0000ffff
			binary.LittleEndian.PutUint32(dst, uint32(x|x>>16))
		}
	case 6:
		for ; len(src) >= 4; dst, src = dst[3:], src[4:] {
			dst[0] = src[0]&63 | src[1]<<6
			dst[1] = src[1]>>2&15 | src[2]<<4
			dst[2] = src[2]>>4&3 | src[3]<<2
		}
	}
	clear(dst)
	for i, v := range src {
		SetPacked(dst, i, bits, v)
	}
}
