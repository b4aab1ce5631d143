package soundcodec

import "math"

// quarters are the powers 2^(k/4).
var quarters = [4]float32{1, 1.189207115002721, math.Sqrt2, 1.681792830507429}

// scale writes the lines with their sizes: sign(q)·|q|^(4/3)·2^(e/4), where e is the gain less what
// the scale factor of the band and the gain of its window say.
func (g *mp3Granule) scale(t *mp3Tables, x *[576]float32) {
	at := 0
	for i, width := range g.bands {
		if at >= g.used {
			break
		}
		e := g.gain - 210
		if i < g.long {
			e -= (int(g.scales[i]) + g.preflag*mp3Preemphasis[i]) << g.shift
		} else {
			e -= int(g.scales[i])<<g.shift + 8*g.subGain[(i-g.long)%3]
		}
		gain := quarters[e&3] * math.Float32frombits(uint32(e>>2+127)<<23)
		for end := at + int(width); at < end; at++ {
			if q := int(g.lines[at]); q >= 0 {
				x[at] = t.powers[q] * gain
			} else {
				x[at] = -t.powers[-q] * gain
			}
		}
	}
	clear(x[at:])
}

// joinStereo decodes joint stereo in place: middle and side, and intensities in the bands above the
// last line of the right channel that is not 0. Scale factors of that channel, g, are the positions
// of those bands.
func (h *mp3Header) joinStereo(g *mp3Granule, left, right *[576]float32) {
	if !h.intensity {
		if h.ms {
			middleSide(left[:], right[:])
		}
		return
	}
	n, at := len(g.bands), len(left)
	var found [3]bool // lines of a window that are not 0
	for i := n - 1; i >= 0; i-- {
		end := at
		at -= int(g.bands[i])
		l, r := left[at:end], right[at:end]
		window := (i - g.long) % 3
		if i < g.long {
			window = 0
			found[0] = found[0] || found[1] || found[2]
		}
		for _, v := range r {
			found[window] = found[window] || v != 0
		}
		own := i // the last bands have no position of their own
		switch {
		case i < g.long && i == 21:
			own = 20
		case i >= g.long && i >= n-3:
			own -= 3
		}
		position := int(g.scales[own])
		switch {
		case !found[window] && position < int(g.most[own]):
			a, b := h.weights(position, g.compress)
			for k, v := range l {
				l[k], r[k] = v*a, v*b
			}
		case h.ms:
			middleSide(l, r)
		}
	}
}

// weights returns the weights of the channels at a position. Their sum is 1 in MPEG-1; the larger
// one is 1 in MPEG-2, and the bit 0 of scalefac_compress selects the step.
func (h *mp3Header) weights(position, compress int) (left, right float32) {
	if h.version == 0 {
		sin, cos := math.Sincos(float64(position) * math.Pi / 12)
		return float32(sin / (sin + cos)), float32(cos / (sin + cos))
	}
	small := float32(math.Exp2(-float64((position+1)/2) / float64(4-2*(compress&1))))
	if position%2 == 1 {
		return small, 1
	}
	return 1, small
}

func middleSide(left, right []float32) {
	for i, m := range left {
		s := right[i]
		left[i], right[i] = (m+s)*(math.Sqrt2/2), (m-s)*(math.Sqrt2/2)
	}
}

// order writes the lines of short blocks by frequency: those of the three windows alternate.
func (g *mp3Granule) order(x *[576]float32) {
	if g.block != 2 {
		return
	}
	old, at := *x, 0
	for i := 0; i < len(g.bands); i++ {
		width := int(g.bands[i])
		if i >= g.long {
			for k := range width {
				for w := range 3 {
					x[at+3*k+w] = old[at+w*width+k]
				}
			}
			width *= 3
			i += 2
		}
		at += width
	}
}
