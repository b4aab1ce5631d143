package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// NonMaxSuppression selects, per batch item and class, boxes in the order of their scores, except
// those whose intersection over union with a selected box exceeds iou_threshold. Boxes are [y1, x1,
// y2, x2], corners in any order, or [x, y, width, height] around their center. The output lists
// [batch, class, box] (https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html).
type NonMaxSuppression struct{ CenterPoint bool }

var _ = kit.Register(&kit.Def{Name: "NonMaxSuppression", Since: kit.Versions{10, 11},
	Class: kit.ClassReduction,
	In:    "boxes:float, scores:float, max_output_boxes_per_class:int64?, iou_threshold:float?, score_threshold:float?",
	Out:   "selected_indices:int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		f := a.Int("center_point_box", 0)
		if f != 0 && f != 1 {
			a.Errorf("center_point_box is %d, want 0 or 1", f)
		}
		return &NonMaxSuppression{f == 1}
	}})

// Infer sets the output to [?, 3].
func (op *NonMaxSuppression) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 3, "boxes"); err != nil {
		return err
	}
	if err := kit.CheckRank(c, 1, 3, "scores"); err != nil {
		return err
	}
	c.SetOut(0, ir.TensorType(tensor.TypeInt64, ir.Unknown, ir.Known(3)))
	return nil
}

// nmsBox is a box given by its smallest and largest coordinates.
type nmsBox struct{ y0, x0, y1, x1, area float32 }

func newNMSBox(b []float32, center bool) nmsBox {
	var r nmsBox
	if center {
		w, h := b[2]/2, b[3]/2
		r = nmsBox{y0: b[1] - h, x0: b[0] - w, y1: b[1] + h, x1: b[0] + w}
	} else {
		r = nmsBox{y0: min(b[0], b[2]), x0: min(b[1], b[3]), y1: max(b[0], b[2]), x1: max(b[1], b[3])}
	}
	r.area = (r.x1 - r.x0) * (r.y1 - r.y0)
	return r
}

// suppressed reports whether the overlap with one of the boxes exceeds the threshold.
func (b *nmsBox) suppressed(boxes []nmsBox, threshold float32) bool {
	y0, x0, y1, x1 := b.y0, b.x0, b.y1, b.x1
	for i := range boxes {
		a := &boxes[i]
		if a.x1 <= x0 || a.x0 >= x1 || a.y1 <= y0 || a.y0 >= y1 {
			// they do not overlap, as most do not; false where a bound is NaN
			continue
		}
		if b.exceeds(a, threshold) {
			return true
		}
	}
	return false
}

// exceeds reports whether the overlap of two boxes exceeds the threshold.
func (b *nmsBox) exceeds(a *nmsBox, threshold float32) bool {
	w, h := min(a.x1, b.x1)-max(a.x0, b.x0), min(a.y1, b.y1)-max(a.y0, b.y0)
	if !(w > 0 && h > 0) {
		return false
	}
	inter := w * h
	union := a.area + b.area - inter
	return inter > 0 && a.area > 0 && b.area > 0 && union > 0 && inter/union > threshold
}

// nmsKey returns a number that is smaller for a larger score and, among equal scores, for a lower
// index. The score is not NaN.
func nmsKey(score float32, index int) uint64 {
	b := math.Float32bits(score + 0) // −0 equals 0
	if b>>31 == 0 {
		b = ^b &^ (1 << 31)
	}
	return uint64(b)<<32 | uint64(index)
}

// nmsSortFrom is the number of boxes from which sorting all keys takes less time than a heap.
const nmsSortFrom = 256

// sortNMS sorts keys, whose lower halves ascend, by their upper halves, and returns them in keys or
// in other, which is as long (radix sort).
func sortNMS(keys, other []uint64, meter *ir.Meter) []uint64 {
	for shift := 32; shift < 64; shift += 8 {
		var ends [257]int
		for i, k := range keys {
			if i%512 == 0 {
				meter.Check(1024)
			}
			ends[int(byte(k>>shift))+1]++
		}
		for i := range 256 {
			ends[i+1] += ends[i]
		}
		for _, k := range keys {
			d := byte(k >> shift)
			other[ends[d]] = k
			ends[d]++
		}
		keys, other = other, keys
	}
	return keys
}

// siftDown restores the order of a heap, whose least element is the first, below element i. The
// children of element i are those from 4i+1 to 4i+4. Four children instead of two halve the levels,
// and the choice among them is free of branches, which would be hard to predict.
func siftDown(heap []uint64, i int) {
	if i >= len(heap) {
		return
	}
	x := heap[i]
	for k := 4*i + 1; k < len(heap); k = 4*i + 1 {
		least, at := heap[k], k
		if four := heap[k:]; len(four) >= 4 {
			a, b, u, v := four[0], four[1], k, k+2
			if b < a {
				u = k + 1
			}
			c, d := four[2], four[3]
			if d < c {
				v = k + 3
			}
			a, c = min(a, b), min(c, d)
			if at = u; c < a {
				at = v
			}
			least = min(a, c)
		} else {
			for j, w := range four[1:] {
				if w < least {
					least, at = w, k+1+j
				}
			}
		}
		if x <= least {
			break
		}
		heap[i] = least
		i = at
	}
	heap[i] = x
}

// Run selects the boxes.
func (op *NonMaxSuppression) Run(c *ir.Call) error {
	bs, ss := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	if len(bs) != 3 || len(ss) != 3 || bs[2] != 4 || ss[0] != bs[0] || ss[2] != bs[1] {
		return fail.Errorf("boxes and scores have shapes %v and %v, want [batches, boxes, 4] and [batches, "+
			"classes, boxes]", bs, ss)
	}
	batches, classes, n := bs[0], ss[1], bs[1]
	if n > math.MaxInt32 {
		return fail.Errorf("got %d boxes, want at most %d", n, math.MaxInt32)
	}
	limit := 0
	if c.Has(2) {
		var err error
		if limit, err = kit.ScalarInt(c.Tensor(2), "max_output_boxes_per_class"); err != nil {
			return err
		}
	}
	scalar := func(i int, name string) (float32, error) {
		t := c.Tensor(i)
		if t == nil {
			return 0, nil
		}
		if t.Len() != 1 {
			return 0, fail.Errorf("%s has shape %v, want a scalar", name, t.Shape())
		}
		return tensor.MustData[float32](t)[0], nil
	}
	iou, err := scalar(3, "iou_threshold")
	if err != nil {
		return err
	}
	if !(iou >= 0 && iou <= 1) {
		return fail.Errorf("iou_threshold is %v, want 0 to 1", iou)
	}
	least, err := scalar(4, "score_threshold")
	if err != nil {
		return err
	}
	switch from := math.Nextafter32(least, float32(math.Inf(1))); {
	case !c.Has(4):
		least = float32(math.Inf(-1))
	case from == least: // no score is greater
		least = float32(math.NaN())
	default:
		least = from
	}
	var selected []int64
	if limit > 0 && n > 0 && classes > 0 {
		order, err := ir.ScratchOf[uint64](c, n)
		if err != nil {
			return err
		}
		most := min(n, limit)
		var other []uint64 // to sort all keys, if most of them may be examined
		if n >= nmsSortFrom && most >= n/8 {
			if other, err = ir.ScratchOf[uint64](c, n); err != nil {
				return err
			}
		}
		picked, err := newNMSSelected(c, most, iou)
		if err != nil {
			return err
		}
		boxData, scoreData := tensor.MustData[float32](c.Tensor(0)), tensor.MustData[float32](c.Tensor(1))
		var boxes []nmsBox // of a batch, if classes would convert them again and again
		if classes*most >= 2*n {
			if boxes, err = ir.ScratchOf[nmsBox](c, n); err != nil {
				return err
			}
		}
		meter := ir.Meter{C: c}
		for b := range batches {
			boxOf := func(i int) nmsBox { return newNMSBox(boxData[(b*n+i)*4:][:4], op.CenterPoint) }
			for i := range boxes {
				meter.Check(8)
				boxes[i] = boxOf(i)
			}
			var lo, hi float32
			spanned := false
			span := func() (float32, float32) {
				for i := 0; i < n && !spanned; i++ {
					meter.Check(8)
					x := boxOf(i)
					if i == 0 {
						lo, hi = x.x0, x.x1
					}
					lo, hi = min(lo, x.x0), max(hi, x.x1)
				}
				spanned = true
				return lo, hi
			}
			for k := range classes {
				scores := scoreData[(b*classes+k)*n:][:n]
				found := 0
				for i, s := range scores { // without a branch on the score, which is hard to predict
					if i%512 == 0 {
						meter.Check(512)
					}
					order[found] = nmsKey(s, i)
					keep := 0
					if s >= least {
						keep = 1
					}
					found += keep
				}
				candidates := order[:found]
				sorted := other != nil && found >= nmsSortFrom
				if sorted {
					candidates = sortNMS(candidates, other[:found], &meter)
				}
				// A heap sorts only as many boxes as are examined.
				for i := (len(candidates) - 2) / 4; i >= 0 && !sorted; i-- {
					meter.Check(8)
					siftDown(candidates, i)
				}
				before := cap(selected)
				picked.reset()
				for len(candidates) > 0 && len(picked.boxes) < most {
					meter.Check(32 + 4*len(picked.boxes))
					i := int(uint32(candidates[0]))
					if sorted {
						candidates = candidates[1:]
					} else {
						end := len(candidates) - 1
						candidates[0] = candidates[end]
						candidates = candidates[:end]
						siftDown(candidates, 0)
					}
					var box nmsBox
					if boxes != nil {
						box = boxes[i]
					} else {
						box = boxOf(i)
					}
					if !picked.suppress(&box) {
						picked.add(box, span)
						selected = append(selected, int64(b), int64(k), int64(i))
					}
				}
				if grown := cap(selected) - before; grown > 0 {
					if err := c.Reserve(int64(grown) * 8); err != nil {
						return err
					}
				}
				if err := c.Err(); err != nil {
					return err
				}
			}
		}
	}
	y, err := c.Output(0, tensor.TypeInt64, len(selected)/3, 3)
	if err != nil {
		return err
	}
	copy(tensor.MustData[int64](y), selected)
	return nil
}
