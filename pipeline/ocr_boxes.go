package pipeline

import (
	"cmp"
	"math"
	"slices"
)

// Point is a position in an image, in pixels: X to the right, Y down.
type Point struct{ X, Y float32 }

// pixel is a pixel of a map.
type pixel struct{ x, y int }

// detection holds the parameters of the post-processing of Differentiable Binarization
// (https://arxiv.org/abs/1911.08947).
type detection struct {
	threshold float32 // of text in the probability map
	score     float64 // least mean probability of a box
	unclip    float64 // growth of a box: its distance is area · unclip / perimeter
	most      int     // contours that are looked at
}

// boxes returns the quadrilaterals of a probability map of text, in an image of height×width
// pixels, in reading order. The corners are clockwise from the upper left.
func (d *detection) boxes(probs []float32, mapHeight, mapWidth, height, width int) [][4]Point {
	mask := make([]bool, len(probs))
	for y := range mapHeight {
		for x := range mapWidth { // dilated by a 2×2 kernel, whose anchor is the lower right
			at := y*mapWidth + x
			mask[at] = probs[at] > d.threshold || x > 0 && probs[at-1] > d.threshold ||
				y > 0 && (probs[at-mapWidth] > d.threshold || x > 0 && probs[at-mapWidth-1] > d.threshold)
		}
	}
	var boxes [][4]Point
	contours := findContours(mask, mapHeight, mapWidth)
	for _, c := range contours[:min(len(contours), d.most)] {
		box, side := cornersOf(c)
		if side < 3 || boxScore(probs, mapHeight, mapWidth, box) < d.score {
			continue
		}
		if box, side = cornersOf(unclip(box, d.unclip)); side < 5 {
			continue
		}
		for i, p := range box {
			box[i].X = scaled(p.X, mapWidth, width)
			box[i].Y = scaled(p.Y, mapHeight, height)
		}
		box = clockwise(box)
		for i, p := range box {
			box[i] = Point{min(p.X, float32(width-1)), min(p.Y, float32(height-1))}
		}
		if int(distance(box[0], box[1])) > 3 && int(distance(box[0], box[3])) > 3 {
			boxes = append(boxes, box)
		}
	}
	return readingOrder(boxes)
}

// scaled returns a coordinate of a map in an image, rounded and within 0 and the image's size.
func scaled(v float32, from, to int) float32 {
	return min(max(float32(math.RoundToEven(float64(v/float32(from)*float32(to)))), 0), float32(to))
}

func distance(a, b Point) float32 {
	dx, dy := a.X-b.X, a.Y-b.Y
	return float32(math.Sqrt(float64(dx*dx + dy*dy)))
}

// readingOrder sorts boxes by lines, and the boxes of a line from left to right. A line ends where
// the next box begins at least 10 pixels lower.
func readingOrder(boxes [][4]Point) [][4]Point {
	slices.SortStableFunc(boxes, func(a, b [4]Point) int { return cmp.Compare(a[0].Y, b[0].Y) })
	for from := 0; from < len(boxes); {
		to := from + 1
		for to < len(boxes) && boxes[to][0].Y-boxes[to-1][0].Y < 10 {
			to++
		}
		slices.SortStableFunc(boxes[from:to], func(a, b [4]Point) int { return cmp.Compare(a[0].X, b[0].X) })
		from = to
	}
	return boxes
}

// clockwise returns the corners clockwise from the upper left: the two leftmost and the two
// rightmost ones, each by height.
func clockwise(p [4]Point) [4]Point {
	slices.SortStableFunc(p[:], func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	byHeight := func(a, b Point) int { return cmp.Compare(a.Y, b.Y) }
	slices.SortStableFunc(p[:2], byHeight)
	slices.SortStableFunc(p[2:], byHeight)
	return [4]Point{p[0], p[2], p[3], p[1]}
}

// findContours returns the borders of the 8-connected components of a mask, and those of their
// holes, by Suzuki's and Abe's border following (Topological structural analysis of digitized
// binary images by border following, 1985). The last in raster order is the first, as in OpenCV.
func findContours(mask []bool, height, width int) [][]pixel {
	stride := width + 2
	f := make([]int32, (height+2)*stride) // with a frame of zeros
	for y := range height {
		for x := range width {
			if mask[y*width+x] {
				f[(y+1)*stride+x+1] = 1
			}
		}
	}
	// the neighbors, counterclockwise from the right
	steps := [8]int{1, 1 - stride, -stride, -1 - stride, -1, stride - 1, stride, stride + 1}
	var contours [][]pixel
	number := int32(1)
	for y := 1; y <= height; y++ {
		for x := 1; x <= width; x++ {
			at, from := y*stride+x, 0
			switch {
			case f[at] == 1 && f[at-1] == 0:
				from = 4
			case f[at] >= 1 && f[at+1] == 0:
				from = 0
			default:
				continue
			}
			number++
			contours = append(contours, follow(f, at, from, number, stride, &steps))
		}
	}
	slices.Reverse(contours)
	return contours
}

// follow returns the border that begins at an offset, and marks its pixels. Direction from is that
// of the neighbor outside.
func follow(f []int32, start, from int, number int32, stride int, steps *[8]int) []pixel {
	place := func(at int) pixel { return pixel{at%stride - 1, at/stride - 1} }
	first := -1
	for k := range 8 { // clockwise
		if d := (from - k + 8) % 8; f[start+steps[d]] != 0 {
			first = d
			break
		}
	}
	if first < 0 {
		f[start] = -number
		return []pixel{place(start)}
	}
	var border []pixel
	end := start + steps[first]
	at, back := start, first
	for {
		right, d := false, back
		for {
			d = (d + 1) % 8
			if f[at+steps[d]] != 0 {
				break
			}
			right = right || d == 0
		}
		if right {
			f[at] = -number
		} else if f[at] == 1 {
			f[at] = number
		}
		border = append(border, place(at))
		next := at + steps[d]
		if next == start && at == end {
			return border
		}
		at, back = next, (d+4)%8
	}
}

// convexHull returns the corners of the convex hull, by Andrew's monotone chain. It sorts points.
func convexHull(points []pixel) []pixel {
	slices.SortFunc(points, func(a, b pixel) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	points = slices.Compact(points)
	if len(points) < 3 {
		return points
	}
	hull := make([]pixel, 0, 16)
	add := func(p pixel, least int) {
		for n := len(hull); n >= least; n = len(hull) {
			a, b := hull[n-2], hull[n-1]
			if (b.x-a.x)*(p.y-a.y)-(b.y-a.y)*(p.x-a.x) > 0 {
				break
			}
			hull = hull[:n-1]
		}
		hull = append(hull, p)
	}
	for _, p := range points {
		add(p, 2)
	}
	lower := len(hull)
	for i := len(points) - 2; i >= 0; i-- {
		add(points[i], lower+1)
	}
	return hull[:len(hull)-1]
}

// boxScore returns the mean probability of the pixels of a quadrilateral, its border included.
func boxScore(probs []float32, height, width int, box [4]Point) float64 {
	low, high := box[0], box[0]
	for _, p := range box {
		low, high = Point{min(low.X, p.X), min(low.Y, p.Y)}, Point{max(high.X, p.X), max(high.Y, p.Y)}
	}
	within := func(v float64, n int) int { return min(max(int(v), 0), n-1) }
	left, right := within(math.Floor(float64(low.X)), width), within(math.Ceil(float64(high.X)), width)
	top, bottom := within(math.Floor(float64(low.Y)), height), within(math.Ceil(float64(high.Y)), height)
	var corners [4]pixel
	for i, p := range box {
		corners[i] = pixel{int(p.X - float32(left)), int(p.Y - float32(top))}
	}
	w, h := right-left+1, bottom-top+1
	mask := make([]bool, w*h)
	fillPolygon(mask, h, w, corners[:])
	sum, n := 0.0, 0
	for y := range h {
		row := probs[(top+y)*width+left:]
		for x, in := range mask[y*w : (y+1)*w] {
			if in {
				sum += float64(row[x])
				n++
			}
		}
	}
	return sum / float64(max(n, 1))
}

// fillPolygon marks the pixels within a polygon and on its sides, as OpenCV's fillPoly does: with
// slopes of 16 fractional bits.
func fillPolygon(mask []bool, height, width int, corners []pixel) {
	const one = 1 << 16
	crossings := make([][]int, height)
	for i, p := range corners {
		q := corners[(i+1)%len(corners)]
		drawLine(mask, height, width, p, q)
		if p.y > q.y {
			p, q = q, p
		}
		for y := max(p.y, 0); y < min(q.y, height); y++ {
			crossings[y] = append(crossings[y], p.x*one+(q.x-p.x)*one/(q.y-p.y)*(y-p.y))
		}
	}
	for y, at := range crossings {
		slices.Sort(at)
		for i := 0; i+1 < len(at); i += 2 {
			from, to := max((at[i]+one-1)>>16, 0), min(at[i+1]>>16, width-1)
			for x := from; x <= to; x++ {
				mask[y*width+x] = true
			}
		}
	}
}

// drawLine marks the pixels of a line, by Bresenham's algorithm from left to right.
func drawLine(mask []bool, height, width int, p, q pixel) {
	if p.x > q.x {
		p, q = q, p
	}
	dx, dy, down := q.x-p.x, q.y-p.y, 1
	if dy < 0 {
		dy, down = -dy, -1
	}
	rest := max(dx, dy) - 2*min(dx, dy)
	for range max(dx, dy) + 1 {
		if p.x >= 0 && p.x < width && p.y >= 0 && p.y < height {
			mask[p.y*width+p.x] = true
		}
		both := rest < 0
		if dx >= dy || both {
			p.x++
		}
		if dy > dx || both {
			p.y += down
		}
		if rest -= 2 * min(dx, dy); both {
			rest += 2 * max(dx, dy)
		}
	}
}

// unclip returns the corners of a quadrilateral that is larger by area·ratio/perimeter on every
// side, with round corners of arcs, as Clipper's ClipperOffset with JT_ROUND gives them. Clipper's
// coordinates are integers.
func unclip(box [4]Point, ratio float64) []pixel {
	area, length := 0.0, 0.0
	for i, p := range box {
		q := box[(i+1)%4]
		area += float64(p.X)*float64(q.Y) - float64(q.X)*float64(p.Y)
		length += math.Hypot(float64(p.X)-float64(q.X), float64(p.Y)-float64(q.Y))
	}
	delta := math.Abs(area) / 2 * ratio / length
	var corners []pixel
	for _, p := range box {
		if c := (pixel{int(p.X), int(p.Y)}); len(corners) == 0 || corners[len(corners)-1] != c {
			corners = append(corners, c)
		}
	}
	for len(corners) > 1 && corners[0] == corners[len(corners)-1] {
		corners = corners[:len(corners)-1]
	}
	n := len(corners)
	if n < 3 || delta <= 0 {
		return nil
	}
	const tolerance = 0.25 // of arcs, in pixels
	perTurn := min(math.Pi/math.Acos(1-min(tolerance, delta*tolerance)/delta), delta*math.Pi)
	sin, cos := math.Sincos(2 * math.Pi / perTurn)
	type vector struct{ x, y float64 }
	normal := func(i int) vector {
		p, q := corners[i], corners[(i+1)%n]
		dx, dy := float64(q.x-p.x), float64(q.y-p.y)
		l := math.Hypot(dx, dy)
		return vector{dy / l, -dx / l}
	}
	var outline []pixel
	for j, c := range corners {
		add := func(v vector) {
			outline = append(outline, pixel{int(math.Round(float64(c.x) + v.x*delta)),
				int(math.Round(float64(c.y) + v.y*delta))})
		}
		before, after := normal((j+n-1)%n), normal(j)
		cross, dot := before.x*after.y-after.x*before.y, before.x*after.x+before.y*after.y
		v := before
		switch turn := math.Atan2(cross, dot); {
		case math.Abs(cross*delta) < 1 && dot > 0:
			add(before)
			continue
		case turn > 0:
			for range max(int(math.Round(perTurn/(2*math.Pi)*turn)), 1) {
				add(v)
				v = vector{v.x*cos - sin*v.y, v.x*sin + v.y*cos}
			}
		default:
			add(before)
		}
		add(after)
	}
	return outline
}
