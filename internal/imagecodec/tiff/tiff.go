// Package tiff registers TIFF with imagecodec. It decodes the first image of a file
// (TIFF 6.0, Aldus 1992, with the Deflate compression of its supplement): bilevel,
// gray, palette, RGB and CMYK in strips or tiles, chunky or planar, uncompressed or
// compressed with PackBits, LZW or Deflate.
package tiff

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() {
	imagecodec.RegisterFormat("II*\x00", readTIFF)
	imagecodec.RegisterFormat("MM\x00*", readTIFF)
}

// file is a TIFF file with the tags of its first image.
type file struct {
	data    []byte
	big     bool
	tags    map[int][]int
	w, h    int
	depth   int // bits per sample
	samples int // per pixel
	colour  int // photometric interpretation
	tw, th  int // size of a tile; a strip is a tile of full width
	planar  bool
}

// Tags that are read.
const (
	tagWidth       = 256
	tagHeight      = 257
	tagBits        = 258
	tagCompression = 259
	tagPhotometric = 262
	tagOffsets     = 273
	tagSamples     = 277
	tagRows        = 278
	tagCounts      = 279
	tagPlanar      = 284
	tagPredictor   = 317
	tagColormap    = 320
	tagTileWidth   = 322
	tagTileHeight  = 323
	tagTileOffsets = 324
	tagTileCounts  = 325
	tagFormat      = 339
)

var usedTags = map[int]bool{tagWidth: true, tagHeight: true, tagBits: true, tagCompression: true,
	tagPhotometric: true, tagOffsets: true, tagSamples: true, tagRows: true, tagCounts: true, tagPlanar: true,
	tagPredictor: true, tagColormap: true, tagTileWidth: true, tagTileHeight: true, tagTileOffsets: true,
	tagTileCounts: true, tagFormat: true}

func readTIFF(data []byte) (*imagecodec.Header, error) {
	t := &file{data: data, big: data[0] == 'M', tags: map[int][]int{}}
	if err := t.readTags(); err != nil {
		return nil, err
	}
	t.w, t.h = t.tag(tagWidth, 0), t.tag(tagHeight, 0)
	t.samples, t.depth = t.tag(tagSamples, 1), t.tag(tagBits, 1)
	t.colour = t.tag(tagPhotometric, 1)
	t.planar = t.tag(tagPlanar, 1) == 2
	if t.w < 1 || t.h < 1 || t.w > imagecodec.MaxSide || t.h > imagecodec.MaxSide {
		return nil, fmt.Errorf("tiff: image has %d×%d pixels", t.w, t.h)
	}
	t.tw, t.th = t.w, min(t.tag(tagRows, t.h), t.h)
	if t.tags[tagTileWidth] != nil {
		t.tw, t.th = t.tag(tagTileWidth, 0), t.tag(tagTileHeight, 0)
	}
	least := map[int]int{0: 1, 1: 1, 2: 3, 3: 1, 5: 4}
	n, known := least[t.colour]
	switch {
	case t.tw < 1 || t.th < 1 || t.tw > t.w+4096 || t.th > t.h+4096:
		return nil, fmt.Errorf("tiff: tiles have %d×%d pixels", t.tw, t.th)
	case !known || t.samples < n || t.samples > 16:
		return nil, fmt.Errorf("tiff: photometric interpretation %d with %d samples per pixel is not supported",
			t.colour, t.samples)
	case t.depth != 8 && t.depth != 16 && !(t.samples == 1 && (t.depth == 1 || t.depth == 2 || t.depth == 4)):
		return nil, fmt.Errorf("tiff: %d bits per sample are not supported", t.depth)
	case t.tag(tagFormat, 1) != 1:
		return nil, errors.New("tiff: samples must be unsigned integers")
	case t.colour == 3 && len(t.tags[tagColormap]) < 3<<t.depth:
		return nil, imagecodec.ErrTruncated
	}
	for _, b := range t.tags[tagBits] {
		if b != t.depth {
			return nil, errors.New("tiff: samples of different widths are not supported")
		}
	}
	return &imagecodec.Header{Width: t.w, Height: t.h, Memory: int64(t.tileBytes()) * 2, Pixels: t.decode}, nil
}

// tag returns the first value of a tag.
func (t *file) tag(k, def int) int {
	if v := t.tags[k]; len(v) > 0 {
		return v[0]
	}
	return def
}

// readTags reads the tags of the first directory.
func (t *file) readTags() error {
	at := func(off int) *imagecodec.Reader {
		if off < 0 || off > len(t.data) {
			return &imagecodec.Reader{BigEndian: t.big, Short: true}
		}
		return &imagecodec.Reader{Data: t.data[off:], BigEndian: t.big}
	}
	r := at(4)
	r = at(r.Uint(4))
	total := 0
	for range r.Uint(2) {
		tag, kind, n := r.Uint(2), r.Uint(2), r.Uint(4)
		field := r.Take(4)
		if r.Short {
			return imagecodec.ErrTruncated
		}
		size := map[int]int{1: 1, 3: 2, 4: 4}[kind]
		if size == 0 || !usedTags[tag] || t.tags[tag] != nil {
			continue // unused tag
		}
		if total += n; total > len(t.data) {
			return imagecodec.ErrTruncated // overlapping values would allocate without bound
		}
		v := &imagecodec.Reader{Data: field, BigEndian: t.big}
		if n*size > 4 {
			v = at((&imagecodec.Reader{Data: field, BigEndian: t.big}).Uint(4))
		}
		if len(v.Data) < n*size {
			return imagecodec.ErrTruncated
		}
		list := make([]int, n)
		for i := range list {
			list[i] = v.Uint(size)
		}
		t.tags[tag] = list
	}
	if r.Short {
		return imagecodec.ErrTruncated
	}
	return nil
}

// rowBytes returns the size of a row of a tile in bytes.
func (t *file) rowBytes() int {
	n := t.samples
	if t.planar {
		n = 1
	}
	return (t.tw*n*t.depth + 7) / 8
}

func (t *file) tileBytes() int { return t.rowBytes() * t.th }

func (t *file) decode(dst []uint8, stop func() error) error {
	offsets, counts := t.tags[tagOffsets], t.tags[tagCounts]
	if t.tags[tagTileWidth] != nil {
		offsets, counts = t.tags[tagTileOffsets], t.tags[tagTileCounts]
	}
	across, down := (t.w+t.tw-1)/t.tw, (t.h+t.th-1)/t.th
	planes := 1
	if t.planar {
		planes = t.samples
	}
	if len(offsets) < across*down*planes || len(counts) < across*down*planes {
		return imagecodec.ErrTruncated
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
					return imagecodec.ErrTruncated
				}
				if err := t.expand(buf[:t.rowBytes()*rows], t.data[off:off+n], stop); err != nil {
					return err
				}
				if err := t.place(dst, buf, p, tx*t.tw, ty*t.th, rows, stop); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// expand decompresses a tile and inverts the prediction.
func (t *file) expand(dst, src []byte, stop func() error) error {
	var err error
	switch k := t.tag(tagCompression, 1); k {
	case 1:
		if len(src) < len(dst) {
			return imagecodec.ErrTruncated
		}
		copy(dst, src)
	case 5:
		err = expandLZW(dst, src, stop)
	case 8, 32946:
		var z io.ReadCloser
		if z, err = zlib.NewReader(bytes.NewReader(src)); err == nil {
			_, err = io.ReadFull(&imagecodec.StopReader{Reader: z, Stop: stop}, dst)
		}
	case 32773:
		err = packBits(dst, src)
	default:
		err = fmt.Errorf("tiff: compression %d is not supported", k)
	}
	if err != nil || t.tag(tagPredictor, 1) == 1 {
		return err
	}
	if t.tag(tagPredictor, 1) != 2 || t.depth < 8 {
		return fmt.Errorf("tiff: predictor %d for %d bits is not supported", t.tag(tagPredictor, 1), t.depth)
	}
	step := t.samples
	if t.planar {
		step = 1
	}
	for row := dst; len(row) >= t.rowBytes(); row = row[t.rowBytes():] {
		if err := stop(); err != nil {
			return err
		}
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

func (t *file) get16(b []byte) uint16 {
	if t.big {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return uint16(b[1])<<8 | uint16(b[0])
}

func (t *file) put16(b []byte, v uint16) {
	if t.big {
		b[0], b[1] = byte(v>>8), byte(v)
	} else {
		b[0], b[1] = byte(v), byte(v>>8)
	}
}

// place writes the pixels of a tile with corner (x0, y0).
func (t *file) place(dst []uint8, tile []byte, plane, x0, y0, rows int, stop func() error) error {
	per := t.samples
	if t.planar {
		per = 1
	}
	for y := range rows {
		if err := stop(); err != nil {
			return err
		}
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
	return nil
}

// sample returns the i-th sample of a row.
func (t *file) sample(row []byte, i int) int {
	switch t.depth {
	case 8:
		return int(row[i])
	case 16:
		return int(t.get16(row[2*i:]))
	}
	per := 8 / t.depth
	return int(row[i/per] >> (8 - t.depth*(i%per+1)) & (1<<t.depth - 1))
}

// eight returns a sample scaled to 8 bits.
func (t *file) eight(v int) uint8 {
	if t.depth == 16 {
		return uint8(v >> 8)
	}
	return uint8(v * 255 / (1<<t.depth - 1))
}

// pixel converts one pixel by its photometric interpretation.
func (t *file) pixel(d []uint8, px [4]int) {
	d = d[:3]
	switch t.colour {
	case 2:
		d[0], d[1], d[2] = t.eight(px[0]), t.eight(px[1]), t.eight(px[2])
	case 3:
		m, n := t.tags[tagColormap], 1<<t.depth
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

// packBits decompresses PackBits: n ≥ 0 is followed by n+1 literal bytes, n in [−127, −1] by
// one byte that is repeated 1−n times.
func packBits(dst, src []byte) error {
	for len(dst) > 0 {
		if len(src) < 2 {
			return imagecodec.ErrTruncated
		}
		n := int(int8(src[0]))
		src = src[1:]
		switch {
		case n >= 0:
			if n++; n > len(src) {
				return imagecodec.ErrTruncated
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

// expandLZW decompresses TIFF's variant of LZW: codes start at the high bits, and the width
// grows one code earlier than in GIF.
func expandLZW(dst, src []byte, stop func() error) error {
	const clearCode, endCode, maxCodes = 256, 257, 4096
	var prefix [maxCodes]uint16
	var suffix, first [maxCodes]byte
	var length [maxCodes]int
	for i := range 256 {
		suffix[i], first[i], length[i] = byte(i), byte(i), 1
	}
	next, width, prev := 258, 9, -1
	acc, have, pos := 0, 0, 0
	for n, codes := 0, 0; n < len(dst); codes++ {
		if codes%4096 == 0 { // each is up to 4096 bytes
			if err := stop(); err != nil {
				return err
			}
		}
		for have < width {
			if pos >= len(src) {
				return imagecodec.ErrTruncated
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
			return imagecodec.ErrTruncated
		case code > next || code == next && prev < 0 || code >= 258 && prev < 0:
			return errors.New("tiff: invalid LZW code")
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
			return errors.New("tiff: invalid LZW code")
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
