package ops

// nmsCellsFrom is the number of selected boxes from which they are divided into cells.
const nmsCellsFrom = 128

// nmsCells divides selected boxes by their smallest x coordinates, so that a box is compared only
// with those near it. Detectors that shift the boxes of each class by another offset select from
// all classes at once, and few of their boxes overlap.
type nmsCells struct {
	used          bool
	origin, scale float32 // the cell of x is (x-origin)*scale
	widest        float32 // width of a box
	first         [1024]int32
	next          []int32 // box of the same cell, -1 at the end
}

// start divides the boxes selected first. rest are the keys of the other boxes, and boxOf returns
// one of them. It leaves used false if the coordinates are too close for their magnitude, or not
// finite.
func (s *nmsCells) start(boxes []nmsBox, rest []uint64, boxOf func(int) nmsBox) {
	lo, hi := boxes[0].x0, boxes[0].x1
	for i := range boxes {
		lo, hi = min(lo, boxes[i].x0), max(hi, boxes[i].x1)
	}
	for _, key := range rest {
		b := boxOf(int(uint32(key)))
		lo, hi = min(lo, b.x0), max(hi, b.x1)
	}
	// A cell must be wider than rounding errors of the coordinates.
	cell := (hi - lo) / float32(len(s.first)-1)
	if s.used = cell > 1e-5*max(hi, -lo) && cell <= 1e30; !s.used {
		return
	}
	s.origin, s.scale, s.widest = lo, 1/cell, 0
	for i := range s.first {
		s.first[i] = -1
	}
	for i := range boxes {
		s.add(boxes, i)
	}
}

// cell returns the cell of x, which is not less for a larger x. NaN is in the first one.
func (s *nmsCells) cell(x float32) int {
	if x = (x - s.origin) * s.scale; x < float32(len(s.first)) {
		return int(max(x, 0))
	} else if x == x {
		return len(s.first) - 1
	}
	return 0
}

// add adds box i.
func (s *nmsCells) add(boxes []nmsBox, i int) {
	b := &boxes[i]
	if w := b.x1 - b.x0; w > s.widest {
		s.widest = w
	}
	at := &s.first[s.cell(b.x0)]
	s.next[i], *at = *at, int32(i)
}

// suppress is [nmsBox.suppressed] for the boxes added so far.
func (s *nmsCells) suppress(b *nmsBox, boxes []nmsBox, threshold float32) bool {
	lo, hi := max(0, s.cell(b.x0-s.widest)-1), s.cell(b.x1)
	if hi-lo > len(s.first)/4 {
		return b.suppressed(boxes, threshold) // one after the other in memory
	}
	x0, x1, y0, y1 := b.x0, b.x1, b.y0, b.y1
	for _, i := range s.first[lo : hi+1] {
		for ; i >= 0; i = s.next[i] {
			a := &boxes[i]
			if a.x1 <= x0 || a.x0 >= x1 || a.y1 <= y0 || a.y0 >= y1 {
				continue
			}
			if b.exceeds(a, threshold) {
				return true
			}
		}
	}
	return false
}
