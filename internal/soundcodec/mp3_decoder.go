package soundcodec

// mp3Decoder decodes frames of one format.
type mp3Decoder struct {
	format   mp3Header
	tables   *mp3Tables
	out      [][]float32
	data     []byte // main data of the frames before that the next one can use
	side     mp3Side
	channels [2]mp3Channel
	lines    [2][576]float32
}

// newMP3Decoder returns a decoder of a number of frames.
func newMP3Decoder(format mp3Header, frames int) *mp3Decoder {
	d := &mp3Decoder{format: format, tables: mp3SharedTables(), out: make([][]float32, format.channels())}
	for c := range d.out {
		d.out[c] = make([]float32, 0, frames*format.samples())
	}
	return d
}

// frame appends the samples of a frame to d.out.
func (d *mp3Decoder) frame(f mp3Frame) {
	b := f.data
	if f.gap { // what the frame may refer to can be lost
		d.data = d.data[:0]
	}
	h, _ := readMP3Header(b)
	prefix := h.prefix()
	r := mp3Bits{data: make([]byte, h.sideSize()+mp3Pad)}
	copy(r.data, b[prefix-h.sideSize():prefix])
	ok := d.side.read(&h, d.tables, &r)
	begin := len(d.data) - d.side.begin
	d.data = append(d.data, b[prefix:]...)
	size := len(d.data)
	d.data = append(d.data, make([]byte, mp3Pad)...)
	r = mp3Bits{data: d.data, at: 8 * max(begin, 0)}
	for i := range h.granules() {
		used := 0
		for c := range d.out {
			g := &d.side.granules[i][c]
			end := r.at + g.size
			if ok = ok && begin >= 0 && end <= 8*size; ok {
				switch {
				case h.version > 0:
					g.readHalfScales(&r, c == 1 && h.intensity)
				case i == 0:
					g.readScales(&r, nil, nil)
				default:
					g.readScales(&r, &d.side.granules[0][c], &d.side.share[c])
				}
				g.readLines(d.tables.codes, &r, end)
			} else {
				g.lines, g.used = [576]int16{}, 0
			}
			r.at = end
			g.scale(d.tables, &d.lines[c])
			if used = max(used, g.used); g.block == 2 && g.used > 0 {
				used = 576 // lines of windows will alternate
			}
		}
		if h.ms || h.intensity {
			h.joinStereo(&d.side.granules[i][1], &d.lines[0], &d.lines[1])
		}
		for c := range d.out {
			g := &d.side.granules[i][c]
			g.order(&d.lines[c])
			d.out[c] = d.channels[c].granule(d.tables, g, &d.lines[c], used, d.out[c])
		}
	}
	keep := min(size, 511)
	copy(d.data, d.data[size-keep:])
	d.data = d.data[:keep]
}
