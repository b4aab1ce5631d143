package soundcodec

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// mp3Writer writes bits.
type mp3Writer struct {
	data []byte
	n    int
}

func (w *mp3Writer) bits(v, n int) {
	for ; n > 0; n-- {
		if w.n%8 == 0 {
			w.data = append(w.data, 0)
		}
		w.data[w.n/8] |= byte(v>>(n-1)&1) << (7 - w.n%8)
		w.n++
	}
}

func (w *mp3Writer) bit(v bool) {
	if v {
		w.bits(1, 1)
	} else {
		w.bits(0, 1)
	}
}

// mp3Words returns code words and their bits by table and symbol.
func mp3Words() (words [34][256][2]int) {
	for _, t := range mp3CodeTexts {
		word := 0
		for text := t.text; text != ""; text = text[3:] {
			symbol, _ := strconv.ParseUint(text[:2], 16, 8)
			size, _ := strconv.ParseUint(text[2:3], 36, 8)
			words[t.table][symbol] = [2]int{word >> (32 - size), int(size)}
			word += 1 << (32 - size)
		}
	}
	for i := 17; i < 32; i++ {
		if i != 24 {
			words[i] = words[i&^7]
		}
	}
	return words
}

// mp3Draw draws streams of free format, which use what encoders leave out: every table, mixed
// blocks and intensity stereo.
type mp3Draw struct {
	*rand.Rand
	words         [34][256][2]int
	version, rate int // as in headers: 3, 2 or 0; 0 to 2
	mode          int // 0: stereo, 1: joint stereo, 2: two channels, 3: mono
	crc           bool
	lines         int // the most lines of a granule that are coded as pairs
}

// stream draws a number of frames, which refer to data of frames before.
func (d *mp3Draw) stream(frames int) []byte {
	heads, sides, mains := make([][]byte, frames), make([][]byte, frames), make([][]byte, frames)
	for i := range heads {
		heads[i] = []byte{0xff, 0xe2 | byte(d.version)<<3, byte(d.rate) << 2, byte(d.mode) << 6}
		if !d.crc {
			heads[i][1] |= 1
		}
		if d.mode == 1 {
			heads[i][3] |= byte(d.IntN(4)) << 4
		}
		h, _ := readMP3Header(heads[i])
		sides[i], mains[i] = d.frame(&h)
	}
	const most = 255 // bytes by which main data can begin before
	size := 0        // of the main data in a frame: the least with which all frames begin in time
	for fits := false; !fits; size++ {
		fits = true
		space := 0 // bytes before the frame that are free
		for _, main := range mains {
			space = min(space, most) + size + 1 - len(main)
			fits = fits && space >= 0
		}
	}
	var all, main []byte
	for i := range heads {
		main = append(main, make([]byte, max(0, i*size-most-len(main)))...)
		begin := i*size - len(main)
		main = append(main, mains[i]...)
		sides[i][0] = byte(begin)
		if d.version == 3 {
			sides[i][0] = byte(begin >> 1)
			sides[i][1] |= byte(begin) << 7
		}
	}
	main = append(main, make([]byte, frames*size-len(main))...)
	for i := range heads {
		all = append(all, heads[i]...)
		if d.crc {
			all = append(all, 0, 0)
		}
		all = append(append(all, sides[i]...), main[i*size:(i+1)*size]...)
	}
	return all
}

// frame draws side information, with 0 for where the main data begins, and main data.
func (d *mp3Draw) frame(h *mp3Header) (side, main []byte) {
	var s, m mp3Writer
	channels := h.channels()
	s.bits(0, 8+channels)
	var share [2][4]bool
	if h.version == 0 {
		s.bits(0, 8-3*channels)
		for c := range channels {
			for i := range share[c] {
				share[c][i] = d.IntN(3) == 0
				s.bit(share[c][i])
			}
		}
	}
	for i := range h.granules() {
		var left mp3Granule
		for c := range channels {
			var g mp3Granule
			switch {
			case c == 1 && (h.ms || h.intensity || d.IntN(4) > 0): // joint stereo is of blocks of one type
				g.block, g.mixed = left.block, left.mixed
			case d.IntN(2) == 0:
				g.block = 1 + d.IntN(3)
				// mpg123 takes other positions in mixed blocks of MPEG-2.
				g.mixed = g.block == 2 && !(h.intensity && h.version > 0) && d.IntN(2) == 0
			}
			if left = g; i == 0 {
				d.granule(h, &s, &m, g, c == 1 && h.intensity, [4]bool{})
			} else {
				d.granule(h, &s, &m, g, c == 1 && h.intensity, share[c])
			}
		}
	}
	return s.data, m.data
}

// granule draws a granule of a channel with a type of block.
func (d *mp3Draw) granule(h *mp3Header, s, m *mp3Writer, g mp3Granule, intensity bool, share [4]bool) {
	bands, starts := &mp3SharedTables().bands[h.row], &mp3Starts[h.row].long
	from := m.n
	g.compress = d.IntN(16)
	if h.version > 0 {
		g.compress = d.IntN(512)
	}
	for _, size := range d.scaleSizes(h, g, intensity, share) {
		v := d.IntN(1 << size)
		for intensity && size > 0 && (v >= 7 || v == 1<<size-1 && h.version > 0) {
			v = d.IntN(1 << size) // decoders differ in what is no position
		}
		m.bits(v, size)
	}
	first, second := d.IntN(16), d.IntN(8)
	g.ends = [3]int{starts[min(22, first+1)], starts[min(22, first+second+2)], 576}
	switch {
	case g.block == 0:
	case g.block != 2 || h.version == 2 && g.mixed:
		g.ends = [3]int{starts[8], 576}
	case h.version == 2:
		g.ends = [3]int{starts[6], 576}
	default:
		g.ends = [3]int{36, 576}
	}
	g.pairs, g.quads = d.IntN(1+d.lines/2), d.IntN(2)
	least := 0 // lines that are not 0: decoders differ if the right channel, or a window of it, has none
	if intensity {
		least = 2
		if g.block == 2 {
			least = 3 * int(bands.short[0])
			if g.mixed {
				least = 36 + 3*36
			}
		}
		g.pairs = least/2 + d.IntN(20)
	}
	line := 0
	for k := range g.tables {
		for g.tables[k] = 1 + d.IntN(31); g.tables[k] == 4 || g.tables[k] == 14; {
			g.tables[k]++
		}
		if least == 0 && d.IntN(20) == 0 {
			g.tables[k] = 0
		}
		for ; line < min(g.ends[k], 2*g.pairs); line += 2 {
			if g.tables[k] > 0 {
				d.pair(m, g.tables[k], line < least)
			}
		}
	}
	for n := d.IntN(40); n > 0 && line+4 <= 576 && !intensity; n-- {
		symbol := d.IntN(16)
		w := d.words[32+g.quads][symbol]
		m.bits(w[0], w[1])
		for j := range 4 {
			m.bits(d.IntN(2), symbol>>j&1)
		}
		line += 4
	}
	s.bits(m.n-from, 12)
	s.bits(g.pairs, 9)
	s.bits(162+d.IntN(14), 8)
	s.bits(g.compress, []int{4, 9, 9}[h.version])
	s.bit(g.block != 0)
	if g.block != 0 {
		s.bits(g.block, 2)
		s.bit(g.mixed)
		s.bits(g.tables[0]<<5|g.tables[1], 10)
		s.bits(d.IntN(512), 9) // gains of windows
	} else {
		s.bits(g.tables[0]<<10|g.tables[1]<<5|g.tables[2], 15)
		s.bits(first<<3|second, 7)
	}
	if h.version == 0 {
		s.bits(d.IntN(2), 1) // preflag
	}
	s.bits(d.IntN(2)<<1|g.quads, 2)
}

// scaleSizes returns the bits of scale factors that are written.
func (d *mp3Draw) scaleSizes(h *mp3Header, g mp3Granule, intensity bool, share [4]bool) (sizes []int) {
	if h.version == 0 {
		low, high := mp3Sizes[g.compress][0], mp3Sizes[g.compress][1]
		counts := []int{18, 18}
		switch {
		case g.block != 2:
			for i, n := range []int{6, 5, 5, 5} {
				if size := []int{low, low, high, high}[i]; !share[i] {
					sizes = append(sizes, slices.Repeat([]int{size}, n)...)
				}
			}
			return sizes
		case g.mixed:
			counts[0] = 17
		}
		return append(slices.Repeat([]int{low}, counts[0]), slices.Repeat([]int{high}, counts[1])...)
	}
	ones := mp3Bits{data: slices.Repeat([]byte{0xff}, 64)}
	g.readHalfScales(&ones, intensity)
	n := 21
	if g.block == 2 {
		n = 36
	}
	if g.mixed {
		n = 33
	}
	for _, v := range g.scales[:n] {
		size := 0
		for v>>size != 0 {
			size++
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// pair draws two lines of a table.
func (d *mp3Draw) pair(m *mp3Writer, table int, positive bool) {
	extra, most := 0, 15
	if table >= 16 {
		extra = mp3Extra[table-16]
		most += 1<<extra - 1
	}
	for most <= 15 && d.words[table][most][1] == 0 {
		most--
	}
	var v [2]int
	for j := range v {
		v[j] = int(d.ExpFloat64() * 2)
		if d.IntN(40) == 0 {
			v[j] = d.IntN(60)
		}
		if positive {
			v[j]++
		}
		v[j] = min(v[j], most)
	}
	w := d.words[table][min(v[0], 15)<<4|min(v[1], 15)]
	m.bits(w[0], w[1])
	for _, x := range v {
		if x >= 15 {
			m.bits(x-15, extra)
		}
		if x > 0 {
			m.bits(d.IntN(2), 1)
		}
	}
}
