package picture

import (
	"compress/zlib"
	"errors"
	"fmt"
	"io"
)

// tiff is the first picture of a TIFF file (TIFF 6.0, Aldus 1992, with the
// Deflate compression of its supplement): bilevel, gray, palette, RGB and CMYK
// in strips or tiles, plain or compressed with PackBits, LZW or Deflate.
type tiff struct {
	data    []byte
	big     bool
	tags    map[int][]int
	w, h    int
	depth   int // bits of a sample
	samples int // of a pixel
	colour  int // photometric interpretation
	tw, th  int // of a tile; strips are tiles of full width
	planar  bool
}

// The tags that matter.
const (
	tiffWidth       = 256
	tiffHeight      = 257
	tiffBits        = 258
	tiffCompression = 259
	tiffPhotometric = 262
	tiffOffsets     = 273
	tiffSamples     = 277
	tiffRows        = 278
	tiffCounts      = 279
	tiffPlanar      = 284
	tiffPredictor   = 317
	tiffColormap    = 320
	tiffTileWidth   = 322
	tiffTileHeight  = 323
	tiffTileOffsets = 324
	tiffTileCounts  = 325
	tiffFormat      = 339
)

var tiffUsed = map[int]bool{tiffWidth: true, tiffHeight: true, tiffBits: true, tiffCompression: true,
	tiffPhotometric: true, tiffOffsets: true, tiffSamples: true, tiffRows: true, tiffCounts: true, tiffPlanar: true,
	tiffPredictor: true, tiffColormap: true, tiffTileWidth: true, tiffTileHeight: true, tiffTileOffsets: true,
	tiffTileCounts: true, tiffFormat: true}

func readTIFF(data []byte) (*Header, error) {
	t := &tiff{data: data, big: data[0] == 'M', tags: map[int][]int{}}
	if err := t.readTags(); err != nil {
		return nil, err
	}
	t.w, t.h = t.tag(tiffWidth, 0), t.tag(tiffHeight, 0)
	t.samples, t.depth = t.tag(tiffSamples, 1), t.tag(tiffBits, 1)
	t.colour = t.tag(tiffPhotometric, 1)
	t.planar = t.tag(tiffPlanar, 1) == 2
	if t.w < 1 || t.h < 1 || t.w > maxSide || t.h > maxSide {
		return nil, fmt.Errorf("picture: TIFF of %d×%d pixels", t.w, t.h)
	}
	t.tw, t.th = t.w, min(t.tag(tiffRows, t.h), t.h)
	if t.tags[tiffTileWidth] != nil {
		t.tw, t.th = t.tag(tiffTileWidth, 0), t.tag(tiffTileHeight, 0)
	}
	least := map[int]int{0: 1, 1: 1, 2: 3, 3: 1, 5: 4}
	n, known := least[t.colour]
	switch {
	case t.tw < 1 || t.th < 1 || t.tw > t.w+4096 || t.th > t.h+4096:
		return nil, fmt.Errorf("picture: TIFF tiles of %d×%d pixels", t.tw, t.th)
	case !known || t.samples < n || t.samples > 16:
		return nil, fmt.Errorf("picture: TIFF of colour model %d with %d samples a pixel", t.colour, t.samples)
	case t.depth != 8 && t.depth != 16 && !(t.samples == 1 && (t.depth == 1 || t.depth == 2 || t.depth == 4)):
		return nil, fmt.Errorf("picture: TIFF of %d bits a sample", t.depth)
	case t.tag(tiffFormat, 1) != 1:
		return nil, errors.New("picture: TIFF samples are not unsigned integers")
	case t.colour == 3 && len(t.tags[tiffColormap]) < 3<<t.depth:
		return nil, errShort
	}
	for _, b := range t.tags[tiffBits] {
		if b != t.depth {
			return nil, errors.New("picture: TIFF samples of different widths")
		}
	}
	return &Header{Width: t.w, Height: t.h, Memory: int64(t.tileBytes()) * 2, decode: t.decode}, nil
}

// tag returns the first value of a tag.
func (t *tiff) tag(k, def int) int {
	if v := t.tags[k]; len(v) > 0 {
		return v[0]
	}
	return def
}

// readTags reads the first directory.
func (t *tiff) readTags() error {
	at := func(off int) *reader {
		if off < 0 || off > len(t.data) {
			return &reader{big: t.big, short: true}
		}
		return &reader{data: t.data[off:], big: t.big}
	}
	r := at(4)
	r = at(r.uint(4))
	total := 0
	for range r.uint(2) {
		tag, kind, n := r.uint(2), r.uint(2), r.uint(4)
		field := r.take(4)
		if r.short {
			return errShort
		}
		size := map[int]int{1: 1, 3: 2, 4: 4}[kind]
		if size == 0 || !tiffUsed[tag] || t.tags[tag] != nil {
			continue // nothing that a picture needs
		}
		if total += n; total > len(t.data) {
			return errShort // values that overlap could take memory without bound
		}
		v := &reader{data: field, big: t.big}
		if n*size > 4 {
			v = at((&reader{data: field, big: t.big}).uint(4))
		}
		if len(v.data) < n*size {
			return errShort
		}
		list := make([]int, n)
		for i := range list {
			list[i] = v.uint(size)
		}
		t.tags[tag] = list
	}
	if r.short {
		return errShort
	}
	return nil
}

// rowBytes is the size of a row of a tile.
func (t *tiff) rowBytes() int {
	n := t.samples
	if t.planar {
		n = 1
	}
	return (t.tw*n*t.depth + 7) / 8
}

func (t *tiff) tileBytes() int { return t.rowBytes() * t.th }

func (t *tiff) decode(dst []uint8, stop func() error) error {
	offsets, counts := t.tags[tiffOffsets], t.tags[tiffCounts]
	if t.tags[tiffTileWidth] != nil {
		offsets, counts = t.tags[tiffTileOffsets], t.tags[tiffTileCounts]
	}
	across, down := (t.w+t.tw-1)/t.tw, (t.h+t.th-1)/t.th
	planes := 1
	if t.planar {
		planes = t.samples
	}
	if len(offsets) < across*down*planes || len(counts) < across*down*planes {
		return errShort
	}
	buf := make([]byte, t.tileBytes())
	for p := range planes {
		for ty := range down {
			rows := min(t.th, t.h-ty*t.th)
			for tx := range across {
				if err := stop(); err != nil {
					return err
				}
				i := (p*down+ty)*across + tx
				off, n := offsets[i], counts[i]
				if off < 0 || n < 0 || off > len(t.data) || n > len(t.data)-off {
					return errShort
				}
				if err := t.expand(buf[:t.rowBytes()*rows], t.data[off:off+n]); err != nil {
					return err
				}
				t.place(dst, buf, p, tx*t.tw, ty*t.th, rows)
			}
		}
	}
	return nil
}

// expand decompresses a tile and undoes the prediction.
func (t *tiff) expand(dst, src []byte) error {
	var err error
	switch k := t.tag(tiffCompression, 1); k {
	case 1:
		if len(src) < len(dst) {
			return errShort
		}
		copy(dst, src)
	case 5:
		err = tiffLZW(dst, src)
	case 8, 32946:
		var z io.ReadCloser
		if z, err = zlib.NewReader(newReader(src)); err == nil {
			_, err = io.ReadFull(z, dst)
		}
	case 32773:
		err = packBits(dst, src)
	default:
		err = fmt.Errorf("picture: TIFF compression %d is not supported", k)
	}
	if err != nil || t.tag(tiffPredictor, 1) == 1 {
		return err
	}
	if t.tag(tiffPredictor, 1) != 2 || t.depth < 8 {
		return fmt.Errorf("picture: TIFF predictor %d for %d bits is not supported", t.tag(tiffPredictor, 1), t.depth)
	}
	step := t.samples
	if t.planar {
		step = 1
	}
	for row := dst; len(row) >= t.rowBytes(); row = row[t.rowBytes():] {
		if t.depth == 8 {
			for i := step; i < t.rowBytes(); i++ {
				row[i] += row[i-step]
			}
			continue
		}
		for i := 2 * step; i+1 < t.rowBytes(); i += 2 {
			t.put16(row[i:], t.get16(row[i:])+t.get16(row[i-2*step:]))
		}
	}
	return nil
}

func (t *tiff) get16(b []byte) uint16 {
	if t.big {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return uint16(b[1])<<8 | uint16(b[0])
}

func (t *tiff) put16(b []byte, v uint16) {
	if t.big {
		b[0], b[1] = byte(v>>8), byte(v)
	} else {
		b[0], b[1] = byte(v), byte(v>>8)
	}
}

// place writes the pixels of a tile whose corner is at (x0, y0).
func (t *tiff) place(dst []uint8, tile []byte, plane, x0, y0, rows int) {
	per := t.samples
	if t.planar {
		per = 1
	}
	for y := range rows {
		row := tile[y*t.rowBytes():]
		for x := range min(t.tw, t.w-x0) {
			d := dst[3*((y0+y)*t.w+x0+x):]
			if t.planar {
				if v := t.sample(row, x); t.samples == 1 || t.colour < 2 || t.colour == 3 {
					if plane == 0 {
						t.pixel(d, [4]int{v})
					}
				} else if plane < 3 {
					d[plane] = t.eight(v)
				}
				continue
			}
			var px [4]int
			for k := range min(per, 4) {
				px[k] = t.sample(row, x*per+k)
			}
			t.pixel(d, px)
		}
	}
}

// sample returns the i-th sample of a row.
func (t *tiff) sample(row []byte, i int) int {
	switch t.depth {
	case 8:
		return int(row[i])
	case 16:
		return int(t.get16(row[2*i:]))
	}
	per := 8 / t.depth
	return int(row[i/per] >> (8 - t.depth*(i%per+1)) & (1<<t.depth - 1))
}

// eight scales a sample to 8 bits.
func (t *tiff) eight(v int) uint8 {
	if t.depth == 16 {
		return uint8(v >> 8)
	}
	return uint8(v * 255 / (1<<t.depth - 1))
}

// pixel writes one pixel by its colour model.
func (t *tiff) pixel(d []uint8, px [4]int) {
	d = d[:3]
	switch t.colour {
	case 2:
		d[0], d[1], d[2] = t.eight(px[0]), t.eight(px[1]), t.eight(px[2])
	case 3:
		m, n := t.tags[tiffColormap], 1<<t.depth
		d[0], d[1], d[2] = uint8(m[px[0]]>>8), uint8(m[n+px[0]]>>8), uint8(m[2*n+px[0]]>>8)
	case 5:
		k := 255 - int(t.eight(px[3]))
		for i := range 3 {
			d[i] = uint8((255 - int(t.eight(px[i]))) * k / 255)
		}
	default:
		v := t.eight(px[0])
		if t.colour == 0 {
			v = 255 - v
		}
		d[0], d[1], d[2] = v, v, v
	}
}

// packBits expands runs: n+1 bytes as they are for n ≥ 0, one byte 1−n times for
// n in [−127, −1].
func packBits(dst, src []byte) error {
	for len(dst) > 0 {
		if len(src) < 2 {
			return errShort
		}
		n := int(int8(src[0]))
		src = src[1:]
		switch {
		case n >= 0:
			if n++; n > len(src) {
				return errShort
			}
			k := copy(dst, src[:n])
			dst, src = dst[k:], src[n:]
		case n > -128:
			k := min(1-n, len(dst))
			for i := range k {
				dst[i] = src[0]
			}
			dst, src = dst[k:], src[1:]
		}
	}
	return nil
}

// tiffLZW expands TIFF's variant of LZW: codes from the high bits down, and one
// bit wider one code early.
func tiffLZW(dst, src []byte) error {
	const clearCode, endCode, maxCodes = 256, 257, 4096
	var prefix [maxCodes]uint16
	var suffix, first [maxCodes]byte
	var length [maxCodes]int
	for i := range 256 {
		suffix[i], first[i], length[i] = byte(i), byte(i), 1
	}
	next, width, prev := 258, 9, -1
	acc, have, pos := 0, 0, 0
	for n := 0; n < len(dst); {
		for have < width {
			if pos >= len(src) {
				return errShort
			}
			acc = acc<<8 | int(src[pos])
			pos++
			have += 8
		}
		have -= width
		code := acc >> have & (1<<width - 1)
		acc &= 1<<have - 1
		switch {
		case code == clearCode:
			next, width, prev = 258, 9, -1
			continue
		case code == endCode:
			return errShort
		case code > next || code == next && prev < 0 || code >= 258 && prev < 0:
			return errors.New("picture: invalid LZW code in a TIFF")
		}
		if prev >= 0 && next < maxCodes {
			prefix[next], first[next], length[next] = uint16(prev), first[prev], length[prev]+1
			suffix[next] = first[code]
			if code == next {
				suffix[next] = first[prev]
			}
			next++
		}
		if code >= next {
			return errors.New("picture: invalid LZW code in a TIFF")
		}
		end := n + length[code]
		for k, at := code, end-1; at >= n; at-- {
			if at < len(dst) {
				dst[at] = suffix[k]
			}
			k = int(prefix[k])
		}
		n, prev = end, code
		if next >= 1<<width-1 && width < 12 {
			width++
		}
	}
	return nil
}
