package pipeline

import "math"

// cornersOf returns the corners of the rectangle of the least area around points, clockwise from
// the upper left, and its shorter side. One side of the rectangle is on a side of the hull. The
// numbers are those of OpenCV's minAreaRect and boxPoints, which round to float32 at every step:
// corners of upright rectangles may be below whole numbers, which PP-OCR's unclip truncates.
func cornersOf(points []pixel) (box [4]Point, side float32) {
	hull := convexHull(points)
	if len(hull) < 3 {
		return thinCorners(hull)
	}
	origin, u, v := leastRectangle(fromLowerRight(hull))
	center := Point{origin.X + float32((u.X+v.X)*0.5), origin.Y + float32((u.Y+v.Y)*0.5)}
	length := func(p Point) float32 {
		return float32(math.Sqrt(float64(p.X)*float64(p.X) + float64(p.Y)*float64(p.Y)))
	}
	w, h := length(u), length(v)
	degrees := float32(float64(float32(math.Atan2(float64(u.Y), float64(u.X)))) * 180 / math.Pi)
	sin, cos := math.Sincos(float64(degrees) * math.Pi / 180)
	a, b := float32(float32(sin)*0.5), float32(float32(cos)*0.5)
	box[0] = Point{float32(center.X-float32(a*h)) - float32(b*w), float32(center.Y+float32(b*h)) - float32(a*w)}
	box[1] = Point{float32(center.X+float32(a*h)) - float32(b*w), float32(center.Y-float32(b*h)) - float32(a*w)}
	for i := range 2 {
		box[i+2] = Point{float32(2*center.X) - box[i].X, float32(2*center.Y) - box[i].Y}
	}
	return clockwise(box), min(w, h)
}

// thinCorners is cornersOf for a point or a line.
func thinCorners(hull []pixel) (box [4]Point, side float32) {
	if len(hull) > 0 {
		p, q := hull[0], hull[len(hull)-1]
		box[0] = Point{float32(p.x), float32(p.y)}
		box[1] = Point{float32(q.x), float32(q.y)}
		box[2], box[3] = box[1], box[0]
	}
	return clockwise(box), 0
}

// fromLowerRight returns a hull that begins with the lower one of its rightmost corners, as those
// of OpenCV mostly do.
func fromLowerRight(hull []pixel) []pixel {
	first := 0
	for i, p := range hull {
		if q := hull[first]; p.x > q.x || p.x == q.x && p.y > q.y {
			first = i
		}
	}
	return append(append(make([]pixel, 0, len(hull)), hull[first:]...), hull[:first]...)
}

// leastRectangle returns the rectangle of the least area around a convex polygon by rotating
// calipers: a corner and its sides. Of equal areas, the last one counts.
func leastRectangle(hull []pixel) (corner, u, v Point) {
	n := len(hull)
	edges, inverse := make([]Point, n), make([]float32, n)
	var at [4]int // the lowest y, the highest x, the highest y, the lowest x
	for i, p := range hull {
		q := hull[(i+1)%n]
		dx, dy := float64(q.x-p.x), float64(q.y-p.y)
		edges[i], inverse[i] = Point{float32(dx), float32(dy)}, float32(1/math.Sqrt(dx*dx+dy*dy))
		for k, beyond := range [4]bool{p.y < hull[at[0]].y, p.x > hull[at[1]].x, p.y > hull[at[2]].y,
			p.x < hull[at[3]].x} {
			if beyond {
				at[k] = i
			}
		}
	}
	// turned is an edge at a caliper, turned into the direction of the first caliper.
	turned := func(k int) Point {
		e := edges[at[k]]
		return [4]Point{e, {e.Y, -e.X}, {-e.X, -e.Y}, {-e.Y, e.X}}[k]
	}
	point := func(i int) Point { return Point{float32(hull[i].x), float32(hull[i].y)} }
	var a, b, width, height float32 // of the best: direction of the first caliper, sides
	var left, low Point
	least := float32(math.MaxFloat32)
	for range n {
		next, first := turned(0), 0
		for k := 1; k < 4; k++ {
			if e := turned(k); float64(e.Y)*float64(next.X)-float64(e.X)*float64(next.Y) < 0 {
				next, first = e, k
			}
		}
		x, y := float32(next.X*inverse[at[first]]), float32(next.Y*inverse[at[first]])
		at[first] = (at[first] + 1) % n
		along := func(p, q Point, x, y float32) float32 { return float32((p.X-q.X)*x) + float32((p.Y-q.Y)*y) }
		w := along(point(at[1]), point(at[3]), x, y)
		h := along(point(at[2]), point(at[0]), -y, x)
		if area := float32(w * h); area <= least {
			least, a, b, width, height, left, low = area, x, y, w, h, point(at[3]), point(at[0])
		}
	}
	c1, c2 := float32(a*left.X)+float32(left.Y*b), float32(-b*low.X)+float32(low.Y*a)
	scale := 1 / (float32(a*a) - float32(-b*b))
	corner = Point{float32((float32(c1*a) - float32(c2*b)) * scale), float32((float32(a*c2) - float32(-b*c1)) * scale)}
	return corner, Point{float32(a * width), float32(b * width)}, Point{float32(-b * height), float32(a * height)}
}
