package soundcodec

// mp3Granule holds the side information of a channel in a granule, of 576 frequency lines.
type mp3Granule struct {
	size     int // bits of scale factors and lines
	pairs    int // that are coded by tables
	gain     int
	compress int
	block    int // 0: long, 1: start, 2: short, 3: stop
	mixed    bool
	tables   [3]int
	ends     [3]int // of regions, in lines
	subGain  [3]int
	preflag  int
	shift    int // of scale factors: 1 or 2 for steps of √2 or 2, in steps of 2^¼
	quads    int // table of quadruples, 0 or 1

	bands  []uint8    // widths, in the order of the bits
	long   int        // the number of long bands; the others are of three windows each
	scales [39]uint8  // scale factors by band, or positions of intensity
	most   [39]uint8  // positions of intensity that mean none, by band
	lines  [576]int16 // quantized, in the order of the bits
	used   int        // lines before zeros
}

// mp3Side is the side information of a frame.
type mp3Side struct {
	begin    int        // bytes by which the main data begins before the frame's
	share    [2][4]bool // groups of scale factors of granule 1 that are those of granule 0
	granules [2][2]mp3Granule
}

// read reads the side information. It reports whether the fields have meaning.
func (s *mp3Side) read(h *mp3Header, t *mp3Tables, r *mp3Bits) bool {
	channels := h.channels()
	if h.version == 0 {
		s.begin = r.bits(9)
		r.bits(7 - 2*channels) // private
		for c := range channels {
			for i := range s.share[c] {
				s.share[c][i] = r.bit()
			}
		}
	} else {
		s.begin = r.bits(8)
		r.bits(channels) // private
	}
	ok := true
	for i := range h.granules() {
		for c := range channels {
			ok = s.granules[i][c].readSide(h, t, r) && ok
		}
	}
	return ok
}

func (g *mp3Granule) readSide(h *mp3Header, t *mp3Tables, r *mp3Bits) bool {
	ok := true
	g.size, g.pairs, g.gain = r.bits(12), r.bits(9), r.bits(8)
	if h.version == 0 {
		g.compress = r.bits(4)
	} else {
		g.compress = r.bits(9)
	}
	bands, starts := &t.bands[h.row], &mp3Starts[h.row].long
	g.block, g.mixed, g.subGain, g.preflag = 0, false, [3]int{}, 0
	g.ends = [3]int{576, 576, 576}
	if r.bit() {
		g.block, g.mixed = r.bits(2), r.bit()
		g.tables = [3]int{r.bits(5), r.bits(5), 0}
		for i := range g.subGain {
			g.subGain[i] = r.bits(3)
		}
		ok = g.block != 0 // reserved
		switch {
		case g.block != 2, h.version == 2 && g.mixed:
			g.ends[0] = starts[8]
		case h.version == 2:
			g.ends[0] = starts[6]
		default:
			g.ends[0] = 36
		}
	} else {
		g.tables = [3]int{r.bits(5), r.bits(5), r.bits(5)}
		first := r.bits(4) + 1
		second := first + r.bits(3) + 1
		g.ends[0], g.ends[1] = starts[min(first, 22)], starts[min(second, 22)]
	}
	if h.version == 0 {
		g.preflag = r.bits(1)
	}
	g.shift, g.quads = 1+r.bits(1), r.bits(1)
	g.pairs = min(g.pairs, 288)
	switch {
	case g.block != 2:
		g.bands, g.long = bands.long[:], 22
	case g.mixed:
		g.bands, g.long = bands.mixed[:], bands.longOfMixed
	default:
		g.bands, g.long = bands.short[:], 0
	}
	return ok
}

// readScales reads the scale factors of MPEG-1. first is the granule before in the frame, or nil,
// and share says which groups of its factors are the same.
func (g *mp3Granule) readScales(r *mp3Bits, first *mp3Granule, share *[4]bool) {
	for i := range g.most {
		g.most[i] = 7
	}
	low, high, n := mp3Sizes[g.compress][0], mp3Sizes[g.compress][1], len(g.bands)-3
	if g.block != 2 {
		n = 21
	}
	for i := range n {
		size := low
		if g.block != 2 && i >= 11 || g.block == 2 && i >= n-18 {
			size = high
		}
		if g.block != 2 && first != nil && share[(max(i, 1)-1)/5] {
			g.scales[i] = first.scales[i]
		} else {
			g.scales[i] = uint8(r.bits(size))
		}
	}
	clear(g.scales[n:])
}

// readHalfScales reads the scale factors of MPEG-2 and MPEG-2.5. intensity is true of the right
// channel of intensity stereo, whose factors are positions.
func (g *mp3Granule) readHalfScales(r *mp3Bits, intensity bool) {
	c, sizes, table, kind := g.compress, [4]int{}, 0, 0
	switch {
	case intensity && c < 360:
		c /= 2
		sizes, table = [4]int{c / 36, c % 36 / 6, c % 6}, 3
	case intensity && c < 488:
		c = c/2 - 180
		sizes, table = [4]int{c / 16, c / 4 % 4, c % 4}, 4
	case intensity:
		c = c/2 - 244
		sizes, table = [4]int{c / 3, c % 3}, 5
	case c < 400:
		sizes = [4]int{c / 80, c / 16 % 5, c / 4 % 4, c % 4}
	case c < 500:
		c -= 400
		sizes, table = [4]int{c / 20, c / 4 % 5, c % 4}, 1
	default:
		c -= 500
		sizes, table, g.preflag = [4]int{c / 3, c % 3}, 2, 1
	}
	if g.block == 2 {
		kind = 1
		if g.mixed {
			kind = 2
		}
	}
	at := 0
	for i, n := range mp3Groups[table][kind] {
		for range n {
			g.scales[at], g.most[at] = uint8(r.bits(sizes[i])), 1<<sizes[i]-1
			if sizes[i] == 0 {
				g.most[at] = 255
			}
			at++
		}
	}
	clear(g.scales[at:])
}
