package jpeg

import (
	"errors"
)

// huffman is a table of codes of up to 16 bits.
type huffman struct {
	fast   [256]uint16 // by the next 8 bits: length·256 + symbol, 0 for longer codes
	limit  [18]int32   // first code that is too large for a length, left-aligned to 16 bits
	offset [17]int32
	values []byte
	filled bool // fast is filled
}

// fill fills fast. Only scans do so: a header may have millions of tables.
func (h *huffman) fill() {
	if h.filled {
		return
	}
	h.filled = true
	for v := range int32(256) {
		for l := 1; l <= 8; l++ {
			if v<<8 < h.limit[l] {
				h.fast[v] = uint16(l)<<8 | uint16(h.values[v>>(8-l)+h.offset[l]])
				break
			}
		}
	}
}

func (j *jpegFile) readHuffman(b []byte) error {
	for len(b) > 0 {
		if len(b) < 17 || b[0]>>4 > 1 || b[0]&15 > 3 {
			return errors.New("jpeg: invalid Huffman table")
		}
		class, t := b[0]>>4, b[0]&15
		h := &huffman{}
		n, code := 0, int32(0)
		counts := b[1:17]
		for l := 1; l <= 16; l++ {
			h.offset[l] = int32(n) - code
			n += int(counts[l-1])
			if code += int32(counts[l-1]); code > 1<<l {
				return errors.New("jpeg: invalid Huffman table")
			}
			h.limit[l] = code << (16 - l)
			code <<= 1
		}
		h.limit[17] = 1 << 30
		if n > 256 || len(b) < 17+n {
			return errors.New("jpeg: invalid Huffman table")
		}
		h.values = b[17 : 17+n]
		if class == 0 {
			j.dc[t] = h
		} else {
			j.ac[t] = h
		}
		b = b[17+n:]
	}
	return nil
}

// fill buffers at least 48 bits. It appends zeros after the end of a scan.
func (j *jpegFile) fill() {
	for j.have <= 48 {
		v := uint64(0)
		switch {
		case j.marker:
		case len(j.data) == 0:
			j.marker = true
		case j.data[0] != 0xff:
			v, j.data = uint64(j.data[0]), j.data[1:]
		case len(j.data) > 1 && j.data[1] == 0:
			v, j.data = 0xff, j.data[2:]
		default:
			j.marker = true
		}
		j.bits |= v << (56 - j.have)
		j.have += 8
	}
}

func (j *jpegFile) take(n int) int {
	if n == 0 {
		return 0
	}
	if j.have < n {
		j.fill()
	}
	v := int(j.bits >> (64 - n))
	j.bits <<= n
	j.have -= n
	return v
}

// symbol reads a Huffman code.
func (j *jpegFile) symbol(h *huffman) (int, error) {
	if j.have < 16 {
		j.fill()
	}
	if f := h.fast[j.bits>>56]; f != 0 {
		n := int(f >> 8)
		j.bits <<= n
		j.have -= n
		return int(f & 255), nil
	}
	top := int32(j.bits >> 48)
	l := 1
	for top >= h.limit[l] {
		l++
	}
	if l > 16 {
		return 0, errors.New("jpeg: invalid Huffman code")
	}
	j.bits <<= l
	j.have -= l
	return int(h.values[top>>(16-l)+h.offset[l]]), nil
}

// signed reads a signed number of n bits (T.81, F.2.2.1).
func (j *jpegFile) signed(n int) int {
	v := j.take(n)
	if n > 0 && v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}
