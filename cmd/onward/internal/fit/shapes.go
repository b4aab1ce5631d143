package fit

// wanted returns a size of a shape, or other if it is unknown.
func wanted(shape []int, axis, other int) int {
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) || shape[axis] < 0 {
		return other
	}
	return shape[axis]
}

// shapeLike requires the shape of the result in input k: the declared one, else that of input like.
func (u *use) shapeLike(k, like, other int) {
	n := u.count(k)
	out, own := u.result(0), u.shape(like)
	if like == k {
		own = nil
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(wanted(out, i, max(wanted(own, i-n+len(own), other), 0)))
	}
	u.need(k, need{exact: x, sizes: true})
}

// reshape keeps the declared result if it has the right number of elements, and else collects all
// in the first dimension.
func reshape(u *use) {
	n, out, x := u.count(1), u.result(0), []float64{}
	if len(out) == n {
		unknown, size := 0, 1
		for _, d := range out {
			if d < 0 {
				unknown++
			}
			size *= max(d, 1)
			x = append(x, float64(max(d, -1)))
		}
		if total := u.length(0); unknown == 0 && size == total || unknown == 1 && size > 0 && total%size == 0 {
			u.need(1, exactly(x...))
			return
		}
	}
	x = x[:0]
	for i := range n {
		switch own := u.shape(0); {
		case i == 0:
			x = append(x, -1)
		case n == len(own):
			x = append(x, float64(own[i]))
		default:
			x = append(x, 1)
		}
	}
	u.need(1, exactly(x...))
}

func affineGrid(u *use) {
	n, out := u.count(1), u.result(0) // the grid is [N, H, W, 2] or [N, D, H, W, 3]
	x := make([]float64, n)
	for i := range x {
		switch i {
		case 0:
			x[i] = float64(u.dim(0, 0, 1))
		case 1:
			x[i] = 1
		default:
			x[i] = float64(wanted(out, i-1, 4))
		}
	}
	u.need(1, exactly(x...))
}

func tile(u *use) {
	x := make([]float64, u.count(1))
	for i := range x {
		own := u.dim(0, i, 0)
		if x[i] = 1; own > 0 {
			x[i] = float64(wanted(u.result(0), i, own) / own)
		}
	}
	u.need(1, exactly(x...))
	if u.n.Opset < 6 { // tiles, axis
		u.need(2, exactly(0))
	}
}

// pad requires the padding that makes the declared result, at the end of the axes; else none.
func pad(u *use) {
	n := u.count(1)
	axes := u.numbers(3)
	if axes == nil && u.has(3) {
		for i := range u.count(3) {
			axes = append(axes, float64(i))
		}
	}
	u.need(3, exactly(axes...))
	x := make([]float64, n)
	for i := range n / 2 {
		axis := i
		if i < len(axes) {
			axis = int(axes[i])
		}
		own := u.dim(0, axis, 0)
		x[n/2+i] = float64(wanted(u.result(0), axis, own) - own)
	}
	u.need(1, exactly(x...))
}

// slice requires whole axes, or as much of them as the declared result has.
func slice(u *use) {
	n := u.count(1)
	axes := u.numbers(3)
	if axes == nil {
		for i := range n {
			axes = append(axes, float64(i))
		}
	}
	u.need(3, exactly(axes...))
	ends := make([]float64, n)
	for i := range min(n, len(axes)) {
		axis := int(axes[i])
		ends[i] = float64(wanted(u.result(0), axis, u.dim(0, axis, 1)))
	}
	u.need(1, exactly(make([]float64, n)...))
	u.need(2, exactly(ends...))
	u.need(4, exactly(1))
}

// unsqueeze requires the axes at which the declared result has its ones, from the front.
func unsqueeze(u *use) {
	out, own := u.result(0), u.shape(0)
	var x []float64
	for i, k := 0, 0; i < len(out) && len(x) < u.count(1); i++ {
		left := u.count(1) - len(x)
		if out[i] == 1 && (k >= len(own) || own[k] != 1 || len(out)-i == left) {
			x = append(x, float64(i))
		} else {
			k++
		}
	}
	for i := len(x); i < u.count(1); i++ {
		x = append(x, float64(i))
	}
	u.need(1, exactly(x...))
}

func squeeze(u *use) {
	var x []float64
	for i, d := range u.shape(0) {
		if d == 1 {
			x = append(x, float64(i))
		}
	}
	if n := u.dim(1, 0, 1); len(x) > n {
		x = x[:n]
	}
	if len(x) > 0 {
		u.need(1, exactly(x...))
	}
}

func reduce(u *use) {
	x := make([]float64, u.count(1))
	out, own := u.result(0), u.shape(0)
	var at []float64 // axes on which the declared result is 1
	for i := range own {
		if len(out) == len(own) && out[i] == 1 && own[i] != 1 {
			at = append(at, float64(i))
		}
	}
	for i := range x {
		x[i] = float64(i)
	}
	if len(at) == len(x) {
		x = at
	}
	u.need(1, exactly(x...))
}

func split(u *use) {
	axis := u.attr("axis", 0)
	total, n := u.dim(0, axis, 1), max(u.count(1), 1)
	if len(u.shape(1)) == 0 { // SplitToSequence: the size of each part
		u.need(1, exactly(1))
		return
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(total*(i+1)/n - total*i/n)
	}
	for i := range x { // the declared sizes, if they add up
		if len(u.n.Out) != n {
			break
		}
		x[i] = float64(wanted(u.result(i), axis, int(x[i])))
	}
	u.need(1, exactly(x...))
}

// ratios returns the sizes of the declared result relative to those of input 0, and 2 for others on
// the last two axes.
func (u *use) ratios() []float64 {
	own, out := u.shape(0), u.result(0)
	x := make([]float64, len(own))
	for i, d := range own {
		x[i] = 1
		if i >= 2 {
			x[i] = 2
		}
		if n := wanted(out, i, -1); n >= 0 && d > 0 {
			x[i] = float64(n) / float64(d)
		}
	}
	return x
}

func resize(u *use) {
	all := u.ratios()
	axes := attr(u.n, "axes", []int64(nil))
	if axes == nil {
		for i := range all {
			axes = append(axes, int64(i))
		}
	}
	var scales, sizes, roi []float64
	for _, a := range axes {
		if a < 0 {
			a += int64(len(all))
		}
		if a < 0 || a >= int64(len(all)) {
			return
		}
		scales = append(scales, all[a])
		sizes = append(sizes, float64(int(all[a]*float64(u.dim(0, int(a), 1))+0.5)))
		roi = append(roi, 0)
	}
	for range axes {
		roi = append(roi, 1)
	}
	u.need(1, exactly(roi...))
	u.need(2, exactly(scales...))
	u.need(3, exactly(sizes...))
}

func col2im(u *use) {
	spatial := u.count(1)
	image, block := make([]float64, spatial), make([]float64, spatial)
	dilations, strides, pads := attr(u.n, "dilations", []int64(nil)), attr(u.n, "strides", []int64(nil)),
		attr(u.n, "pads", []int64(nil))
	columns := u.dim(0, 2, 1)
	for i := range image {
		image[i], block[i] = float64(wanted(u.result(0), 2+i, columns)), 1
	}
	// The block is the one with as many positions as there are columns, by its size on each axis.
	at := func(list []int64, i int, other int64) int {
		if i < len(list) {
			other = list[i]
		}
		return int(other)
	}
	rows, channels := u.dim(0, 1, 1), max(wanted(u.result(0), 1, 1), 1)
	for code := range 1 << (3 * min(spatial, 4)) {
		positions, size := 1, 1
		for i := range block {
			b := code>>(3*i)&7 + 1
			block[i] = float64(b)
			size *= b
			span := int(image[i]) + at(pads, i, 0) + at(pads, i+spatial, 0) - at(dilations, i, 1)*(b-1) - 1
			if span < 0 {
				positions = 0
				break
			}
			positions *= span/max(at(strides, i, 1), 1) + 1
		}
		if positions == columns && size*channels == rows {
			break
		}
	}
	u.need(1, exactly(image...))
	u.need(2, exactly(block...))
}
