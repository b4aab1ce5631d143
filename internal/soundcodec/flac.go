package soundcodec

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// flacReader reads bits, the highest first. Its first error stays.
type flacReader struct {
	data  []byte
	at    int // in bits
	err   error
	block [8][]int64 // the samples of a frame by channel
}

// bits returns the next n bits, at most 32.
func (r *flacReader) bits(n int) uint32 {
	if r.at+n > 8*len(r.data) {
		if r.err == nil {
			r.err = io.ErrUnexpectedEOF
		}
		return 0
	}
	v := uint64(0)
	for i := r.at / 8; i*8 < r.at+n; i++ {
		v = v<<8 | uint64(r.data[i])
	}
	r.at += n
	return uint32(v >> (uint(-r.at) & 7) & (1<<n - 1))
}

// signed returns the next n bits as a number in two's complement. n is 1 to 33.
func (r *flacReader) signed(n int) int64 {
	v := int64(0)
	if n > 32 {
		v, n = int64(r.bits(n-32)), 32
		return (v<<63>>63)<<32 | int64(r.bits(n))
	}
	v = int64(r.bits(n))
	return v << (64 - n) >> (64 - n)
}

// unary returns the number of zeros before the next one.
func (r *flacReader) unary() uint32 {
	n := uint32(0)
	for r.at < 8*len(r.data) {
		rest := r.data[r.at/8] << (r.at & 7)
		if rest == 0 {
			skipped := 8 - r.at&7
			n, r.at = n+uint32(skipped), r.at+skipped
			continue
		}
		zeros := bits.LeadingZeros8(rest)
		r.at += zeros + 1
		return n + uint32(zeros)
	}
	if r.err == nil {
		r.err = io.ErrUnexpectedEOF
	}
	return 0
}

// fail keeps an error.
func (r *flacReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// FLAC decodes a FLAC file (RFC 9639). Checksums of frames must be right, and the file must have as
// many samples as it states. If it states no number, grow is called with up to four times as many,
// in steps that double.
func FLAC(data []byte, grow func(samples int) error) (*Sound, error) {
	r := &flacReader{data: data}
	if r.bits(32) != 0x664c6143 {
		return nil, errors.New("the file does not begin with fLaC")
	}
	var rate, channels, depth, stated int
	var declared uint64 // samples of a channel; 0: unknown
	for last, first := false, true; !last; first = false {
		last = r.bits(1) == 1
		kind, size := r.bits(7), int(r.bits(24))
		end := r.at + 8*size
		if r.err != nil || end > 8*len(data) {
			return nil, fmt.Errorf("metadata: %w", io.ErrUnexpectedEOF)
		}
		if first != (kind == 0) || first && size < 34 {
			return nil, fmt.Errorf("metadata of kind %d with %d bytes; want STREAMINFO first, and once", kind, size)
		}
		if first {
			r.at += 80 // sizes of blocks and frames
			rate, channels, depth = int(r.bits(20)), int(r.bits(3))+1, int(r.bits(5))+1
			declared = uint64(r.bits(4))<<32 | uint64(r.bits(32))
			stated = int(min(declared, uint64(1<<30/channels)))
		}
		r.at = end
	}
	if rate == 0 || depth < 4 {
		return nil, fmt.Errorf("the rate is %d Hz with %d bits, want a positive rate and 4 to 32 bits", rate, depth)
	}
	s := &Sound{Rate: rate, Channels: make([][]float32, channels)}
	total, room := 0, 0 // samples of a channel
	scale := 1 / float64(int64(1)<<(depth-1))
	for r.at < 8*len(data) {
		block := r.frame(channels, depth)
		if r.err != nil {
			return nil, fmt.Errorf("frame after sample %d: %w", total, r.err)
		}
		if total += len(block[0]); total > room {
			room = max(stated, total, 2*room)
			if err := grow(room * channels); err != nil {
				return nil, err
			}
			for c, old := range s.Channels {
				s.Channels[c] = append(make([]float32, 0, room), old...)
			}
		} else if err := grow(0); err != nil {
			return nil, err
		}
		for c, samples := range block {
			for _, v := range samples {
				s.Channels[c] = append(s.Channels[c], float32(float64(v)*scale))
			}
		}
	}
	if uint64(total) < declared {
		return nil, fmt.Errorf("the file ends after %d of %d samples: %w", total, declared, io.ErrUnexpectedEOF)
	}
	return s, nil
}

// frame returns the samples of the next frame by channel, until the next call.
func (r *flacReader) frame(channels, depth int) [][]int64 {
	begin := r.at / 8
	if sync := r.bits(15); sync != 0x7ffc {
		r.fail("the frame begins with %#x, want 0x7ffc", sync)
	}
	r.bits(1) // whether blocks differ in size
	sizeCode, rateCode, kind, depthCode := r.bits(4), r.bits(4), int(r.bits(4)), r.bits(3)
	r.bits(1)
	extra := bits.LeadingZeros8(^uint8(r.bits(8))) // of the frame's number, coded like UTF-8
	for range max(extra-1, 0) {
		r.bits(8)
	}
	var size int
	switch {
	case sizeCode == 1:
		size = 192
	case sizeCode >= 2 && sizeCode <= 5:
		size = 144 << sizeCode
	case sizeCode == 6:
		size = int(r.bits(8)) + 1
	case sizeCode == 7:
		size = int(r.bits(16)) + 1
	case sizeCode >= 8:
		size = 1 << sizeCode
	}
	switch rateCode {
	case 12:
		r.bits(8)
	case 13, 14:
		r.bits(16)
	}
	own := [8]int{depth, 8, 12, 0, 16, 20, 24, 32}[depthCode]
	r.bits(8) // CRC of the header, which the CRC of the frame includes
	stereo := kind >= 8 && kind <= 10
	if size == 0 || own != depth || kind > 10 || stereo && channels != 2 || !stereo && kind+1 != channels {
		r.fail("block of %d samples, %d bits, channels %d; the file has %d channels of %d bits", size, own, kind,
			channels, depth)
	}
	block := r.block[:channels]
	for c := range block {
		bits := depth
		if kind == 8 && c == 1 || kind == 9 && c == 0 || kind == 10 && c == 1 {
			bits++ // a difference
		}
		if r.err == nil {
			block[c] = r.subframe(block[c], size, bits)
		}
	}
	r.at = (r.at + 7) &^ 7
	if r.err != nil {
		return nil
	}
	end := r.at / 8
	if sum := uint32(crc16(r.data[begin:end])); sum != r.bits(16) {
		r.fail("the checksum is wrong")
		return nil
	}
	if stereo {
		a, b := block[0], block[1]
		for i := range a {
			switch kind {
			case 8: // left, left − right
				b[i] = a[i] - b[i]
			case 9: // left − right, right
				a[i] += b[i]
			case 10: // ⌊(left + right)/2⌋, left − right
				mid := a[i]<<1 | b[i]&1
				a[i], b[i] = (mid+b[i])>>1, (mid-b[i])>>1
			}
		}
	}
	return block
}

// subframe returns the samples of a channel, in the memory of x if it is enough.
func (r *flacReader) subframe(x []int64, size, depth int) []int64 {
	if r.bits(1) != 0 {
		r.fail("a subframe begins with 1")
	}
	kind, wasted := int(r.bits(6)), 0
	if r.bits(1) == 1 {
		wasted = int(r.unary()) + 1
	}
	if wasted >= depth {
		r.fail("%d of %d bits are wasted", wasted, depth)
		return nil
	}
	depth -= wasted
	if kind == 1 && r.at+size*depth > 8*len(r.data) {
		r.fail("%w", io.ErrUnexpectedEOF)
	}
	if r.err != nil {
		return nil
	}
	x = slices.Grow(x[:0], size)[:size]
	clear(x)
	switch {
	case kind == 0:
		v := r.signed(depth)
		for i := range x {
			x[i] = v
		}
	case kind == 1:
		for i := range x {
			x[i] = r.signed(depth)
		}
	case kind >= 8 && kind <= 12:
		fixed := [][]int64{{}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}}
		r.predicted(x, depth, kind-8, func() ([]int64, int) { return fixed[kind-8], 0 })
	case kind >= 32:
		r.predicted(x, depth, kind-31, func() ([]int64, int) {
			precision := int(r.bits(4)) + 1
			shift := int(r.signed(5))
			if precision == 16 || shift < 0 {
				r.fail("predictor of %d bits with shift %d, want at most 15 and at least 0", precision, shift)
				return nil, 0
			}
			c := make([]int64, kind-31)
			for i := range c {
				c[i] = r.signed(precision)
			}
			return c, shift
		})
	default:
		r.fail("subframe of the reserved kind %d", kind)
	}
	for i := range x {
		x[i] <<= wasted
	}
	return x
}

// predicted reads the first samples, a linear predictor, and what the others differ from it.
func (r *flacReader) predicted(x []int64, depth, order int, predictor func() ([]int64, int)) {
	if order > len(x) {
		r.fail("predictor of %d samples in a block of %d", order, len(x))
		return
	}
	for i := range order {
		x[i] = r.signed(depth)
	}
	weights, shift := predictor()
	width, escape := 4, uint32(15)
	switch r.bits(2) {
	case 0:
	case 1:
		width, escape = 5, 31
	default:
		r.fail("residual of a reserved method")
	}
	parts := 1 << r.bits(4)
	part := len(x) / parts
	if len(x)%parts != 0 || part < order {
		r.fail("%d partitions of a block of %d samples after %d", parts, len(x), order)
	}
	for p := 0; p < parts && r.err == nil; p++ {
		k, raw := r.bits(width), -1
		if k == escape {
			raw = int(r.bits(5))
		}
		for i := max(p*part, order); i < (p+1)*part && r.err == nil; i++ {
			switch {
			case raw > 0:
				x[i] = r.signed(raw)
			case raw < 0:
				v := uint64(r.unary())<<k | uint64(r.bits(int(k)))
				x[i] = int64(v>>1) ^ -int64(v&1)
			}
			sum := int64(0)
			for j, w := range weights {
				sum += w * x[i-1-j]
			}
			x[i] += sum >> shift
		}
	}
}

// crc16 returns the checksum of a frame: x¹⁶ + x¹⁵ + x² + 1, from 0.
func crc16(data []byte) uint16 {
	sum := uint16(0)
	for _, b := range data {
		sum = sum<<8 ^ flacTable[byte(sum>>8)^b]
	}
	return sum
}

var flacTable = func() (t [256]uint16) {
	for i := range t {
		v := uint16(i) << 8
		for range 8 {
			if v&0x8000 != 0 {
				v = v<<1 ^ 0x8005
			} else {
				v <<= 1
			}
		}
		t[i] = v
	}
	return t
}()
