package jpeg2000

// inverseWavelet combines the subbands of a component of a tile, resolution by resolution
// (annex F). read dequantizes a coefficient; lift inverts the transform of a row or column.
func inverseWavelet[T int32 | float32](res []j2kResolution, read func(b *j2kBand, v int32) T,
	lift func(s []T, odd bool)) []T {
	var cur []T
	for r := range res {
		rs := &res[r]
		w, h := rs.x1-rs.x0, rs.y1-rs.y0
		next := make([]T, max(w, 0)*max(h, 0))
		if r == 0 {
			for i, v := range rs.bands[0].coef {
				next[i] = read(rs.bands[0], v)
			}
			cur = next
			continue
		}
		if w <= 0 || h <= 0 {
			cur = next
			continue
		}
		// Low-pass coefficients have even coordinates on the reference grid.
		low := &res[r-1]
		lw := low.x1 - low.x0
		for i, v := range cur {
			x, y := 2*(low.x0+i%lw)-rs.x0, 2*(low.y0+i/lw)-rs.y0
			next[y*w+x] = v
		}
		for _, b := range rs.bands {
			bw := b.x1 - b.x0
			for i, v := range b.coef {
				x, y := 2*(b.x0+i%bw)+b.kind&1-rs.x0, 2*(b.y0+i/bw)+b.kind>>1-rs.y0
				next[y*w+x] = read(b, v)
			}
		}
		for y := range h {
			lift(next[y*w:(y+1)*w], rs.x0&1 == 1)
		}
		col := make([]T, h)
		for x := range w {
			for y := range col {
				col[y] = next[y*w+x]
			}
			lift(col, rs.y0&1 == 1)
			for y, v := range col {
				next[y*w+x] = v
			}
		}
		cur = next
	}
	return cur
}

// mirror returns element i of s, mirrored at both ends.
func mirror[T any](s []T, i int) T {
	n := len(s) - 1
	if i < 0 {
		i = -i
	}
	if i > n {
		i = 2*n - i
	}
	return s[i]
}

// liftOne inverts both filters for a single element, and reports whether there is one. start is
// the index of the first low-pass element. odd: the first element is a high-pass one.
func liftOne[T int32 | float32](s []T, odd bool) (start int, done bool) {
	if odd {
		start = 1
	}
	if len(s) == 1 && odd {
		s[0] /= 2
	}
	return start, len(s) == 1
}

// lift53 inverts the reversible 5/3 filter. odd: the first element is a high-pass one.
func lift53(s []int32, odd bool) {
	start, done := liftOne(s, odd)
	if done {
		return
	}
	for i := start; i < len(s); i += 2 {
		s[i] -= (mirror(s, i-1) + mirror(s, i+1) + 2) >> 2
	}
	for i := 1 - start; i < len(s); i += 2 {
		s[i] += (mirror(s, i-1) + mirror(s, i+1)) >> 1
	}
}

// lift97 inverts the irreversible 9/7 filter.
func lift97(s []float32, odd bool) {
	start, done := liftOne(s, odd)
	if done {
		return
	}
	const k = 1.230174104914001
	for i := start; i < len(s); i += 2 {
		s[i] *= k
	}
	for i := 1 - start; i < len(s); i += 2 {
		s[i] *= 1 / k
	}
	for step, f := range [4]float32{0.443506852043971, 0.882911075530934, -0.052980118572961, -1.586134342059924} {
		for i := (start + step) % 2; i < len(s); i += 2 {
			s[i] -= f * (mirror(s, i-1) + mirror(s, i+1))
		}
	}
}
