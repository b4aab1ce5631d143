package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// nmsSelected holds the selected boxes.
type nmsSelected struct {
	boxes     []nmsBox
	groups    []vec.BoxGroup // of the boxes, if the processor compares with 16 at a time
	plain     bool           // compare with one after the other
	threshold float32
	cells     nmsCells
}

// newNMSSelected returns an empty selection of at most n boxes.
func newNMSSelected(c *ir.Call, n int, threshold float32) (*nmsSelected, error) {
	s := &nmsSelected{plain: c.Generic, threshold: threshold}
	var err error
	if s.boxes, err = ir.ScratchOf[nmsBox](c, n); err != nil || s.plain {
		return s, err
	}
	if threshold > 1e-6 && vec.HasBoxes(cpu.Active()) {
		if s.groups, err = ir.ScratchOf[vec.BoxGroup](c, (n+15)/16); err != nil {
			return nil, err
		}
	}
	if n >= nmsCellsFrom {
		s.cells.next, err = ir.ScratchOf[int32](c, n)
	}
	return s, err
}

// reset removes all boxes.
func (s *nmsSelected) reset() { s.boxes, s.cells.used = s.boxes[:0], false }

// add adds a box. span returns the range of the x coordinates of all boxes.
func (s *nmsSelected) add(b nmsBox, span func() (lo, hi float32)) {
	i := len(s.boxes)
	s.boxes = append(s.boxes, b)
	if s.groups != nil {
		g := &s.groups[i/16]
		if i%16 == 0 { // without an intersection
			*g = vec.BoxGroup{}
			for j := range g.X0 {
				g.X0[j], g.X1[j] = float32(math.Inf(1)), float32(math.Inf(-1))
			}
		}
		g.Y0[i%16], g.X0[i%16], g.Y1[i%16], g.X1[i%16], g.Area[i%16] = b.y0, b.x0, b.y1, b.x1, b.area
	}
	switch {
	case s.plain:
	case i+1 == nmsCellsFrom:
		s.cells.start(s.boxes, span)
	case s.cells.used:
		s.cells.add(s.boxes, i)
	}
}

// suppress reports whether the overlap of b with one of the boxes exceeds the threshold.
func (s *nmsSelected) suppress(b *nmsBox) bool {
	if s.cells.used {
		lo, hi := s.cells.around(b, s.threshold)
		// The boxes of cells are not adjacent in memory.
		if cells := hi - lo; cells < nmsCellCount/4 && (s.groups == nil || cells < nmsCellCount/64) {
			return s.cells.suppress(b, s.boxes, lo, hi, s.threshold)
		}
	}
	if s.groups == nil {
		return b.suppressed(s.boxes, s.threshold)
	}
	if !(b.area > 0) {
		return false
	}
	box, level := [5]float32{b.y0, b.x0, b.y1, b.x1, b.area}, cpu.Active()
	// The limit is below the threshold by more than rounding errors.
	limit := s.threshold * (1 - 1e-6)
	for rest := s.boxes; len(rest) > 0; {
		from := len(s.boxes) - len(rest)
		at := 16 * vec.Overlap(level, s.groups[from/16:(len(s.boxes)+15)/16], &box, limit)
		if at >= len(rest) {
			return false
		}
		end := min(len(rest), at+16)
		if b.suppressed(rest[at:end], s.threshold) {
			return true
		}
		rest = rest[end:]
	}
	return false
}

// nmsCellCount is the number of cells.
const nmsCellCount = 1024

// nmsCellsFrom is the number of selected boxes from which they are divided into cells.
const nmsCellsFrom = 128

// nmsCells divides selected boxes by their smallest x coordinates, so that a box is compared only
// with those near it. Detectors that shift the boxes of each class by another offset select from
// all classes at once, and few of their boxes overlap.
type nmsCells struct {
	used          bool
	origin, scale float32 // the cell of x is (x-origin)*scale
	widest        float32 // width of a box
	first, last   [nmsCellCount]int32
	next          []int32 // box of the same cell, -1 at the end
}

// start divides the boxes selected first. span returns the range of the x coordinates of all boxes.
// It leaves used false if the coordinates are too close for their magnitude, or not finite.
func (s *nmsCells) start(boxes []nmsBox, span func() (lo, hi float32)) {
	lo, hi := span()
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
	at := s.cell(b.x0)
	if s.first[at] < 0 {
		s.first[at] = int32(i)
	} else { // boxes of high scores, which suppress most, stay first
		s.next[s.last[at]] = int32(i)
	}
	s.last[at], s.next[i] = int32(i), -1
}

// around returns the range of the cells of boxes whose overlap with b may exceed the threshold. An
// intersection whose area is the share t of the union is wider than the share t of each box. A cell
// on either side is for rounding errors.
func (s *nmsCells) around(b *nmsBox, t float32) (lo, hi int) {
	if !(b.area > 1e-30) { // areas have large rounding errors
		t = 0
	}
	w := b.x1 - b.x0
	return max(0, s.cell(b.x0-(1-t)*min(s.widest, w/t))-1), s.cell(b.x0+(1-t)*w) + 2
}

// suppress is [nmsBox.suppressed] for the boxes of the cells [lo, hi).
func (s *nmsCells) suppress(b *nmsBox, boxes []nmsBox, lo, hi int, threshold float32) bool {
	x0, x1, y0, y1 := b.x0, b.x1, b.y0, b.y1
	for _, i := range s.first[lo:max(lo, min(hi, nmsCellCount))] {
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
