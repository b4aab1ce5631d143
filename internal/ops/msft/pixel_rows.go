package msft

import (
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// pixelRows divides the windows over images with the channels last into rows of outputs.
type pixelRows struct {
	*window.Geometry // of one or two dimensions
	ch, height       int
	rows             int // of outputs of an image
	inRow, outRow    int // elements of a row
}

func newPixelRows(g *window.Geometry, ch int) *pixelRows {
	last := len(g.In) - 1
	r := &pixelRows{g, ch, 1, 1, g.In[last] * ch, g.Out[last] * ch}
	if last == 1 {
		r.height, r.rows = g.In[0], g.Out[0]
	}
	return r
}

// taps returns the number of rows that the windows of an output row of a batch read, the offset of
// the first, and their stride.
func (r *pixelRows) taps(row int) (n, at, step int) {
	if len(r.In) == 1 {
		return 1, row * r.inRow, 0
	}
	image, row := row/r.rows, row%r.rows
	first, end := r.TapRange(0, row)
	return end - first, (image*r.height + row*r.Stride[0] - r.Before[0] + first*r.Dilation[0]) * r.inRow,
		r.Dilation[0] * r.inRow
}

// runs calls fn for outputs i to i+n-1 of a row. Their windows have as many taps within the row,
// the first one of output i in the column that begins at element at.
func (r *pixelRows) runs(fn func(i, n, at, taps int)) {
	last := len(r.In) - 1
	stride, dilation := r.Stride[last], r.Dilation[last]
	for i, n := 0, 0; i < r.Out[last]; i += n {
		from, to := r.TapRange(last, i)
		n = 1
		if from == 0 && to == r.Kernel[last] { // windows that are in the row, together
			n = max(1, min(r.Out[last], (r.In[last]-1+r.Before[last]-(to-1)*dilation)/stride+1)-i)
		}
		fn(i, n, (i*stride-r.Before[last]+from*dilation)*r.ch, to-from)
	}
}
